"""`recommend`: the smallest stamp and the shortest wait that keep a trace's violations within a tolerance.

The answer is for this trace (`analysis/advice.py`). `basestation plan` is for a network that is not built yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from basestation.analysis.advice import (
    Advice,
    Advised,
    Question,
    advise,
    all_runs_parts,
    answer_parts,
    frontier,
    over_all_runs,
)
from basestation.analysis.choices import candidates
from basestation.analysis.fitted_network import SEEDS, fitted
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.sensitivity import ASSUMPTIONS, FACTORS, Limit, Strained, sensitivity
from basestation.causality.policy_choice import PolicyChoice
from basestation.traces.files import TraceError
from spark_jobs.engines import Engine
from spark_jobs.measuring.one_configuration import details, only
from spark_jobs.result_files import write_page, write_rows
from spark_jobs.session import note
from spark_jobs.storage import Place
from spark_jobs.traces.segments import arrivals_in
from spark_jobs.traces.trace_files import TraceFault, TraceFiles


class Adviser:
    """Answers a question for each trace while its engine is there."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.advised: list[Advised] = []

    def take(self, trace: TraceFiles, rows: list[ContinuumRow], engine: Engine, scratch: Path) -> None:
        asked = self.question
        found = frontier(rows, asked)
        advice = advise(found, rows, trace.deployment, asked.figure)
        more: dict[str, Any] = {}
        if found:
            more["details"] = details(trace, found[0], engine.each, scratch, workers=engine.workers)
        if found and asked.sensitivity:
            more["strained"], more["limits"] = strain(trace, found[0], asked, engine)
        self.advised.append(Advised(trace, rows, advice, **more))

    @property
    def together(self) -> list[Advice]:
        """The advice over all runs, if there are several of one deployment."""
        asked, deployments = self.question, {one.trace.deployment.to_toml() for one in self.advised}
        if len(self.advised) < 2 or len(deployments) > 1:
            return []
        rows = [row for one in self.advised for row in one.rows]
        first = self.advised[0].trace.deployment
        return over_all_runs(rows, first, asked)


def strain(
    trace: TraceFiles, row: ContinuumRow, asked: Question, engine: Engine
) -> tuple[list[Strained], list[Limit]]:
    """Find the assumption that breaks a configuration first; empty if the log does not show its network."""
    try:
        network = fitted(arrivals_in(trace), trace.deployment)
    except (TraceError, TraceFault):
        return [], []
    networks = len(ASSUMPTIONS) * len(FACTORS) * SEEDS
    note(f"recommend: run {trace.run}: {networks} simulated networks tell which assumption breaks first")
    stamps = candidates(trace.deployment, only(row))
    delivery = PolicyChoice(row.policy, row.phi, row.tolerate)
    return sensitivity(network, stamps[0].scheme, delivery, asked.tolerance, asked.figure, engine.each)


def write(
    out: Place, rows: Sequence[ContinuumRow], adviser: Adviser, faults: Sequence[TraceFault] = ()
) -> None:
    """Write the tables of the continuum and of the recommendation, and the report, which names runs with faults."""
    advised, together = adviser.advised, adviser.together
    tables: dict[str, Sequence[Any]] = {
        "continuum": rows,
        "recommend": [*together, *(advice for one in advised for advice in one.advice)],
        "details": [row for one in advised for row in one.details],
        "sensitivity": [row for one in advised for row in one.strained],
    }
    for name, found in tables.items():
        if found:
            write_rows(out, name, found)
    each = [part for one in advised for part in answer_parts(one, adviser.question)]
    write_page(
        out,
        "A stamp and a wait for this network",
        [*all_runs_parts(together, list(map(str, faults))), *each],
    )
