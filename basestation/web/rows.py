"""The rows of a run as JSON: the newest rows as they are, older rows compressed, the oldest dropped.

Only the server's thread uses them. A row is encoded once for all viewers.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from basestation.web.feed import Row

NEWEST = 10_000  # rows that a viewer gets at once
BLOCK = 500  # rows that are compressed together
COMPRESSED = 64 << 20  # bytes: one and a half million messages
MOST = 5000  # rows in an answer
BATCH = 250  # rows in an event: encoding more at once would delay the station

SETTLED = ("final", "discarded")  # states after which a row hardly changes

Key = int | str


def encode(plain: object) -> str:
    """JSON on one line."""
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def event(kind: str, text: str) -> bytes:
    """A server-sent event."""
    return f"event: {kind}\ndata: {text}\n\n".encode()


class _Entry:
    """A row. Once encoded, it is kept as text: thousands of objects would slow the garbage collector."""

    __slots__ = ("_plain", "_text", "at_ms", "key")

    def __init__(self, row: Row) -> None:
        self.key: Key = row["key"]
        self.at_ms = float(row["came_ms" if row["kind"] == "message" else "at_ms"])
        self._plain: Row | None = dict(row)
        self._text = ""

    @property
    def plain(self) -> Row:
        if self._plain is None:
            self._plain = json.loads(self._text)
        assert self._plain is not None
        return self._plain

    def encoded(self) -> str:
        if self._plain is not None:
            self._text, self._plain = encode(self._plain), None
        return self._text


@dataclass(slots=True)
class _Block:
    """Rows that do not change any more, oldest first."""

    times: array[float]
    numbers: range  # of its messages
    packed: bytes

    @classmethod
    def of(cls, entries: Sequence[_Entry]) -> _Block:
        text = "\n".join(entry.encoded() for entry in entries)
        numbers = [entry.key for entry in entries if isinstance(entry.key, int)] or [0]
        times = array("d", (entry.at_ms for entry in entries))
        return cls(times, range(min(numbers), max(numbers) + 1), zlib.compress(text.encode(), 6))

    def texts(self) -> list[str]:
        return zlib.decompress(self.packed).decode().split("\n")


@dataclass
class RowStore:
    """The rows of a run by key, as far as they fit."""

    newest: int = NEWEST
    compressed: int = COMPRESSED
    dropped: bool = False  # the first rows of the run were dropped
    _rows: dict[Key, _Entry] = field(default_factory=dict)
    _old: list[_Entry] = field(default_factory=list)
    _blocks: deque[_Block] = field(default_factory=deque)
    _packed: int = 0

    def __len__(self) -> int:
        return len(self._rows)

    def merge(self, changes: Iterable[Row]) -> list[Row]:
        """Take new rows and changes; return them as one change for each row."""
        found: dict[Key, Row] = {}
        for change in changes:
            key = change["key"]
            entry = self._rows.get(key)
            if entry is not None:
                entry.plain.update(change)
            elif "kind" in change:
                self._rows[key] = _Entry(change)
            else:
                continue  # its row was dropped
            found.setdefault(key, {}).update(change)
        for key, change in found.items():
            if change.get("state") in SETTLED:
                self._rows[key].encoded()
        while len(self._rows) > self.newest:
            self._old.append(self._rows.pop(next(iter(self._rows))))
            if len(self._old) == BLOCK:
                self._compress()
        return list(found.values())

    def message(self, number: int) -> Row | None:
        """The row of a message, however old, unless it was dropped."""
        if (entry := self._rows.get(number)) is not None:
            return entry.plain
        start = f'{{"key":{number},'
        blocks = (block.texts() for block in self._blocks if number in block.numbers)
        for texts in ([entry.encoded() for entry in self._old], *blocks):
            if found := next((text for text in texts if text.startswith(start)), None):
                row: Row = json.loads(found)
                return row
        return None

    def recent(self) -> Iterator[str]:
        """The newest rows as JSON arrays, oldest first, without rows that come meanwhile."""
        entries = iter(list(self._rows.values()))
        while batch := list(islice(entries, BATCH)):
            yield f"[{','.join(entry.encoded() for entry in batch)}]"

    def before(self, at_ms: float, limit: int) -> str:
        """The newest rows before a time, oldest first, as JSON: {"rows": [...], "more": whether older rows exist}.

        Rows of one moment stay together, even beyond `limit`: the next request is for earlier rows.
        """
        found: list[str] = []
        oldest = at_ms
        for times, texts in self._backwards(at_ms):
            for place in range(len(times) - 1, -1, -1):
                if times[place] >= at_ms:
                    continue
                if len(found) >= limit and times[place] != oldest:
                    return _answer(found, more=True)
                oldest = times[place]
                found.append(texts[place])
        return _answer(found, more=False)

    def all(self) -> Iterator[str]:
        """Every row, oldest first."""
        for block in self._blocks:
            yield from block.texts()
        for entry in (*self._old, *self._rows.values()):
            yield entry.encoded()

    def _backwards(self, at_ms: float) -> Iterator[tuple[Sequence[float], Sequence[str]]]:
        """Rows with their times, from the newest back. Blocks without a row before `at_ms` are left out."""
        for entries in (list(self._rows.values()), self._old):
            for end in range(len(entries), 0, -BLOCK):
                part = entries[max(0, end - BLOCK) : end]
                yield [entry.at_ms for entry in part], [entry.encoded() for entry in part]
        for block in reversed(self._blocks):
            if min(block.times) < at_ms:
                yield block.times, block.texts()

    def _compress(self) -> None:
        block = _Block.of(self._old)
        self._old.clear()
        self._blocks.append(block)
        self._packed += len(block.packed)
        while self._packed > self.compressed:
            self._packed -= len(self._blocks.popleft().packed)
            self.dropped = True


def _answer(found: list[str], *, more: bool) -> str:
    return f'{{"rows":[{",".join(reversed(found))}],"more":{"true" if more else "false"}}}'
