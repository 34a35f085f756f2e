"""The interface of a scheme: a program that stamps on the motes, a codec for the wire, and a rule at the observer.

A stamp is the same plain value for every scheme, `Stamp(r, c, kn)`: r is the time of sending if the scheme carries
one, kn any other numbers that it carries. So messages, deliveries and rules are the same everywhere, and one scheme
can replace another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from basestation.causality.causal_graph import AHEAD, Causes
from basestation.causality.modular import nearest
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import NEVER, Rule

LONG_AGO = -NEVER
COUNTER_BITS = 8  # like the sequence in each header: read as the value nearest to what is known
ROUND = 1 << COUNTER_BITS

Count = Literal["events", "sends"]
Carry = Literal["pair", "sum"]
Fields = tuple[int, ...]  # a stamp's values on the wire


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings that motes and observer share: the network, the guarantees, the widths of fields on the wire.

    `give_up` is how many ticks a rule waits for a missing message. `min_wait` is how long after its sending a two-hop
    message is held in any case. `lead` is how far a clock in a stamp may be ahead of its receiver's. A width is 0
    if the scheme has no such field.
    """

    motes: int
    epsilon: int
    delta: int
    give_up: int | None = None
    min_wait: int | None = None
    modulus: int = 0
    lead: int = 0
    entries: int = 0
    entry_max: int = 0
    count: Count = "events"
    carry: Carry = "pair"

    @property
    def patience(self) -> int:
        """The ticks after which a rule gives up; delta + epsilon by default."""
        return self.delta + self.epsilon if self.give_up is None else self.give_up

    @property
    def lifetime(self) -> int:
        """The papers' Delta: how long a message is useful, including the difference of the clocks."""
        return self.delta + self.epsilon

    @property
    def source_bits(self) -> int:
        """The width of a mote's id, with one code more for none."""
        return self.motes.bit_length()

    @property
    def clock_bits(self) -> int:
        """The width of a time of sending: the fewest bits that are read back exactly."""
        return (self.delta + 2 * self.epsilon).bit_length()

    @property
    def age_bits(self) -> int:
        """The width of another message's time of sending, given as its age.

        The sender's clock may be epsilon behind the other's. An age over Delta + epsilon is over Delta at every
        receiver, whose clock may be epsilon behind too: one code stands for all such ages.
        """
        return (self.lifetime + 2 * self.epsilon + 1).bit_length()


class Program(Protocol):
    """The part of a mote that stamps."""

    def on_send(self, rt: int, number: int) -> Stamp:
        """Send message `number` (from 1) at clock `rt`; return its stamp."""

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        """Receive these messages in one event at clock `rt`. Motes do not delay messages: they merge at once."""


class StampReader(ABC):
    """Reads stamps for one receiver.

    It reads a counter as the value nearest to the last known number of that mote. So it must see every message, and
    `forget` a mote that restarts its numbers. A counter for a mote not heard yet is ambiguous and reads as none.

    A mote's own messages give its numbers; numbers from others count until its next message comes. A number too far
    ahead needs a second mote that confirms it, and reads as none until then: otherwise one faulty mote could make every
    counter read a round too high.
    """

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._own: dict[int, int] = {}
        # By mote: a number too far ahead, and its sender.
        self._far: dict[int, tuple[int, int]] = {}
        self.bounded = 0  # impossible stamps, which were cut

    @abstractmethod
    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        """The stamp of message `number` of `source`, received when the receiver's clock showed `now`."""

    def newest(self, source: int) -> int | None:
        """The newest message of a mote that the receiver knows; None before the first was heard."""
        return self._newest.get(source)

    def forget(self, source: int) -> None:
        """Forget a mote that has restarted its numbers."""
        for known in (self._newest, self._own, self._far):
            known.pop(source, None)

    def resume(self, source: int, number: int) -> None:
        """Continue after this message of a mote, which another receiver has heard."""
        self._hear(source, number)

    def _hear(self, source: int, number: int) -> None:
        newest = self._own.get(source, number)
        self._newest[source] = self._own[source] = number if number > newest else newest

    def _number(self, source: int, field: int, sender: int) -> int:
        """The number that a counter for a mote means in another mote's message; 0: unknown."""
        known = self._newest.get(source)
        if known is None:
            return 0
        number = max(nearest(field, known, ROUND), 0)
        if source == sender or number <= known:
            return number
        if number > known + AHEAD and not self._confirmed(source, number, sender):
            self.bounded += 1
            return 0
        self._newest[source] = number
        return number

    def _confirmed(self, source: int, number: int, sender: int) -> bool:
        """Whether another mote has sent a number as far ahead, near enough to this one."""
        before = self._far.get(source)
        self._far[source] = sender, number
        return before is not None and before[0] != sender and abs(number - before[1]) <= AHEAD


