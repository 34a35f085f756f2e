"""The ids of all past messages (DEW's message history): exact, and larger with every message.

`kn` holds a set of numbers for each mote, as bits. On the wire it is a list of (mote, number), as DEW draws it; 8-bit
numbers would name the wrong messages, since nothing ever leaves the list. A real message has room for the newest few:
then `kn` is that list, the newest last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import or_

from basestation.causality.causal_graph import Causes
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .names import NamesCodec, names_in
from .scheme import COUNTER_BITS, Program, Scheme, StampCodec
from .waiting import WaitingByName

NUMBER_BITS = 16
LENGTH_BITS = 16


class History(Scheme):
    """Names the newest `setting.entries` messages known; all of them if the setting gives no number."""

    name = "history"

    @property
    def names(self) -> int:
        return self.setting.entries

    @property
    def grows(self) -> bool:
        return not self.names

    def start(self, mote: int) -> Program:
        return (
            RecentHistoryProgram(self.names, mote)
            if self.names
            else WholeHistoryProgram(self.setting.motes, mote)
        )

    def codec(self) -> StampCodec:
        return NamesCodec(self.names)

    def rule(self) -> Rule:
        return RecentHistoryRule(self.setting) if self.names else WholeHistoryRule(self.setting)

    def causes(self, message: Message, sent: int) -> Causes:
        return Causes(names_in(message.stamp), gap=sent + self.reach)

    def stamp_bits(self, stamp: Stamp) -> int:
        if self.names:
            return self.names * (self.setting.source_bits + COUNTER_BITS)
        ids = sum(numbers.bit_count() for numbers in stamp.kn)
        return LENGTH_BITS + ids * (self.setting.source_bits + NUMBER_BITS)


class WholeHistoryProgram:
    """Keeps the numbers of all messages known, as bits for each mote."""

    def __init__(self, motes: int, me: int) -> None:
        self._me = me
        self._past = [0] * motes

    def on_send(self, rt: int, number: int) -> Stamp:
        stamp = Stamp(0, 0, tuple(self._past))
        self._past[self._me] |= 1 << number
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self._past = list(map(or_, self._past, message.stamp.kn))
            self._past[message.source] |= 1 << message.number


class RecentHistoryProgram:
    """Keeps names in the order in which they were learnt: a message brings its sender's names, then its own."""

    def __init__(self, names: int, me: int) -> None:
        self._names, self._me = names, me
        self._known: dict[Name, None] = {}

    def on_send(self, rt: int, number: int) -> Stamp:
        stamp = Stamp(0, 0, tuple(chain.from_iterable(self._known)))
        self._learn([(self._me, number)])
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            new = [name for name in names_in(message.stamp) if name not in self._known]
            self._learn([*new, (message.source, message.number)])

    def _learn(self, names: Sequence[Name]) -> None:
        for name in names:
            self._known.pop(name, None)
            self._known[name] = None
        for name in list(self._known)[: -self._names]:
            del self._known[name]


class RecentHistoryRule(WaitingByName):
    """Delivers a message after those that its stamp names."""

    def _causes(self, message: Message) -> Iterator[Name]:
        for name in names_in(message.stamp):
            if not self._gone.has(*name):
                yield name


class WholeHistoryRule(WaitingByName):
    """Delivers a message after all that its sender knew."""

    def _causes(self, message: Message) -> Iterator[Name]:
        for source, numbers in enumerate(message.stamp.kn):
            yield from self._gone.among(source, numbers)


SCHEME = History
