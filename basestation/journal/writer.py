"""Writes the journal. Every frame is in it before anything acts on the frame."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from basestation.arrivals import Arrival, Line, PolicyChange
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameCounters
from packet_formats.phrases import many

from . import locking
from .decision import DECIDER, Decision, mics_of
from .reader import read_journal, segment_name, segment_paths
from .record_format import (
    PAYLOAD_LIMIT,
    Ending,
    Header,
    JournalError,
    Record,
    RecordKind,
    change_payload,
    encode_header,
    encode_record,
    end_mark,
    line_payload,
    lost_payload,
)
from .recovery import TEMPORARY, make_folder, write_whole

__all__ = [
    "SYNCS",
    "JournalError",
    "JournalWriter",
    "Sync",
    "UnsyncedError",
    "new_run_id",
    "read_journal",
]

Sync = Literal["always", "interval", "never"]
SYNCS: tuple[Sync, ...] = ("always", "interval", "never")
SEGMENT_BYTES = 16 << 20
INTERVAL_S = 0.2
ROOM_BYTES = 4096  # a block, or what a file of this size takes
_to_disk = getattr(os, "fdatasync", os.fsync)  # macOS has only the other


class UnsyncedError(JournalError):
    """The record is in the log, with this number; but the disk failed, and may not keep it, nor others before it."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


def _commit(file: int) -> None:
    _to_disk(file)
    _check_there(file)


def _check_there(file: int) -> None:
    """Refuse to go on with a file that was deleted: it would take everything and keep nothing."""
    if not os.fstat(file).st_nlink:
        raise OSError(errno.ENOENT, "it was deleted while it was written")


