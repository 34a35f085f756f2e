"""One number for all: a logical clock that every message moves on (DEW's global scalar id).

It can only say that two messages have the same number, not how many have it. So where messages are concurrent, the
next number may leave before the second of two that share the last one. Those are seen, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from basestation.causality.order import Message, Stamp
from basestation.causality.policies import Policy

from .holding import Held, Holding
from .notices import ConcurrentNotice, Name, Notice, ignore
from .scheme import (
    COUNTER_BITS,
    NEVER,
    ROUND,
    Fields,
    Program,
    Scheme,
    Setting,
    StampCodec,
    StampReader,
    nearest,
)

EVERYBODY = -1


class Scalar(Scheme):
    name = "scalar"

    def start(self, mote: int) -> Program:
        return LogicalClock()

    def codec(self) -> StampCodec:
        return NumberCodec()

    def rule(self, notice: Notice = ignore) -> Policy:
        return Successor(self.setting, notice)

    def stamp_bits(self, stamp: Stamp) -> int:
        return COUNTER_BITS


class LogicalClock:
    def __init__(self) -> None:
        self._number = 0

    def on_send(self, rt: int, sequence: int) -> Stamp:
        self._number += 1
        return Stamp(0, 0, (self._number,))

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        self._number = max(self._number, *(message.stamp.kn[0] for message in messages))


class Successor(Holding):
    """The next number leaves. A number that has been is concurrent, and leaves at once."""

    def __init__(self, setting: Setting, notice: Notice = ignore) -> None:
        super().__init__(notice)
        self._patience = setting.patience
        self._number = 0
        self._missed: dict[Name, int] = {}

    def begin(self, message: Message) -> None:
        """Numbers before this message's own are not waited for."""
        self._number = message.stamp.kn[0] - 1

    def _name(self, message: Message) -> Name:
        return EVERYBODY, message.stamp.kn[0]

    def _order(self, message: Message) -> tuple[int, ...]:
        return (*message.stamp.kn, message.source, message.sequence)

    def _names(self, message: Message, now: int) -> Iterator[Name]:
        for number in range(self._number + 1, message.stamp.kn[0]):
            self._missed.setdefault((EVERYBODY, number), now)
            yield EVERYBODY, number

    def _settled(self, name: Name) -> bool:
        return name[1] <= self._number

    def _expires(self, name: Name, here: bool) -> int:
        return NEVER if here else self._missed[name] + self._patience + 1

    def _leaves(self, held: Held, at: int) -> bool:
        number = held.message.stamp.kn[0]
        if number <= self._number:
            self._notice(ConcurrentNotice(held.message, at))
        self._number = max(self._number, number)
        self._missed = {name: missed for name, missed in self._missed.items() if not self._settled(name)}
        return False


class NumberCodec(StampCodec):
    """One number for all, modulo 256."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return (stamp.kn[0] % ROUND,)

    def reader(self) -> StampReader:
        return NumberReader()


class NumberReader(StampReader):
    def __init__(self) -> None:
        super().__init__()
        self._largest: int | None = None

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        (field,) = fields
        told = field if self._largest is None else nearest(field, self._largest)
        self._largest = told if self._largest is None else max(told, self._largest)
        return Stamp(0, 0, (told,))


SCHEME = Scalar
