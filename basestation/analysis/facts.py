"""Facts about a run that need no causes: rate, loss, delays, and arrivals out of order.

Each fact is a ratio of sums over blocks of time, so that it has an interval (docs/evidence/counting.md, "How sure a
figure is"). A simulated run shows the same facts, so that a prediction can be compared with a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.survey import block_begins
from basestation.analysis.uncertainty import drawn
from basestation.causality.stream import Stream

Ints = NDArray[Any]
FACTS = {
    "rate": "messages that a mote sends in a second",
    "loss": "messages lost, %",
    "out_of_order": "messages that come after a later one of their sender, %",
    "delay": "delay by the stamp's clock, ms",
    "late": "messages whose delay is over delta, and epsilon, %",
}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages in their order of arrival; times in ticks. `delay` is None if the stamp has no clock."""

    motes: int
    source: Ints
    life: Ints
    sequence: Ints
    clock: Ints
    delay: Ints | None


@dataclass(frozen=True, slots=True)
class Fact:
    """A ratio of sums over blocks of time, times `scale`."""

    part: NDArray[np.float64]
    whole: NDArray[np.float64]
    scale: float

    @property
    def value(self) -> float:
        return float(self.scale * self.part.sum() / max(self.whole.sum(), 1e-300))

    @property
    def interval(self) -> tuple[float, float] | None:
        found = drawn(self.part, self.whole)
        return None if found is None else (self.scale * found[0], self.scale * found[1])


def arrivals_of(stream: Stream) -> Arrivals:
    """The arrivals of a simulated stream."""
    sent = stream.arrival_message
    delay = np.maximum(stream.arrival_clock - stream.sent_at[sent], 0)
    source, number = stream.sent_by[sent].astype(np.int64), stream.sent_index[sent].astype(np.int64)
    return Arrivals(stream.motes, source, np.zeros(len(sent), np.int64), number, stream.arrival_clock, delay)


def facts_of(seen: Arrivals, horizon: int, tick_ms: float, late_after: int | None = None) -> dict[str, Fact]:
    """The facts of `FACTS` that these arrivals show, in seconds, milliseconds and per cent."""
    begins = block_begins(int(seen.clock[0]), int(seen.clock[-1]), horizon)
    block = np.searchsorted(begins, seen.clock, "right") - 1
    ticks = np.diff(np.append(begins, seen.clock[-1] + 1)).astype(np.float64)

    def by_block(values: Ints | None = None) -> NDArray[np.float64]:
        return np.bincount(block, values, len(begins)).astype(np.float64)

    received, lost = by_block(), by_block(_lost_before(seen))
    found = {
        "rate": Fact(received + lost, seen.motes * ticks, 1000 / tick_ms),
        "loss": Fact(lost, received + lost, 100.0),
        "out_of_order": Fact(by_block(_overtaken(seen)), received, 100.0),
    }
    if seen.delay is not None:
        found["delay"] = Fact(by_block(seen.delay), received, tick_ms)
        if late_after is not None:
            found["late"] = Fact(by_block(seen.delay > late_after), received, 100.0)
    return found


def _lost_before(seen: Arrivals) -> Ints:
    """At each message the numbers that are missing before it, since its boot; as `links` counts them."""
    order = np.lexsort((seen.sequence, seen.life, seen.source))
    same = (np.diff(seen.source[order]) == 0) & (np.diff(seen.life[order]) == 0)
    lost = np.zeros(len(order), np.int64)
    lost[order[1:]] = np.where(same, np.maximum(np.diff(seen.sequence[order]) - 1, 0), 0)
    return lost


def _overtaken(seen: Arrivals) -> Ints:
    """Whether a later message of the same sender and boot came before."""
    order = np.lexsort((np.arange(len(seen.source)), seen.life, seen.source))
    out = np.zeros(len(order), np.int64)
    ends = np.flatnonzero((np.diff(seen.source[order]) != 0) | (np.diff(seen.life[order]) != 0)) + 1
    for rows in np.split(order, ends):
        out[rows] = seen.sequence[rows] < np.maximum.accumulate(seen.sequence[rows])
    return out


def losses_by_mote(seen: Arrivals) -> NDArray[np.float64]:
    """The share of each mote's messages that was lost."""
    lost = np.bincount(seen.source, _lost_before(seen), seen.motes)
    received = np.bincount(seen.source, minlength=seen.motes)
    return np.asarray(lost / np.maximum(lost + received, 1), np.float64)


def values(facts: Mapping[str, Fact]) -> dict[str, float]:
    return {name: fact.value for name, fact in facts.items()}
