"""One number a sender: FIFO, and nothing between senders (DEW's unicast numbers).

The number is in every message's header already, so the stamp itself is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from basestation.causality.order import Message, Stamp
from basestation.causality.policies import Policy

from .notices import Name, Notice, ignore
from .scheme import NoStamp, Program, Scheme, Silent, StampCodec
from .waiting import WaitingByName


class SenderOrder(Scheme):
    name = "sequence"

    def start(self, mote: int) -> Program:
        return Silent()

    def codec(self) -> StampCodec:
        return NoStamp()

    def rule(self, notice: Notice = ignore) -> Policy:
        return Fifo(self.setting, notice)

    def stamp_bits(self, stamp: Stamp) -> int:
        return 0


class Fifo(WaitingByName):
    """After the one before it of the same sender."""

    def _causes(self, message: Message) -> Iterator[Name]:
        return self._gone.up_to(message.source, message.sequence - 1)


SCHEME = SenderOrder
