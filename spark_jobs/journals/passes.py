"""Reads one run in passes over its segments, so that all cores work on it and no task holds more than a segment.

What a segment means depends on what came before it: the time of a line, boots, numbers, copies. `sketched` reads any
segment alone and keeps what others depend on. `begun` goes over these sketches in order and tells what each segment is
begun with; it is quick. Then `read_part` makes the rows of any segment alone, and they are those that reading the whole
run at once would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

import pyarrow as pa

from basestation.journal.frame_table import frame_rows
from basestation.journal.merging import single
from basestation.journal.message_table import Carry, Sketch, carry_after, read_messages, sketch
from spark_jobs.storage import path_of
from spark_jobs.tables.inputs import Group, Input
from spark_jobs.tables.run_tables import (
    bad_row,
    read_records,
    refused_rows,
    segments_of,
    sound_records,
)

NO_DEPLOYMENT = (
    "written without a deployment, or that was lost with the header: its frames are kept, not read; --deployment tells "
    "what they are"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file of a run, and what the records before it left, once that is known. `place` counts the segments."""

    item: Input
    path: str
    place: int
    busy: bool  # somebody was writing to the journal
    final: bool  # it is the last one
    expected: int = 0  # the number of its first record, if none is missing
    carry: str = Carry().to_json()


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of a segment; no messages where the deployment is not known. `taken`: it is of this run."""

    frames: pa.Table | None
    messages: pa.Table | None
    quarantine: list[dict[str, Any]]


class Sketched(NamedTuple):
    """What those after a segment depend on; and the number of its last record, -1 if it has none."""

    sketch: Sketch
    last: int


def segments(item: Input) -> list[Segment]:
    return [
        Segment(item, str(path), place, busy, final)
        for place, (path, busy, final) in enumerate(segments_of(item))
    ]


def sketched(segment: Segment) -> Sketched:
    item, path = segment.item, path_of(segment.path)
    records = read_records(item, path, segment.busy, _ignored, segment.final)
    if records is None or not len(records):
        return Sketched(Sketch.nothing(), -1)
    last = int(records.head["number"][-1])
    if not item.deployment:
        return Sketched(Sketch.nothing(), last)
    sound = sound_records(item, path, records, 0, _ignored)
    return Sketched(sketch(sound, item.deployed), last)


def begun(segments: Sequence[Segment], sketches: Iterable[Sketched]) -> list[Segment]:
    """The segments of a run, each with what it is begun with. The last one's sketch is not needed."""
    deployment = segments[0].item.deployed if segments[0].item.deployment else None
    carry, expected, found = Carry(), 0, []
    for segment, told in zip_longest(segments, sketches):
        found.append(replace(segment, expected=expected, carry=carry.to_json()))
        if told is not None:
            expected = max(told.last + 1, expected)
            carry = carry if deployment is None else carry_after(told.sketch, deployment, carry)
    return found


def _ignored(row: dict[str, Any]) -> None:
    """Whoever makes the rows reports it."""


def read_part(segment: Segment) -> PartRows:
    item, path = segment.item, path_of(segment.path)
    bad: list[dict[str, Any]] = []
    if segment.place == 0 and not item.deployment:
        bad.append(bad_row(item, NO_DEPLOYMENT))
    records = read_records(item, path, segment.busy, bad.append, segment.final)
    if records is None:
        return PartRows(None, None, bad)
    records = sound_records(item, path, records, segment.expected, bad.append)
    chunk, group = single(records), Group((item,))
    if not item.deployment:
        return PartRows(frame_rows(chunk, None, group.names), None, bad)
    deployment = item.deployed
    reading = read_messages(records, deployment, Carry.from_json(segment.carry))
    bad += refused_rows(chunk, reading, deployment, group)
    return PartRows(frame_rows(chunk, reading, group.names), reading.messages, bad)
