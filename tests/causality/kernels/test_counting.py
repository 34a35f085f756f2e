"""Violated pairs counted in arrays, against all pairs of small random streams."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from basestation.causality.kernels.counting import Counts, count_pairs, first_sends
from basestation.causality.truth import Send
from tests.causality.kernels.streams import random_sends
from tests.causality.oracles import brute_force


def counted(sends: list[Send], order: list[int]) -> Counts:
    sent_by = np.array([send.source for send in sends], np.int32)
    return count_pairs(
        np.array(order, np.int64),
        sent_by,
        np.array([send.index for send in sends], np.int32),
        np.array([send.vector for send in sends], np.int32),
        first_sends(np.bincount(sent_by, minlength=len(sends[0].vector))),
    )


def test_a_row_has_a_slot_for_no_send():
    assert first_sends(np.array([2, 0, 3])).tolist() == [0, 3, 4, 8]


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_all_pairs(seed):
    """Near and far out of order, with and without losses."""
    random = Random(seed)
    sends = random_sends(random, motes=2 + seed % 4, count=60)
    kept = [i for i in range(len(sends)) if random.random() < (1, 0.7)[seed % 2]]
    order = sorted(kept, key=lambda i: i + random.uniform(0, (6, 10, 100)[seed % 3]))
    counts = counted(sends, order)
    expected = brute_force([sends[i] for i in order])
    assert {"delivered": len(order), **dict(zip(Counts._fields[:5], counts[:5], strict=True))} == expected
    assert counts.pairs > 0


def test_the_flags_say_which_messages():
    """Mote 0 sends a; mote 1 receives it and sends b; mote 2 sends c, which no mote knows. Delivered: c, b, a."""
    a, b, c = Send(0, 1, (1, 0, 0)), Send(1, 1, (1, 1, 0)), Send(2, 1, (0, 0, 1))
    counts = counted([a, b, c], [2, 1, 0])
    assert counts.overtaken.tolist() == [True, False, False]
    assert counts.hasty.tolist() == [False, True, False]
    assert counts.any == 2
