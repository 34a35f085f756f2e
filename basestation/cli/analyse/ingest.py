"""`basestation analyse ingest`: journals, traces and testbed logs become tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, job_options
from basestation.cli.job_options import FOLDER

if TYPE_CHECKING:
    from spark_jobs.engines import EngineOptions


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse ingest logs --tables tables
        basestation analyse ingest truth.jsonl --deployment deployment.toml --tables tables
        """
    ),
)
@click.argument("inputs", nargs=-1, required=True, type=FOLDER, metavar="INPUT...")
@click.option("--tables", "-t", type=FOLDER, required=True, help="The folder of the tables.")
@common.deployment_option(required=False)
@click.option(
    "--gateways",
    type=common.Whole(1),
    default=1,
    show_default=True,
    help="How many gateways a testbed log has.",
)
@click.option("--again", is_flag=True, help="Also redo runs in the tables that have not changed.")
@common.key_option(beside=False)
@job_options.engine_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    inputs: Sequence[Path],
    tables: Path,
    deployment: Path | None,
    gateways: int,
    again: bool,
    key: Path | None,
    engine: EngineOptions,
) -> None:
    """Turn journals, traces and testbed logs, or folders of them, into tables that the other jobs read.

    Prints one JSON object with the counts of what was taken in and refused. The deployment is for inputs that have none
    of their own, or none that can be read. Messages with MICs are checked by --key FILE; without it they are taken
    unchecked, and counted. Runs that are in the tables already are checked with --again.
    """
    from packet_formats.keys import KeyFault, read_key
    from spark_jobs.tables.intake import take_in

    text = common.load_deployment(deployment).to_toml() if deployment else ""
    try:
        known = read_key(key) if key else None
    except KeyFault as error:
        common.fail(str(error))
    report = take_in(inputs, tables, engine, deployment=text, gateways=gateways, again=again, key=known)
    common.emit_json(report.totals)
    if report.refused:
        ctx.exit(1)
