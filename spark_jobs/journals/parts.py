"""The rows of one segment of a journal, by the decisions beside its frames.

A segment needs nothing of the others, so all cores work on one run, and no task holds more than a segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from basestation.journal.decision import LONG_BYTES, SHORT_BYTES
from basestation.journal.frame_table import frame_rows
from basestation.journal.merging import single
from basestation.journal.projection import project
from basestation.journal.reader import JournalSegment, read_header
from basestation.journal.record_format import Header, JournalError, RecordKind, Records
from basestation.journal.sidecar import decider_of, decisions_of
from spark_jobs.storage import path_of
from spark_jobs.tables.inputs import Group, Input
from spark_jobs.tables.run_tables import Report, bad_row, read_records, refused_rows, segments_of

NO_DEPLOYMENT = (
    "written without a deployment, or that was lost with the header: its frames are kept, not read; --deployment names "
    "the deployment"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file of a run. `place` counts the segments; `until` is the number of the next one's first record."""

    item: Input
    path: str
    place: int
    busy: bool  # somebody was writing to the journal
    final: bool  # it is the last one
    until: int | None = None


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of a segment; no messages where the deployment is not known."""

    frames: pa.Table | None
    messages: pa.Table | None
    quarantine: list[dict[str, Any]]


def segments(item: Input) -> list[Segment]:
    found = segments_of(item)
    headers = [_header(path) for path, _, _ in found[1:]]
    firsts = [None if header is None else header.first for header in headers]
    return [
        Segment(item, str(path), place, busy, final, until)
        for place, ((path, busy, final), until) in enumerate(zip(found, [*firsts, None], strict=True))
    ]


def _header(path: Path) -> Header | None:
    try:
        return read_header(path)
    except JournalError:  # reported when the segment is read
        return None


def deciders_of(item: Input) -> set[tuple[int, str]]:
    """By which rules the segments of a run were decided, and whether their MICs were checked."""
    found = set()
    for path, _, _ in segments_of(item):
        try:
            header = decider_of(path)
        except JournalError:
            header = None
        found.add((0, "") if header is None else (header.decider, header.mics))
    return found


def is_decided(item: Input) -> bool:
    """Whether the log says what each of its frames is; with a key, whether by that."""
    if not item.deployment:
        return True  # its frames are not read
    checked = item.key is not None and item.deployed.security.mic > 0
    return all(decider and not (checked and mics != "checked") for decider, mics in deciders_of(item))


def read_part(segment: Segment) -> PartRows:
    item, path = segment.item, path_of(segment.path)
    bad: list[dict[str, Any]] = []
    if segment.place == 0 and not item.deployment:
        bad.append(bad_row(item, NO_DEPLOYMENT))
    found = read_records(item, path, segment.busy, bad.append, segment.final)
    if found is None:
        return PartRows(None, None, bad)
    records = found.records
    _report_holes(segment, found, bad.append)
    _report_odd(item, path, records, bad.append)
    chunk, group = single(records), Group((item,))
    if not item.deployment:
        return PartRows(frame_rows(chunk, None, group.names), None, bad)
    projected = project(records, item.deployed, decisions_of(path, records))
    bad += refused_rows(chunk, projected, item.deployed, group)
    return PartRows(frame_rows(chunk, projected, group.names), projected.messages, bad)


def _report_holes(segment: Segment, found: JournalSegment, report: Report) -> None:
    """Report records that are missing before, in and after a segment, as far as headers tell."""
    numbers = found.records.head["number"].astype(np.int64)
    first = found.header.first if found.header is not None and segment.place else 0
    if found.header is None and segment.place and len(numbers):
        first = int(numbers[0])
    for begin, end in _holes(numbers, first, segment.until):
        why = f"records {begin} to {end} are missing"
        report(bad_row(segment.item, why, path=segment.path, number=begin))


def _holes(numbers: Iterable[int], first: int, until: int | None) -> Iterator[tuple[int, int]]:
    known = np.concatenate(([first - 1], np.fromiter(numbers, np.int64), [] if until is None else [until]))
    known = known.astype(np.int64)
    for at in np.flatnonzero(np.diff(known) > 1).tolist():
        yield int(known[at]) + 1, int(known[at + 1]) - 1


def _report_odd(item: Input, path: Path, records: Records, report: Report) -> None:
    """Report decisions of a wrong size: their frames count as undecided."""
    head = records.head
    odd = (head["kind"] == RecordKind.DECISION) & ~np.isin(head["length"], (SHORT_BYTES, LONG_BYTES))
    for record in records.chosen(odd) if odd.any() else ():
        why = f"a decision record of {len(record.payload)} bytes, it has {SHORT_BYTES} or {LONG_BYTES}"
        where = {"number": record.number, "wall_ns": record.wall_ns, "bytes": record.payload}
        report(bad_row(item, why, path=str(path), **where))
