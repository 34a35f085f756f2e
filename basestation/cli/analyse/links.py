"""`basestation analyse links`: how good the links were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, job_options

if TYPE_CHECKING:
    from spark_jobs.engine import EngineOptions


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
    help="Instead of JSON, print the N worst motes, links and windows.",
)
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
    engine: EngineOptions,
) -> None:
    """Show deliveries, losses, copies, reboots and signal strength of each mote and link over time.

    TABLES is the folder that ingest wrote. Prints one JSON object for each run.
    """
    import pyarrow.compute as pc

    from basestation.analysis.links import summary, worst_lines
    from spark_jobs.health import links
    from spark_jobs.results import write_tables
    from spark_jobs.tables import stored

    chosen = stored.select_runs(tables, runs, sites, out)
    with stored.engine_for("links", engine, chosen) as where:
        found, refused = links.of_runs(where, chosen, window)
    sound = [run for run in chosen if run.name not in refused]
    if out is not None and sound:
        write_tables(out, found)
    if worst is not None:
        click.echo("\n".join(worst_lines(found["motes"], found["links"], worst)))
    for run in sound if worst is None else ():
        motes = found["motes"]
        common.emit_json(stored.names_of(run) | summary(motes.filter(pc.equal(motes["run"], run.name))))
    if refused:
        ctx.exit(1)
