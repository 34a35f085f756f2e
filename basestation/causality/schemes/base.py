"""The one interface of all schemes: a stamp on the sending side, a delivery rule at the observer, a size on the wire.

A stamp is the same plain value for every scheme, `Stamp(r, c, kn)`: r is the time of sending where the scheme carries
one, kn whatever numbers it carries besides. So messages, deliveries and policies are the same everywhere, and a
scheme can be swapped for another without anybody else's noticing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

NEVER = 1 << 62  # a tick that no clock reaches
COUNTER_BITS = 8  # as the sequence number in each header: read as the value nearest to what is known


@dataclass(frozen=True, slots=True)
class Setting:
    """What all processes agree on. `give_up`: how many ticks a message that others wait for may be missing."""

    motes: int
    epsilon: int
    delta: int
    give_up: int | None = None

    @property
    def patience(self) -> int:
        """The time to give up in; unless said, delta + epsilon."""
        return self.delta + self.epsilon if self.give_up is None else self.give_up

    @property
    def lifetime(self) -> int:
        """The papers' Delta: how long a message is of use, the clocks' difference included."""
        return self.delta + self.epsilon

    @property
    def source_bits(self) -> int:
        """For a mote's id, or for none."""
        return self.motes.bit_length()

    @property
    def clock_bits(self) -> int:
        """For a time of sending, modulo the least power of two that is read back exactly."""
        return (self.delta + 2 * self.epsilon).bit_length()

    @property
    def age_bits(self) -> int:
        """For another message's time of sending, told as its age.

        The sender's clock may be epsilon behind the other's. An age over Delta + epsilon is over Delta at every
        receiver, whose clock may be epsilon behind too: one code stands for all of these.
        """
        return (self.lifetime + 2 * self.epsilon + 1).bit_length()


class Program(Protocol):
    """The part of a mote that stamps."""

    def on_send(self, rt: int, sequence: int) -> Stamp:
        """Take the send of message number `sequence` (from 1) at clock `rt`; the stamp that goes into it."""

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        """Take one receive event at clock `rt` that brings these messages. Motes do not delay: they merge at once."""


class Method(Protocol):
    """A stamp and the delivery rule that goes with it, for one setting."""

    @property
    def name(self) -> str: ...

    def start(self, mote: int) -> Program:
        """A mote's stamp program, before the first event."""

    def rule(self) -> Rule:
        """The observer's rule, fresh."""

    def bits(self, stamp: Stamp) -> int:
        """What this stamp takes on the wire beside source and sequence, which every message carries."""


class Silent:
    """A stamp program that knows nothing and says nothing."""

    def on_send(self, rt: int, sequence: int) -> Stamp:
        return Stamp(0, 0, ())

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        pass
