"""A counter for each sender and receiver (Raynal, Schiper, Toueg): the limit case of BMR, without loss and deadline.

The scheme was made for messages to single receivers. A broadcast goes to all receivers at once, the observer too, so
all columns of the matrix are the same; still it is carried in full, except for what a mote sends to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from basestation.causality.causal_graph import Causes
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Name, Rule

from .scheme import COUNTER_BITS, ROUND, Fields, Program, Scheme, StampCodec, StampReader
from .vector import counted
from .waiting import WaitingByName


class Matrix(Scheme):
    name = "matrix"

    def start(self, mote: int) -> Program:
        return MatrixProgram(self.setting.motes, mote)

    def codec(self) -> StampCodec:
        return MatrixCodec(self.setting.motes)

    def rule(self) -> Rule:
        return MatrixRule(self.setting)

    def causes(self, message: Message, sent: int) -> Causes:
        known = sent_to_observer(message.stamp.kn, self.setting.motes)
        return counted(known, message.source, sent + self.reach)

    def stamp_bits(self, stamp: Stamp) -> int:
        return self.setting.motes**2 * COUNTER_BITS


def sent_to_observer(kn: tuple[int, ...], motes: int) -> tuple[int, ...]:
    """The observer's column: what each mote has sent to it."""
    return kn[motes :: motes + 1]


class SentMatrix:
    """Keeps what is known about the last message from each mote (row) to each mote and the observer (column)."""

    def __init__(self, motes: int, me: int, nothing: int) -> None:
        self._me = me
        self._columns = motes + 1
        self._sent = [nothing] * (motes * self._columns)

    def _copy(self) -> tuple[int, ...]:
        return tuple(self._sent)

    def _merge(self, other: Sequence[int]) -> None:
        # Several times as fast as map(max, ...), which matters for n x n entries at every receive.
        self._sent = [known if known >= new else new for known, new in zip(self._sent, other, strict=True)]

    def _record(self, source: int, value: int) -> None:
        """Record a broadcast of `source`, which goes to every receiver at once."""
        row = slice(source * self._columns, (source + 1) * self._columns)
        if value > self._sent[row.start]:
            self._sent[row] = [value] * self._columns


class MatrixProgram(SentMatrix):
    """Keeps how many messages each mote has sent to each receiver."""

    def __init__(self, motes: int, me: int) -> None:
        super().__init__(motes, me, nothing=0)

    def on_send(self, rt: int, number: int) -> Stamp:
        stamp = Stamp(0, 0, self._copy())
        self._record(self._me, number)
        return stamp

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self._merge(message.stamp.kn)
            self._record(message.source, message.number)


class MatrixRule(WaitingByName):
    """Delivers a message after all that its sender knew to be sent to the observer."""

    def _causes(self, message: Message) -> Iterator[Name]:
        for source, count in enumerate(sent_to_observer(message.stamp.kn, self._motes)):
            yield from self._gone.up_to(source, count)


@dataclass(frozen=True, slots=True)
class Square:
    """The places of a matrix, a row for each mote, a column for each and the observer: n of n + 1 in a row travel."""

    motes: int

    def pack(self, kn: Sequence[int]) -> Fields:
        return tuple(kn[place] for place in self._places())

    def unpack(self, values: Sequence[int]) -> Fields:
        """The whole matrix; what a mote sent to itself is set to what it sent to the observer."""
        columns = self.motes + 1
        full = [0] * (self.motes * columns)
        for place, value in zip(self._places(), values, strict=True):
            full[place] = value
        for mote in range(self.motes):
            full[mote * columns + mote] = full[mote * columns + self.motes]
        return tuple(full)

    def row_of(self, index: int) -> int:
        return index // self.motes

    def _places(self) -> Iterator[int]:
        for row in range(self.motes):
            for column in range(self.motes + 1):
                if column != row:
                    yield row * (self.motes + 1) + column


class MatrixCodec(StampCodec):
    """Writes the counters, receiver by receiver for each sender."""

    def __init__(self, motes: int) -> None:
        self._motes = motes

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return tuple(value % ROUND for value in Square(self._motes).pack(stamp.kn))

    def reader(self) -> StampReader:
        return MatrixReader(self._motes)


class MatrixReader(StampReader):
    def __init__(self, motes: int) -> None:
        super().__init__()
        self._square = Square(motes)

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        rows = [self._square.row_of(index) for index in range(len(fields))]
        values = [self._number(row, field, source) for row, field in zip(rows, fields, strict=True)]
        return Stamp(0, 0, self._square.unpack(values))


SCHEME = Matrix
