"""A counter for each mote: causal broadcast (DEW's vector time stamps; the rule of Birman, Schiper and Stephenson).

The sender's own counter is its sequence number, so n - 1 of them travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from basestation.causality.order import Message, Stamp
from basestation.causality.policies import Policy

from .holding import Held
from .notices import ConcurrentNotice, Name, Notice, ignore
from .scheme import COUNTER_BITS, ROUND, Fields, Program, Scheme, Setting, StampCodec, StampReader
from .waiting import WaitingByName


class Vector(Scheme):
    name = "vector"

    def start(self, mote: int) -> Program:
        return VectorClock(self.setting.motes, mote)

    def codec(self) -> StampCodec:
        return CountersCodec(self.setting.motes)

    def rule(self, notice: Notice = ignore) -> Policy:
        return CausalBroadcast(self.setting, notice)

    def stamp_bits(self, stamp: Stamp) -> int:
        return (self.setting.motes - 1) * COUNTER_BITS


class VectorClock:
    def __init__(self, motes: int, me: int) -> None:
        self._me = me
        self._known = [0] * motes

    def on_send(self, rt: int, sequence: int) -> Stamp:
        self._known[self._me] = sequence
        return Stamp(0, 0, tuple(self._known))

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self._known = list(map(max, self._known, message.stamp.kn))


class CausalBroadcast(WaitingByName):
    """After everything that its sender knew of. Where something else has been delivered too, it is concurrent."""

    def __init__(self, setting: Setting, notice: Notice = ignore) -> None:
        super().__init__(setting, notice)
        self._delivered = [0] * setting.motes

    def _causes(self, message: Message) -> Iterator[Name]:
        for source, known in enumerate(message.stamp.kn):
            yield from self._gone.up_to(source, known - (source == message.source))

    def _leaves(self, held: Held, at: int) -> bool:
        late = super()._leaves(held, at)
        message = held.message
        knows = message.stamp.kn
        if any(map(int.__gt__, self._delivered, knows)):
            self._notice(ConcurrentNotice(message, at))
        self._delivered[message.source] = max(self._delivered[message.source], message.sequence)
        return late


class CountersCodec(StampCodec):
    """A counter for each mote but the sender, whose own is in the header."""

    def __init__(self, motes: int) -> None:
        self._motes = motes

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return tuple(known % ROUND for mote, known in enumerate(stamp.kn) if mote != source)

    def reader(self) -> StampReader:
        return CountersReader(self._motes)


class CountersReader(StampReader):
    def __init__(self, motes: int) -> None:
        super().__init__()
        self._motes = motes

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        others = [mote for mote in range(self._motes) if mote != source]
        known = {mote: self._number(mote, field) for mote, field in zip(others, fields, strict=True)}
        for mote, told in known.items():
            if told:
                self._hear(mote, told)
        known[source] = number
        return Stamp(0, 0, tuple(known[mote] for mote in range(self._motes)))


SCHEME = Vector
