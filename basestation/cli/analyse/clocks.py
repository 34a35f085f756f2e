"""`basestation analyse clocks`: which epsilon and delta a deployment really kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, job_options

if TYPE_CHECKING:
    from spark_jobs.engine import EngineOptions


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
    engine: EngineOptions,
) -> None:
    """Measure the epsilon and the delta that a deployment really kept.

    TABLES is the folder that ingest wrote. Prints one JSON object for each run.
    """
    from basestation.analysis.clocks import plain
    from spark_jobs.health import clocks
    from spark_jobs.results import write_tables
    from spark_jobs.tables import stored

    chosen = stored.select_runs(tables, runs, sites, out)
    with stored.engine_for("clocks", engine, chosen) as where:
        found, refused = clocks.of_runs(where, chosen, moment)
    if out is not None and found:
        write_tables(out, clocks.tables_of(found))
    for row in found:
        common.emit_json(plain(row))
    if refused:
        ctx.exit(1)
