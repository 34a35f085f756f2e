"""The codec of last-sender and history stamps, which name messages by source and sequence."""

from __future__ import annotations

from collections.abc import Sequence

from basestation.causality.order import Stamp
from basestation.causality.rules import Name

from .scheme import ROUND, Fields, StampCodec, StampReader


def names_in(stamp: Stamp) -> list[Name]:
    """The names in a stamp, whose kn is a flat list of them."""
    return list(zip(stamp.kn[::2], stamp.kn[1::2], strict=True))


class NamesCodec(StampCodec):
    """Writes a fixed number of names, each a source and a sequence. An unused one holds the sender's own message."""

    def __init__(self, names: int) -> None:
        self._names = names

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        pairs = [(mote, (known - 1) % ROUND) for mote, known in names_in(stamp)]
        unused = [(source, (number - 1) % ROUND)] * (self._names - len(pairs))
        return tuple(value for pair in (*pairs, *unused) for value in pair)

    def saturated(self, stamp: Stamp) -> bool:
        return self._names > 1 and len(stamp.kn) >= 2 * self._names

    def reader(self) -> StampReader:
        return NamesReader()


class NamesReader(StampReader):
    def read(self, fields: Sequence[int], source: int, number: int, now: int) -> Stamp:
        self._hear(source, number)
        own = (source, (number - 1) % ROUND)
        pairs = [pair for pair in zip(fields[::2], fields[1::2], strict=True) if pair != own]
        names = [(mote, self._number(mote, sequence + 1, source)) for mote, sequence in pairs]
        known = [name for name in names if name[1] > 0]
        return Stamp(0, 0, tuple(value for name in known for value in name))
