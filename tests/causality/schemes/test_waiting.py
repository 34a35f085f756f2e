"""Waiting for messages by source and number, with a rule of the test's own that names them one by one."""

from collections.abc import Iterator

import pytest

from basestation.causality.causal_graph import AHEAD
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name
from basestation.causality.schemes.names import names_in
from basestation.causality.schemes.scheme import Setting
from basestation.causality.schemes.waiting import MEMORY, Settled, WaitingByName

PATIENCE = 5


class AfterItsNames(WaitingByName):
    def _causes(self, message: Message) -> Iterator[Name]:
        return (name for name in names_in(message.stamp) if not self._gone.has(*name))


@pytest.fixture
def rule() -> AfterItsNames:
    return AfterItsNames(Setting(motes=3, epsilon=1, delta=1, give_up=PATIENCE))


def message(source: int, number: int, *after: Name) -> Message:
    return Message(source, number, Stamp(0, 0, tuple(value for name in after for value in name)))


def names_of(deliveries) -> list[Name]:
    return [(one.message.source, one.message.number) for one in deliveries]


def test_its_own_name_is_not_waited_for(rule):
    rule.receive(message(1, 1, (1, 1)), 0)
    assert names_of(rule.due(0)) == [(1, 1)]


def test_a_missing_message_is_given_up_for_all_that_wait_for_it(rule):
    """The time runs from when it was first missed."""
    rule.receive(message(1, 1, (0, 1)), 0)
    rule.receive(message(2, 1, (0, 1)), 4)
    assert rule.due(PATIENCE) == []
    deliveries = rule.due(PATIENCE + 1)
    assert names_of(deliveries) == [(1, 1), (2, 1)]
    assert [one.missing for one in deliveries] == [((0, 1),), ()]
    rule.receive(message(0, 1), 9)
    assert [one.late for one in rule.due(9)] == [True]


def test_no_message_waits_longer_than_the_time_to_give_up_in(rule):
    """Each names what never comes, and comes just in time for the one before it: a liar may go on like that."""
    for step in range(20):
        rule.receive(message(step % 2, step + 1, ((step + 1) % 2, step + 2), (2, step + 1)), 4 * step)
    deliveries = rule.due(1000)
    assert len(deliveries) == 20
    assert max(one.left - one.arrived for one in deliveries) <= PATIENCE + 1


def test_an_overdue_message_leaves_after_its_held_causes(rule):
    rule.receive(message(1, 1, (0, 1)), 0)
    rule.receive(message(0, 1, (2, 1)), 3)
    assert [(one.message.source, one.leaves) for one in rule.pending()] == [(0, 6), (1, 6)]
    deliveries = rule.due(100)
    assert [(one.message.source, one.left, one.missing) for one in deliveries] == [
        (0, 6, ((2, 1),)),
        (1, 6, ()),
    ]
    assert rule.late == 0


def test_messages_sent_before_a_mote_joined_are_not_awaited(rule):
    rule.receive(message(1, 1, (0, 3)), 0)
    rule.join(0, 4)
    assert names_of(rule.due(0)) == [(1, 1)]
    rule.receive(message(1, 2, (0, 4)), 1)
    assert rule.due(1) == []


def test_a_mote_that_has_left_is_not_awaited(rule):
    rule.receive(message(1, 1, (0, 3)), 0)
    rule.leave(0)
    assert names_of(rule.due(0)) == [(1, 1)]


def test_a_running_network_begins_without_awaited_messages(rule):
    rule.begin()
    rule.receive(message(1, 9, (0, 3), (2, 8)), 0)
    assert names_of(rule.due(0)) == [(1, 9)]


def test_settled_numbers_are_those_added_and_all_below_the_floor():
    settled = Settled(2)
    for number in (2, 4, 1):
        settled.add(0, number)
    assert [settled.has(0, number) for number in range(6)] == [True, True, True, False, True, False]
    assert not settled.has(1, 1)
    assert list(settled.up_to(0, 6)) == [(0, 3), (0, 5), (0, 6)]
    assert list(settled.among(0, 1 << 2 | 1 << 3 | 1 << 6)) == [(0, 3), (0, 6)]


def test_settled_numbers_far_back_are_forgotten():
    settled = Settled(1)
    settled.add(0, 2)
    settled.add(0, MEMORY + 5)
    assert settled.has(0, 5)
    assert not settled.has(0, 6)
    assert list(settled.up_to(0, 10_000)) == [(0, 10_000 - AHEAD + 1 + place) for place in range(AHEAD)]


def test_a_source_may_start_anew():
    settled = Settled(1)
    settled.add(0, 9)
    settled.start_at(0, 5)
    assert [settled.has(0, number) for number in (4, 5, 9)] == [True, False, False]