class PlainReader(StampReader):
    """Reads stamps without counters: `decode` needs only the fields, the source and the receiver's clock."""

    def __init__(self, decode: Callable[[Sequence[int], int, int], Stamp]) -> None:
        super().__init__()
        self._decode = decode

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        return self._decode(fields, source, now)


class StampCodec(ABC):
    """A scheme's stamp on the wire."""

    @abstractmethod
    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        """The fields that go into message `number` (from 1) of `source`."""

    @abstractmethod
    def reader(self) -> StampReader:
        """A new reader for one receiver."""

    def saturated(self, stamp: Stamp) -> bool:
        """Whether the stamp is full, so that it may lack something."""
        return False


@dataclass(frozen=True)
class Scheme(ABC):
    """A scheme for one setting. `kernel` names its compiled stamp program, if there is one."""

    setting: Setting
    name: ClassVar[str]
    kernel: ClassVar[str | None] = None

    @abstractmethod
    def start(self, mote: int) -> Program:
        """A mote's stamp program, before the first event."""

    @abstractmethod
    def codec(self) -> StampCodec:
        """The codec of its stamps."""

    @abstractmethod
    def rule(self) -> Rule:
        """A new rule for the observer."""

    @abstractmethod
    def stamp_bits(self, stamp: Stamp) -> int:
        """The bits of this stamp on the wire, without source and sequence, which every message carries."""

    @property
    def most_bits(self) -> int:
        """The bits of the longest stamp."""
        return self.stamp_bits(self.start(0).on_send(0, 1))

    def as_read(self, stamp: Stamp, now: int) -> Stamp:
        """The stamp as a mote reads it when its clock shows `now`; unchanged where nothing can be misread."""
        return stamp

    def as_observed(self, stamp: Stamp, now: int) -> Stamp:
        """The stamp as the observer reads it, bounded by its clock."""
        return stamp

    @property
    def settling(self) -> int:
        """The ticks after a mote's first message in sync in which other stamps may depend on when it started."""
        return 0

    def tolerating(self, percent: float) -> Scheme:
        """The same scheme with a ledger: at most `percent` of the messages in a violation."""
        raise ValueError(f"the rule of {self.name} has no wait that a ledger could shorten")

    # ---- Happened-before from stamps, for `causal_graph` ----

    @property
    def reach(self) -> int:
        """The most ticks by which `sent` may place a cause after its effect."""
        return self.setting.lifetime

    def sent(self, message: Message, heard: int) -> int:
        """The tick in which a message was sent, by its stamp; by default the tick in which it was heard."""
        return heard

    def place(self, stamp: Stamp) -> tuple[int, ...]:
        """The place of a message in an order where causes stand first, unless a counter is full; () if the stamp does
        not give it."""
        return ()

    def alias(self, message: Message) -> int | None:
        """The alias of this message in other stamps, if they do not use its number."""
        return None

    def alias_of(self, sequence: int) -> int | None:
        """The alias of a message of which only the sequence number is known; None: that does not give it."""
        return None

    @property
    def names_causes(self) -> bool:
        """Whether its stamps name causes."""
        return type(self).causes is not Scheme.causes

    def causes(self, message: Message, sent: int) -> Causes:
        """The causes that the stamp of a message in sync names; by default none."""
        return Causes(gap=sent + self.reach)

    @property
    def grows(self) -> bool:
        """Whether its stamps grow with every message, so that none fits for long."""
        return False


class NoStampCodec(StampCodec):
    """Writes an empty stamp: the header holds everything."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return ()

    def reader(self) -> StampReader:
        return PlainReader(lambda fields, source, now: Stamp(0, 0, ()))


class NoStampProgram:
    """A program that learns nothing and writes an empty stamp."""

    def on_send(self, rt: int, number: int) -> Stamp:
        return Stamp(0, 0, ())

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        pass
