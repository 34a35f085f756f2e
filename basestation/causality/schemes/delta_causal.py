"""Delta-causal order (BMR figure 4): an n x n matrix of the times of sending, and a lifetime Delta.

What arrives within Delta is delivered within Delta and in causal order, given one clock and no two causally related
events in one of its ticks. Elsewhere nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from basestation.causality.order import Message, Stamp
from basestation.causality.policies import Policy

from .base import Program, Setting
from .deadline import LONG_AGO, WithinLifetime
from .holding import Held
from .matrix import SentMatrix, sent_to_observer
from .steps import Notice, ignore


@dataclass(frozen=True, slots=True)
class DeltaCausal:
    setting: Setting
    name: ClassVar[str] = "delta-causal"

    def start(self, mote: int) -> Program:
        return SentTimes(self.setting.motes, mote)

    def policy(self, notice: Notice = ignore) -> Policy:
        return DeliveryCondition(self.setting, notice)

    def bits(self, stamp: Stamp) -> int:
        return self.setting.clock_bits + self.setting.motes**2 * self.setting.age_bits


class SentTimes(SentMatrix):
    def __init__(self, motes: int, me: int) -> None:
        super().__init__(motes, me, nothing=LONG_AGO)

    def on_send(self, rt: int, sequence: int) -> Stamp:
        stamp = Stamp(rt, 0, self._copy())
        self._record(self._me, rt)
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.in_sync:
                self._merge(message.stamp.kn)
                self._record(message.source, message.stamp.r)


class DeliveryCondition(WithinLifetime):
    """BMR's DC(m). Those that become free together leave in the order of their matrices, then by time of sending."""

    def __init__(self, setting: Setting, notice: Notice = ignore) -> None:
        super().__init__(setting, notice)
        self._motes = setting.motes

    def _sent_here(self, message: Message) -> tuple[int, ...]:
        return sent_to_observer(message.stamp.kn, self._motes)

    def _rank(self, held: Held, at: int) -> tuple[int, ...]:
        # Entry by entry less or equal, and one of them less, gives the smaller sum. What has expired says nothing any
        # more, and may have been left out of a stamp for that.
        message, floor = held.message, at - self._lifetime
        known = sum(max(sent, floor) for sent in self._sent_here(message))
        return (known, message.stamp.r, message.source, message.sequence)
