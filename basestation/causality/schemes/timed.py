"""Causeway's own stamps and policies behind the same interface, and the physical clock, which is their least case.

Stamps are read as they come off the wire: the clock modulo B, bounded by the receiver's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Delivery, Rule, make_rule
from basestation.causality.stamps import Scheme, StampProgram

from .base import Program, Setting


@dataclass(frozen=True, slots=True)
class Timed:
    """A stamp of `causality.stamps` under a policy of `causality.rules`."""

    scheme: Scheme
    policy_name: str = "cbd"
    phi: int = 100
    name: str = ""

    def start(self, mote: int) -> Program:
        return _Stamping(self.scheme, self.scheme.start(0))

    def rule(self) -> Rule:
        scheme = self.scheme
        return _Reading(scheme, make_rule(self.policy_name, self.phi, scheme.epsilon, scheme.delta))

    def bits(self, stamp: Stamp) -> int:
        return self.scheme.bits


def physical(setting: Setting, phi: int = 100) -> Timed:
    """DEW's real-time scalar, which is ACO's DPC1: wait phi of delta + epsilon, order by the clock."""
    scheme = Scheme("dpc1", setting.epsilon, setting.delta, 1 << setting.clock_bits, entries=0, entry_max=0)
    return Timed(scheme, "causal" if phi == 100 else "dapw", phi, "physical")


class _Stamping:
    def __init__(self, scheme: Scheme, program: StampProgram) -> None:
        self._scheme, self._program = scheme, program

    def on_send(self, rt: int, sequence: int) -> Stamp:
        return self._program.on_send(rt)

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        stamps = [message.stamp for message in messages if message.in_sync]
        if stamps:
            scheme = self._scheme
            self._program.on_receive(rt, [scheme.decode(scheme.encode(stamp), rt) for stamp in stamps])


class _Reading(Rule):
    """Reads each stamp against the observer's clock at its arrival, and hands the message as it was to the sinks."""

    def __init__(self, scheme: Scheme, rule: Rule) -> None:
        self._scheme, self._rule = scheme, rule

    def receive(self, message: Message, now: int) -> bool:
        read = self._scheme.observe(self._scheme.decode(self._scheme.encode(message.stamp), now), now)
        taken = self._rule.receive(message._replace(stamp=read, token=message), now)
        self.late = self._rule.late
        return taken

    def due(self, now: int) -> list[Delivery]:
        return [delivery._replace(message=delivery.message.token) for delivery in self._rule.due(now)]

    def next_due(self) -> int | None:
        return self._rule.next_due()
