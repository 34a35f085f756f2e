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
        """
    ),
)
@job_options.tables_options
@job_options.window_option
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
    engine: EngineOptions,
) -> None:
    """Show deliveries, losses, copies, reboots and signal strength of each mote and link over time.

    TABLES is the folder that ingest wrote. Prints one JSON object for each run.
    """
    from spark_jobs.health import links
    from spark_jobs.tables import stored

    found, refused = links.links(stored.select_runs(tables, runs, sites, out), engine, window)
    if out is not None and found:
        stored.write_results(out, links.tables_of(found))
    for run, (motes, _) in found:
        common.emit_json(stored.names_of(run) | links.summary(motes))
    if refused:
        ctx.exit(1)
