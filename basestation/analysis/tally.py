"""Counts of deliveries in a part of a trace. Those of all parts add up to those of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.deliveries import Delivery, Left, StampReading, Stamps
from basestation.analysis.survey import Context
from basestation.analysis.view import View
from basestation.causality.kernels import segment_pairs
from basestation.causality.violations import Violations

Ints = NDArray[Any]
# The columns of `Tally.blocks`.
IN_BLOCK = ("delivered", "pairs", "backward", "forward", "any", "related_pairs", "ticks")


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of one delivery over some parts. `held[t]` messages were held t ticks.

    `blocks` has a row for each block of time, with the counts of `IN_BLOCK`; `ticks` is the sum of the holds.
    """

    told: bool
    held: Ints
    late: int
    blocks: Ints

    @property
    def violations(self) -> Violations | None:
        """The violations of all blocks; None if no causes are known."""
        return Violations(*self.blocks.sum(axis=0)[:-1].tolist()) if self.told else None

    def __add__(self, other: Tally) -> Tally:
        held, late = self.held + other.held, self.late + other.late
        return Tally(self.told, held, late, self.blocks + other.blocks)

    @property
    def delivered(self) -> int:
        return int(self.held.sum())

    @property
    def hold_mean(self) -> float:
        return int((self.held * np.arange(len(self.held))).sum()) / self.delivered if self.delivered else 0.0

    def hold_percentile(self, percent: float) -> float:
        """The percentile of the holds, interpolated as numpy does."""
        if not self.delivered:
            return 0.0
        place = (self.delivered - 1) * (percent / 100)
        up_to = np.cumsum(self.held)
        low, high = (int(np.searchsorted(up_to, int(at), "right")) for at in (place, np.ceil(place)))
        part = place - int(place)
        return float(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)


@dataclass(frozen=True, slots=True)
class Fields:
    """The use of a stamp's fields by the messages that arrived: saturated stamps, and the largest values."""

    saturated: int
    max_c: int
    max_kn: int

    @classmethod
    def of(cls, view: View, reading: StampReading, stamps: Stamps) -> Fields:
        c, kn = stamps.c[view.own], stamps.kn[view.own]
        saturated = int(np.count_nonzero((kn == reading.entry_max).any(axis=1)))
        return cls(saturated, int(c.max(initial=0)), int(kn.max(initial=0)))

    def __add__(self, other: Fields) -> Fields:
        c, kn = max(self.max_c, other.max_c), max(self.max_kn, other.max_kn)
        return Fields(self.saturated + other.saturated, c, kn)


@dataclass(frozen=True, slots=True)
class Measured:
    """The tally of each delivery, and how each stamp's fields were used."""

    tallies: dict[Delivery, Tally]
    fields: dict[StampReading, Fields]

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            {key: tally + other.tallies[key] for key, tally in self.tallies.items()},
            {key: fields + other.fields[key] for key, fields in self.fields.items()},
        )


class Judge:
    """The counts that do not depend on the delivery: far pairs, related pairs, and each mote's sends in order."""

    def __init__(self, context: Context, view: View) -> None:
        self._context, self._view, self._own = context, view, view.own
        self._block = context.block_of(view.clock)
        self._cuts = np.searchsorted(self._block[self._own], np.arange(len(context.begins) + 1))
        self._before = np.zeros((len(context.begins), len(IN_BLOCK)), np.int64)
        self._before[:, 0] = np.diff(self._cuts)
        if context.sends is None:
            return
        motes = len(context.sends.bits)
        source, vectors = view.column("source").astype(np.int64), view.vectors(motes)
        late = np.isin(view.rows, context.stragglers.row)
        self._arrivals = segment_pairs.arrivals(source, vectors, view.clock, late)
        self._overtaken, self._hasty = late.copy(), np.zeros(len(source), np.bool_)
        self._count_far(vectors[self._own])
        for mote in range(motes):  # one after another: all of them at once are a large matrix
            known = context.sends.up_to(mote, vectors[self._own, mote])
            self._before[:, 5] += self._by_block(np.sum, known)
        self._before[:, 5] -= self._before[:, 0]  # no message is a cause of itself

    def _by_block(self, count: Callable[[Ints], Any], values: Ints) -> list[Any]:
        return [count(values[a:b]) for a, b in pairwise(self._cuts.tolist())]

    def _count_far(self, vectors: Ints) -> None:
        late, own = self._context.stragglers, self._own
        if not len(late):
            return
        order = np.lexsort((late.index, late.source))
        row_of = np.concatenate(([0], np.cumsum(np.bincount(late.source, minlength=vectors.shape[1]))))
        which = row_of, late.index[order], late.clock[order]
        clock, horizon, hasty = self._view.clock[own], self._context.horizon, self._hasty[own]
        segment_pairs.count_far(vectors, clock, horizon, *which, hasty, self._block[own], self._before[:, 1])

    def tally(self, left: Left) -> Tally:
        view, horizon, blocks = self._view, self._context.horizon, self._before.copy()
        held = segment_pairs.hold_histogram(
            left.order, left.at, view.clock, view.first, view.last, horizon, self._block, blocks[:, 6]
        )
        if told := self._context.sends is not None:
            overtaken, hasty = self.flags(left, blocks[:, 1])
            for column, flags in ((2, overtaken), (3, hasty), (4, overtaken | hasty)):
                blocks[:, column] = self._by_block(np.count_nonzero, flags)
        return Tally(told, held, left.late, blocks)

    def flags(self, left: Left, pairs: Ints) -> tuple[Ints, Ints]:
        """Which of the part's own messages came after one of their effects, and which before one of their causes."""
        view, (order, at, _) = self._view, left
        overtaken, hasty = self._overtaken.copy(), self._hasty.copy()
        where = self._context.horizon, view.first, view.last
        segment_pairs.count_near(order, at, self._arrivals, *where, overtaken, hasty, self._block, pairs)
        return overtaken[self._own], hasty[self._own]
