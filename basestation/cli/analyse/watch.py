"""`basestation analyse watch`: the link health of a growing folder of logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, job_options
from basestation.cli.job_options import LOCAL_FOLDER, SECONDS

if TYPE_CHECKING:
    from spark_jobs.engines import EngineOptions
    from spark_jobs.health.growing_logs import RunHealth


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse watch logs --out health
        basestation analyse watch logs --out health --once --continuum
        """
    ),
)
@click.argument("logs", type=LOCAL_FOLDER)
@click.option("--out", "-o", type=LOCAL_FOLDER, required=True, help="The folder of results.")
@job_options.window_option
@click.option(
    "--every", type=SECONDS, default=10.0, show_default=True, help="Seconds between two looks at the folder."
)
@click.option(
    "--continuum",
    is_flag=True,
    help="Also measure each stamp and policy on each run.",
)
@click.option("--once", is_flag=True, help="Take what is there, and end.")
@job_options.spark_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    logs: Path,
    out: Path,
    window: float,
    every: float,
    continuum: bool,
    once: bool,
    engine: EngineOptions,
) -> None:
    """Follow a growing folder of logs and keep its link health up to date.

    LOGS has a run in each of its folders. Prints one JSON object for each run that changed. It always runs on Spark.
    """
    from spark_jobs.health.growing_logs import watch

    every_s = None if once else every
    if watch(logs, out, engine, _report, window_s=window, every_s=every_s, with_continuum=continuum):
        ctx.exit(1)


def _report(batch: int, found: Sequence[RunHealth]) -> None:
    for result in found:
        common.emit_json({"batch": batch, "run": result.run} | result.total, flush=True)
