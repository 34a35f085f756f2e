"""Causeway's own stamps and policies behind the same interface, and the physical clock, which is their least case.

Stamps are read as they come off the wire: the clock modulo B, bounded by the receiver's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from basestation.causality.order import Message, Stamp
from basestation.causality.policies import Delivery, Policy, make_policy
from basestation.causality.stamps import Scheme, StampProgram

from .base import Program, Setting
from .notices import Notice, ignore


@dataclass(frozen=True, slots=True)
class Timed:
    """A stamp of `causality.stamps` under a policy of `causality.policies`."""

    scheme: Scheme
    policy_name: str = "cbd"
    phi: int = 100
    name: str = ""

    def start(self, mote: int) -> Program:
        return _Stamping(self.scheme, self.scheme.start(0))

    def policy(self, notice: Notice = ignore) -> Policy:
        scheme = self.scheme
        return _Reading(scheme, make_policy(self.policy_name, self.phi, scheme.epsilon, scheme.delta))

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


class _Reading:
    """Reads each stamp against the observer's clock at its arrival, and hands the message as it was to the sinks."""

    def __init__(self, scheme: Scheme, policy: Policy) -> None:
        self._scheme, self._policy = scheme, policy
        self._as_sent: dict[tuple[int, int], Message] = {}
        self.late = 0

    def receive(self, message: Message, now: int) -> None:
        read = self._scheme.observe(self._scheme.decode(self._scheme.encode(message.stamp), now), now)
        self._as_sent[message.source, message.sequence] = message
        self._policy.receive(replace(message, stamp=read), now)
        self.late = self._policy.late

    def due(self, now: int) -> list[Delivery]:
        return [self._unread(delivery) for delivery in self._policy.due(now)]

    def next_due(self) -> int | None:
        return self._policy.next_due()

    def _unread(self, delivery: Delivery) -> Delivery:
        read = delivery.message
        return delivery._replace(message=self._as_sent.pop((read.source, read.sequence)))
