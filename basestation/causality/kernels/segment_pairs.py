"""Counts violated pairs in a part of a trace, for many orders of delivery over the same arrivals.

No message is held longer than a number of ticks, the horizon. A pair is *near* if its two arrivals are at most a
horizon apart; then the order of delivery decides. Otherwise it is *far*: its cause arrives after its effect has left,
under any policy, and the arrivals alone decide. A cause with a far effect is a *straggler*
(docs/evidence/counting.md, "A trace in segments").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import compiled
from .stamping import Ints

NO_MORE = np.iinfo(np.int32).max


class Arrivals(NamedTuple):
    """A part of a trace in order of arrival, and each mote's sends, without stragglers, in order.

    `vectors` counts the sends of each mote that led to a message, itself included; `number` is its own entry there.
    """

    source: Ints
    number: Ints
    vectors: Ints
    clock: Ints
    row_of: Ints  # where each mote's sends begin among the slots
    at_slot: Ints
    slot_of: Ints  # -1: a straggler
    stragglers: Ints


def arrivals(source: Ints, vectors: Ints, clock: Ints, is_straggler: Ints) -> Arrivals:
    motes = vectors.shape[1]
    index = vectors[np.arange(len(source)), source]
    regular = np.flatnonzero(~is_straggler)
    at_slot = regular[np.lexsort((index[regular], source[regular]))]
    slot_of = np.full(len(source), -1, np.int64)
    slot_of[at_slot] = np.arange(len(at_slot))
    row_of = np.concatenate(([0], np.cumsum(np.bincount(source[regular], minlength=motes))))
    return Arrivals(
        source, index, vectors, clock, row_of, at_slot, slot_of, np.flatnonzero(is_straggler).astype(np.int64)
    )


@compiled
def find_stragglers(
    source: Ints, index: Ints, vectors: Ints, clock: Ints, first: int, last: int, horizon: int, known: Ints
) -> Ints:
    """Find the arrivals from `first` to `last` that come more than a horizon after one of their effects.

    `known` holds, for each mote, the most of its sends that any earlier arrival counted.
    """
    motes = vectors.shape[1]
    most = known.copy()
    is_straggler = np.zeros(len(source), np.bool_)
    behind = 0
    for i in range(first, last):
        while clock[behind] < clock[i] - horizon:
            for mote in range(motes):
                most[mote] = max(most[mote], vectors[behind, mote])
            behind += 1
        is_straggler[i] = most[source[i]] >= index[i]
    return is_straggler


@compiled
def count_near(
    order: Ints,
    left: Ints,
    arrivals: Arrivals,
    horizon: int,
    first: int,
    last: int,
    overtaken: Ints,
    hasty: Ints,
    block: Ints,
    pairs: Ints,
) -> None:
    """Count near pairs whose effect is one of the arrivals `first` to `last`, in `pairs` at the effect's block of time;
    flag every message in a near pair.

    `order` and `left` come from the delivery kernels. The loop follows the deliveries; `waited_for` holds each mote's
    first send that is not delivered yet: a message that counts further than that is ahead of a cause.
    """
    # Taken out once: numba counts references at each use of an array in a tuple.
    source, index, vectors, clock, row_of, at_slot, slot_of, stragglers = arrivals
    motes = vectors.shape[1]
    gone = np.zeros(len(at_slot), np.bool_)
    head = row_of.copy()
    waited_for = np.empty(motes, np.int32)
    for mote in range(motes):
        waited_for[mote] = index[at_slot[head[mote]]] if head[mote] < row_of[mote + 1] else NO_MORE
    open_ = np.empty(len(stragglers), np.int64)
    opened = closed = 0
    for place in range(len(order)):
        b = order[place]
        while opened < len(stragglers) and clock[stragglers[opened]] - horizon <= left[place]:
            open_[closed] = stragglers[opened]
            opened += 1
            closed += 1
        if slot_of[b] >= 0:
            gone[slot_of[b]] = True
            mote = source[b]
            while head[mote] < row_of[mote + 1] and gone[head[mote]]:
                head[mote] += 1
            waited_for[mote] = index[at_slot[head[mote]]] if head[mote] < row_of[mote + 1] else NO_MORE
        else:
            kept = 0
            for i in range(closed):
                if open_[i] != b:
                    open_[kept] = open_[i]
                    kept += 1
            closed = kept
        owned = first <= b < last
        for i in range(closed):
            a = open_[i]
            if vectors[b, source[a]] >= index[a] and clock[a] <= clock[b] + horizon:
                pairs[block[b]] += owned
                hasty[b] = True
                overtaken[a] = True
        ahead = False
        for mote in range(motes):
            ahead |= vectors[b, mote] >= waited_for[mote]
        if not ahead:
            continue
        for mote in range(motes):
            slot = head[mote]
            while slot < row_of[mote + 1] and index[at_slot[slot]] <= vectors[b, mote]:
                if not gone[slot]:
                    pairs[block[b]] += owned
                    hasty[b] = True
                    overtaken[at_slot[slot]] = True
                slot += 1


@compiled
def count_far(
    vectors: Ints,
    clock: Ints,
    horizon: int,
    row_of: Ints,
    index: Ints,
    late: Ints,
    hasty: Ints,
    block: Ints,
    pairs: Ints,
) -> None:
    """Count far pairs of these effects, in `pairs` at the effect's block of time, and flag the effects.

    Stragglers are by mote and index, with clocks `late`.
    """
    latest = late.copy()
    for mote in range(vectors.shape[1]):
        for i in range(row_of[mote] + 1, row_of[mote + 1]):
            latest[i] = max(latest[i], latest[i - 1])
    for b in range(len(clock)):
        for mote in range(vectors.shape[1]):
            low, high = row_of[mote], row_of[mote + 1]
            i = low + np.searchsorted(index[low:high], vectors[b, mote], side="right") - 1
            while i >= low and latest[i] > clock[b] + horizon:
                if late[i] > clock[b] + horizon:
                    pairs[block[b]] += 1
                    hasty[b] = True
                i -= 1


@compiled
def hold_histogram(
    order: Ints, left: Ints, clock: Ints, first: int, last: int, longest: int, block: Ints, ticks: Ints
) -> Ints:
    """How many of the arrivals `first` to `last` were held 0, 1, ... `longest` ticks; `ticks` sums them by block."""
    held = np.zeros(longest + 1, np.int64)
    for place in range(len(order)):
        b = order[place]
        if first <= b < last:
            hold = left[place] - clock[b]
            held[hold] += 1
            ticks[block[b]] += hold
    return held