class _Tail:
    """The end of a segment's file, where records are appended: each of them whole, or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.size = os.fstat(self.file).st_size  # up to the end of the last whole record
        self._torn = False  # there may be a part of a record behind that

    def append(self, raw: bytes) -> None:
        if self._torn:
            self._skip_torn()
        try:
            if os.write(self.file, raw) != len(raw):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):
                self._cut_torn()
            raise
        self.size += len(raw)

    def _cut_torn(self) -> None:
        os.ftruncate(self.file, self.size)
        self._torn = False

    def _skip_torn(self) -> None:
        """Cut off what a failed write left. If the file refuses that, what follows goes behind it: then only the file
        knows its size, and what readers pass over is between the records."""
        try:
            self._cut_torn()
        except OSError:
            self.size = os.fstat(self.file).st_size
            self._torn = False


def new_run_id(wall_ns: int | None = None) -> str:
    """A name for a run: when it began, in UTC, and six hex digits: the part of the second, then random ones.

    So names are in the order of time, though two runs begin in one second.
    """
    second, ns = divmod(time.time_ns() if wall_ns is None else wall_ns, 10**9)
    digits = f"{ns * 0x1000 // 10**9:03x}{secrets.randbelow(0x1000):03x}"
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(second))}-{digits}"


class JournalWriter:
    """Appends to one run's journal. A run is never continued: each has its own folder and its own clock.

    An append returns when the operating system has the record, so a killed process loses nothing. Against power loss,
    `always` waits for the disk, `interval` writes to the disk at most `interval_s` later, and `never` leaves it to the
    operating system. Decisions never wait for the disk, since they can be made again.

    A record that can't be written completely is taken back, and `JournalError` says why. The next append may work. The
    record's number is not used again, and a lost record tells how many there were, as soon as one can be written.
    `UnsyncedError` says that a record was written, but not kept by the disk: that is tried again, and when it works a
    note in the log says which records may be lost.

    Only the user can read the journal. If its folder is made in one that hands its group on (`chmod g+s`), so can that
    group.
    """

    def __init__(
        self,
        folder: Path,
        deployment: Deployment | None,
        run_id: str,
        sync: Sync = "interval",
        *,
        site: str = "",
        sources: Sequence[str] = (),
        policy: str = "",
        phi: int = 100,
        tolerate: float | None = None,
        allowance_ns: int | None = None,
        interval_s: float = INTERVAL_S,
        segment_bytes: int = SEGMENT_BYTES,
        on_closed: Callable[[Path], None] | None = None,
    ) -> None:
        """Begin a run. `on_closed` is called with each segment that is full: it will not change any more."""
        self.written = 0  # bytes of records
        self._closed = False
        self._full = segment_bytes  # bytes with which the next segment is due
        self._lost, self._reason = 0, ""  # records that could not be written, and are not told of yet
        self._mode = make_folder(folder)
        self._lock = locking.take(folder)
        try:
            if segment_paths(folder):
                raise JournalError(
                    f"{folder}: holds a run already, and a run is never continued: give another folder"
                )
            self.folder = folder
            self._header = Header(
                run=run_id,
                site=site or (deployment.network.name if deployment else ""),
                deployment=deployment.to_toml() if deployment else "",
                sources=tuple(sources),
                started_wall_ns=time.time_ns(),
                segment=0,
                first=0,
                policy=policy,
                phi=phi,
                allowance_ns=allowance_ns,
                tolerate=tolerate,
                salt=secrets.randbelow((1 << 32) - 1) + 1,
                decider=DECIDER if deployment else 0,
                mics=mics_of(deployment),
            )
            self._sync, self._segment_bytes, self._on_closed = sync, segment_bytes, on_closed
            self._next = self._segments = 0
            self._tail = self._open_segment()
            self._room = _Room(folder)
        except BaseException:
            locking.drop(self._lock)
            raise
        self._doubt = _Doubt()
        self._committer = _Committer(interval_s, self._tail.file, self._doubt) if sync == "interval" else None

    def folder_at(self, wall_ms: float) -> Path:
        """It is all in one run."""
        return self.folder

    def append(self, line: Line) -> int:
        """Append a frame or a gap, and return the record's number."""
        self._roll_if_full()
        kind, payload = line_payload(line)
        return self._write(kind, line.gateway, line.mono_ns, line.wall_ns, payload)

    def append_decision(self, number: int, arrival: Arrival, decision: Decision) -> int:
        """Append what the station made of frame `number`. Call it before the next frame is appended, so that it is in
        the same segment."""
        payload = decision.encode(number)
        return self._write(
            RecordKind.DECISION, arrival.gateway, arrival.mono_ns, arrival.wall_ns, payload, wait=False
        )

    def append_counters(
        self, gateway: int, counters: FrameCounters | Mapping[str, Any], mono_ns: int, wall_ns: int
    ) -> int:
        plain = asdict(counters) if isinstance(counters, FrameCounters) else dict(counters)
        return self._write(RecordKind.COUNTERS, gateway, mono_ns, wall_ns, json.dumps(plain).encode())

    def append_policy(self, change: PolicyChange, clock: int | None) -> int:
        """Append a change of policy; `clock`, in cycles, is how far deliveries had got."""
        return self._write(
            RecordKind.POLICY, 0, change.mono_ns, change.wall_ns, change_payload(change, clock)
        )

    def append_note(self, text: str, mono_ns: int, wall_ns: int) -> int:
        """Append something for people, such as who sent a command."""
        return self._write(
            RecordKind.NOTE, 0, mono_ns, wall_ns, text.encode(errors="replace")[:PAYLOAD_LIMIT]
        )

    def sync(self) -> None:
        """Write all appended records to the disk."""
        self._sync_now()

    def close(self) -> None:
        """End the run: mark its end, and have all of it on the disk. Without that it counts as interrupted."""
        if self._closed:
            return
        self._closed = True
        if self._committer:
            self._committer.stop()
        try:
            self._finish()
            self._room.free()
            locking.leave(self._lock)
        except BaseException:
            locking.drop(self._lock)
            raise
        finally:
            os.close(self._tail.file)

    def _finish(self) -> None:
        """Mark the end of the run. On a full disk the room that was kept for it is used."""
        try:
            self._tell_end()
        except JournalError:
            self._room.free()
            try:
                self._tell_end()
            except JournalError as error:
                more = f"; nor could {many(self._lost, 'record')} before it" if self._lost else ""
                raise JournalError(f"{error}{more}") from error
        try:
            os.fsync(self._tail.file)
            _check_there(self._tail.file)
        except OSError as error:
            raise JournalError(f"{self._tail.path}: not on the disk: {error.strerror}") from error

    def _tell_end(self) -> None:
        """Nothing is marked as closed that does not say what it lacks, and why."""
        mono_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        self._tell_lost(mono_ns, wall_ns)
        self._tell_doubt(mono_ns, wall_ns)
        self._put(self._end(Ending.CLOSED))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(
        self, kind: RecordKind, gateway: int, mono_ns: int, wall_ns: int, payload: bytes, wait: bool = True
    ) -> int:
        if self._closed:
            raise JournalError(f"{self.folder}: the journal is closed")
        try:
            self._tell_lost(mono_ns, wall_ns)
            self._tell_doubt(mono_ns, wall_ns)
            self._append(Record(self._next, kind, gateway, mono_ns, wall_ns, payload))
        except JournalError as error:
            self._lost += 1
            self._reason = str(error).removeprefix(f"{self._tail.path}: ")
            self._next += 1  # a hole, which readers see
            locking.note_lost(self._lock, self._next, self._lost, self._reason)
            raise
        if self._sync == "always" and wait:
            self._sync_now()
        elif self._committer:
            self._committer.mark(self._next - 1)
        return self._next - 1

    def _append(self, record: Record) -> None:
        raw = encode_record(record, self._header.salt)
        self._put(raw)
        self._next += 1
        self.written += len(raw)

    def _tell_lost(self, mono_ns: int, wall_ns: int) -> None:
        """Say in the log what is not in it."""
        if self._lost:
            payload = lost_payload(self._lost, self._reason)
            self._append(Record(self._next, RecordKind.LOST, 0, mono_ns, wall_ns, payload))
            self._lost = 0

    def _tell_doubt(self, mono_ns: int, wall_ns: int) -> None:
        """Say in the log what may be missing from it after a loss of power."""
        if text := self._doubt.told:
            self._append(Record(self._next, RecordKind.NOTE, 0, mono_ns, wall_ns, text.encode()))
            self._doubt.forget(text)

    def _end(self, how: Ending) -> bytes:
        return end_mark(self._next, how, time.monotonic_ns(), time.time_ns(), self._header.salt)

    def _sync_now(self) -> None:
        newest = self._next - 1
        try:
            _commit(self._tail.file)
        except OSError as error:
            text = self._doubt.failed(newest, error.strerror or str(error))
            raise UnsyncedError(f"{self._tail.path}: {text}", newest) from error
        self._doubt.worked(newest)

    def _put(self, raw: bytes) -> None:
        try:
            self._tail.append(raw)
        except OSError as error:
            reason = f"a record could not be written: {error.strerror}"
            raise JournalError(f"{self._tail.path}: {reason}") from error

    def _roll_if_full(self) -> None:
        """Begin the next segment if this one is full. If that fails, go on in this one, which loses nothing."""
        ended = self._tail
        if self._closed or ended.size < self._full or self._next == self._first:
            return
        end = self._end(Ending.GOES_ON)
        try:
            os.fsync(ended.file)  # only the last segment may ever lose records
            self._tail = self._open_segment()
        except OSError:
            self._full = ended.size + self._segment_bytes
            return
        with contextlib.suppress(OSError):  # the beginning of the next segment tells the same
            ended.append(end)
            os.fsync(ended.file)
        if self._committer:
            self._committer.use(self._tail.file)
        os.close(ended.file)
        if self._on_closed:
            self._on_closed(ended.path)

    def _open_segment(self) -> _Tail:
        path = self.folder / segment_name(self._segments)
        write_whole(
            path, encode_header(replace(self._header, segment=self._segments, first=self._next)), self._mode
        )
        tail = _Tail(path)
        self._first, self._full = self._next, self._segment_bytes
        self._segments += 1
        return tail


