"""Parquet parts, one for each closed segment of a journal. They can be made again at any time, byte for byte.

`python -m basestation.journal.parquet_parts FOLDER` makes those that are missing. The base station runs it in
a process of its own, so that making a part never delays a delivery.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from basestation.traces.files import open_table, write_table
from basestation.traces.schema import metadata
from packet_formats.deployment import Deployment
from packet_formats.keys import Key
from packet_formats.phrases import many, visible

from . import locking
from .frame_table import refused_by_mic
from .message_table import Carry, ReadMessages, read_messages
from .reader import (
    Journal,
    JournalNote,
    JournalSegment,
    Report,
    faults_of,
    foreign,
    read_journal,
    read_segment,
)
from .record_format import JournalError
from .recovery import make_folder, sync_folder

PARTS = "messages"
META_CARRY = b"causeway.carry"
META_SEGMENT = b"causeway.segment"
META_MICS = b"causeway.mics"  # whether the MICs of its messages were checked; not there if they have none
CHECKED, UNCHECKED = "checked", "unchecked"


def part_paths(folder: Path) -> list[Path]:
    return sorted((folder / PARTS).glob("[0-9]*.parquet"))


def make_parts(
    folder: Path,
    report: Report,
    *,
    again: bool = False,
    deployment: Deployment | None = None,
    key: Key | None = None,
) -> list[Path]:
    """Make the parts of all closed segments that have none yet, or of all. The last segment is open while it is
    written.

    Each part's metadata holds what its segment leaves to the next, so making a part needs only the one before it. A
    deployment is given where the log's own is not to be read. MICs are checked by the key; parts that were made
    without it are then made again. Without it the report says how many messages nobody checked.
    """
    journal = read_journal(folder)
    journal.tell_remarks(report)
    deployment = replace(deployment or journal.deployment, key=key)
    closed = journal.paths[: -1 if locking.is_taken(folder) else None]
    mode = make_folder(folder / PARTS)
    carry, made, unchecked, refused, taken = Carry(), [], 0, 0, 0
    sealed = deployment.security.mic > 0
    for path in closed:
        part = folder / PARTS / f"{path.stem}.parquet"
        if part.exists() and not again:
            if not (sealed and key is not None and mics_of(part) != CHECKED):
                carry = _carry_of(part)
                continue
            again = True  # those after it go on from it
        segment = read_segment(path)
        if (other := foreign(segment, journal.header.run)) is not None:
            report(other)
            continue
        reading = _make(journal, deployment, segment, part, carry, report, mode)
        carry = reading.carry
        unchecked += len(reading.messages) if sealed and key is None else 0
        refused += refused_by_mic(reading, deployment)
        taken += len(reading.messages)
        made.append(part)
    if refused:
        doubt = "" if taken else ": is this the network's key?"
        report(JournalNote(folder, f"{many(refused, 'message')} refused by their MIC, {taken} taken{doubt}"))
    if unchecked:
        report(JournalNote(folder, f"{many(unchecked, 'message')} unchecked: nobody gave the network's key"))
    return made


def mics_of(part: Path) -> str | None:
    """Whether the MICs in a part were checked; None where it does not say."""
    with contextlib.suppress(pa.ArrowException, OSError), part.open("rb") as file:
        said = (open_table(file).schema_arrow.metadata or {}).get(META_MICS)
        return None if said is None else str(said, errors="replace")
    return None


def _carry_of(part: Path) -> Carry:
    try:
        with part.open("rb") as file:  # Arrow opens no path that is not UTF-8
            return Carry.from_json(open_table(file).schema_arrow.metadata[META_CARRY].decode())
    except (pa.ArrowException, ValueError, KeyError, TypeError, RecursionError) as error:
        why = type(error).__name__
        raise JournalError(
            f"{part}: it does not say how to go on ({why}); `basestation log parts --again` makes it anew"
        ) from None


def _make(
    journal: Journal,
    deployment: Deployment,
    segment: JournalSegment,
    part: Path,
    carry: Carry,
    report: Report,
    mode: int,
) -> ReadMessages:
    for fault in faults_of(segment):
        report(fault)
    reading = read_messages(segment.records, deployment, carry)
    said = metadata(journal.header.run, deployment, origin_of(journal))
    said |= {META_SEGMENT: segment.path.name, META_CARRY: reading.carry.to_json()}
    if deployment.security.mic:
        said[META_MICS] = UNCHECKED if deployment.key is None else CHECKED
    partial = part.with_name(f".{part.name}.{os.getpid()}")
    try:
        partial.touch(mode)
        write_table(reading.messages.replace_schema_metadata(said), partial)
        partial.replace(part)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(part.parent)
    return reading


def origin_of(journal: Journal) -> str:
    return f"journal, site {journal.header.site or 'unknown'}"


class PartRoller:
    """Makes parts while the journal is written: pass `closed` to the writer, and call `finish` after closing it."""

    def __init__(self, folder: Path, key: Key | None = None) -> None:
        self._folder, self._key = folder, key
        self._worker: subprocess.Popen[bytes] | None = None

    def closed(self, path: Path) -> None:
        """Start a worker for the closed segment. If one is running, the next one, or the end, makes this part."""
        if self._worker is None or self._worker.poll() is not None:
            command = [sys.executable, "-m", "basestation.journal.parquet_parts", str(self._folder)]
            with contextlib.suppress(OSError):  # no memory for it now: made at the end
                self._worker = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                assert self._worker.stdin is not None
                with self._worker.stdin as pipe:  # others see a command's arguments
                    pipe.write(self._key.secret if self._key else b"")

    def finish_apart(self) -> None:
        """Wait until a process of its own has made the rest: for a run that ended while others go on."""
        self._wait()  # the one that runs may have begun before the end
        self.closed(self._folder)
        self._wait()

    def finish(self, report: Report) -> list[Path]:
        """Make the rest here, the last segment's part among it."""
        self._wait()
        return make_parts(self._folder, report, key=self._key)

    def _wait(self) -> None:
        if self._worker is not None:
            self._worker.wait()


def _main(arguments: list[str]) -> None:
    with contextlib.suppress(OSError):
        os.nice(10)  # an observer that delivers in time comes first
    secret = sys.stdin.buffer.read()
    key = Key(secret) if secret else None
    for folder in arguments:
        try:
            make_parts(Path(folder), lambda fault: print(visible(str(fault)), file=sys.stderr), key=key)
        except (JournalError, OSError) as error:
            sys.exit(f"{folder}: {error}")


if __name__ == "__main__":
    _main(sys.argv[1:])
