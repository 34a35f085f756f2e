"""`changes`: what became better or worse between two runs, deployments or firmwares.

Each figure is compared with its 95% interval. It is a regression if it became worse by more than its threshold, and if
chance does not explain that it became worse at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from basestation.analysis.choices import NAMED, Choice, one_choice, own_layout
from basestation.analysis.facts import Fact
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.uncertainty import HOLD, draws, middle, ratio
from packet_formats.deployment import Deployment

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


def of_row(row: ContinuumRow, tick_ms: float) -> dict[str, Fact]:
    """The facts in a configuration's blocks of time."""
    if row.uncertain is None:
        return {}
    found = {HOLD: Fact(*ratio(row.uncertain.most, HOLD), tick_ms)}
    # Only what surely was in wrong order: other losses change what may have been.
    if row.mean is not None:
        found["violations"] = Fact(*ratio(row.uncertain.least, "mean"), 100.0)
    return found


def as_deployed(deployment: Deployment) -> Choice:
    """The deployment's own stamp and policy."""
    stamp, observer = own_layout(deployment), deployment.observer
    named = stamp.scheme in NAMED or not deployment.scheme.is_ordered
    rule = observer.policy, observer.phi, observer.tolerate
    return one_choice(stamp, stamp.most, stamp.entry_bits, *rule, named)
