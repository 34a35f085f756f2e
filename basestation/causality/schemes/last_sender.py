"""The name of the last message received (DEW's last-sender stamp): the rule waits for that message.

It names only the latest of several causes, and none of the sender's own earlier messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from basestation.causality.causal_graph import Causes
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .names import NamesCodec, names_in
from .scheme import COUNTER_BITS, Program, Scheme, StampCodec
from .waiting import WaitingByName


class LastSender(Scheme):
    name = "last-sender"

    def start(self, mote: int) -> Program:
        return LastSenderProgram()

    def codec(self) -> StampCodec:
        return NamesCodec(1)

    def rule(self) -> Rule:
        return LastSenderRule(self.setting)

    def causes(self, message: Message, sent: int) -> Causes:
        return Causes(names_in(message.stamp), gap=sent + self.reach)

    def stamp_bits(self, stamp: Stamp) -> int:
        return self.setting.source_bits + COUNTER_BITS


class LastSenderProgram:
    """Keeps the name of the last message received."""

    def __init__(self) -> None:
        self._last: tuple[int, ...] = ()

    def on_send(self, rt: int, number: int) -> Stamp:
        return Stamp(0, 0, self._last)

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        self._last = (messages[-1].source, messages[-1].number)


class LastSenderRule(WaitingByName):
    """Delivers a message after the one that its stamp names."""

    def _causes(self, message: Message) -> Iterator[Name]:
        if message.stamp.kn:
            source, number = message.stamp.kn
            if not self._gone.has(source, number):
                yield source, number


SCHEME = LastSender
