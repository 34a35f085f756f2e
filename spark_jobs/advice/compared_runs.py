"""`changes`: what became better or worse between runs, deployments or firmwares (`analysis/differences.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from basestation.analysis.differences import THRESHOLDS, Change, as_deployed, changes, of_row
from basestation.analysis.facts import Fact, facts_of
from spark_jobs.engines import Engine, EngineOptions, Spread, chosen
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.session import JobError
from spark_jobs.storage import Place
from spark_jobs.traces.segments import arrivals_in
from spark_jobs.traces.trace_files import TraceFiles, open_traces


def facts_in(trace: TraceFiles, spread: Spread, scratch: Path) -> dict[str, Fact]:
    """The facts of a run, with the hold and the violations of its own stamp under its own policy."""
    clock, seen = trace.deployment.clock, arrivals_in(trace)
    tick_ms, horizon = 1000 * clock.tick_seconds, clock.delta + 3 * clock.epsilon + 1
    found = facts_of(seen, horizon, tick_ms, late_after=clock.delta + clock.epsilon)
    own = next(
        (row for row in continuum(trace, as_deployed(trace.deployment), spread, scratch) if row.own), None
    )
    return found | (of_row(own, tick_ms) if own is not None else {})


def between(
    before: Place, after: Place, options: EngineOptions, thresholds: Mapping[str, float] = THRESHOLDS
) -> list[Change]:
    """Compare all runs of one place with all runs of another."""
    with chosen("changes", options) as engine:
        return changes(_facts_at(before, engine), _facts_at(after, engine), thresholds)


def _facts_at(place: Place, engine: Engine) -> list[dict[str, Fact]]:
    traces, faults = open_traces([place])
    if faults:
        raise faults[0]
    found = []
    for trace in traces:
        with TemporaryDirectory() as scratch:
            found.append(facts_in(trace, engine.each, Path(scratch)))
    if not found:
        raise JobError(f"{place}: there is no run")
    return found
