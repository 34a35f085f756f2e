"""One number for all motes: a logical clock that every message advances (DEW's global scalar id).

Several messages may have the same number, and the observer does not know how many. So where messages are concurrent,
the next number may leave before a second message with the same number as the last. Such messages are reported as
concurrent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from basestation.causality.causal_graph import AHEAD
from basestation.causality.modular import nearest
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import NEVER, Name, Rule

from .holding import Held, Holding, since
from .scheme import (
    COUNTER_BITS,
    ROUND,
    Fields,
    Program,
    Scheme,
    Setting,
    StampCodec,
    StampReader,
)

EVERYBODY = -1  # the source in a name: all motes share one series of numbers


class Scalar(Scheme):
    name = "scalar"

    def start(self, mote: int) -> Program:
        return ScalarProgram()

    def codec(self) -> StampCodec:
        return ScalarCodec()

    def rule(self) -> Rule:
        return ScalarRule(self.setting)

    def stamp_bits(self, stamp: Stamp) -> int:
        return COUNTER_BITS


class ScalarProgram:
    """A logical clock: a send advances it, a receive takes the larger value."""

    def __init__(self) -> None:
        self._number = 0

    def on_send(self, rt: int, number: int) -> Stamp:
        self._number += 1
        return Stamp(0, 0, (self._number,))

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        self._number = max(self._number, *(message.stamp.kn[0] for message in messages))


class ScalarRule(Holding):
    """Delivers the next number. A message with a number already delivered is concurrent and leaves at once."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._patience = setting.patience
        self._number, self._begun = 0, True
        self._missed: dict[Name, int] = {}

    def begin(self) -> None:
        self._begun = False

    def receive(self, message: Message, now: int) -> bool:
        if not self._begun:
            self._number, self._begun = message.stamp.kn[0] - 1, True
        return super().receive(message, now)

    def _name(self, message: Message) -> Name:
        return EVERYBODY, message.stamp.kn[0]

    def _order(self, message: Message) -> tuple[int, ...]:
        return (*message.stamp.kn, message.source, message.number)

    def _names(self, message: Message, now: int) -> Iterator[Name]:
        for number in range(self._number + 1, message.stamp.kn[0]):
            self._missed.setdefault((EVERYBODY, number), since(message, now))
            yield EVERYBODY, number

    def _settled(self, name: Name) -> bool:
        return name[1] <= self._number

    def _expires(self, name: Name, here: bool) -> int:
        return NEVER if here else self._missed[name] + self._patience + 1

    def _is_concurrent(self, message: Message) -> bool:
        return message.stamp.kn[0] <= self._number

    def _leaves(self, held: Held, at: int) -> bool:
        self._number = max(self._number, held.message.stamp.kn[0])
        self._missed = {name: missed for name, missed in self._missed.items() if not self._settled(name)}
        return False


class ScalarCodec(StampCodec):
    """Writes the one number, modulo 256."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return (stamp.kn[0] % ROUND,)

    def reader(self) -> StampReader:
        return ScalarReader()


class ScalarReader(StampReader):
    def __init__(self) -> None:
        super().__init__()
        self._largest: int | None = None

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        (field,) = fields
        if self._largest is None:
            self._largest = field
        value = nearest(field, self._largest, ROUND)
        if value > self._largest + AHEAD and not self._confirmed(EVERYBODY, value, source):
            self.bounded += 1
            value = self._largest
        self._largest = max(value, self._largest)
        return Stamp(0, 0, (value,))


SCHEME = Scalar
