"""Kernels that choose between two ways: both must give the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.kernels import delivery
from basestation.causality.kernels.delivery import MOST_TICKS_A_MESSAGE, dapw_order

FAR = 1 << 61  # a difference of two such ticks is still a number


@pytest.fixture
def counted(monkeypatch):
    """How often ticks were counted, not compared."""
    calls = []
    count = delivery._counted_by_tick
    monkeypatch.setattr(delivery, "_counted_by_tick", lambda *args: (calls.append(1), count(*args))[1])
    return calls


@given(
    st.lists(st.one_of(st.integers(0, 5), st.integers(-300, 300), st.integers(-FAR, FAR)), max_size=60),
    st.randoms(use_true_random=False),
)
def test_ticks_near_and_far_are_in_the_order_of_a_sort(ticks, chance):
    ranks = list(range(len(ticks)))
    chance.shuffle(ranks)
    ticks, rank = np.array(ticks, np.int64), np.array(ranks, np.int64)
    assert delivery._by_tick(ticks, rank).tolist() == np.lexsort((rank, ticks)).tolist()


@pytest.mark.parametrize(
    ("ticks", "how"),
    [
        ([7, 7, 7, 7], 1),  # the rank alone decides
        ([-3, 9, -3, 9], 1),
        ([0, 1, 2, 4 * MOST_TICKS_A_MESSAGE], 1),
        ([0, 1, 2, 4 * MOST_TICKS_A_MESSAGE + 1], 0),
        ([-FAR, FAR, 0, 0], 0),
        ([5], 1),
        ([], 0),
    ],
)
def test_near_ticks_are_counted_and_far_ticks_compared(counted, ticks, how):
    ticks = np.array(ticks, np.int64)
    rank = np.arange(len(ticks))[::-1].copy()
    assert delivery._by_tick(ticks, rank).tolist() == np.lexsort((rank, ticks)).tolist()
    assert len(counted) == how


def test_a_delivery_whose_clock_leaps_is_that_of_one_in_steps():
    """The same messages, once with a leap in the clock so large that ticks are compared."""
    draw = np.random.default_rng(3)
    count = 500
    arrived = np.sort(draw.integers(0, 200, count))
    due_at = arrived + draw.integers(-5, 30, count)
    rank = draw.permutation(count)
    later = np.where(arrived >= 100, 10**9, 0)
    due_at[(arrived < 100) & (due_at >= 100)] = 99  # no message waits across the leap
    order, left = dapw_order(rank, due_at, arrived)
    leaping, left_later = dapw_order(rank, due_at + later, arrived + later)
    assert leaping.tolist() == order.tolist()
    assert (left_later - left).tolist() == later[order].tolist()
