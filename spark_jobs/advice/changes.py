"""`changes`: what became better or worse between two runs, deployments or firmwares.

Each figure is compared with its 95% interval. It is a regression if it became worse by more than its threshold, and if
chance does not explain that it became worse at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from basestation.analysis.choices import NAMED, Choice, own_layout
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.uncertainty import HOLD, draws, middle, ratio
from packet_formats.deployment import CRYSTAL_HZ
from spark_jobs.advice.facts import Fact, arrivals_in, facts_of
from spark_jobs.engine import Engine, EngineOptions, Spread, chosen
from spark_jobs.measuring.continuum import continuum
from spark_jobs.session import JobError
from spark_jobs.storage import Place
from spark_jobs.traces.files import TraceFiles
from spark_jobs.traces.runs import open_traces

# How much worse each figure may become: percentage points, or milliseconds.
THRESHOLDS = {"loss": 1.0, "out_of_order": 1.0, "delay": 5.0, "late": 0.1, "hold": 5.0, "violations": 0.1}
UNITS = {"rate": "a second", "delay": "ms", "hold": "ms"}


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after, and the 95% interval of the difference; unknown if a run is too short."""

    figure: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    threshold: float | None
    verdict: str  # better, worse, other or same
    regression: bool

    @property
    def unit(self) -> str:
        return UNITS.get(self.figure, "%")


def changes(
    before: Sequence[Mapping[str, Fact]],
    after: Sequence[Mapping[str, Fact]],
    thresholds: Mapping[str, float] = THRESHOLDS,
) -> list[Change]:
    """Compare the runs before with those after, in all figures that both have."""
    old, new = together(before), together(after)
    return [_change(name, old[name], new[name], thresholds.get(name)) for name in old if name in new]


def together(runs: Sequence[Mapping[str, Fact]]) -> dict[str, Fact]:
    """The facts of several runs as those of one: all blocks side by side."""
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    return {
        name: Fact(
            np.concatenate([run[name].part for run in runs]),
            np.concatenate([run[name].whole for run in runs]),
            runs[0][name].scale,
        )
        for name in shared
    }


def _change(name: str, old: Fact, new: Fact, threshold: float | None) -> Change:
    difference = new.value - old.value
    one, other = draws(old.part, old.whole), draws(new.part, new.whole)
    low = high = None
    if one is not None and other is not None:
        low, high = middle(new.scale * other - old.scale * one[::-1])
    changed = bool(difference) if low is None or high is None else low > 0 or high < 0
    kind = "other" if name == "rate" else "worse" if difference > 0 else "better"
    grown = abs(difference) if name == "rate" else difference
    regression = changed and threshold is not None and grown > threshold
    verdict = kind if changed else "same"
    return Change(name, old.value, new.value, difference, low, high, threshold, verdict, regression)


def facts_in(trace: TraceFiles, spread: Spread, scratch: Path) -> dict[str, Fact]:
    """The facts of a run, with the hold and the violations of its own stamp under its own policy."""
    clock, seen = trace.deployment.clock, arrivals_in(trace)
    tick_ms, horizon = 1000 * 2.0**clock.tick_log2 / CRYSTAL_HZ, clock.delta + 3 * clock.epsilon + 1
    found = facts_of(seen, horizon, tick_ms, late_after=clock.delta + clock.epsilon)
    own = next((row for row in continuum(trace, as_deployed(trace), spread, scratch) if row.own), None)
    return found | (_of_row(own, tick_ms) if own is not None else {})


def _of_row(row: ContinuumRow, tick_ms: float) -> dict[str, Fact]:
    if row.uncertain is None:
        return {}
    found = {HOLD: Fact(*ratio(row.uncertain.most, HOLD), tick_ms)}
    # Only what surely was in wrong order: with other losses more or less may have been, and that is no change.
    if row.mean is not None:
        found["violations"] = Fact(*ratio(row.uncertain.least, "mean"), 100.0)
    return found


def as_deployed(trace: TraceFiles) -> Choice:
    """The deployment's own stamp and policy."""
    stamp, observer = own_layout(trace.deployment), trace.deployment.observer
    named = stamp.scheme in NAMED or not trace.deployment.scheme.is_ordered
    policy = "own" if named else observer.policy
    return Choice(
        schemes=(stamp.scheme,),
        entries=(stamp.most or 1,),
        packings=(stamp.packing,),
        counts=(stamp.count,),
        counter_bits=(stamp.entry_bits,) if stamp.entry_bits and not named else (),
        policies=() if observer.tolerate is not None and not named else (policy,),
        phis=(observer.phi,),
        tolerates=() if observer.tolerate is None else (observer.tolerate,),
    )


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
