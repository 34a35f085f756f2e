"""How far a figure may be off: a block bootstrap over time (docs/evidence/counting.md, "How sure a figure is").

Neighbouring messages share their fate, so they are not independent samples. Blocks of time much longer than any hold
nearly are. All figures are ratios of sums over blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.tally import IN_BLOCK

Ints = NDArray[Any]
Floats = NDArray[np.float64]
FIGURES = ("mean", "any", "pairs", "backward", "forward", "related")
HOLD = "hold"
DRAWS = 2000
LEAST_BLOCKS = 5  # with fewer, blocks say nothing of each other
ENOUGH = 20  # violations that show how clumped they are
NONE_SEEN = 3.0  # -log(5%): with this mean, none is seen once in twenty times


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The blocks of a delivery, with what surely led to each message and with all that may have.

    `clumps`: for each figure, how many violations come together (the largest index of dispersion on this trace).
    """

    least: Ints
    most: Ints
    clumps: dict[str, float]

    def interval(self, figure: str) -> tuple[float, float] | None:
        """The 95% interval of a figure, in per cent, or of the mean hold, in ticks; None with too few blocks."""
        low, high = drawn(*ratio(self.least, figure)), drawn(*ratio(self.most, figure))
        if low is None or high is None:
            return None
        if figure == HOLD:
            return low[0], high[1]
        return 100 * low[0], 100 * max(
            high[1], _at_most(*ratio(self.most, figure), self.clumps.get(figure, 1.0))
        )


def pooled(several: Sequence[Uncertain]) -> Uncertain:
    """All blocks of several runs, as if they were one."""
    return Uncertain(
        np.concatenate([one.least for one in several]),
        np.concatenate([one.most for one in several]),
        {figure: max(one.clumps.get(figure, 1.0) for one in several) for figure in FIGURES},
    )


def share(blocks: Ints, figure: str) -> float:
    """The figure over all blocks, in per cent, or the mean hold in ticks."""
    part, whole = ratio(blocks, figure)
    return float(part.sum() / max(whole.sum(), 1)) * (1 if figure == HOLD else 100)


def ratio(blocks: Ints, figure: str) -> tuple[Floats, Floats]:
    """The numerator and the denominator of a figure in each block that has messages."""
    column = dict(zip(IN_BLOCK, blocks[blocks[:, 0] > 0].T.astype(np.float64), strict=True))
    if figure == "mean":
        return (column["backward"] + column["forward"]) / 2, column["delivered"]
    if figure == "related":
        return column["pairs"], column["related_pairs"]
    return column["ticks" if figure == HOLD else figure], column["delivered"]


def drawn(part: Floats, whole: Floats) -> tuple[float, float] | None:
    """The 95% interval of sum(part) / sum(whole) if blocks are drawn anew, with replacement."""
    found = draws(part, whole)
    return None if found is None else middle(found)


def draws(part: Floats, whole: Floats) -> Floats | None:
    """sum(part) / sum(whole) in each draw; None with too few blocks."""
    if len(part) < LEAST_BLOCKS:
        return None
    times = _times(len(part))
    return np.asarray((times @ part) / np.maximum(times @ whole, 1e-300), np.float64)


def middle(found: Floats) -> tuple[float, float]:
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _times(blocks: int) -> Floats:
    """How often each block is drawn, in each of many draws; always the same, so that answers are."""
    times = np.random.default_rng(blocks).multinomial(blocks, np.full(blocks, 1 / blocks), DRAWS)
    return times.astype(np.float64)  # once: a product would do it each time


def _at_most(part: Floats, whole: Floats, clump: float) -> float:
    """The upper bound where few or no violations were seen, which a bootstrap takes for all there are.

    Violations come in clumps, so `seen / clump` of them are independent: 3 if none was seen, else Garwood's bound.
    """
    seen, clump = float(part.sum()) / clump, max(clump, 1.0)
    bound = (sqrt(seen + 1) + 0.98) ** 2 if seen else NONE_SEEN
    return min(1.0, clump * bound / max(float(whole.sum()), 1.0))


def clumping(deliveries: Sequence[Ints], figure: str) -> float:
    """The largest index of dispersion of a figure's counts over blocks, of deliveries that have enough violations."""
    return max([1.0, *(_dispersion(*ratio(blocks, figure)) for blocks in deliveries)])


def _dispersion(part: Floats, whole: Floats) -> float:
    if len(part) < LEAST_BLOCKS or part.sum() < ENOUGH:
        return 1.0
    expected = whole * part.sum() / whole.sum()
    return float(((part - expected) ** 2 / np.maximum(expected, 1e-300)).sum() / (len(part) - 1))