class _Room:
    """Room on the disk for the end of the log, taken while there is some: a file that gives way to it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f".room{TEMPORARY}"  # a recovery removes what an interruption leaves
        with contextlib.suppress(OSError):
            self._path.write_bytes(os.urandom(ROOM_BYTES))  # zeros may take none

    def free(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class _Doubt:
    """Which records a disk may not have kept, since it failed to. It says so once it works again: what a disk once
    failed to keep, no later success makes sure of."""

    def __init__(self) -> None:
        self._kept = -1  # the newest record that is surely on the disk
        self._first: int | None = None
        self._last, self._reason = -1, ""
        self.told = ""  # what was in doubt when the disk worked again, until the log has it

    def failed(self, newest: int, reason: str) -> str:
        """The disk failed when this was the newest record; what may be lost, in words."""
        if self._first is None:
            self._first = min(self._kept + 1, newest)
        self._last, self._reason = newest, reason
        return self._text()

    def worked(self, newest: int) -> None:
        if self._first is not None:
            self.told, self._first = self._text(), None
        self._kept = newest

    def forget(self, text: str) -> None:
        """The log has this."""
        if self.told == text:
            self.told = ""

    def _text(self) -> str:
        records = (
            f"record {self._first}" if self._first == self._last else f"records {self._first}..{self._last}"
        )
        return f"{records} may not be on the disk: {self._reason}"


class _Committer:
    """A thread that writes to the disk soon after an append: one sync for all records that came meanwhile.

    If the disk fails it tries again, until it works.
    """

    def __init__(self, interval_s: float, file: int, doubt: _Doubt) -> None:
        self._interval_s, self._file, self._doubt = interval_s, file, doubt
        self._lock = threading.Lock()
        self._dirty = threading.Event()
        self._ended = threading.Event()
        self._newest = -1
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="journal sync", daemon=True)
        self._thread.start()

    def mark(self, number: int) -> None:
        """Note that this record was written. A failure of the disk since the last one is raised here, once."""
        self._newest = number
        self._dirty.set()
        if self._failure:
            failure, self._failure = self._failure, ""
            raise UnsyncedError(failure, number)

    def use(self, file: int) -> None:
        """Switch to the next segment; return when the last one is no longer in use."""
        with self._lock:
            self._file = file

    def stop(self) -> None:
        self._ended.set()
        self._dirty.set()
        self._thread.join()

    def _run(self) -> None:
        while self._dirty.wait() and not self._ended.wait(self._interval_s):
            self._dirty.clear()
            if self._ended.is_set():  # an end that came meanwhile was cleared with the mark
                return
            with self._lock:
                newest = self._newest
                try:
                    _commit(self._file)
                    self._doubt.worked(newest)
                except OSError as error:
                    self._failure = self._doubt.failed(newest, error.strerror or str(error))
                    self._dirty.set()
