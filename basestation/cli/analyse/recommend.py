"""`basestation analyse recommend`: the smallest stamp and the shortest wait that are good enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, job_options

if TYPE_CHECKING:
    from basestation.analysis.choices import Choice
    from spark_jobs.engines import EngineOptions

FIGURES = ("mean", "any", "pairs", "backward", "forward", "related")


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation analyse recommend run1 --tolerance 0.5
        basestation analyse recommend run1 --guaranteed
        basestation analyse recommend tables --tolerance 0.5 --sensitivity --out report --json
        """
    ),
)
@job_options.measuring_options
@click.option(
    "--tolerance",
    type=job_options.PERCENT,
    default=0.0,
    show_default=True,
    help="Violations allowed, in per cent, at 95% confidence.",
)
@click.option(
    "--figure",
    type=click.Choice(FIGURES),
    default="mean",
    show_default=True,
    help="How to count violations.",
)
@click.option(
    "--guaranteed",
    is_flag=True,
    help="Choose only a stamp and a wait that are exact by proof while epsilon and delta hold, and that were never "
    "full, cut or misread here.",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Simulate networks like this one, to show which assumption breaks the choice first.",
)
@job_options.out_option("Write tables and report.html here.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    traces: Sequence[Path],
    scratch: Path | None,
    choice: Choice,
    tolerance: float,
    figure: str,
    guaranteed: bool,
    sensitivity: bool,
    out: Path | None,
    as_json: bool,
    engine: EngineOptions,
) -> None:
    """Choose the smallest stamp and the shortest wait that keep a trace's violations within a tolerance.

    TRACE is a trace, a run's log, or the tables that ingest wrote. `basestation plan` is for a network that is not
    built yet.
    """
    from basestation.analysis import advice
    from basestation.analysis.choices import POLICIES
    from spark_jobs.advice import adviser as recommend
    from spark_jobs.measuring.measured_traces import analyse
    from spark_jobs.session import prepare

    if out is not None:
        prepare(out)
    # The ledger is offered at the tolerance itself. At 0 it is causal delivery.
    if tolerance and tuple(choice.policies) == POLICIES:
        choice = replace(choice, tolerates=[tolerance])
    asked = advice.Question(figure, tolerance, guaranteed, sensitivity)
    adviser = recommend.Adviser(asked)
    found = analyse(
        traces,
        choice,
        engine,
        job="recommend",
        scratch=scratch,
        after=adviser.take,
    )
    advised, together = adviser.advised, adviser.together
    for one in advised:
        if not as_json:
            for line in advice.lines(one, asked):
                common.out.print(line, markup=False, soft_wrap=True)
        elif not one.advice:
            common.note(f"recommend: run {one.trace.run}: {advice.why_nothing(one.rows, asked)}")
    if not as_json and together:
        said = advice.sentence(together[0])
        common.out.print(f"all runs: take {said}", markup=False, soft_wrap=True)
    if as_json:
        for row in (*together, *(row for one in advised for row in one.advice)):
            common.emit_json(row)
    if out is not None:
        recommend.write(out, found.rows, adviser, found.faults)
        common.note(f"wrote tables and report.html in {out}")
    if found.faults or not all(one.advice for one in advised):
        ctx.exit(1)
