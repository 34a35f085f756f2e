"""Computes the total order as one rank per arrival, and DAPW, CBD and the ledger over ranks."""

from __future__ import annotations

from math import ceil

import numpy as np

from basestation.causality.ledger import ETA
from basestation.causality.rules import MEMORY

from .compiled import compiled
from .stamping import Ints

MOST_TICKS_A_MESSAGE = 16  # a larger table would take more memory than what it sorts
ALL = 1 << 62  # more arrivals than there are


@compiled
def _before(i: int, j: int, top: Ints, kn: Ints, source: Ints, last: Ints) -> bool:
    """Whether less(i, j). `last` is the sequence number, or the arrival number if arrival breaks ties."""
    if top[i] != top[j]:
        return top[i] < top[j]
    for k in range(kn.shape[1]):
        if kn[i, k] != kn[j, k]:
            return kn[i, k] < kn[j, k]
    if source[i] != source[j]:
        return source[i] < source[j]
    if last[i] != last[j]:
        return last[i] < last[j]
    return i < j


@compiled
def _merge_runs(
    items: Ints, spare: Ints, low: int, middle: int, high: int, top: Ints, kn: Ints, source: Ints, last: Ints
) -> None:
    left, right = low, middle
    for place in range(low, high):
        take_left = left < middle and (
            right >= high or not _before(items[right], items[left], top, kn, source, last)
        )
        if take_left:
            spare[place] = items[left]
            left += 1
        else:
            spare[place] = items[right]
            right += 1
    items[low:high] = spare[low:high]


@compiled
def _sort_runs(items: Ints, top: Ints, kn: Ints, source: Ints, last: Ints) -> None:
    """Merge sort arrival numbers by `less`. Arrivals are nearly in order, so sorted neighbours are skipped."""
    count, run = len(items), 16
    for low in range(0, count, run):
        for i in range(low + 1, min(low + run, count)):
            item, j = items[i], i
            while j > low and _before(item, items[j - 1], top, kn, source, last):
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
    spare = np.empty_like(items)
    while run < count:
        for low in range(0, count - run, 2 * run):
            middle, high = low + run, min(low + 2 * run, count)
            if not _before(items[middle], items[middle - 1], top, kn, source, last):
                continue
            # Only the part around the seam is out of order: skip what is already in its place.
            while not _before(items[middle], items[low], top, kn, source, last):
                low += 1
            while high > middle and not _before(items[high - 1], items[middle - 1], top, kn, source, last):
                high -= 1
            _merge_runs(items, spare, low, middle, high, top, kn, source, last)
        run *= 2


@compiled
def ranks(r: Ints, c: Ints, kn: Ints, source: Ints, last: Ints) -> Ints:
    """Each arrival's place in the total order."""
    top = r + c
    items = np.arange(len(r))
    _sort_runs(items, top, kn, source, last)
    rank = np.empty(len(r), np.int64)
    for place in range(len(r)):
        rank[items[place]] = place
    return rank


