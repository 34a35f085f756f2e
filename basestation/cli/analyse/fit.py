"""`basestation analyse fit`: the violations of networks like the one that a log shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.cli import common, job_options
from basestation.cli.analyse.recommend import FIGURES

if TYPE_CHECKING:
    from basestation.analysis.choices import Choice
    from basestation.analysis.fitted_network import Check, Predicted
    from spark_jobs.engines import EngineOptions


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse fit tables --scheme shlc --scheme barrier --out report
        basestation analyse fit run1 --policy cbd --phi 100 --seeds 10 --json
        """
    ),
)
@job_options.measuring_options
@click.option(
    "--seeds", type=common.Whole(2), default=5, show_default=True, help="How many networks to simulate."
)
@click.option(
    "--figure", type=click.Choice(FIGURES), default="mean", show_default=True, help="How to count violations."
)
@job_options.out_option("Write fit and checks here, as Parquet and CSV.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    traces: Sequence[Path],
    scratch: Path | None,
    choice: Choice,
    seeds: int,
    figure: str,
    out: Path | None,
    as_json: bool,
    engine: EngineOptions,
) -> None:
    """Predict the violations of a log without causes.

    TRACE is a trace, a run's log, or the tables that ingest wrote. Its rate, losses, delays and, in tables whose
    beacons were heard, clocks make a simulated network; its predictions are compared with the log.
    """
    from spark_jobs.advice.predictions import fit_traces
    from spark_jobs.result_files import write_rows
    from spark_jobs.session import prepare

    if out is not None:
        prepare(out)
    found, faults = fit_traces(traces, choice, figure, engine, seeds=seeds, scratch=scratch)
    for one in found:
        if as_json:
            for row in (*one.checks, *one.predicted):
                common.emit_json(row)
            continue
        common.out.print(f"run {one.fitted.run}: predicted by {seeds} networks like it", markup=False)
        common.out.print(_predictions(one.predicted), _checks(one.checks))
    if out is not None:
        for name, tables in (("fit", "predicted"), ("checks", "checks")):
            write_rows(out, name, [row for one in found for row in getattr(one, tables)])
    if faults:
        ctx.exit(1)


def _predictions(rows: Sequence[Predicted]) -> Table:
    from basestation.analysis import report

    table = Table(box=SIMPLE_HEAD, padding=0)
    for name in ("stamp", "B", "delivery", "violations %", "95% interval", "hold ms"):
        table.add_column(name, justify="left" if name == "stamp" else "right", no_wrap=True)
    for row in rows:
        interval = f"{report.percent(row.low)} to {report.percent(row.high)}"
        cells = (str(row.stamp_bytes), report.by(row), report.percent(row.violations), interval)
        table.add_row(row.stamp, *cells, f"{row.hold_ms:.1f}")
    return table


def _checks(rows: Sequence[Check]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)
    for name in ("what is known", "log", "95% interval", "predicted", "95% interval", "off %", "agrees"):
        table.add_column(name, justify="left" if name == "what is known" else "right", no_wrap=True)
    for row in rows:
        interval = f"{row.predicted_low:.3g} to {row.predicted_high:.3g}"
        off = "?" if row.off is None else f"{row.off:+.0f}"
        own = "?" if row.low is None or row.high is None else f"{row.low:.3g} to {row.high:.3g}"
        cells = (f"{row.measured:.3g}", own, f"{row.predicted:.3g}", interval, off)
        table.add_row(row.fact, *cells, "yes" if row.agrees else "no")
    return table
