"""A counter for each mote: causal broadcast (DEW's vector time stamps; the rule of Birman, Schiper and Stephenson).

The sender's own counter is its sequence number, so n - 1 of them travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from basestation.causality.causal_graph import Causes
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .holding import Held
from .scheme import COUNTER_BITS, ROUND, Fields, Program, Scheme, Setting, StampCodec, StampReader
from .waiting import WaitingByName


class Vector(Scheme):
    name = "vector"

    def start(self, mote: int) -> Program:
        return VectorProgram(self.setting.motes, mote)

    def codec(self) -> StampCodec:
        return VectorCodec(self.setting.motes)

    def rule(self) -> Rule:
        return VectorRule(self.setting)

    def causes(self, message: Message, sent: int) -> Causes:
        return counted(message.stamp.kn, message.source, sent + self.reach)

    def stamp_bits(self, stamp: Stamp) -> int:
        return (self.setting.motes - 1) * COUNTER_BITS


def counted(kn: Sequence[int], source: int, latest: int) -> Causes:
    """The causes that a count for each mote gives, all that led to the message. A mote not heard yet reads as 0."""
    others = [(mote, number) for mote, number in enumerate(kn) if mote != source]
    return Causes(
        [name for name in others if name[1]],
        gap=latest,
        unsure=[mote for mote, number in others if not number],
        whole=True,
    )


class VectorProgram:
    """Keeps how many messages of each mote are known."""

    def __init__(self, motes: int, me: int) -> None:
        self._me = me
        self._known = [0] * motes

    def on_send(self, rt: int, number: int) -> Stamp:
        self._known[self._me] = number
        return Stamp(0, 0, tuple(self._known))

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self._known = list(map(max, self._known, message.stamp.kn))


class VectorRule(WaitingByName):
    """Delivers a message after everything its sender knew. If anything else was delivered too, it is concurrent."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._delivered = [0] * setting.motes

    def _causes(self, message: Message) -> Iterator[Name]:
        for source, known in enumerate(message.stamp.kn):
            yield from self._gone.up_to(source, known - (source == message.source))

    def _is_concurrent(self, message: Message) -> bool:
        return any(map(int.__gt__, self._delivered, message.stamp.kn))

    def _leaves(self, held: Held, at: int) -> bool:
        message = held.message
        self._delivered[message.source] = max(self._delivered[message.source], message.number)
        return super()._leaves(held, at)


class VectorCodec(StampCodec):
    """Writes a counter for each mote but the sender, whose own is in the header."""

    def __init__(self, motes: int) -> None:
        self._motes = motes

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return tuple(known % ROUND for mote, known in enumerate(stamp.kn) if mote != source)

    def reader(self) -> StampReader:
        return VectorReader(self._motes)


class VectorReader(StampReader):
    def __init__(self, motes: int) -> None:
        super().__init__()
        self._motes = motes

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        others = [mote for mote in range(self._motes) if mote != source]
        known = {mote: self._number(mote, field, source) for mote, field in zip(others, fields, strict=True)}
        known[source] = number
        return Stamp(0, 0, tuple(known[mote] for mote in range(self._motes)))


SCHEME = Vector
