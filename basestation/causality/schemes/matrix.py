"""A counter for each sender and receiver (Raynal, Schiper, Toueg): the limit case of BMR, without loss and deadline.

Written for messages to single receivers. A broadcast counts for all receivers at once, the observer too, so that all
columns of the matrix are the same; it is carried in full all the same, but for what a mote sends to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .base import COUNTER_BITS, Program, Setting
from .waiting import WaitingByName


@dataclass(frozen=True, slots=True)
class Matrix:
    setting: Setting
    name: ClassVar[str] = "matrix"

    def start(self, mote: int) -> Program:
        return SentCounts(self.setting.motes, mote)

    def rule(self) -> Rule:
        return AfterAllSentHere(self.setting)

    def bits(self, stamp: Stamp) -> int:
        return self.setting.motes**2 * COUNTER_BITS


def sent_to_observer(kn: tuple[int, ...], motes: int) -> tuple[int, ...]:
    """The observer's column: what each mote is known to have sent to it."""
    return kn[motes :: motes + 1]


class SentMatrix:
    """What is known of the last message from each mote (row) to each mote and the observer (column)."""

    def __init__(self, motes: int, me: int, nothing: int) -> None:
        self._me = me
        self._columns = motes + 1
        self._sent = [nothing] * (motes * self._columns)

    def _copy(self) -> tuple[int, ...]:
        return tuple(self._sent)

    def _merge(self, other: Sequence[int]) -> None:
        # Several times as fast as map(max, ...), and n x n times at every receive it matters.
        self._sent = [known if known >= told else told for known, told in zip(self._sent, other, strict=True)]

    def _record(self, source: int, value: int) -> None:
        """A broadcast of `source`: for every receiver at once."""
        row = slice(source * self._columns, (source + 1) * self._columns)
        if value > self._sent[row.start]:
            self._sent[row] = [value] * self._columns


class SentCounts(SentMatrix):
    def __init__(self, motes: int, me: int) -> None:
        super().__init__(motes, me, nothing=0)

    def on_send(self, rt: int, sequence: int) -> Stamp:
        stamp = Stamp(0, 0, self._copy())
        self._record(self._me, sequence)
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self._merge(message.stamp.kn)
            self._record(message.source, message.sequence)


class AfterAllSentHere(WaitingByName):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._motes = setting.motes

    def _causes(self, message: Message) -> Iterator[Name]:
        for source, count in enumerate(sent_to_observer(message.stamp.kn, self._motes)):
            yield from self._gone.up_to(source, count)
