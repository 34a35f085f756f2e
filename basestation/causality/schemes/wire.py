"""How stamps travel. The papers': fields of one width, counters modulo 256, times of sending as ages.

`Wire.encode` is the sender's side. A receiver has one `Reader`: it reads a counter as the value nearest to what it
knows of that mote, so it must be shown every message, and told where a mote starts to number anew. Of a mote that
it has heard nothing of, it cannot tell which messages a counter means: they read as none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from basestation.causality.modular import nearest
from basestation.causality.order import Stamp, unwrap
from basestation.causality.stamps import Scheme

from .base import COUNTER_BITS, Setting
from .deadline import LONG_AGO
from .history import names_in

ROUND = 1 << COUNTER_BITS

Fields = tuple[int, ...]


class StampReader(Protocol):
    """What one receiver makes of the stamps that it is shown. `bounded`: how many said what cannot be, and were cut."""

    bounded: int

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        """The stamp of message `number` of `source`, which came while the receiver's clock read `now`."""

    def newest(self, source: int) -> int | None:
        """The newest message of a mote that the receiver knows of; None before the first was heard."""

    def forget(self, source: int) -> None:
        """A mote has started anew, and so have its numbers."""


class StampCodec(Protocol):
    """A scheme's stamp on the wire."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        """What goes into message `number` (from 1) of `source`."""

    def saturated(self, stamp: Stamp) -> bool:
        """Whether the stamp is full, so that something may have been left out of it."""

    def reader(self) -> StampReader: ...


class NewestKnown:
    """The newest message of each mote that a receiver knows of."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self.bounded = 0

    def newest(self, source: int) -> int | None:
        return self._newest.get(source)

    def forget(self, source: int) -> None:
        self._newest.pop(source, None)

    def _hear(self, source: int, number: int) -> None:
        self._newest[source] = max(number, self._newest.get(source, number))

    def _number(self, source: int, field: int) -> int:
        known = self._newest.get(source)
        return 0 if known is None else max(nearest(field, known, ROUND), 0)


@dataclass(frozen=True, slots=True)
class TimedWire:
    """Causeway's own stamps."""

    scheme: Scheme

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return self.scheme.encode(stamp)

    def saturated(self, stamp: Stamp) -> bool:
        return self.scheme.saturated(stamp)

    def reader(self) -> StampReader:
        return TimedReader(self.scheme)


class TimedReader(NewestKnown):
    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        self._scheme = scheme

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        told = self._scheme.decode(fields, now)
        stamp = self._scheme.observe(told, now)
        self.bounded += stamp != told
        return stamp


@dataclass(frozen=True, slots=True)
class NoStamp:
    """Sequence: the header says it all."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return ()

    def saturated(self, stamp: Stamp) -> bool:
        return False

    def reader(self) -> StampReader:
        return HeaderReader()


class HeaderReader(NewestKnown):
    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        return Stamp(0, 0, ())


@dataclass(frozen=True, slots=True)
class NumberWire:
    """Scalar: one number for all."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return (stamp.kn[0] % ROUND,)

    def saturated(self, stamp: Stamp) -> bool:
        return False

    def reader(self) -> StampReader:
        return NumberReader()


class NumberReader(NewestKnown):
    def __init__(self) -> None:
        super().__init__()
        self._largest: int | None = None

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        (field,) = fields
        told = field if self._largest is None else nearest(field, self._largest, ROUND)
        self._largest = told if self._largest is None else max(told, self._largest)
        return Stamp(0, 0, (told,))


@dataclass(frozen=True, slots=True)
class NamesWire:
    """Last-sender and history: some messages by source and sequence field; the sender's own where there is none."""

    names: int

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        pairs = [(mote, (known - 1) % ROUND) for mote, known in names_in(stamp)]
        unused = [(source, (number - 1) % ROUND)] * (self.names - len(pairs))
        return tuple(value for pair in (*pairs, *unused) for value in pair)

    def saturated(self, stamp: Stamp) -> bool:
        return self.names > 1 and len(stamp.kn) >= 2 * self.names

    def reader(self) -> StampReader:
        return NamesReader()


class NamesReader(NewestKnown):
    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        own = (source, (number - 1) % ROUND)
        pairs = [pair for pair in zip(fields[::2], fields[1::2], strict=True) if pair != own]
        names = [(mote, self._number(mote, sequence + 1)) for mote, sequence in pairs]
        known = [name for name in names if name[1] > 0]
        for name in known:
            self._hear(*name)
        return Stamp(0, 0, tuple(value for name in known for value in name))


@dataclass(frozen=True, slots=True)
class CountersWire:
    """Vector: a counter for each mote but the sender, whose own is in the header."""

    motes: int

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return tuple(known % ROUND for mote, known in enumerate(stamp.kn) if mote != source)

    def saturated(self, stamp: Stamp) -> bool:
        return False

    def reader(self) -> StampReader:
        return CountersReader(self.motes)


