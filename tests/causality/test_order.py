"""The clock modulo B, deadlines, and the total order."""

from functools import partial
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.order import Message, Stamp, deadline, key, unwrap
from tests.causality.oracles import exact_deadline, least_modulus, less

ticks = st.integers(-1000, 1 << 33)
spans = st.integers(1, 300)


@given(now=ticks, epsilon=spans, delta=spans, spare=st.integers(0, 40), data=st.data())
def test_unwrap_is_exact_wherever_a_legal_stamp_can_lie(now, epsilon, delta, spare, data):
    modulus = least_modulus(epsilon, delta) + spare
    value = data.draw(st.integers(now - delta - epsilon, now + epsilon))
    assert unwrap(value % modulus, now, epsilon, modulus) == value


@given(now=ticks, epsilon=spans, modulus=st.integers(1, 1000), field=st.integers(0, 1000))
def test_unwrap_stays_in_its_window_and_congruent(now, epsilon, modulus, field):
    value = unwrap(field, now, epsilon, modulus)
    assert now + epsilon - modulus + 1 <= value <= now + epsilon
    assert (value - field) % modulus == 0


@given(now=ticks, epsilon=spans, delta=spans)
def test_one_residue_less_and_some_legal_stamp_is_misread(now, epsilon, delta):
    modulus = least_modulus(epsilon, delta) - 1
    oldest = now - delta - epsilon
    assert unwrap(oldest % modulus, now, epsilon, modulus) == now + epsilon != oldest


def test_the_least_modulus_is_as_stated():
    assert least_modulus(10, 10) == 31
    assert least_modulus(5, 20) == 31


@given(r=ticks, c=st.integers(0, 300), phi=st.integers(0, 100), epsilon=spans, delta=spans)
def test_deadline_is_exact(r, c, phi, epsilon, delta):
    stamp = Stamp(r, c, ())
    assert deadline(stamp, phi, epsilon, delta) == exact_deadline(stamp, phi, epsilon, delta)


def test_deadline_rounds_up():
    assert deadline(Stamp(100, 0, ()), 50, 2, 3) == 103
    assert deadline(Stamp(100, 0, ()), 1, 2, 3) == 101
    assert deadline(Stamp(100, 0, ()), 0, 2, 3) == 100
    assert deadline(Stamp(100, 1, ()), 100, 2, 3) == 106


small_messages = st.builds(
    partial(Message, in_sync=True, data=b"", above=0, token=None),
    source=st.integers(0, 2),
    sequence=st.integers(0, 2),
    stamp=st.builds(
        Stamp, st.integers(0, 2), st.integers(0, 2), st.tuples(st.integers(0, 1), st.integers(0, 1))
    ),
)


@given(st.lists(small_messages, min_size=1, max_size=6, unique_by=lambda m: (m.source, m.sequence)))
def test_less_is_a_strict_total_order(messages):
    for a in messages:
        assert not less(a, a)
    for a, b in permutations(messages, 2):
        assert less(a, b) != less(b, a)
    for a, b, c in permutations(messages, 3):
        assert less(a, c) or not (less(a, b) and less(b, c))


def test_less_compares_the_top_then_the_entries_then_the_mote_then_the_sequence():
    ascending = [
        Message(9, 9, Stamp(5, 0, (9, 9))),
        Message(9, 9, Stamp(4, 2, (1, 9))),
        Message(9, 9, Stamp(6, 0, (2, 3))),
        Message(3, 9, Stamp(5, 1, (2, 4))),
        Message(4, 7, Stamp(5, 1, (2, 4))),
        Message(4, 8, Stamp(3, 3, (2, 4))),
    ]
    assert all(less(a, b) for a, b in pairwise(ascending))


def test_ties_by_arrival_leave_the_sequence_out():
    first, second = Message(1, 1, Stamp(5, 0, ())), Message(1, 2, Stamp(5, 0, ()))
    assert key(first) < key(second)
    assert key(first, "arrival") == key(second, "arrival")
    assert key(first, "arrival") < key(Message(2, 0, Stamp(5, 0, ())), "arrival")


@pytest.mark.parametrize(("r", "c"), [(7, 0), (7, 3)])
def test_top_is_the_largest_clock_known(r, c):
    assert Stamp(r, c, (1,)).top == r + c
