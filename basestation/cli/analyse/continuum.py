"""`basestation analyse continuum`: each stamp, policy and phi on a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, job_options

if TYPE_CHECKING:
    from basestation.analysis.choices import Choice
    from basestation.causality.order import Ties
    from spark_jobs.engines import EngineOptions


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse continuum run1 --out report
        basestation analyse continuum run1 --scheme kn --entries 2 --entries all --policy cbd --phi 40 --json
        """
    ),
)
@job_options.measuring_options
@click.option("--segment", type=common.Whole(1), help="Messages in a segment. [default: a million]")
@click.option(
    "--ties",
    type=click.Choice(("sequence", "arrival")),
    default="sequence",
    show_default=True,
    help="Between equal stamps.",
)
@click.option(
    "--tolerate",
    type=job_options.PERCENT,
    multiple=True,
    help="Deliver by the ledger too, with at most this share of messages in a violation; repeatable.",
)
@job_options.out_option("Write continuum.parquet, continuum.csv and report.html here.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    traces: Sequence[Path],
    segment: int | None,
    scratch: Path | None,
    choice: Choice,
    ties: Ties,
    tolerate: Sequence[float],
    out: Path | None,
    as_json: bool,
    engine: EngineOptions,
) -> None:
    """Measure each stamp, policy and phi on traces.

    TRACE is a trace, a run's log, or the tables that ingest wrote.
    """
    from basestation.analysis.dataclass_tables import plain
    from basestation.analysis.report import show
    from spark_jobs.measuring.measured_traces import analyse
    from spark_jobs.result_files import write_continuum
    from spark_jobs.session import prepare

    if out is not None:
        prepare(out)
    found = analyse(
        traces, replace(choice, tolerates=tolerate), engine, scratch=scratch, segment=segment, ties=ties
    )
    if out is not None:
        write_continuum(out, found.traces, found.rows)
        common.note(f"wrote continuum.parquet, continuum.csv and report.html in {out}")
    if as_json:
        for row in found.rows:
            common.emit_json(plain(row))
    else:
        show(common.out, found.rows)
    if found.faults:
        ctx.exit(1)
