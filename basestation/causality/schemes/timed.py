"""The common part of the schemes of which any two stamps compare: kn, DPC1, DPC2, HLC and sHLC.

Their programs merge stamps as read from the wire: the clock modulo B, bounded by the receiver's clock. Their rules
are those of the timed policies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from basestation.causality.modular import unwrap
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule, make_rule

from .scheme import Carry, Count, Fields, Scheme, StampCodec, StampReader


class TimedProgram(ABC):
    """A stamp program that merges stamps. `bounded` counts how often the self-stabilizing bound had to cut."""

    bounded: int = 0

    @abstractmethod
    def on_send(self, rt: int, number: int = 0) -> Stamp:
        """Send at clock `rt`; return the stamp of the message."""

    @abstractmethod
    def merge(self, rt: int, stamps: Sequence[Stamp]) -> None:
        """Receive these stamps in one event at clock `rt`."""

    @abstractmethod
    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        """Overwrite the state, as a fault in the mote's memory would."""

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        """Receive these messages in one event; a message from a mote out of sync is ignored."""
        stamps = [message.stamp for message in messages if message.in_sync]
        if stamps:
            self.merge(rt, stamps)


@dataclass(frozen=True)
class TimedScheme(Scheme):
    """A scheme of which any two stamps compare, under one of the timed policies."""

    policy: str = "cbd"
    phi: int = 100
    tolerate: float | None = None

    @abstractmethod
    def start(self, mote: int, rt: int = 0) -> TimedProgram:
        """A mote's stamp program, started at clock `rt`."""

    def codec(self) -> StampCodec:
        return TimedCodec(self)

    def rule(self) -> Rule:
        return make_rule(self.policy, self.phi, self.epsilon, self.delta, tolerate=self.tolerate)

    def stamp_bits(self, stamp: Stamp) -> int:
        return self.bits

    def as_read(self, stamp: Stamp, now: int) -> Stamp:
        return self.decode(self.encode(stamp), now)

    def as_observed(self, stamp: Stamp, now: int) -> Stamp:
        return self.observe(self.as_read(stamp, now), now)

    def under(self, policy: str, phi: int) -> TimedScheme:
        """The same stamps under another policy."""
        return replace(self, policy=policy, phi=phi)

    def tolerating(self, percent: float) -> TimedScheme:
        return replace(self, policy="ledger", phi=100, tolerate=percent)

    def encode(self, stamp: Stamp) -> Fields:
        """The fields in the order on the wire: the clock modulo B, c if it is carried, the entries."""
        clock = stamp.r % self.modulus
        return (clock, stamp.c, *stamp.kn) if self.carries_c else (clock, *stamp.kn)

    def decode(self, fields: Sequence[int], now: int) -> Stamp:
        """The stamp that `fields` mean to a receiver whose clock showed `now` at reception."""
        r = unwrap(fields[0], now + self.lead, self.modulus)
        if self.carries_c:
            return Stamp(r, fields[1], tuple(fields[2:]))
        return Stamp(r, 0, tuple(fields[1:]))

    def observe(self, stamp: Stamp, now: int) -> Stamp:
        """Apply the observer's bound: no clock is ahead of `now + lead`, so such a stamp is cut, its kn cleared."""
        if stamp.top <= now + self.lead:
            return stamp
        return Stamp(stamp.r, now + self.lead - stamp.r, (0,) * self.entries)

    @cached_property
    def reach(self) -> int:
        return self.epsilon

    def sent(self, message: Message, heard: int) -> int:
        return message.stamp.r

    def saturated(self, stamp: Stamp) -> bool:
        """Whether a field holds its top code, "this many or more": a tie on it may hide an order."""
        return self.entry_max in stamp.kn

    @cached_property
    def carries_c(self) -> bool:
        return self.carry == "pair"

    @cached_property
    def bits(self) -> int:
        """The bits of a stamp on the wire."""
        c_bits = self.epsilon.bit_length() if self.carries_c else 0
        return (self.modulus - 1).bit_length() + c_bits + self.entries * self.entry_max.bit_length()

    @cached_property
    def epsilon(self) -> int:
        return self.setting.epsilon

    @cached_property
    def delta(self) -> int:
        return self.setting.delta

    @cached_property
    def modulus(self) -> int:
        return self.setting.modulus

    @cached_property
    def lead(self) -> int:
        return self.setting.lead or self.epsilon

    @cached_property
    def entries(self) -> int:
        return self.setting.entries

    @cached_property
    def entry_max(self) -> int:
        return self.setting.entry_max

    @cached_property
    def count(self) -> Count:
        return self.setting.count

    @cached_property
    def carry(self) -> Carry:
        return self.setting.carry


class TimedCodec(StampCodec):
    def __init__(self, scheme: TimedScheme) -> None:
        self._scheme = scheme

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return self._scheme.encode(stamp)

    def saturated(self, stamp: Stamp) -> bool:
        return self._scheme.saturated(stamp)

    def reader(self) -> StampReader:
        return TimedReader(self._scheme)


class TimedReader(StampReader):
    def __init__(self, scheme: TimedScheme) -> None:
        super().__init__()
        self._scheme = scheme

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        read = self._scheme.decode(fields, now)
        stamp = self._scheme.observe(read, now)
        self.bounded += stamp is not read
        return stamp
