"""Several journals as one: those of base stations that heard the same network at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .decision import NO_TIME
from .record_format import JournalError, Records

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A batch of records of a group, in order. `journal` and `line` say where each record comes from."""

    records: Records
    journal: NDArray[np.int32]
    line: NDArray[np.uint8]

    def chosen(self, which: NDArray[np.bool_]) -> Chunk:
        return Chunk(self.records.chosen(which), self.journal[which], self.line[which])


def single(records: Records) -> Chunk:
    return Chunk(records, np.zeros(len(records), np.int32), records.head["gateway"].copy())


def merge(streams: list[Iterator[Records]]) -> Iterator[Chunk]:
    """The records of several journals in the order of their wall clocks, each journal's own order kept.

    A clock that was set back is taken to stand still until it is where it was. A record is given out only when no
    stream can have an earlier one, so the ends of segments make no difference, and only a segment or two of each
    journal is in memory.
    """
    waiting = [_AwaitedFrames(stream) for stream in streams]
    lines: dict[tuple[int, int], int] = {}
    while sum(stream.fill() for stream in waiting):
        limit = min((stream.newest for stream in waiting if not stream.ended), default=None)
        taken = [stream.take(limit) for stream in waiting]
        order = np.argsort(np.concatenate([keys for _, keys in taken]), kind="stable")
        journal = np.repeat(np.arange(len(taken), dtype=np.int32), [len(keys) for _, keys in taken])
        records, journal = _joined([records for records, _ in taken]).chosen(order), journal[order]
        line = records.head["gateway"].copy()
        records.head["gateway"] = _lines(journal, line, lines)
        yield Chunk(records, journal, line)


def _lines(
    journal: NDArray[np.int32], line: NDArray[np.uint8], known: dict[tuple[int, int], int]
) -> NDArray[np.uint8]:
    """Number the lines of all journals, in the order in which they appear. Each journal's lines are its own."""
    pairs = list(zip(journal.tolist(), line.tolist(), strict=True))
    for pair in dict.fromkeys(pairs):
        known.setdefault(pair, len(known))
    if len(known) > 256:
        raise JournalError(f"{len(known)} lines at one time and place; 256 are the most")
    return np.array([known[pair] for pair in pairs], np.uint8)


@dataclass(slots=True)
class _AwaitedFrames:
    """A stream, and its records that were read and not yet given out. `keys` are the wall clock, never falling."""

    stream: Iterator[Records]
    records: Records | None = None
    keys: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    newest: int = NO_TIME
    ended: bool = False

    def fill(self) -> bool:
        """Read on unless there is enough; False if nothing is left."""
        while not self.ended and (self.records is None or not (self.keys < self.newest).any()):
            records = next(self.stream, None)
            if records is None:
                self.ended = True
                break
            keys = np.maximum.accumulate(np.maximum(records.head["wall_ns"], self.newest))
            self.newest = int(keys[-1]) if len(keys) else self.newest
            self.records = records if self.records is None else _joined([self.records, records])
            self.keys = np.concatenate((self.keys, keys))
        return len(self.keys) > 0

    def take(self, limit: int | None) -> tuple[Records, Ints]:
        """Give out the records before the limit, or all of them without one."""
        count = len(self.keys) if limit is None else int(np.searchsorted(self.keys, limit, side="left"))
        if self.records is None:
            return _EMPTY, self.keys
        taken, keys = self.records.chosen(slice(0, count)), self.keys[:count]
        self.records, self.keys = self.records.chosen(slice(count, None)), self.keys[count:]
        return taken, keys


_EMPTY = Records.of(b"", [])


def _joined(parts: list[Records]) -> Records:
    """Join records, and drop bytes that belong to no record any more."""
    parts = [_trimmed(part) for part in parts]
    before = np.cumsum([0, *(len(part.raw) for part in parts)])
    starts = [part.starts + at for part, at in zip(parts, before.tolist(), strict=False)]
    return Records(
        np.concatenate([part.raw for part in parts]),
        np.concatenate([part.head for part in parts]),
        np.concatenate(starts),
    )


def _trimmed(records: Records) -> Records:
    if not len(records):
        return _EMPTY
    begin = int(records.starts[0])
    end = int(records.starts[-1]) + records.head.dtype.itemsize + int(records.head["length"][-1])
    return Records(records.raw[begin:end], records.head, records.starts - begin)
