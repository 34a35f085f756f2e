"""Real-time causal order with two vectors of times of sending (AS section 3): the "triangle" only.

A message tells when its sender last sent to whom (vect1), and when others last sent to its receiver (vect2). It
so orders what a mote learnt from the sender itself; what came through a third mote it orders only where the
message in between has come too, or while the clocks agree. Three corrections of the printed algorithm:

- the test for a late message is inverted: late is send time + Delta < now;
- vect2 is copied before the send is noted, or each message would wait for itself;
- a message waits *through* the last tick in which a missing one may still come. Printed, it leaves in that tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

from .base import Program, Setting
from .deadline import LONG_AGO, WithinLifetime
from .matrix import SentMatrix


@dataclass(frozen=True, slots=True)
class TwoHop:
    """`min_wait`: how long after its sending a message is held in any case; unless said, the least that is allowed."""

    setting: Setting
    min_wait: int | None = None
    name: ClassVar[str] = "two-hop"

    def __post_init__(self) -> None:
        if self.setting.lifetime >= 3 * self.hold:
            raise ValueError(
                f"min_wait = {self.hold}: Delta, here {self.setting.lifetime}, must be below three times that"
            )

    @property
    def hold(self) -> int:
        return self.setting.lifetime // 3 + 1 if self.min_wait is None else self.min_wait

    def start(self, mote: int) -> Program:
        return Dependencies(self.setting.motes, mote)

    def rule(self) -> Rule:
        return TriangleOrder(self.setting, self.hold)

    def bits(self, stamp: Stamp) -> int:
        return self.setting.clock_bits + 2 * self.setting.motes * self.setting.age_bits


class Dependencies(SentMatrix):
    def __init__(self, motes: int, me: int) -> None:
        super().__init__(motes, me, nothing=LONG_AGO)

    def on_send(self, rt: int, sequence: int) -> Stamp:
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


class TriangleOrder(WithinLifetime):
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
