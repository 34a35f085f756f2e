"""Delta-causal order in one vector: the one column of BMR's matrix that broadcast needs.

A broadcast goes to every receiver at once, so all columns of the matrix are the same. The rule and its deliveries are
BMR's, in an n-th of the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

from .age_codec import AgesCodec, AgesScheme
from .delta_causal import DeltaCausalRule
from .scheme import LONG_AGO, Program, StampCodec


class DeltaVector(AgesScheme):
    name = "delta-vector"

    def start(self, mote: int) -> Program:
        return DeltaVectorProgram(self.setting.motes, mote)

    def codec(self) -> StampCodec:
        return DeltaVectorCodec(self.setting)

    def rule(self) -> Rule:
        return DeltaVectorRule(self.setting)

    def known(self, stamp: Stamp) -> Sequence[int]:
        return stamp.kn

    def stamp_bits(self, stamp: Stamp) -> int:
        return self.setting.clock_bits + self.setting.motes * self.setting.age_bits


class DeltaVectorProgram:
    """Keeps when each mote last sent, as far as this mote knows."""

    def __init__(self, motes: int, me: int) -> None:
        self._me = me
        self._sent = [LONG_AGO] * motes

    def on_send(self, rt: int, number: int) -> Stamp:
        stamp = Stamp(rt, 0, tuple(self._sent))
        self._sent[self._me] = max(self._sent[self._me], rt)
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.in_sync:
                self._sent = list(map(max, self._sent, message.stamp.kn))
                self._sent[message.source] = max(self._sent[message.source], message.stamp.r)


class DeltaVectorRule(DeltaCausalRule):
    """Delivers by BMR's condition, with the whole stamp as the observer's column."""

    def _sent_here(self, message: Message) -> tuple[int, ...]:
        return message.stamp.kn


class DeltaVectorCodec(AgesCodec):
    """Writes the age of each mote's newest message."""

    def pack(self, kn: Sequence[int], source: int) -> Sequence[int]:
        return kn

    def unpack(self, sent: Sequence[int], source: int, r: int) -> Sequence[int]:
        return sent


SCHEME = DeltaVector
