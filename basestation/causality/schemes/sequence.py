"""FIFO by the sequence of each sender, with no order between senders (DEW's unicast numbers).

The sequence is in every message's header, so the stamp is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .scheme import NoStampCodec, NoStampProgram, Program, Scheme, StampCodec
from .waiting import WaitingByName


class SenderOrder(Scheme):
    name = "sequence"

    def start(self, mote: int) -> Program:
        return NoStampProgram()

    def codec(self) -> StampCodec:
        return NoStampCodec()

    def rule(self) -> Rule:
        return SequenceRule(self.setting)

    def stamp_bits(self, stamp: Stamp) -> int:
        return 0


class SequenceRule(WaitingByName):
    """Delivers a message after the sender's one before it."""

    def _causes(self, message: Message) -> Iterator[Name]:
        return self._gone.up_to(message.source, message.number - 1)


SCHEME = SenderOrder