@compiled
def due_ticks(
    r: Ints, c: Ints, arrived: Ints, phi: int, epsilon: int, delta: int, first: int = 0, last: int = ALL
) -> tuple[Ints, int]:
    """The tick from which each arrival may leave, and how many, from `first` to `last`, came after their deadline."""
    due_at = np.empty(len(r), np.int64)
    late = 0
    for i in range(len(r)):
        last_tick = r[i] - (-phi * (c[i] + delta + epsilon) // 100)
        late += first <= i < last and arrived[i] > last_tick
        due_at[i] = last_tick + 1 if phi else last_tick
    return due_at, late


def dapw_order(rank: Ints, due_at: Ints, arrived: Ints) -> tuple[Ints, Ints]:
    """Arrival numbers in order of delivery, and the tick in which each leaves."""
    leaves = np.maximum(due_at, arrived)
    order = _by_tick(leaves, rank)
    return order, leaves[order]


def _by_tick(ticks: Ints, rank: Ints) -> Ints:
    """Argsort by (tick, rank). Ticks are hardly ever far apart, so they are counted instead of compared."""
    if not len(ticks):
        return np.empty(0, np.int64)
    first, last = int(ticks.min()), int(ticks.max())
    if last - first > MOST_TICKS_A_MESSAGE * len(ticks):
        return np.lexsort((rank, ticks))
    return _counted_by_tick(ticks, rank, first, last)


@compiled
def _counted_by_tick(ticks: Ints, rank: Ints, first: int, last: int) -> Ints:
    count = len(ticks)
    of_rank = np.empty(count, np.int64)
    begins = np.zeros(last - first + 2, np.int64)
    for i in range(count):
        of_rank[rank[i]] = i
        begins[ticks[i] - first + 1] += 1
    for tick in range(1, len(begins)):
        begins[tick] += begins[tick - 1]
    order = np.empty(count, np.int64)
    for place in range(count):
        i = of_rank[place]
        order[begins[ticks[i] - first]] = i
        begins[ticks[i] - first] += 1
    return order


@compiled
def _push(heap: Ints, size: int, item: int) -> None:
    while size > 0:
        parent = (size - 1) >> 1
        if heap[parent] <= item:
            break
        heap[size] = heap[parent]
        size = parent
    heap[size] = item


@compiled
def _pop(heap: Ints, size: int) -> None:
    """Remove the least of `size` items; the heap then holds size - 1."""
    last = heap[size - 1]
    size -= 1
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if last <= heap[child]:
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = last


@compiled
def cbd_order(rank: Ints, due_at: Ints, arrived: Ints) -> tuple[Ints, Ints]:
    """The same for CBD: one heap of ranks, whose top leaves when the tick in which it is due is over."""
    count = len(rank)
    of_rank = np.empty(count, np.int64)
    for i in range(count):
        of_rank[rank[i]] = i
    heap = np.empty(count, np.int64)
    order = np.empty(count, np.int64)
    left = np.empty(count, np.int64)
    size = out = i = 0
    clock = arrived[0] if count else 0
    while out < count:
        if size:
            first = of_rank[heap[0]]
            at = max(due_at[first], arrived[first], clock)
            if i == count or at < arrived[i]:
                _pop(heap, size)
                size -= 1
                clock = at
                order[out] = first
                left[out] = at
                out += 1
                continue
        _push(heap, size, rank[i])
        size += 1
        i += 1
    return order, left


@compiled
def ledger_order(rank: Ints, top: Ints, arrived: Ints, alpha: float, most: int) -> tuple[Ints, Ints, Ints]:
    """The same for the ledger, and for each arrival whether a greater one had left. `most`: the safe wait in ticks."""
    count = len(rank)
    of_rank = np.empty(count, np.int64)
    for i in range(count):
        of_rank[rank[i]] = i
    heap = np.empty(count, np.int64)
    # Ranks that left and are not charged, in ascending order from begin to end
    unpaid = np.empty(count, np.int64)
    order = np.empty(count, np.int64)
    left = np.empty(count, np.int64)
    late = np.zeros(count, np.int64)
    size = out = i = begin = end = 0
    greatest, wait, changed = -1, float(most), 0
    while out < count:
        if size:
            first = of_rank[heap[0]]
            at = max(top[first] + min(ceil(wait), most) + 1, changed)
            if i == count or at < arrived[i]:
                if heap[0] > greatest:
                    greatest = unpaid[end] = heap[0]
                    end += 1
                _pop(heap, size)
                size -= 1
                order[out] = first
                left[out] = at
                out += 1
                continue
        changed = arrived[i]
        while begin < end and top[of_rank[unpaid[begin]]] < changed - MEMORY * most:
            begin += 1
        wait = max(0.0, wait - ETA * alpha)
        if rank[i] < greatest:
            late[i] = charged = 1
            while begin < end and unpaid[end - 1] > rank[i]:
                end -= 1
                charged += 1
            wait += ETA * charged
        _push(heap, size, rank[i])
        size += 1
        i += 1
    return order, left, late
