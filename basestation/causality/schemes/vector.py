"""A counter for each mote: causal broadcast (DEW's vector time stamps; the rule of Birman, Schiper and Stephenson).

The sender's own counter is its sequence number, so n - 1 of them travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .base import COUNTER_BITS, Program, Setting
from .holding import Held
from .waiting import WaitingByName


@dataclass(frozen=True, slots=True)
class Vector:
    setting: Setting
    name: ClassVar[str] = "vector"

    def start(self, mote: int) -> Program:
        return VectorClock(self.setting.motes, mote)

    def rule(self) -> Rule:
        return CausalBroadcast(self.setting)

    def bits(self, stamp: Stamp) -> int:
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
