"""The clock modulo B, deadlines, and the total order."""

from itertools import pairwise

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


@given(now=ticks, epsilon=spans, delta=spans)
def test_one_residue_less_and_some_legal_stamp_is_misread(now, epsilon, delta):
    modulus = least_modulus(epsilon, delta) - 1
    oldest = now - delta - epsilon
    assert unwrap(oldest % modulus, now, epsilon, modulus) == now + epsilon != oldest


@given(r=ticks, c=st.integers(0, 300), phi=st.integers(0, 100), epsilon=spans, delta=spans)
def test_deadline_is_exact(r, c, phi, epsilon, delta):
    stamp = Stamp(r, c, ())
    assert deadline(stamp, phi, epsilon, delta) == exact_deadline(stamp, phi, epsilon, delta)


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
