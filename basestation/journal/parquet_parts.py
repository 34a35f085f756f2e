"""Parquet parts, one for each closed segment of a journal. They can be made again at any time, byte for byte.

`python -m basestation.journal.parquet_parts FOLDER` makes those that are missing. The base station runs it in
a process of its own, so that making a part never delays a delivery.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from basestation.traces.files import open_table, write_table
from basestation.traces.schema import metadata
from packet_formats.deployment import Deployment
from packet_formats.phrases import many, visible

from . import locking
from .decision import MICS_ABSENT, MICS_UNCHECKED, Decider, Fate
from .projection import Projection, project_segment
from .reader import (
    Journal,
    JournalNote,
    JournalSegment,
    Report,
    fast_walk,
    faults_of,
    foreign,
    read_journal,
    read_segment,
)
from .record_format import JournalError
from .recovery import make_folder, sync_folder
from .sidecar import decider_of

PARTS = "messages"
META_SEGMENT = b"causeway.segment"
META_DECIDER = b"causeway.decider"  # the version of the rules by which its frames were decided
META_MICS = b"causeway.mics"  # whether the MICs of its messages were checked; not there if they have none
Marks = dict[bytes, str]


def part_paths(folder: Path) -> list[Path]:
    return sorted((folder / PARTS).glob("[0-9]*.parquet"))


def make_parts(
    folder: Path, report: Report, *, again: bool = False, deployment: Deployment | None = None
) -> list[Path]:
    """Make the parts of all closed segments that have none yet, or of all. The last segment is open while it is
    written.

    A part needs its segment only. One whose frames were decided anew since is made again. A deployment is given where
    the log's own is not to be read. The report says how many messages nobody checked, and how many were refused.
    """
    journal = read_journal(folder)
    journal.tell_remarks(report)
    deployment = deployment or journal.deployment
    closed = journal.paths[: -1 if locking.is_taken(folder) else None]
    mode = make_folder(folder / PARTS)
    made, found, unchecked = [], [], 0
    for path in closed:
        part, marks = folder / PARTS / f"{path.stem}.parquet", marks_of(decider_of(path))
        if part.exists() and not again and _marks_in(part) == marks:
            continue
        segment = read_segment(path, fast_walk(), journal.header.salt)
        if (other := foreign(segment, journal.header.run)) is not None:
            report(other)
            continue
        found.append(_make(journal, deployment, segment, part, marks, report, mode))
        unchecked += len(found[-1].messages) if marks.get(META_MICS) == MICS_UNCHECKED else 0
        made.append(part)
    for text in _remarks(found, unchecked):
        report(JournalNote(folder, text))
    return made


def _remarks(found: list[Projection], unchecked: int) -> Iterator[str]:
    taken = sum(len(one.messages) for one in found)
    refused = sum(one.count(fate) for one in found for fate in (Fate.FORGED, Fate.REPLAYED, Fate.UNCHECKED))
    undecided = sum(one.count(Fate.UNDECIDED) for one in found)
    if refused:
        doubt = "" if taken else ": is this the network's key?"
        yield f"{many(refused, 'message')} refused by their MIC, {taken} taken{doubt}"
    if unchecked:
        yield f"{many(unchecked, 'message')} unchecked: nobody gave the network's key"
    if undecided:
        yield f"{many(undecided, 'frame')} without a decision: `basestation log decide` makes it"


def marks_of(decider: Decider | None) -> Marks:
    """What a table of messages says of the decisions that it was made by."""
    if decider is None:
        return {}
    known = {META_MICS: decider.mics} if decider.mics not in ("", MICS_ABSENT) else {}
    return {META_DECIDER: str(decider.rules), **known}


def _marks_in(part: Path) -> Marks | None:
    """The same of a part that is there; None if it can't be read."""
    with (
        contextlib.suppress(pa.ArrowException, OSError),
        part.open("rb") as file,
    ):  # Arrow opens UTF-8 paths only
        said = open_table(file).schema_arrow.metadata or {}
        return {key: str(said[key], errors="replace") for key in (META_DECIDER, META_MICS) if key in said}
    return None


def mics_in(part: Path) -> str | None:
    """Whether the MICs in a part were checked; None where it does not say."""
    return (_marks_in(part) or {}).get(META_MICS)


def _make(
    journal: Journal,
    deployment: Deployment,
    segment: JournalSegment,
    part: Path,
    marks: Marks,
    report: Report,
    mode: int,
) -> Projection:
    for fault in faults_of(segment):
        report(fault)
    found = project_segment(segment, deployment)
    said = metadata(journal.header.run, deployment, origin_of(journal))
    said |= {META_SEGMENT: segment.path.name, **marks}
    partial = part.with_name(f".{part.name}.{os.getpid()}")
    try:
        partial.touch(mode)
        write_table(found.messages.replace_schema_metadata(said), partial)
        partial.replace(part)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(part.parent)
    return found


def origin_of(journal: Journal) -> str:
    return f"journal, site {journal.header.site or 'unknown'}"


class PartRoller:
    """Makes parts while the journal is written: pass `closed` to the writer, and call `finish` after closing it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worker: subprocess.Popen[bytes] | None = None

    def closed(self, path: Path) -> None:
        """Start a worker for the closed segment. If one is running, the next one, or the end, makes this part."""
        if self._worker is None or self._worker.poll() is not None:
            command = [sys.executable, "-m", "basestation.journal.parquet_parts", str(self._folder)]
            with contextlib.suppress(OSError):  # no memory for it now: made at the end
                self._worker = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def finish_apart(self) -> None:
        """Wait until a process of its own has made the rest: for a run that ended while others go on."""
        self._wait()  # the one that runs may have begun before the end
        self.closed(self._folder)
        self._wait()

    def finish(self, report: Report) -> list[Path]:
        """Make the rest here, the last segment's part among it."""
        self._wait()
        return make_parts(self._folder, report)

    def _wait(self) -> None:
        if self._worker is not None:
            self._worker.wait()


def _main(arguments: list[str]) -> None:
    with contextlib.suppress(OSError):
        os.nice(10)  # an observer that delivers in time comes first
    for folder in arguments:
        try:
            make_parts(Path(folder), lambda fault: print(visible(str(fault)), file=sys.stderr))
        except (JournalError, OSError) as error:
            sys.exit(f"{folder}: {error}")


if __name__ == "__main__":
    _main(sys.argv[1:])
