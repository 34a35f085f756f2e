"""Parquet parts, one for each closed segment of a journal. They can be made again at any time, byte for byte.

`python -m basestation.journal.parquet_parts FOLDER` makes those that are missing. The base station runs it in
a process of its own, so that making a part never delays a delivery.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from basestation.traces.files import write_table
from basestation.traces.schema import metadata
from packet_formats.deployment import Deployment
from packet_formats.phrases import visible

from . import locking
from .message_table import Carry, read_messages
from .reader import Journal, Report, faults_of, read_journal, read_segment
from .record_format import JournalError
from .recovery import make_folder, sync_folder

PARTS = "messages"
META_CARRY = b"causeway.carry"
META_SEGMENT = b"causeway.segment"


def part_paths(folder: Path) -> list[Path]:
    return sorted((folder / PARTS).glob("[0-9]*.parquet"))


def make_parts(
    folder: Path, report: Report, *, again: bool = False, deployment: Deployment | None = None
) -> list[Path]:
    """Make the parts of all closed segments that have none yet, or of all. The last segment is open while it is
    written.

    Each part's metadata holds what its segment leaves to the next, so making a part needs only the one before it. A
    deployment is given where the log's own is not to be read.
    """
    journal = read_journal(folder)
    journal.tell_remarks(report)
    deployment = deployment or journal.deployment
    closed = journal.paths[: -1 if locking.is_taken(folder) else None]
    mode = make_folder(folder / PARTS)
    carry, made = Carry(), []
    for path in closed:
        part = folder / PARTS / f"{path.stem}.parquet"
        if part.exists() and not again:
            carry = _carry_of(part)
            continue
        carry = _make(journal, deployment, path, part, carry, report, mode)
        made.append(part)
    return made


def _carry_of(part: Path) -> Carry:
    try:
        with part.open("rb") as file:  # Arrow opens no path that is not UTF-8
            return Carry.from_json(pq.read_schema(file).metadata[META_CARRY].decode())
    except (pa.ArrowException, ValueError, KeyError, TypeError, RecursionError) as error:
        why = type(error).__name__
        raise JournalError(
            f"{part}: it does not say how to go on ({why}); `basestation log parts --again` makes it anew"
        ) from None


def _make(
    journal: Journal, deployment: Deployment, path: Path, part: Path, carry: Carry, report: Report, mode: int
) -> Carry:
    segment = read_segment(path)
    for fault in faults_of(segment):
        report(fault)
    reading = read_messages(segment.records, deployment, carry)
    said = metadata(journal.header.run, deployment, origin_of(journal))
    said |= {META_SEGMENT: path.name, META_CARRY: reading.carry.to_json()}
    partial = part.with_name(f".{part.name}.{os.getpid()}")
    try:
        partial.touch(mode)
        write_table(reading.messages.replace_schema_metadata(said), partial)
        partial.replace(part)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(part.parent)
    return reading.carry


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
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
                )

    def finish_apart(self) -> None:
        """Wait until a process of its own has made the rest: for a run that ended while others go on."""
        for _ in range(2):  # the one that runs may have begun before the end
            if self._worker is not None:
                self._worker.wait()
            self.closed(self._folder)
        if self._worker is not None:
            self._worker.wait()

    def finish(self, report: Report) -> list[Path]:
        if self._worker is not None:
            self._worker.wait()
        return make_parts(self._folder, report)


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
