"""Writes messages as a ShiViz log: a line with the host and its vector clock, then a line with the event.

A vector clock counts the events in the log, since ShiViz knows no others: each mote's messages that arrived, and the
observer's receptions. The causes of a message come from the trace's truth if it has one, otherwise from receipts and
each mote's own order. So every arrow is true, but some may be missing.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from packet_formats import bulk
from packet_formats.layout import DataLayout

OBSERVER = "observer"
SEQUENCES = 256  # of a receipt's 8 bits
Clock = dict[str, int]
Cause = tuple[int, int]  # a mote, and how many of its messages, in its own order


@dataclass(frozen=True, slots=True)
class KnownCauses:
    """Counts of how many causes are known."""

    messages: int
    complete: int  # messages all of whose causes are named
    truth: bool
    refused: int  # receipts that contradict others


def write_shiviz(messages: pa.Table, layout: DataLayout, file: IO[str]) -> KnownCauses:
    """Write the motes' events, each after its causes, then the observer's, in order of arrival."""
    log = _ShivizLog(messages, layout)
    clocks: dict[int, Clock] = {}
    for row in log.in_causal_order():
        clock: Clock = {}
        for mote, place in log.causes[row]:
            clock = _merged(clock, clocks[log.order[mote][place - 1]])
        clocks[row] = _put(file, log.host(row), clock, log.text(row))
    seen: Clock = {}
    for row in range(len(messages)):
        seen = _put(
            file, OBSERVER, _merged(seen, clocks[row]), f"receives {log.text(row)} of {log.host(row)}"
        )
    complete = len(messages) if log.truth else log.complete
    return KnownCauses(len(messages), complete, log.truth, log.refused)


def _put(file: IO[str], host: str, clock: Clock, text: str) -> Clock:
    clock = {**clock, host: clock.get(host, 0) + 1}
    file.write(f"{host} {json.dumps(clock)}\n{text}\n")
    return clock


def _merged(one: Clock, other: Clock) -> Clock:
    return {host: max(one.get(host, 0), other.get(host, 0)) for host in one | other}


class _ShivizLog:
    """The messages of a table, in each mote's own order, with their causes."""

    def __init__(self, messages: pa.Table, layout: DataLayout) -> None:
        self._source: list[int] = messages["source"].to_pylist()
        self._sequence: list[int] = messages["sequence"].to_pylist()
        self._life = self._lives(messages["boot"].to_pylist())
        self.order = self._own_orders()
        self._names = {mote: [self._name(row) for row in rows] for mote, rows in self.order.items()}
        vectors = messages["vector"]
        self.truth = len(messages) > 0 and vectors.null_count == 0
        frames = bulk.Frames.of_payload_list(messages["payload"].to_pylist(), layout)
        data = bulk.decode_data(frames, layout)[0]
        self.complete = int(data["complete"].sum()) if layout.receipts else 0
        self.refused = 0
        found = self._from_truth(vectors.to_pylist()) if self.truth else self._from_receipts(data)
        self.causes = [self._program_order(row) + causes for row, causes in enumerate(found)]

    def host(self, row: int) -> str:
        return f"mote{self._source[row]}"

    def text(self, row: int) -> str:
        return f"message {self._sequence[row]}"

    def _name(self, row: int) -> tuple[int, int]:
        """A message's life (from boot to boot) of its mote, and its number in that life."""
        return self._life[row], self._sequence[row]

    def _lives(self, boots: list[int]) -> list[int]:
        """The life of its mote for each message. Lives are numbered in the order in which their first messages
        arrived."""
        lives: dict[int, dict[int, int]] = defaultdict(dict)
        return [
            lives[source].setdefault(boot, len(lives[source]))
            for source, boot in zip(self._source, boots, strict=True)
        ]

    def _own_orders(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for row, source in enumerate(self._source):
            rows[source].append(row)
        return {source: sorted(mine, key=self._name) for source, mine in rows.items()}

    def _program_order(self, row: int) -> list[Cause]:
        source = self._source[row]
        before = bisect_right(self._names[source], self._name(row)) - 1
        return [(source, before)] if before else []

    def _up_to(self, mote: int, life: int, sequence: int) -> list[Cause]:
        """The cause for a mote's messages up to this one; empty if none of them arrived."""
        place = bisect_right(self._names.get(mote, []), (life, sequence))
        return [(mote, place)] if place else []

    def _from_truth(self, vectors: list[bytes]) -> Iterator[list[Cause]]:
        for row, vector in enumerate(vectors):
            counts = np.frombuffer(vector, "<i4").tolist()
            others = ((mote, sends) for mote, sends in enumerate(counts) if mote != self._source[row])
            yield [cause for mote, sends in others for cause in self._up_to(mote, 0, sends - 1)]

    def _from_receipts(self, data: np.ndarray[tuple[int], np.dtype[np.void]]) -> Iterator[list[Cause]]:
        """The causes that receipts name. Their 8 bits mean the number nearest to the mote's newest one so far."""
        newest: dict[int, tuple[int, int]] = {}
        slots = zip(data["receipt_source"].tolist(), data["receipt_sequence"].tolist(), strict=True)
        for row, (motes, numbers) in enumerate(slots):
            source = self._source[row]
            newest[source] = max(newest.get(source, (0, 0)), self._name(row))
            causes: list[Cause] = []
            for mote, number in zip(motes, numbers, strict=True):
                if mote != source and mote in self._names:
                    life, last = newest.get(mote, self._names[mote][0])
                    step = (number - last + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2
                    causes += self._up_to(mote, life, last + step)
            yield causes

    def in_causal_order(self) -> Iterator[int]:
        """Order the messages, each after its causes. A receipt that would close a cycle was misread and is dropped."""
        begun, done = set[int](), set[int]()
        for first in range(len(self.causes)):
            path = [first]
            while path:
                row = path[-1]
                if row in done:
                    path.pop()
                    continue
                begun.add(row)
                rows = {cause: self.order[cause[0]][cause[1] - 1] for cause in self.causes[row]}
                circular = {cause for cause, at in rows.items() if at in begun and at not in done}
                self.refused += len(circular)
                self.causes[row] = [cause for cause in self.causes[row] if cause not in circular]
                waiting = [rows[cause] for cause in self.causes[row] if rows[cause] not in done]
                if waiting:
                    path.append(waiting[0])
                else:
                    done.add(row)
                    path.pop()
                    yield row
