"""`basestation analyse links`: how good the links were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.cli import common, job_options

if TYPE_CHECKING:
    from spark_jobs.engines import EngineOptions


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse links tables
        basestation analyse links tables --window 600 --out report
        basestation analyse links tables --window 3600 --worst 10
        """
    ),
)
@job_options.tables_options
@job_options.window_option
@click.option(
    "--worst",
    type=common.Whole(1),
    metavar="N",
    help="Print the N worst motes, links and windows instead.",
)
@common.json_option
@job_options.engine_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    tables: Path,
    runs: Sequence[str],
    sites: Sequence[str],
    out: Path | None,
    window: float,
    worst: int | None,
    as_json: bool,
    engine: EngineOptions,
) -> None:
    """Show deliveries, losses, copies, reboots and signal strength of each mote and link over time.

    TABLES is the folder that ingest wrote. Prints a table on a terminal; elsewhere, or with --json, one JSON object for
    each run.
    """
    if as_json and worst is not None:
        raise click.UsageError("--worst prints text: leave out --json")
    import pyarrow.compute as pc

    from basestation.analysis.link_health import summary, worst_lines
    from spark_jobs.health import link_tables as links
    from spark_jobs.result_files import write_tables
    from spark_jobs.tables import stored

    chosen = stored.select_runs(tables, runs, sites, out)
    with stored.engine_for("links", engine, chosen) as where:
        found, refused = links.of_runs(where, chosen, window)
    sound = [run for run in chosen if run.name not in refused]
    if out is not None and sound:
        write_tables(out, found)
    if worst is not None:
        common.echo("\n".join(worst_lines(found["motes"], found["links"], worst)))
    else:
        motes = found["motes"]
        _show(
            [stored.names_of(run) | summary(motes.filter(pc.equal(motes["run"], run.name))) for run in sound],
            as_json,
        )
    if refused:
        ctx.exit(1)


def _show(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if common.is_for_people(as_json):
        common.out.print(_table(rows))
        return
    for row in rows:
        common.emit_json(row)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table("run", box=SIMPLE_HEAD, padding=0)
    for name in ("came", "lost", "delivery", "copies", "longest loss", "reboots"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        share = "?" if row["delivery"] is None else f"{row['delivery']:.1%}"
        counts = (str(row[name]) for name in ("copies", "longest_burst", "reboots"))
        table.add_row(row["run"], str(row["received"]), str(row["lost"]), share, *counts)
    return table
