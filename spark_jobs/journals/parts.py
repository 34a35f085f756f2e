"""The rows of one segment of a journal, by the decisions beside its frames.

A segment needs nothing of the others, so all cores work on one run, and no task holds more than a segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from basestation.journal import fast
from basestation.journal.decision import MICS_ABSENT, MICS_UNCHECKED, Decider, wrong_length
from basestation.journal.frame_table import frame_rows
from basestation.journal.merging import single
from basestation.journal.projection import project
from basestation.journal.reader import JournalSegment, read_header, read_segment
from basestation.journal.record_format import JournalError, Records
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
    firsts = [_first(path) for path, _, _ in found[1:]]
    return [
        Segment(item, str(path), place, busy, final, until)
        for place, ((path, busy, final), until) in enumerate(zip(found, [*firsts, None], strict=True))
    ]


def _first(path: Path) -> int | None:
    """The number of a segment's first record, by its header; if that is damaged, of its first intact one."""
    with suppress(JournalError):  # reported when the segment is read
        if (header := read_header(path)) is not None:
            return header.first
        return next((record.number for record in read_segment(path, fast.walk()).records), None)
    return None


def logged_decider(item: Input) -> Decider | None:
    """Who decided the frames of a journal; None if that is still to be done, or to be done again by a key.

    Of segments that differ, the oldest rules count, and the one whose MICs nobody checked.
    """
    if not item.deployment:
        return Decider(0, MICS_ABSENT)  # its frames are not read
    known = [found for path, _, _ in segments_of(item) if (found := decider_of(path)) is not None]
    if not known or not all(found.rules for found in known):
        return None
    mics = MICS_UNCHECKED if any(found.mics == MICS_UNCHECKED for found in known) else known[0].mics
    if mics == MICS_UNCHECKED and item.key is not None:
        return None
    return Decider(min(found.rules for found in known), mics)


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
    for record in records.odd_decisions():
        why = wrong_length(len(record.payload)) or ""
        where = {"number": record.number, "wall_ns": record.wall_ns, "bytes": record.payload}
        report(bad_row(item, why, path=str(path), **where))
