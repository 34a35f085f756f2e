"""The common part of rules that wait for particular messages, with a rule of the test's own.

A message here is a letter's number; its stamp holds the numbers it waits for. Each name expires two ticks after it was
first asked for, unless it is in the buffer.
"""

from collections.abc import Iterator

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import NEVER, Delivery, Name
from basestation.causality.schemes import holding
from basestation.causality.schemes.holding import Held, Holding

PATIENCE = 2


class Letters(Holding):
    def __init__(self, longest: int = NEVER, earliest: int = 0) -> None:
        super().__init__()
        self.gone: set[int] = set()
        self.missed: dict[Name, int] = {}
        self.most, self.least = longest, earliest

    def _name(self, message: Message) -> Name:
        return 0, message.number

    def _names(self, message: Message, now: int) -> Iterator[Name]:
        for number in message.stamp.kn:
            if number not in self.gone:
                self.missed.setdefault((0, number), now)
                yield 0, number

    def _settled(self, name: Name) -> bool:
        return name[1] in self.gone

    def _expires(self, name: Name, here: bool) -> int:
        return NEVER if here else self.missed[name] + PATIENCE

    def _earliest(self, message: Message, now: int) -> int:
        return now + self.least

    def _longest(self, held: Held) -> int:
        return min(held.arrived + self.most, NEVER)

    def _too_late(self, message: Message, now: int) -> bool:
        return message.data == b"stale"

    def _leaves(self, held: Held, at: int) -> bool:
        late = held.message.number in self.gone
        self.gone |= {held.message.number, *(number for _, number in held.missing)}
        return late


def letter(number: int, *after: int, data: bytes = b"") -> Message:
    return Message(0, number, Stamp(0, 0, after), data=data)


def brief(deliveries: list[Delivery]) -> list[tuple[int, int]]:
    return [(delivery.message.number, delivery.left) for delivery in deliveries]


def test_a_message_that_waits_for_nothing_leaves_at_once():
    rule = Letters()
    assert rule.next_due() is None
    assert rule.receive(letter(1), 5)
    assert rule.next_due() == 5
    assert brief(rule.due(5)) == [(1, 5)]
    assert rule.next_due() is None


def test_messages_leave_when_what_they_name_has_left():
    rule = Letters()
    rule.receive(letter(3, 2), 0)
    rule.receive(letter(2, 1), 1)
    assert rule.due(1) == []
    assert [(one.message.number, one.missing) for one in rule.pending()] == [(2, ((0, 1),)), (3, ((0, 2),))]
    rule.receive(letter(1), 2)
    assert brief(rule.due(2)) == [(1, 2), (2, 2), (3, 2)]
    assert rule.pending() == []


def test_a_late_cause_is_pending_above_its_effects(monkeypatch):
    rule = Letters(longest=20)
    rule.receive(letter(3, 2), 0)
    rule.receive(letter(5, 4), 1)
    rule.receive(letter(2, 1), 1)
    assert [(one.message.number, one.leaves) for one in rule.pending()] == [(5, 3), (2, 3), (3, 3)]
    monkeypatch.setattr(holding, "FEW", 2)
    assert [(one.message.number, one.leaves) for one in rule.pending()] == [(5, 3), (2, 3), (3, 20)]
    assert brief(rule.due(20)) == [(5, 3), (2, 3), (3, 3)]


def test_a_name_expires_and_the_delivery_says_what_was_missing():
    rule = Letters()
    rule.receive(letter(2, 1), 0)
    assert rule.next_due() == PATIENCE
    (delivery,) = rule.due(10)
    assert (delivery.arrived, delivery.left, delivery.missing) == (0, PATIENCE, ((0, 1),))


def test_a_name_that_is_in_the_buffer_does_not_expire():
    """2 itself waits until tick 3 for 1, so 3 waits with it, longer than for one that is nowhere."""
    rule = Letters()
    rule.receive(letter(3, 2), 0)
    rule.receive(letter(2, 1), 1)
    assert brief(rule.due(10)) == [(2, 1 + PATIENCE), (3, 1 + PATIENCE)]


def test_a_circle_of_two_is_none():
    rule = Letters(longest=7)
    rule.receive(letter(1, 2), 0)
    rule.receive(letter(2, 1), 1)
    assert brief(rule.due(1)) == [(1, 1), (2, 1)]


def test_a_circle_is_broken_by_the_longest_wait():
    rule = Letters(longest=7)
    rule.receive(letter(1, 2), 0)
    rule.receive(letter(2, 3), 1)
    rule.receive(letter(3, 1), 1)
    assert rule.due(6) == []
    assert sorted(brief(rule.due(7))) == [(1, 7), (2, 7), (3, 7)]


def test_nothing_leaves_before_its_earliest_tick():
    rule = Letters(earliest=4)
    rule.receive(letter(1), 1)
    assert rule.next_due() == 5
    assert brief(rule.due(5)) == [(1, 5)]


def test_a_message_of_no_use_is_refused_and_counted():
    rule = Letters()
    assert not rule.receive(letter(1, data=b"stale"), 0)
    assert (rule.late, rule.due(9)) == (1, [])
