"""Recovery after an interruption: damage is cut out of a journal and kept beside it.

Nothing is thrown away. A torn tail goes to NNNNNN.torn, a later one to NNNNNN.2.torn. A segment that is damaged
elsewhere is kept as NNNNNN.bad and written again without the damage; its records keep their numbers, so that a gap
stays visible. A segment of another run becomes a .bad, too, and so does the Parquet part of a damaged segment: it may
hold what the journal no longer has. A run without an end mark gets one, which says that it was interrupted, or that
its end was cut off.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from . import locking
from .reader import (
    JournalFault,
    JournalSegment,
    faults_of,
    find_journals,
    foreign,
    read_header,
    read_segment,
    segment_paths,
)
from .record_format import (
    Ending,
    Header,
    JournalError,
    Record,
    RecordKind,
    encode_header,
    encode_record,
    end_mark,
    lost_payload,
)

TEMPORARY = ".new"
ANYBODY = 0o666  # less what the umask takes
PRIVATE, SHARED = 0o600, 0o640


@dataclass(frozen=True, slots=True)
class Recovery:
    """The damage found in a run's folder, and the files that it was moved to."""

    folder: Path
    faults: tuple[JournalFault, ...]
    aside: tuple[Path, ...]
    marked: bool = False  # its end, which was not


def recover(folder: Path) -> Recovery:
    """Cut off the torn end of an interrupted run. Damage elsewhere is reported and left for `repair`.

    `JournalError` if the journal is being written.
    """
    with locking.locked(folder):
        _sweep(folder)
        faults: list[JournalFault] = []
        aside: list[Path] = []
        paths = segment_paths(folder)
        salt = _salt(paths)
        for path in paths[-2:]:  # of the last but one the end mark may be torn
            segment = read_segment(path, salt=salt)
            faults += faults_of(segment)
            aside += _cut_tail(segment)
        marked = bool(paths) and _mark_end(paths[-1], salt, Ending.INTERRUPTED, locking.noted_lost(folder))
        return Recovery(folder, tuple(faults), tuple(aside), marked)


def _salt(paths: tuple[Path, ...]) -> int:
    return next((header.salt for header in map(read_header, reversed(paths)) if header is not None), 0)


def interrupted_runs(logs: Path) -> list[Path]:
    """The runs in a folder of logs that were interrupted and not recovered yet."""
    return [run for run in find_journals(logs) if locking.was_interrupted(run)] if logs.is_dir() else []


def repair(folder: Path) -> Recovery:
    """Move all damage aside, from the first segment to the last."""
    # Whoever ends in order takes the lock away: if none was left, an end that is missing was cut off later.
    interrupted = locking.was_interrupted(folder)
    known = _known(folder)
    with locking.locked(folder):
        _sweep(folder)
        faults: list[JournalFault] = []
        aside: list[Path] = []
        last: Path | None = None
        for number, path in enumerate(segment_paths(folder)):
            segment = read_segment(path, salt=known.salt)
            if (other := foreign(segment, known.run)) is not None:
                faults.append(other)
                if not other.intact:  # else whoever renamed it knows what to do
                    aside += [_move(path, path.stem), *_move_parts(folder, path)]
                continue
            last = path
            found = list(faults_of(segment))
            faults += found
            if any(not fault.tail for fault in found):
                place = int(path.stem) if path.stem.isdecimal() else number
                aside += _rewrite(segment, replace(known, segment=place, salt=segment.salt))
            else:
                aside += _cut_tail(segment)
            if found:
                aside += _move_parts(folder, path)
        how = Ending.INTERRUPTED if interrupted else Ending.CUT
        marked = last is not None and _mark_end(last, known.salt, how, locking.noted_lost(folder))
        return Recovery(folder, tuple(faults), tuple(aside), marked)


def _known(folder: Path) -> Header:
    """A header of the run whose folder this is, or as much of one as can be made up."""
    headers = [header for header in map(read_header, segment_paths(folder)) if header is not None]
    run = _run_of(folder, headers)
    return next((header for header in headers if header.run == run), None) or _made_up(folder)


