"""`sensitivity`: which assumption breaks a configuration first, if the network changes.

The network that a log shows (`fit`) is simulated again with epsilon, delays, loss or rate off by a factor. The stamp
and the wait stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from basestation.analysis.fitted_network import SEEDS, Fitted, Off, SeedTask, Spread, over_seeds, simulate
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import Scheme

FACTORS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
ASSUMPTIONS = ("epsilon", "delta", "loss", "rate")
LEAST_LOSS = 0.01  # no factor makes losses of none


@dataclass(frozen=True, slots=True)
class Strained:
    """A configuration on the network with one assumption off by `factor`. Violations in per cent, over seeds."""

    assumption: str
    factor: float
    violations: float
    low: float
    high: float
    hold_ms: float
    breaks: bool  # more violations than are tolerated


@dataclass(frozen=True, slots=True)
class Limit:
    """The smallest factor above 1, of those tried, at which an assumption breaks the tolerance; None if none does.

    `violations` are those at `factor`: there, or at the largest one.
    """

    assumption: str
    breaks_at: float | None
    factor: float
    violations: float


def sensitivity(
    fit: Fitted,
    scheme: Scheme,
    delivery: PolicyChoice,
    tolerance: float,
    figure: str,
    spread: Spread,
    *,
    factors: Sequence[float] = FACTORS,
    seeds: int = SEEDS,
) -> tuple[list[Strained], list[Limit]]:
    """Every assumption with every factor, then the limit of each; the one that breaks first comes first."""
    if not any(fit.losses):
        fit = replace(fit, losses=(LEAST_LOSS,) * len(fit.losses))
    asked = [(name, factor) for name in ASSUMPTIONS for factor in factors]
    tasks = [
        SeedTask(fit, seed, ((scheme, (delivery,)),), off=Off(**{name: factor}))
        for name, factor in asked
        for seed in range(1, seeds + 1)
    ]
    results = list(spread(simulate, tasks))
    rows = []
    for place, (name, factor) in enumerate(asked):
        same = [one.measured[0][0] for one in results[place * seeds : (place + 1) * seeds]]
        found = [one.violations.percent()[figure] for one in same]
        hold = float(np.mean([one.hold_mean for one in same])) * fit.tick_ms
        mean = float(np.mean(found))
        rows.append(Strained(name, factor, mean, *over_seeds(found), hold, mean > tolerance))
    limits = [
        _limit([row for row in rows if row.assumption == name and row.factor >= 1]) for name in ASSUMPTIONS
    ]
    return rows, sorted(limits, key=lambda one: (one.breaks_at or float("inf"), -one.violations))


def _limit(rows: Sequence[Strained]) -> Limit:
    first = next((row for row in sorted(rows, key=lambda row: row.factor) if row.breaks), None)
    at = first or max(rows, key=lambda row: row.factor)
    return Limit(at.assumption, None if first is None else first.factor, at.factor, at.violations)
