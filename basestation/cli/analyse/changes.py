"""`basestation analyse changes`: what became better or worse."""

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


class Threshold(click.ParamType[tuple[str, float]]):
    """FIGURE=MUCH: how much worse a figure may become."""

    name = "FIGURE=MUCH"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        from basestation.analysis.differences import THRESHOLDS

        known = (*THRESHOLDS, "rate")
        name, _, much = str(value).partition("=")
        if name not in known:
            self.fail(f"{value!r} is not FIGURE=MUCH with one of {', '.join(known)}", param, ctx)
        return name, common.FiniteFloat(0).convert(much, param, ctx)


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse changes run1 run2
        basestation analyse changes before/ after/ --threshold violations=0.5 --threshold hold=2 --json
        """
    ),
)
@click.argument("before", type=job_options.FOLDER)
@click.argument("after", type=job_options.FOLDER)
@click.option(
    "--threshold",
    "thresholds",
    type=Threshold(),
    multiple=True,
    help="How much worse a figure may become, in percentage points or ms; repeatable.",
)
@job_options.out_option("Write changes here, as Parquet and CSV.")
@common.json_option
@job_options.engine_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    before: Path,
    after: Path,
    thresholds: Sequence[tuple[str, float]],
    out: Path | None,
    as_json: bool,
    engine: EngineOptions,
) -> None:
    """Show what became better or worse from BEFORE to AFTER.

    Each is a trace, a run's log, or the tables that ingest wrote, with all their runs. For a folder of several logs,
    ingest them first.

    The exit code is 1 if something became worse by more than its threshold, and not by chance.
    """
    from basestation.analysis.differences import THRESHOLDS
    from spark_jobs.advice.compared_runs import between
    from spark_jobs.result_files import write_rows
    from spark_jobs.session import prepare

    if out is not None:
        prepare(out)
    found = between(before, after, engine, THRESHOLDS | dict(thresholds))
    if as_json:
        for one in found:
            common.emit_json(one)
    else:
        table = Table(box=SIMPLE_HEAD, padding=0)
        for name in ("figure", "before", "after", "difference", "95% interval", "allowed", ""):
            table.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
        for one in found:
            interval = "?" if one.low is None or one.high is None else f"{one.low:+.3g} to {one.high:+.3g}"
            allowed = "" if one.threshold is None else f"{one.threshold:g}"
            values = (f"{one.before:.4g}", f"{one.after:.4g}", f"{one.difference:+.3g}")
            verdict = "REGRESSION" if one.regression else one.verdict
            table.add_row(f"{one.figure}, {one.unit}", *values, interval, allowed, verdict)
        common.out.print(table)
    if out is not None:
        write_rows(out, "changes", found)
    if any(one.regression for one in found):
        ctx.exit(1)