def _run_of(folder: Path, headers: Iterable[Header]) -> str:
    """The run that the folder is named after, or that most segments are of."""
    counts = Counter(header.run for header in headers)
    if folder.name in counts or not counts:
        return folder.name
    (run, most), *others = counts.most_common(2)
    if others and others[0][1] == most:
        raise JournalError(
            f"{folder}: has as many segments of run {others[0][0]} as of run {run}; move those away that belong "
            "elsewhere"
        )
    return run


def _mark_end(path: Path, salt: int, how: Ending, lost: locking.Lost) -> bool:
    """Mark the end of a run that has no mark. What is missing after its last mark stays missing.

    `lost`: what the writer could note on a full disk.
    """
    segment = read_segment(path, salt=salt)
    if segment.scan.mark is not None or segment.header is None:
        return False
    numbers, head = segment.records.head["number"], segment.records.head
    number = int(numbers[-1]) + 1 if len(numbers) else segment.header.first
    mono_ns, wall_ns = (int(head[name][-1]) if len(head) else 0 for name in ("mono_ns", "wall_ns"))
    content = b""
    if number < lost.number < (1 << 63) - 1:
        if lost.number - number == lost.records:  # else others are missing too, for another reason
            payload = lost_payload(lost.records, lost.reason)
            told = Record(lost.number, RecordKind.LOST, 0, mono_ns, wall_ns, payload)
            content = encode_record(told, segment.salt)
        number = lost.number + bool(content)
    with path.open("ab") as file:
        file.write(content + end_mark(number, how, mono_ns, wall_ns, segment.salt))
        file.flush()
        os.fsync(file.fileno())
    return True


def _made_up(folder: Path) -> Header:
    """A header for a run that has none left: its records are still useful."""
    return Header(folder.name, "", "", (), 0, 0, 0, rebuilt=True)


def _sweep(folder: Path) -> None:
    """Remove a segment under its temporary name: it held nothing yet."""
    for path in folder.glob(f".*{TEMPORARY}"):
        path.unlink()


def _cut_tail(segment: JournalSegment) -> list[Path]:
    """Copy the torn tail, then cut it off: an interruption in between does no harm."""
    if not segment.torn:
        return []
    torn = segment.raw[segment.scan.end :]
    aside = _free(segment.path, segment.path.stem, ".torn", torn)
    write_whole(aside, torn, _mode(segment.path))
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
    if segment.scan.mark is not None:
        content.append(segment.raw[segment.scan.mark.at : segment.scan.end])
    aside, mode = _free(segment.path, segment.path.stem, ".bad", segment.raw), _mode(segment.path)
    write_whole(aside, segment.raw, mode)
    write_whole(segment.path, b"".join(content), mode)
    return [aside]


def _move_parts(folder: Path, changed: Path) -> list[Path]:
    """Put the changed segment's part aside: it must be made again, and may hold what that has lost."""
    from .parquet_parts import part_paths

    return [_move(path, path.name) for path in part_paths(folder) if path.stem == changed.stem]


def _move(path: Path, name: str) -> Path:
    aside = _free(path, name, ".bad")
    path.replace(aside)
    sync_folder(path.parent)
    return aside


def _free(path: Path, name: str, ending: str, content: bytes | None = None) -> Path:
    """A free name beside this file for what is put aside; an equal file is replaced."""
    number, aside = 1, path.with_name(f"{name}{ending}")
    while aside.exists() and not (aside.is_file() and aside.read_bytes() == content):
        number += 1
        aside = path.with_name(f"{name}.{number}{ending}")
    return aside


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write_whole(path: Path, content: bytes, mode: int = ANYBODY) -> None:
    """Write a file that appears on the disk completely or not at all."""
    partial = path.parent / f".{path.name}{TEMPORARY}"
    with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> int:
    """Make a run's folder, and those it is to be in, so that they are there after a loss of power. The mode of its
    files is returned: only their user reads them, unless the folder's group is handed on to what is made in it."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(made):
        path.mkdir(0o750 if path == folder and _is_shared(path.parent) else 0o700, exist_ok=True)
        with contextlib.suppress(OSError):  # we may not read it, or its file system cannot do it
            sync_folder(path.parent)
    return SHARED if _is_shared(folder) else PRIVATE


def _is_shared(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_ISGID)


def sync_folder(folder: Path) -> None:
    """Write a folder to the disk: a file's name is safe only then."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
