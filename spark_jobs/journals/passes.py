"""Reads one run in passes over its segments, so that all cores work on it and no task holds more than a segment.

What a segment means depends on what came before it: the time of a line, boots, numbers, copies. `begun` walks over a
run's segments in order and tells what each is begun with. It makes no rows, so it is quick. Then `read_part` makes the
rows of any segment alone, and they are those that reading the whole run at once would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from basestation.journal.message_table import Carry, carry_after, read_messages
from packet_formats import deployment as deployments
from spark_jobs.journals import fast
from spark_jobs.storage import path_of
from spark_jobs.tables.inputs import Group, Input
from spark_jobs.tables.run_tables import (
    bad_row,
    frame_rows,
    next_number,
    read_records,
    refused_rows,
    segments_of,
    single,
    sound_records,
)

NO_DEPLOYMENT = (
    "written without a deployment: its frames are kept, not read; --deployment tells what they are"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file of a run, and what the records before it left. `place` counts the run's segments."""

    item: Input
    path: str
    place: int
    busy: bool  # somebody was writing to the journal
    expected: int  # the number of its first record, if none is missing
    carry: str


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of a segment; no messages where the deployment is not known. `taken`: it is of this run."""

    frames: pa.Table | None
    messages: pa.Table | None
    quarantine: list[dict[str, Any]]


def begun(item: Input) -> list[Segment]:
    """All segments of a run, each with what it is begun with."""
    return list(walked(item))


def walked(item: Input) -> Iterator[Segment]:
    """The same, each as soon as it is known."""
    deployment = deployments.parse(item.deployment) if item.deployment else None
    carry, expected = Carry(), 0
    files = segments_of(item)
    for place, (path, busy) in enumerate(files):
        yield Segment(item, str(path), place, busy, expected, carry.to_json())
        if place + 1 == len(files):
            return
        records = read_records(item, path, busy, _ignored)
        if records is None:
            continue
        if deployment is not None:
            sound = sound_records(item, path, records, expected, _ignored)
            carry = carry_after(sound, deployment, carry, fast.numbering())
        expected = next_number(records, expected)


def _ignored(row: dict[str, Any]) -> None:
    """Whoever makes the rows reports it."""


def read_part(segment: Segment) -> PartRows:
    item, path = segment.item, path_of(segment.path)
    bad: list[dict[str, Any]] = []
    if segment.place == 0 and not item.deployment:
        bad.append(bad_row(item, NO_DEPLOYMENT))
    records = read_records(item, path, segment.busy, bad.append)
    if records is None:
        return PartRows(None, None, bad)
    records = sound_records(item, path, records, segment.expected, bad.append)
    chunk, group = single(records), Group((item,))
    if not item.deployment:
        return PartRows(frame_rows(chunk, None, group), None, bad)
    deployment = deployments.parse(item.deployment)
    reading = read_messages(records, deployment, Carry.from_json(segment.carry), fast.numbering())
    bad += refused_rows(chunk, reading, deployment, group)
    return PartRows(frame_rows(chunk, reading, group), reading.messages, bad)
