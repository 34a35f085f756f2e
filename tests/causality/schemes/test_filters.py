"""The filters: every step traced, another method at run time, motes that come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from basestation.causality.order import Message
from basestation.causality.policies import Delivery
from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.causality.schemes.filters import ReceiveFilter, SendFilter
from basestation.causality.schemes.notices import (
    Buffered,
    ConcurrentNotice,
    Delivered,
    DiscardNotice,
    GiveUpNotice,
    Received,
    Stamped,
    Step,
)
from packet_formats.schemes import descriptor, names

SETTING = Setting(motes=3, epsilon=1, delta=5)

UNTIMED = ["none", *(name for name in names() if not descriptor(name).is_ordered)]


class Network:
    """Three motes and an observer. The link keeps what is sent until the test lets it arrive."""

    def __init__(self, name: str, observe: str | None = None) -> None:
        self.steps: list[Step] = []
        self.link: list[Message] = []
        self.shown: list[bytes] = []
        method = make_scheme(name, SETTING)
        self.motes = [SendFilter(method, mote, self.link.append, self.steps.append) for mote in range(3)]
        observed = make_scheme(observe or name, SETTING)
        self.observer = ReceiveFilter(observed, self._show, self.steps.append)

    def _show(self, delivery: Delivery) -> None:
        self.shown.append(delivery.message.data)

    def send(self, mote: int, data: bytes, now: int) -> Message:
        self.motes[mote].send(data, now)
        return self.link[-1]

    def trace(self) -> list[tuple[type[Step], bytes]]:
        return [(type(step), step.message.data) for step in self.steps]


@pytest.fixture
def question() -> Callable[[str], tuple[Network, Message, Message]]:
    """DEW's example: b's answer comes before a's question."""

    def ask(name: str) -> tuple[Network, Message, Message]:
        network = Network(name)
        asked = network.send(0, b"Done?", 1)
        network.motes[1].hear([asked], 2)
        return network, asked, network.send(1, b"Yes", 2)

    return ask


def test_each_step_is_traced(question):
    network, asked, answered = question("vector")
    network.observer.receive([answered], 3)
    network.observer.receive([asked], 4)
    assert network.shown == [b"Done?", b"Yes"]
    assert network.trace() == [
        (Stamped, b"Done?"),
        (Stamped, b"Yes"),
        (Received, b"Yes"),
        (Buffered, b"Yes"),
        (Received, b"Done?"),
        (Delivered, b"Done?"),
        (Delivered, b"Yes"),
    ]
    assert [step.at for step in network.steps] == [1, 2, 3, 3, 4, 4, 4]


def test_concurrent_messages_and_lost_ones_are_traced(question):
    network, _, answered = question("vector")
    other = network.send(2, b"Lunch?", 2)
    network.observer.receive([other, answered], 3)
    network.observer.tick(100)
    assert network.shown == [b"Lunch?", b"Yes"]
    (given_up,) = [step for step in network.steps if isinstance(step, GiveUpNotice)]
    assert (given_up.missing, given_up.at) == (((0, 1),), 3 + 6 + 1)
    assert (ConcurrentNotice, b"Yes") in network.trace()


def test_a_message_beyond_its_lifetime_is_traced_and_not_held(question):
    network, asked, _ = question("delta-causal")
    network.observer.receive([asked], 99)
    assert network.trace()[-2:] == [(Received, b"Done?"), (DiscardNotice, b"Done?")]
    assert network.observer.next_due() is None


@pytest.mark.parametrize("name", UNTIMED)
def test_application_and_link_see_no_difference(name):
    network = Network(name)
    sent = [network.send(mote, bytes([mote, number]), number) for number in range(4) for mote in range(3)]
    for number, message in enumerate(sent):
        network.observer.receive([message], number // 3 + 1)
    network.observer.tick(100)
    assert sorted(network.shown) == sorted(message.data for message in sent)
    assert network.observer.next_due() is None


def test_another_method_takes_over_what_is_held(question):
    network, asked, answered = question("vector")
    network.observer.receive([answered], 3)
    assert network.shown == []
    network.observer.replace(make_scheme("none", SETTING), 3)
    assert network.shown == [b"Yes"]
    network.observer.receive([asked], 4)
    assert network.shown == [b"Yes", b"Done?"]


def test_a_new_method_does_not_wait_for_what_was_delivered_under_the_old_one():
    network = Network("vector", observe="none")
    first = network.send(0, b"1", 1)
    network.observer.receive([first], 2)
    network.observer.replace(make_scheme("vector", SETTING), 3)
    second = network.send(0, b"2", 4)
    third = network.send(0, b"3", 5)
    network.observer.receive([third], 6)
    assert network.shown == [b"1"]
    network.observer.receive([second], 7)
    assert network.shown == [b"1", b"2", b"3"]


def test_a_mote_stamps_by_another_method_and_its_numbers_go_on(question):
    network, asked, _ = question("vector")
    method: Scheme = make_scheme("last-sender", SETTING)
    network.motes[1].replace(method)
    network.motes[1].hear([asked], 3)
    message = network.send(1, b"Well", 4)
    assert (message.sequence, message.stamp.kn) == (2, (0, 1))


def test_a_mote_that_comes_late_is_not_waited_for_from_its_first_message_on():
    network = Network("vector")
    for number in range(1, 4):
        network.send(0, bytes([number]), number)
    network.observer.join(0, 3)
    network.observer.receive([network.link[2]], 4)
    assert network.shown == [bytes([3])]


def test_nobody_waits_for_a_mote_that_has_gone(question):
    network, _, answered = question("vector")
    network.observer.receive([answered], 3)
    network.observer.leave(0)
    network.observer.tick(3)
    assert network.shown == [b"Yes"]
    network.observer.join(0, 2)
    again = [network.send(0, data, 5) for data in (b"Back", b"Here")]
    network.observer.receive([again[1]], 6)
    assert network.shown == [b"Yes"]
    network.observer.receive([again[0]], 6)
    assert network.shown == [b"Yes", b"Back", b"Here"]


def test_who_has_gone_stays_gone_under_a_new_method(question):
    network, _, answered = question("vector")
    network.observer.leave(0)
    network.observer.replace(make_scheme("vector", SETTING), 2)
    network.observer.receive([answered], 3)
    assert network.shown == [b"Yes"]


def test_ours_need_not_know_who_is_there(question):
    network, asked, _ = question("dpc1")
    network.observer.leave(0)
    network.observer.join(0, 7)
    network.observer.receive([asked], 2)
    network.observer.tick(100)
    assert network.shown == [b"Done?"]
