"""Violated pairs of a part of a trace, near and far, against all pairs of small random streams."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from basestation.causality.kernels import segment_pairs
from tests.causality.kernels.streams import random_sends

SEEDS = range(20)


@dataclass
class Sample:
    """Arrivals with their clocks, and one order of delivery in which none is held longer than the horizon."""

    source: np.ndarray
    number: np.ndarray
    vectors: np.ndarray
    clock: np.ndarray
    horizon: int
    order: np.ndarray
    left: np.ndarray
    first: int
    last: int

    def leads_to(self, a: int, b: int) -> bool:
        return a != b and self.vectors[b, self.source[a]] >= self.number[a]

    def is_far(self, a: int, b: int) -> bool:
        return self.leads_to(a, b) and self.clock[a] > self.clock[b] + self.horizon

    @property
    def stragglers(self) -> np.ndarray:
        every = range(len(self.clock))
        return np.array([any(self.is_far(a, b) for b in every) for a in every])

    def violated(self) -> list[tuple[int, int]]:
        """All (cause, effect) with the effect delivered first and among the arrivals of the part."""
        place = {int(message): i for i, message in enumerate(self.order)}
        return [
            (a, b)
            for b in range(self.first, self.last)
            for a in range(len(self.clock))
            if self.leads_to(a, b) and place[b] < place[a]
        ]


def sample(seed: int) -> Sample:
    random = Random(seed)
    horizon, reach = random.choice((2, 5)), random.choice((3, 12, 40))
    sends = [send for send in random_sends(random, motes=3, count=60) if random.random() < 0.9]
    clock = [i // 2 + random.randint(0, reach) for i in range(len(sends))]
    by_arrival = sorted(range(len(sends)), key=lambda i: (clock[i], i))
    clock = np.array([clock[i] for i in by_arrival])
    left = clock + [random.randint(0, horizon) for _ in by_arrival]
    order = np.array(sorted(range(len(sends)), key=lambda i: (left[i], random.random())))
    first = random.randrange(len(sends) // 2)
    return Sample(
        np.array([sends[i].source for i in by_arrival]),
        np.array([sends[i].index for i in by_arrival]),
        np.array([sends[i].vector for i in by_arrival], np.int32),
        clock,
        horizon,
        order,
        left[order],
        first,
        random.randrange(first, len(sends)),
    )


def near_counted(one: Sample) -> tuple[int, np.ndarray, np.ndarray]:
    """The pairs that `count_near` finds, and the flags that it sets."""
    overtaken, hasty = np.zeros((2, len(one.clock)), np.bool_)
    arrivals = segment_pairs.arrivals(one.source, one.vectors, one.clock, one.stragglers)
    block, pairs = one.clock % 3, np.zeros(3, np.int64)
    segment_pairs.count_near(
        one.order, one.left, arrivals, one.horizon, one.first, one.last, overtaken, hasty, block, pairs
    )
    owned = [b for a, b in one.violated() if not one.is_far(a, b)]
    assert pairs.tolist() == np.bincount(block[owned], minlength=3).tolist()
    return int(pairs.sum()), overtaken, hasty


def far_counted(one: Sample) -> tuple[int, np.ndarray]:
    late = np.flatnonzero(one.stragglers)
    late = late[np.lexsort((one.number[late], one.source[late]))]
    row_of = np.concatenate(([0], np.cumsum(np.bincount(one.source[late], minlength=3))))
    own = slice(one.first, one.last)
    hasty = np.zeros(one.last - one.first, np.bool_)
    block, pairs = one.clock[own] % 3, np.zeros(3, np.int64)
    where = row_of, one.number[late], one.clock[late]
    segment_pairs.count_far(one.vectors[own], one.clock[own], one.horizon, *where, hasty, block, pairs)
    return int(pairs.sum()), hasty


def test_the_samples_have_near_pairs_and_far_ones():
    samples = [sample(seed) for seed in SEEDS]
    near = [[not one.is_far(*pair) for pair in one.violated()] for one in samples]
    assert sum(any(flags) and not all(flags) for flags in near) > len(SEEDS) // 4
    assert any(one.stragglers[one.first : one.last].any() for one in samples)


@pytest.mark.parametrize("seed", SEEDS)
def test_near_pairs_are_those_of_all_pairs(seed):
    one = sample(seed)
    near = [pair for pair in one.violated() if not one.is_far(*pair)]
    pairs, overtaken, hasty = near_counted(one)
    assert pairs == len(near)
    own = range(one.first, one.last)
    assert [b for b in own if hasty[b]] == sorted({b for _, b in near})
    assert all(overtaken[a] for a, _ in near)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cause_is_overtaken_by_whatever_left_before_it(seed):
    """Whichever part the effect belongs to."""
    one = sample(seed)
    _, overtaken, _ = near_counted(one)
    one.first, one.last = 0, len(one.clock)
    causes = {a for a, b in one.violated() if not one.is_far(a, b)}
    assert np.flatnonzero(overtaken).tolist() == sorted(causes)


@pytest.mark.parametrize("seed", SEEDS)
def test_far_pairs_are_those_of_all_pairs(seed):
    one = sample(seed)
    far = [pair for pair in one.violated() if one.is_far(*pair)]
    pairs, hasty = far_counted(one)
    assert pairs == len(far)
    assert (np.flatnonzero(hasty) + one.first).tolist() == sorted({b for _, b in far})


@pytest.mark.parametrize("seed", SEEDS)
def test_stragglers_are_those_with_a_far_effect(seed):
    one = sample(seed)
    nothing = np.zeros(3, np.int32)
    found = segment_pairs.find_stragglers(
        one.source, one.number, one.vectors, one.clock, one.first, one.last, one.horizon, nothing
    )
    own = slice(one.first, one.last)
    assert found[own].tolist() == one.stragglers[own].tolist()
    assert not found[: one.first].any()
    assert not found[one.last :].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_earlier_arrivals_are_known_by_their_largest_counts(seed):
    """Arrivals more than a horizon older than the part need not be read again."""
    one = sample(seed)
    cut = int(np.searchsorted(one.clock, one.clock[one.first] - one.horizon))
    known = one.vectors[:cut].max(axis=0, initial=0)
    found = segment_pairs.find_stragglers(
        one.source[cut:],
        one.number[cut:],
        one.vectors[cut:],
        one.clock[cut:],
        one.first - cut,
        one.last - cut,
        one.horizon,
        known,
    )
    assert found[one.first - cut : one.last - cut].tolist() == one.stragglers[one.first : one.last].tolist()


def test_each_motes_regular_sends_are_in_their_own_order():
    one = sample(0)
    found = segment_pairs.arrivals(one.source, one.vectors, one.clock, one.stragglers)
    assert found.number.tolist() == one.number.tolist()
    for mote in range(3):
        slots = found.at_slot[found.row_of[mote] : found.row_of[mote + 1]]
        assert set(one.source[slots]) == {mote}
        assert one.number[slots].tolist() == sorted(one.number[slots])
    assert found.slot_of[found.at_slot].tolist() == list(range(len(found.at_slot)))
    assert (found.slot_of[found.stragglers] == -1).all()
    assert len(found.at_slot) + len(found.stragglers) == len(one.clock)


def test_holds_are_counted_by_their_ticks():
    order, left, clock = np.array([1, 0, 2, 3]), np.array([5, 6, 6, 9]), np.array([4, 5, 6, 6])
    # 1 is held for 0 ticks, 0 for 2, 2 for 0, 3 for 3.
    block, ticks = np.array([0, 0, 1, 1]), np.zeros(2, np.int64)
    assert segment_pairs.hold_histogram(order, left, clock, 0, 4, 3, block, ticks).tolist() == [2, 0, 1, 1]
    assert ticks.tolist() == [2, 3]
    assert segment_pairs.hold_histogram(order, left, clock, 1, 3, 3, block, ticks).tolist() == [2, 0, 0, 0]