class CountersReader(NewestKnown):
    def __init__(self, motes: int) -> None:
        super().__init__()
        self._motes = motes

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        others = [mote for mote in range(self._motes) if mote != source]
        known = {mote: self._number(mote, field) for mote, field in zip(others, fields, strict=True)}
        for mote, told in known.items():
            if told:
                self._hear(mote, told)
        known[source] = number
        return Stamp(0, 0, tuple(known[mote] for mote in range(self._motes)))


@dataclass(frozen=True, slots=True)
class Square:
    """A row for each mote, a column for each and the observer: none sends to itself, so n of n + 1 travel."""

    motes: int

    def pack(self, kn: Sequence[int]) -> Fields:
        return tuple(kn[place] for place in self._places())

    def unpack(self, values: Sequence[int]) -> Fields:
        """What a mote sent to itself is what it sent to the observer."""
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


@dataclass(frozen=True, slots=True)
class SquareWire:
    """Matrix: counters, sender by receiver."""

    motes: int

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return tuple(value % ROUND for value in Square(self.motes).pack(stamp.kn))

    def saturated(self, stamp: Stamp) -> bool:
        return False

    def reader(self) -> StampReader:
        return SquareReader(self.motes)


class SquareReader(NewestKnown):
    def __init__(self, motes: int) -> None:
        super().__init__()
        self._square = Square(motes)

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        rows = [self._square.row_of(index) for index in range(len(fields))]
        values = [self._number(row, field) for row, field in zip(rows, fields, strict=True)]
        for row, told in zip(rows, values, strict=True):
            if told:
                self._hear(row, told)
        return Stamp(0, 0, self._square.unpack(values))


@dataclass(frozen=True, slots=True)
class AgesWire:
    """Delta-causal, delta-vector and two-hop: the sender's clock, and others' times of sending as ages before it.

    `pack` and `unpack` say which of a stamp's entries travel, and what the others are; the latter is told the sender
    and its time, too.
    """

    setting: Setting
    modulus: int
    pack: Callable[[Stamp, int], Fields]
    unpack: Callable[[Sequence[int], int, int], Fields]

    @property
    def top(self) -> int:
        """The code of all that is too old to matter, and of what never was."""
        return (1 << self.setting.age_bits) - 1

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        ages = (self._age(stamp.r, sent) for sent in self.pack(stamp, source))
        return (stamp.r % self.modulus, *ages)

    def saturated(self, stamp: Stamp) -> bool:
        return False

    def reader(self) -> StampReader:
        return AgesReader(self)

    def decode(self, fields: Sequence[int], source: int, now: int) -> Stamp:
        r = unwrap(fields[0], now, self.setting.epsilon, self.modulus)
        sent = [LONG_AGO if age == self.top else r + self.setting.epsilon - age for age in fields[1:]]
        return Stamp(r, 0, self.unpack(sent, source, r))

    def _age(self, r: int, sent: int) -> int:
        """A clock may be epsilon behind the other's, so that much is added."""
        age = r - sent + self.setting.epsilon
        return max(age, 0) if age <= self.setting.lifetime + 2 * self.setting.epsilon else self.top


class AgesReader(NewestKnown):
    def __init__(self, wire: AgesWire) -> None:
        super().__init__()
        self._wire = wire

    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        return self._wire.decode(fields, source, now)


def _ages_of_square(setting: Setting, modulus: int) -> AgesWire:
    square = Square(setting.motes)
    return AgesWire(
        setting,
        modulus,
        pack=lambda stamp, source: square.pack(stamp.kn),
        unpack=lambda sent, source, r: square.unpack(sent),
    )


def _ages_of_column(setting: Setting, modulus: int) -> AgesWire:
    return AgesWire(
        setting,
        modulus,
        pack=lambda stamp, source: stamp.kn,
        unpack=lambda sent, source, r: tuple(sent),
    )


def _ages_of_two_vectors(setting: Setting, modulus: int) -> AgesWire:
    """The sender's own row but for itself, then the observer's column."""
    return AgesWire(
        setting,
        modulus,
        pack=lambda stamp, source: (*stamp.kn[:source], *stamp.kn[source + 1 :]),
        unpack=lambda sent, source, r: (*sent[:source], r, *sent[source:]),
    )


def make_wire(name: str, setting: Setting, modulus: int, names: int = 0) -> StampCodec:
    """How the stamps of a scheme travel. `modulus`: of the clock, where there is one. `names`: of a history."""
    wires: dict[str, Callable[[], StampCodec]] = {
        "sequence": NoStamp,
        "scalar": NumberWire,
        "last-sender": lambda: NamesWire(1),
        "history": lambda: NamesWire(names),
        "vector": lambda: CountersWire(setting.motes),
        "matrix": lambda: SquareWire(setting.motes),
        "delta-causal": lambda: _ages_of_square(setting, modulus),
        "delta-vector": lambda: _ages_of_column(setting, modulus),
        "two-hop": lambda: _ages_of_two_vectors(setting, modulus),
    }
    return wires[name]()
