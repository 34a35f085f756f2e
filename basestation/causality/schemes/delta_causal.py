"""Delta-causal order (BMR figure 4): an n x n matrix of the times of sending, and a lifetime Delta.

A message that arrives within Delta is delivered within Delta and in causal order, if there is one clock and no two
causally related events share a tick. Otherwise the scheme gives no guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

from .age_codec import AgesCodec, AgesScheme
from .deadline import WithinLifetime
from .holding import Held
from .matrix import SentMatrix, Square, sent_to_observer
from .scheme import LONG_AGO, Program, Setting, StampCodec


class DeltaCausal(AgesScheme):
    name = "delta-causal"

    def start(self, mote: int) -> Program:
        return DeltaCausalProgram(self.setting.motes, mote)

    def codec(self) -> StampCodec:
        return DeltaCausalCodec(self.setting)

    def rule(self) -> Rule:
        return DeltaCausalRule(self.setting)

    def known(self, stamp: Stamp) -> Sequence[int]:
        return sent_to_observer(stamp.kn, self.setting.motes)

    def stamp_bits(self, stamp: Stamp) -> int:
        return self.setting.clock_bits + self.setting.motes**2 * self.setting.age_bits


class DeltaCausalProgram(SentMatrix):
    """Keeps when each mote last sent to each receiver."""

    def __init__(self, motes: int, me: int) -> None:
        super().__init__(motes, me, nothing=LONG_AGO)

    def on_send(self, rt: int, number: int) -> Stamp:
        stamp = Stamp(rt, 0, self._copy())
        self._record(self._me, rt)
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.in_sync:
                self._merge(message.stamp.kn)
                self._record(message.source, message.stamp.r)


class DeltaCausalRule(WithinLifetime):
    """BMR's DC(m). Of messages that may leave together, causes leave first.

    BMR compare whole matrices. Only the entries of two messages about each other matter. A stamp has them even if older
    entries are left out: the clocks show the order of a message too old to be named.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._motes = setting.motes

    def _sent_here(self, message: Message) -> tuple[int, ...]:
        return sent_to_observer(message.stamp.kn, self._motes)

    def _order(self, message: Message) -> tuple[int, ...]:
        return (message.stamp.r, message.source, message.number)

    def _first(self, ready: list[Held]) -> Held:
        by_time = sorted(ready, key=lambda held: held.order)
        unknowing = (held for held in by_time if not self._knows_one_of(held, by_time))
        return next(unknowing, by_time[0])

    def _knows_one_of(self, held: Held, others: list[Held]) -> bool:
        known = self._sent_here(held.message)
        return any(
            other.message.stamp.r <= known[other.message.source] for other in others if other is not held
        )


class DeltaCausalCodec(AgesCodec):
    """Writes the ages of the whole matrix, without what a mote sends to itself."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._square = Square(setting.motes)

    def pack(self, kn: Sequence[int], source: int) -> Sequence[int]:
        return self._square.pack(kn)

    def unpack(self, sent: Sequence[int], source: int, r: int) -> Sequence[int]:
        return self._square.unpack(sent)


SCHEME = DeltaCausal
