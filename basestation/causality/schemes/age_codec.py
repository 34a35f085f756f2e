"""The codec of delta-causal, delta-vector and two-hop stamps, which carry times of sending as ages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from basestation.causality.causal_graph import Alias, Causes
from basestation.causality.order import Message, Stamp, unwrap

from .scheme import LONG_AGO, Fields, PlainReader, Scheme, Setting, StampCodec, StampReader


class AgesScheme(Scheme):
    """A scheme whose stamps carry times of sending, which name the messages."""

    whole: ClassVar[bool] = True  # a stamp carries all that its sender knew

    @abstractmethod
    def known(self, stamp: Stamp) -> Sequence[int]:
        """When each mote last sent to the observer, as far as the sender knew."""

    @property
    def reach(self) -> int:
        return self.setting.epsilon

    def sent(self, message: Message, heard: int) -> int:
        return message.stamp.r

    def alias(self, message: Message) -> int | None:
        return message.stamp.r

    def causes(self, message: Message, sent: int) -> Causes:
        """The messages that the stamp names; it leaves out those older than the lifetime."""
        known = enumerate(self.known(message.stamp))
        aliases = [Alias(mote, at, at, at, at) for mote, at in known if at > LONG_AGO]
        gap = sent - self.setting.lifetime - self.setting.epsilon if self.whole else sent + self.reach
        return Causes(aliases=aliases, gap=gap, whole=self.whole)


class AgesCodec(StampCodec):
    """Writes the sender's clock, then other messages' times of sending as ages before it.

    `pack` chooses which of a stamp's entries travel, and `unpack` restores all of them.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._modulus = setting.modulus or 1 << setting.clock_bits
        self._top = (1 << setting.age_bits) - 1  # too old to matter, or never sent

    @abstractmethod
    def pack(self, kn: Sequence[int], source: int) -> Sequence[int]:
        """The entries that travel."""

    @abstractmethod
    def unpack(self, sent: Sequence[int], source: int, r: int) -> Sequence[int]:
        """All entries, restored from those that travelled, the sender and its time of sending."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        ages = (self._age(stamp.r, sent) for sent in self.pack(stamp.kn, source))
        return (stamp.r % self._modulus, *ages)

    def reader(self) -> StampReader:
        return PlainReader(self.decode)

    def decode(self, fields: Sequence[int], source: int, now: int) -> Stamp:
        epsilon = self._setting.epsilon
        r = unwrap(fields[0], now, epsilon, self._modulus)
        sent = [LONG_AGO if age == self._top else r + epsilon - age for age in fields[1:]]
        return Stamp(r, 0, tuple(self.unpack(sent, source, r)))

    def _age(self, r: int, sent: int) -> int:
        """The age on the wire, plus epsilon: the sender's clock may be that far behind the other's."""
        age = r - sent + self._setting.epsilon
        return max(age, 0) if age <= self._setting.lifetime + 2 * self._setting.epsilon else self._top
