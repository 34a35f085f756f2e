"""One number for all: the clock, the number on the wire, and the rule that delivers the next number."""

from basestation.causality.order import Message, Stamp
from basestation.causality.schemes.scalar import Scalar
from basestation.causality.schemes.scheme import Setting

PATIENCE = 4
SCHEME = Scalar(Setting(motes=3, epsilon=1, delta=1, give_up=PATIENCE))


def message(source: int, number: int) -> Message:
    return Message(source, 1, Stamp(0, 0, (number,)))


def sources(deliveries) -> list[int]:
    return [delivery.message.source for delivery in deliveries]


def test_every_message_moves_the_clock_on():
    program = SCHEME.start(0)
    assert program.on_send(0, 1).kn == (1,)
    program.on_receive(0, [message(1, 7), message(2, 5)])
    assert program.on_send(0, 2).kn == (8,)
    program.on_receive(0, [message(1, 3)])
    assert program.on_send(0, 3).kn == (9,)


def test_the_number_travels_modulo_256():
    assert SCHEME.codec().encode(Stamp(0, 0, (260,)), 0, 1) == (4,)
    reader = SCHEME.codec().reader()
    fields = [250, 4, 255, 10]
    assert [reader.read((field,), 0, 1, 0).kn for field in fields] == [(250,), (260,), (255,), (266,)]


def test_a_missing_number_is_given_up():
    rule = SCHEME.rule()
    rule.receive(message(2, 3), 0)
    assert rule.due(PATIENCE) == []
    (delivery,) = rule.due(PATIENCE + 1)
    assert delivery.missing == ((-1, 1), (-1, 2))


def test_a_network_at_work_begins_with_the_number_that_comes_first():
    rule = SCHEME.rule()
    rule.begin()
    rule.receive(message(0, 41), 0)
    rule.receive(message(1, 43), 0)
    assert sources(rule.due(0)) == [0]
