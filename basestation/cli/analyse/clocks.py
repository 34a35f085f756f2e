"""`basestation analyse clocks`: which epsilon and delta a deployment really kept."""

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
    cls=job_options.JobCommand, epilog=common.example("basestation analyse clocks tables --out report")
)
@job_options.tables_options
@click.option(
    "--moment",
    type=job_options.SECONDS,
    default=20.0,
    show_default=True,
    help="Seconds within which clocks are compared.",
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
    moment: float,
    as_json: bool,
    engine: EngineOptions,
) -> None:
    """Measure the epsilon and the delta that a deployment really kept.

    TABLES is the folder that ingest wrote. Prints a table on a terminal; elsewhere, or with --json, one JSON object for
    each run.
    """
    from basestation.analysis.clock_bounds import plain
    from spark_jobs.health import measured_clocks as clocks
    from spark_jobs.result_files import write_tables
    from spark_jobs.tables import stored

    chosen = stored.select_runs(tables, runs, sites, out)
    with stored.engine_for("clocks", engine, chosen) as where:
        found, refused = clocks.of_runs(where, chosen, moment)
    if out is not None and found:
        write_tables(out, clocks.tables_of(found))
    for row in found:
        if common.is_for_people(as_json):
            common.out.print(f"run {row['run']}", markup=False)
            common.out.print(_table(row["clocks"]))
        else:
            common.emit_json(plain(row))
    if refused:
        ctx.exit(1)


def _table(bounds: Sequence[dict[str, Any]]) -> Table:
    """The bounds of a run, in ticks: which were promised, how often they were exceeded, and which were kept."""
    table = Table(box=SIMPLE_HEAD, padding=0)
    for name in ("ticks", "promised", "measured", "exceeded", "99%", "99.9%", "all"):
        table.add_column(name, justify="left" if name == "ticks" else "right", no_wrap=True)
    table.add_column("why")
    for row in bounds:
        counts = ("promised", "measured", "broken", "covers_99", "covers_99_9", "covers_100")
        known = row if row["measured"] else {"promised": row["promised"], "measured": 0}
        cells = ("?" if known.get(name) is None else str(known[name]) for name in counts)
        table.add_row(row["bound"], *cells, row["why"] or "")
    return table
