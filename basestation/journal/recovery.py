"""Recovery after an interruption: damage is cut out of a journal and kept beside it.

Nothing is thrown away. A torn tail goes to NNNNNN.torn. A segment that is damaged elsewhere is kept as NNNNNN.bad and
written again without the damage; its records keep their numbers, so that a gap stays visible.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from . import locking
from .reader import (
    JournalFault,
    JournalSegment,
    faults_of,
    find_journals,
    read_header,
    read_segment,
    segment_paths,
)
from .record_format import Header, encode_header

TEMPORARY = ".new"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The damage found in a run's folder, and the files that it was moved to."""

    folder: Path
    faults: tuple[JournalFault, ...]
    aside: tuple[Path, ...]


def recover(folder: Path) -> Recovery:
    """Cut off the torn end of an interrupted run. Damage elsewhere is reported and left for `repair`.

    `JournalError` if the journal is being written.
    """
    with locking.locked(folder):
        _sweep(folder)
        faults: list[JournalFault] = []
        aside: list[Path] = []
        for path in segment_paths(folder)[-1:]:
            segment = read_segment(path)
            faults += faults_of(segment)
            aside += _cut_tail(segment)
        return Recovery(folder, tuple(faults), tuple(aside))


def interrupted_runs(logs: Path) -> list[Path]:
    """The runs in a folder of logs that were interrupted and not recovered yet."""
    return [run for run in find_journals(logs) if locking.was_interrupted(run)] if logs.is_dir() else []


def repair(folder: Path) -> Recovery:
    """Move all damage aside, from the first segment to the last."""
    with locking.locked(folder):
        _sweep(folder)
        paths = segment_paths(folder)
        known = next(filter(None, map(read_header, paths)), None) or _made_up(folder)
        faults: list[JournalFault] = []
        aside: list[Path] = []
        for number, path in enumerate(paths):
            segment = read_segment(path)
            found = list(faults_of(segment))
            faults += found
            if any(not fault.tail for fault in found):
                aside += _rewrite(segment, replace(known, segment=number))
            else:
                aside += _cut_tail(segment)
            if found:
                _forget_parts(folder, path)
        return Recovery(folder, tuple(faults), tuple(aside))


def _made_up(folder: Path) -> Header:
    """A header for a run that has none left: its records are still useful."""
    return Header(folder.name, "", "", (), 0, 0, 0)


def _sweep(folder: Path) -> None:
    """Remove a segment under its temporary name: it held nothing yet."""
    for path in folder.glob(f".*{TEMPORARY}"):
        path.unlink()


def _cut_tail(segment: JournalSegment) -> list[Path]:
    """Copy the torn tail, then cut it off: an interruption in between does no harm."""
    if not segment.torn:
        return []
    aside = segment.path.with_suffix(".torn")
    write_whole(aside, segment.raw[segment.scan.end :])
    with segment.path.open("rb+") as file:
        file.truncate(segment.scan.end)
        os.fsync(file.fileno())
    return [aside]


def _rewrite(segment: JournalSegment, known: Header) -> list[Path]:
    records = segment.records
    first = int(records.head["number"][0]) if len(records) else 0
    header = segment.header or replace(known, first=first)
    content = [encode_header(header)]
    ends = records.starts + records.head.dtype.itemsize + records.head["length"]
    content += [segment.raw[at:end] for at, end in zip(records.starts.tolist(), ends.tolist(), strict=True)]
    aside = segment.path.with_suffix(".bad")
    write_whole(aside, segment.raw)
    write_whole(segment.path, b"".join(content))
    return [aside]


def _forget_parts(folder: Path, changed: Path) -> None:
    """Remove the parts from the changed segment on; they must be made again."""
    from .parquet_parts import part_paths

    for path in part_paths(folder):
        if path.stem >= changed.stem:
            path.unlink()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears on the disk completely or not at all."""
    partial = path.parent / f".{path.name}{TEMPORARY}"
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write a folder to the disk: a file's name is safe only then."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
