"""The rows of one segment of a journal, by the decisions beside its frames.

A segment needs nothing of the others, so all cores work on one run, and no task holds more than a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.journal import locking
from basestation.journal.decision import MICS_ABSENT, MICS_UNCHECKED, Decider, wrong_length
from basestation.journal.frame_table import frame_rows, refused
from basestation.journal.merging import Chunk, single
from basestation.journal.projection import Projection, project
from basestation.journal.reader import (
    Account,
    JournalSegment,
    fast_walk,
    faults_of,
    foreign,
    read_header,
    read_segment,
    segment_paths,
)
from basestation.journal.record_format import JournalError, Records
from basestation.journal.sidecar import decider_of, decisions_of
from packet_formats.deployment import Deployment
from spark_jobs.storage import is_local, path_of
from spark_jobs.tables.inputs import Group, Input, InputError

NO_DEPLOYMENT = (
    "written without a deployment, or that was lost with the header: its frames are kept, not read; --deployment names "
    "the deployment"
)
QUARANTINE = pa.schema(
    [
        ("journal", pa.string()),
        ("path", pa.string()),
        ("at", pa.int64()),  # byte in its file, where it was not a record
        ("number", pa.int64()),  # of the record, where it was one
        ("wall_ns", pa.int64()),
        ("reason", pa.string()),
        ("bytes", pa.binary()),
    ]
)
UNKNOWN = -1  # the number of a record
Batch = tuple[str, pa.Table]  # which table, and rows of it
Report = Callable[[dict[str, Any]], None]
Decide = Callable[[Path, Records], NDArray[np.void]]
"""The decisions on the frames of a segment with these records."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file of a run. `place` counts the segments; `until` is the number of the next one's first record."""

    item: Input
    path: str
    place: int
    busy: bool  # a base station was writing to the journal
    until: int | None = None  # None: this is the last one


def segments(item: Input) -> list[Segment]:
    folder = path_of(item.path)
    busy, paths = is_local(folder) and locking.is_taken(folder), segment_paths(folder)
    if not paths:
        raise InputError(f"{folder}: the journal of run {item.run} is no longer there")
    until = [*map(_first, paths[1:]), None]
    return [Segment(item, str(path), place, busy, until[place]) for place, path in enumerate(paths)]


def _first(path: Path) -> int:
    """The number of a segment's first record, by its header; if that is damaged, of its first intact one."""
    with suppress(JournalError):  # reported when the segment is read
        if (header := read_header(path)) is not None:
            return header.first
        return next((record.number for record in read_segment(path, fast_walk()).records), UNKNOWN)
    return UNKNOWN


def logged_decider(item: Input, found: Sequence[Segment]) -> Decider | None:
    """The decider of a journal's frames; None if that is still to be done, or to be done again by a key.

    Of segments that differ, the oldest rules count, and unchecked MICs.
    """
    if not item.deployment:
        return Decider(0, MICS_ABSENT)  # its frames are not read
    known = [by for segment in found if (by := decider_of(path_of(segment.path))) is not None]
    if not known or not all(by.rules for by in known):
        return None
    mics = MICS_UNCHECKED if any(by.mics == MICS_UNCHECKED for by in known) else known[0].mics
    if mics == MICS_UNCHECKED and item.key is not None:
        return None
    return Decider(min(by.rules for by in known), mics)


def read_part(segment: Segment, decide: Decide = decisions_of) -> Iterator[Batch]:
    """The rows of a segment; no messages where the deployment is not known."""
    item, path = segment.item, path_of(segment.path)
    bad: list[dict[str, Any]] = []
    if segment.place == 0 and not item.deployment:
        bad.append(bad_row(item, NO_DEPLOYMENT))
    records = records_of(segment, bad.append)
    if records is not None:
        chunk, group = single(records), Group((item,))
        projected = None
        if item.deployment:
            projected = project(records, item.deployed, decide(path, records))
            bad += refused_rows(chunk, projected, item.deployed, group)
            yield "messages", projected.messages
        yield "frames", frame_rows(chunk, projected, group.names)
    yield quarantine(bad)


def quarantine(rows: list[dict[str, Any]]) -> Batch:
    return "quarantine", pa.Table.from_pylist(rows, schema=QUARANTINE)


def bad_row(item: Input, reason: str, **where: Any) -> dict[str, Any]:
    return {"journal": item.run, "path": item.path, "reason": reason} | where


def refused_rows(
    chunk: Chunk, projected: Projection, deployment: Deployment, group: Group
) -> Iterator[dict[str, Any]]:
    for journal, why, where in refused(chunk, projected, deployment):
        yield bad_row(group.inputs[journal], why, **where)


def records_of(segment: Segment, report: Report) -> Records | None:
    """The records of a segment; None if it is not of this run. Damage is reported, and a missing end of the run."""
    item, path, final = segment.item, path_of(segment.path), segment.until is None

    def refuse(reason: str, **where: Any) -> None:
        report(bad_row(item, reason, path=segment.path, **where))

    try:
        found = read_segment(path, fast_walk())
    except (JournalError, OSError) as error:
        refuse(str(error).removeprefix(f"{path}: "))
        return None
    if (other := foreign(found, item.run)) is not None:
        refuse(other.reason)
        return None
    for fault in faults_of(found):
        if not (fault.tail and segment.busy):
            refuse(fault.reason, at=fault.at, bytes=found.raw[fault.at : fault.at + fault.length])
    if final and not segment.busy:
        for hole in Account.of_last(found).end():
            refuse(f"the end of the run is missing: {hole.reason}")
    for first, last in _holes(segment, found):
        refuse(f"records {first} to {last} are missing", number=first)
    for record in found.records.odd_decisions():  # their frames count as undecided
        why = wrong_length(len(record.payload)) or ""
        refuse(why, number=record.number, wall_ns=record.wall_ns, bytes=record.payload)
    return found.records


def _holes(segment: Segment, found: JournalSegment) -> Iterator[tuple[int, int]]:
    """The records that are missing before, in and after a segment, as far as headers show."""
    numbers = found.records.head["number"].astype(np.int64)
    first = found.header.first if found.header is not None and segment.place else 0
    if found.header is None and segment.place and len(numbers):
        first = int(numbers[0])
    until = [] if segment.until in (None, UNKNOWN) else [segment.until]
    known = np.concatenate(([first - 1], numbers, until)).astype(np.int64)
    for at in np.flatnonzero(np.diff(known) > 1).tolist():
        yield int(known[at]) + 1, int(known[at + 1]) - 1
