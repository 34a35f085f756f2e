"""Real-time causal order with two vectors of times of sending (AS section 3): the "triangle" only.

A message says when its sender last sent to each receiver (vect1), and when others last sent to its receiver (vect2).
So it orders messages that a mote had from the sender itself. Messages through a third mote are ordered only if the
message in between has arrived too, or while the clocks agree. We corrected the printed algorithm in three points:

- its test for a late message is inverted: late is send time + Delta < now;
- vect2 must be copied before the send is recorded, or each message would wait for itself;
- a message must wait *through* the last tick in which a missing one may still come; printed, it leaves in that tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

from .age_codec import AgesCodec, AgesScheme
from .deadline import WithinLifetime
from .matrix import SentMatrix
from .scheme import LONG_AGO, Program, Setting, StampCodec


@dataclass(frozen=True)
class TwoHop(AgesScheme):
    """The scheme of AS. `setting.min_wait` is how long each message is held; by default, the least allowed."""

    name = "two-hop"
    whole = False

    def __post_init__(self) -> None:
        if self.setting.lifetime >= 3 * self.hold:
            raise ValueError(
                f"min_wait = {self.hold}: three times that must be more than Delta, here {self.setting.lifetime}"
            )

    @property
    def hold(self) -> int:
        min_wait = self.setting.min_wait
        return self.setting.lifetime // 3 + 1 if min_wait is None else min_wait

    def start(self, mote: int) -> Program:
        return TwoHopProgram(self.setting.motes, mote)

    def codec(self) -> StampCodec:
        return TwoHopCodec(self.setting)

    def rule(self) -> Rule:
        return TwoHopRule(self.setting, self.hold)

    def known(self, stamp: Stamp) -> Sequence[int]:
        return stamp.kn[self.setting.motes + 1 :]

    def stamp_bits(self, stamp: Stamp) -> int:
        return self.setting.clock_bits + 2 * self.setting.motes * self.setting.age_bits


class TwoHopProgram(SentMatrix):
    """Keeps when each mote last sent to each receiver, and puts the two vectors of AS into a stamp."""

    def __init__(self, motes: int, me: int) -> None:
        super().__init__(motes, me, nothing=LONG_AGO)

    def on_send(self, rt: int, number: int) -> Stamp:
        observer = self._columns - 1
        vect2 = self._sent[observer :: self._columns]
        self._record(self._me, rt)
        vect1 = self._sent[self._me * self._columns : (self._me + 1) * self._columns]
        return Stamp(rt, 0, (*vect1, *vect2))

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.in_sync:
                row = slice(message.source * self._columns, (message.source + 1) * self._columns)
                vect1 = message.stamp.kn[: self._columns]
                self._sent[row] = map(max, self._sent[row], vect1)


class TwoHopRule(WithinLifetime):
    """Holds each message for `min_wait`, then delivers it after those in its vect2."""

    def __init__(self, setting: Setting, min_wait: int) -> None:
        super().__init__(setting)
        self._min_wait = min_wait
        self._columns = setting.motes + 1

    def _sent_here(self, message: Message) -> tuple[int, ...]:
        return message.stamp.kn[self._columns :]

    def _earliest(self, message: Message, now: int) -> int:
        return max(now, message.stamp.r + self._min_wait) if message.in_sync else now

    def _order(self, message: Message) -> tuple[int, ...]:
        return (message.stamp.r, message.source, message.number)


class TwoHopCodec(AgesCodec):
    """Writes the sender's own row without itself, then the observer's column."""

    def pack(self, kn: Sequence[int], source: int) -> Sequence[int]:
        return (*kn[:source], *kn[source + 1 :])

    def unpack(self, sent: Sequence[int], source: int, r: int) -> Sequence[int]:
        return (*sent[:source], r, *sent[source:])


SCHEME = TwoHop
