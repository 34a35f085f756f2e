"""Intervals hold what they promise where messages share their fate, and the rule of three does not."""

import numpy as np
import pytest

from basestation.analysis.survey import block_begins
from basestation.analysis.tally import IN_BLOCK
from basestation.analysis.uncertainty import HOLD, Uncertain, clumping, pooled, share


def blocks_of(any_in_block, delivered=1000, ticks=0) -> np.ndarray:
    blocks = np.zeros((len(any_in_block), len(IN_BLOCK)), np.int64)
    for name, values in (("delivered", delivered), ("any", any_in_block), ("ticks", ticks)):
        blocks[:, IN_BLOCK.index(name)] = values
    return blocks


def uncertain(blocks: np.ndarray, clump: float | None = None) -> Uncertain:
    return Uncertain(blocks, blocks, {"any": clumping([blocks], "any") if clump is None else clump})


def in_clumps(rng, rate: float, size: int, blocks: int = 40) -> np.ndarray:
    """Violations that come `size` at a time; `rate` of 1000 messages in a block."""
    return size * rng.poisson(rate * 1000 / size, blocks)


@pytest.mark.parametrize(("rate", "size"), [(0.02, 1), (0.02, 10), (0.002, 4), (0.05, 50)])
def test_the_truth_lies_within_about_as_often_as_promised(rate, size):
    rng = np.random.default_rng(7)
    found = [uncertain(blocks_of(in_clumps(rng, rate, size))).interval("any") for _ in range(300)]
    covered = sum(low <= 100 * rate <= high for low, high in found)
    assert covered > 0.9 * 300


def test_where_none_was_seen_the_bound_knows_that_violations_come_together():
    """A network that has ten violations at a time hides them ten times better than the rule of three believes."""
    rng = np.random.default_rng(3)
    rate, size = 1.5e-4, 10
    of_arrival_order = clumping([blocks_of(in_clumps(rng, 0.05, size))], "any")
    assert 5 < of_arrival_order < 20
    tries = [in_clumps(rng, rate, size) for _ in range(2000)]
    unseen = [blocks_of(one) for one in tries if not one.sum()]
    assert len(unseen) > 0.5 * 2000  # though three in 40,000 is half of the true rate
    assert 100 * rate > 300 / 40_000
    low, high = uncertain(unseen[0], of_arrival_order).interval("any")
    assert low == 0
    assert high == pytest.approx(100 * 3 * of_arrival_order / 40_000)
    assert high > 100 * rate


def test_what_was_seen_once_may_be_several_times_as_much():
    low, high = uncertain(blocks_of([1] + 39 * [0]), 1.0).interval("any")
    assert low == 0
    assert 100 * 5.5 / 40_000 < high < 100 * 6 / 40_000  # Garwood: 5.57


def test_few_blocks_say_nothing():
    assert uncertain(blocks_of([1, 2, 3, 4])).interval("any") is None
    assert uncertain(blocks_of([0, 0, 0, 0, 5, 5], delivered=[0, 0, 9, 9, 9, 9])).interval("any") is None


def test_answers_are_always_the_same_and_holds_have_intervals_too():
    blocks = blocks_of(20 * [1], ticks=np.arange(20) * 1000)
    one = uncertain(blocks)
    low, high = one.interval(HOLD)
    assert low < share(blocks, HOLD) == 9.5 < high
    assert uncertain(blocks.copy()).interval(HOLD) == (low, high)


def test_runs_together_have_all_blocks_and_the_larger_clumps():
    many = pooled([uncertain(blocks_of(20 * [2]), 3.0), uncertain(blocks_of(10 * [8]), 7.0)])
    assert share(many.least, "any") == pytest.approx(100 * 4 / 1000)
    assert many.clumps["any"] == 7.0


def test_blocks_are_equal_and_much_longer_than_the_horizon():
    assert len(block_begins(0, 10**6, 50)) == 64
    begins = block_begins(100, 100 + 2000, 41)
    assert len(begins) == 12
    assert min(np.diff(begins)) >= 4 * 41
    assert block_begins(5, 6, 41).tolist() == [5]
    assert block_begins(-(1 << 60), 1 << 60, 41)[0] == -(1 << 60)
