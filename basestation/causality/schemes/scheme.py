"""What a scheme is: programs that stamp on the motes, a codec for the wire, and a delivery rule at the observer.

A stamp is the same plain value for every scheme, `Stamp(r, c, kn)`: r is the time of sending where the scheme carries
one, kn whatever numbers it carries besides. So messages, deliveries and rules are the same everywhere, and one scheme
can take another's place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from basestation.causality.modular import nearest
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

NEVER = 1 << 62  # a tick that no clock reaches
LONG_AGO = -NEVER
COUNTER_BITS = 8  # as the sequence number in each header: read as the value nearest to what is known
ROUND = 1 << COUNTER_BITS

Count = Literal["events", "sends"]
Carry = Literal["pair", "sum"]
Fields = tuple[int, ...]  # a stamp's values on the wire


@dataclass(frozen=True, slots=True)
class Setting:
    """What all processes agree on: the network, the guarantees, and the widths of the fields on the wire.

    `give_up` is how many ticks a message that others wait for may be missing. `min_wait` is how long after its sending
    a two-hop message is held in any case. The widths are 0 for a scheme that has no such field.
    """

    motes: int
    epsilon: int
    delta: int
    give_up: int | None = None
    min_wait: int | None = None
    modulus: int = 0
    entries: int = 0
    entry_max: int = 0
    count: Count = "events"
    carry: Carry = "pair"

    @property
    def patience(self) -> int:
        """The ticks after which a rule gives up; delta + epsilon unless said otherwise."""
        return self.delta + self.epsilon if self.give_up is None else self.give_up

    @property
    def lifetime(self) -> int:
        """The papers' Delta: how long a message is of use, the clocks' difference included."""
        return self.delta + self.epsilon

    @property
    def source_bits(self) -> int:
        """The width of a mote's id, or of none."""
        return self.motes.bit_length()

    @property
    def clock_bits(self) -> int:
        """The width of a time of sending, modulo the least power of two that is read back exactly."""
        return (self.delta + 2 * self.epsilon).bit_length()

    @property
    def age_bits(self) -> int:
        """The width of another message's time of sending, told as its age.

        The sender's clock may be epsilon behind the other's. An age over Delta + epsilon is over Delta at every
        receiver, whose clock may be epsilon behind too: one code stands for all of these.
        """
        return (self.lifetime + 2 * self.epsilon + 1).bit_length()


class Program(Protocol):
    """The part of a mote that stamps."""

    def on_send(self, rt: int, number: int) -> Stamp:
        """Take the send of message `number` (from 1) at clock `rt`; the stamp that goes into it."""

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        """Take one receive event at clock `rt` that brings these messages. Motes do not delay: they merge at once."""


class StampReader(ABC):
    """What one receiver makes of the stamps that it is shown.

    It reads a counter as the value nearest to what it knows of that mote, so it must be shown every message, and told
    when a mote starts to number anew. Of a mote that it has heard nothing of, it cannot tell which messages a counter
    means: they read as none.
    """

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self.bounded = 0  # stamps that said what cannot be, and were cut

    @abstractmethod
    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        """The stamp of message `number` of `source`, which came while the receiver's clock read `now`."""

    def newest(self, source: int) -> int | None:
        """The newest message of a mote that the receiver knows of; None before the first was heard."""
        return self._newest.get(source)

    def forget(self, source: int) -> None:
        """A mote has started anew, and so have its numbers."""
        self._newest.pop(source, None)

    def _hear(self, source: int, number: int) -> None:
        self._newest[source] = max(number, self._newest.get(source, number))

    def _number(self, source: int, field: int) -> int:
        known = self._newest.get(source)
        return 0 if known is None else max(nearest(field, known, ROUND), 0)


class StampCodec(ABC):
    """A scheme's stamp on the wire."""

    @abstractmethod
    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        """The fields that go into message `number` (from 1) of `source`."""

    @abstractmethod
    def reader(self) -> StampReader:
        """What a receiver reads stamps with, before the first."""

    def saturated(self, stamp: Stamp) -> bool:
        """Whether the stamp is full, so that something may have been left out of it."""
        return False


@dataclass(frozen=True)
class Scheme(ABC):
    """A scheme for one setting. `kernel` names its compiled stamp program, where there is one."""

    setting: Setting
    name: ClassVar[str]
    kernel: ClassVar[str | None] = None

    @abstractmethod
    def start(self, mote: int) -> Program:
        """A mote's stamp program, before the first event."""

    @abstractmethod
    def codec(self) -> StampCodec:
        """How its stamps travel."""

    @abstractmethod
    def rule(self) -> Rule:
        """The observer's rule, fresh."""

    @abstractmethod
    def stamp_bits(self, stamp: Stamp) -> int:
        """What this stamp takes on the wire beside source and sequence, which every message carries."""

    def as_read(self, stamp: Stamp, now: int) -> Stamp:
        """The stamp as a mote reads it whose clock shows `now`; unchanged where nothing can be misread."""
        return stamp

    def as_observed(self, stamp: Stamp, now: int) -> Stamp:
        """The stamp as the observer reads it, bounded by its clock."""
        return stamp

    @property
    def grows(self) -> bool:
        """Whether its stamps grow with every message, so that none fits for long."""
        return False


class NoStampCodec(StampCodec):
    """An empty stamp: the header says it all."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return ()

    def reader(self) -> StampReader:
        return NoStampReader()


class NoStampReader(StampReader):
    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        return Stamp(0, 0, ())


class NoStampProgram:
    """A stamp program that knows nothing and says nothing."""

    def on_send(self, rt: int, number: int) -> Stamp:
        return Stamp(0, 0, ())

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        pass
