"""Makes the states of a journal's files that a loss of power may leave, and recovers from each.

    python -m tests.soak.crash_states --pieces 20 --json

A real writer runs on a shim that notes what it asks of the file system: writes, renames, syncs. Then the power goes
after any of these calls. POSIX promises only what was synced: of the rest of a file any part may be there, torn at any
byte, in any order, as zeros where it is missing; of the names that were not synced any may be there. Each state is made
in a folder and recovered, and sometimes the power goes again during the recovery. Then:

- what had been synced is there, unchanged;
- nothing is there that was not appended, and nothing twice;
- missing records, between others or at the end, are reported.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from basestation.arrivals import Arrival
from basestation.journal import recovery, writer
from basestation.journal.decision import Decision, Fate
from basestation.journal.reader import JournalHole, read_journal, read_segment
from basestation.journal.record_format import Ending, JournalError, RecordKind
from basestation.journal.recovery import interrupted_runs, recover
from basestation.journal.writer import JournalWriter
from tests.soak.running import Piece, Search

RUN = "run"
AGAIN = 0.2  # of the states the power goes again during their recovery
EVERY = 500  # states of a piece


class Call(NamedTuple):
    """What was asked of the file system. `file` is a number for the file, whatever it is called."""

    what: str  # create, write, cut, sync, rename, unlink, mkdir, syncdir
    path: str = ""  # relative to the folder of logs
    file: int = 0
    at: int = 0
    raw: bytes = b""
    to: str = ""


@dataclass(slots=True)
class Recorded:
    """The calls of a run, and the records, each with the number of calls before it."""

    calls: list[Call] = field(default_factory=list)
    appended: list[tuple[int, int, bytes]] = field(default_factory=list)  # calls, number, payload
    promised: list[tuple[int, dict[int, bytes]]] = field(
        default_factory=list
    )  # calls, and what was safe by then

    def promise(self) -> None:
        self.promised.append((len(self.calls), {number: payload for _, number, payload in self.appended}))


class Shim:
    """Stands in for the functions of `os` that a writer uses, passes all on and notes them."""

    def __init__(self, logs: Path) -> None:
        self.logs, self.done = logs, Recorded()
        self.full = False  # the disk takes only half of a write
        self._files: dict[int, int] = {}  # by handle
        self._ids: dict[str, int] = {}  # by path
        self._folders: dict[int, str] = {}
        self._real = {
            name: getattr(os, name)
            for name in (
                "open",
                "write",
                "close",
                "fsync",
                "fdatasync",
                "ftruncate",
                "replace",
                "unlink",
                "mkdir",
            )
        }

    def __enter__(self) -> Recorded:
        self._stack = contextlib.ExitStack()
        for name in self._real:
            self._stack.enter_context(mock.patch.object(os, name, getattr(self, name)))
        self._stack.enter_context(mock.patch.object(writer, "_to_disk", self.fsync))
        self._stack.enter_context(mock.patch.object(recovery, "open", self.open_file, create=True))
        self._stack.enter_context(mock.patch.object(Path, "open", _opener(self)))
        return self.done

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _name(self, path: Any) -> str | None:
        with contextlib.suppress(ValueError):
            return str(Path(os.fspath(path)).relative_to(self.logs))
        return None

    def _note(self, what: str, path: str = "", **more: Any) -> None:
        self.done.calls.append(Call(what, path, **more))

    def open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        name = self._name(path)
        new = name is not None and not os.path.lexists(path)
        handle: int = self._real["open"](path, flags, mode, **more)
        if name is None:
            return handle
        if os.path.isdir(path):
            self._folders[handle] = name
            return handle
        if new:
            self._ids[name] = 1 + max(self._ids.values(), default=0)
            self._note("create", name, file=self._ids[name])
        self._files[handle] = self._ids[name]
        if flags & os.O_TRUNC and not new:
            self._note("cut", file=self._ids[name])
        return handle

    def open_file(self, path: Any, mode: str, opener: Callable[[Any, int], int] | None = None) -> Any:
        """A file without a buffer, whose calls are ours."""
        if self._name(path) is None or mode == "rb":
            return open(path, mode)
        flags = {
            "wb": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
            "ab": os.O_WRONLY | os.O_APPEND,
            "rb+": os.O_RDWR,
        }
        return _File(self, opener(path, flags[mode]) if opener else self.open(path, flags[mode], 0o600))

    def write(self, handle: int, raw: bytes) -> int:
        if handle in self._files:
            at = os.fstat(handle).st_size
            raw = raw[: len(raw) // 2] if self.full else raw
            self._note("write", file=self._files[handle], at=at, raw=bytes(raw))
        return int(self._real["write"](handle, raw))

    def ftruncate(self, handle: int, size: int) -> None:
        self._real["ftruncate"](handle, size)
        if handle in self._files:
            self._note("cut", file=self._files[handle], at=size)

    def fsync(self, handle: int) -> None:
        if handle in self._files:
            self._note("sync", file=self._files[handle])
        elif handle in self._folders:
            self._note("syncdir", self._folders[handle])

    fdatasync = fsync

    def close(self, handle: int) -> None:
        self._files.pop(handle, None)
        self._folders.pop(handle, None)
        self._real["close"](handle)

    def replace(self, old: Any, new: Any) -> None:
        self._real["replace"](old, new)
        if (name := self._name(old)) is not None:
            target = self._name(new) or ""
            self._ids[target] = self._ids.pop(name)
            self._note("rename", name, to=target)

    def unlink(self, path: Any, **more: Any) -> None:
        self._real["unlink"](path, **more)
        if (name := self._name(path)) is not None:
            self._ids.pop(name, None)
            self._note("unlink", name)

    def mkdir(self, path: Any, mode: int = 0o777, **more: Any) -> None:
        self._real["mkdir"](path, mode, **more)
        if (name := self._name(path)) is not None:
            self._note("mkdir", name)

    def knows(self, folder: Path) -> None:
        """Take the files of a folder as there and synced: a recovery begins with them."""
        self._note("mkdir", str(folder.relative_to(self.logs)))
        for path in sorted(folder.iterdir()):
            name, number = str(path.relative_to(self.logs)), 1 + len(self._ids)
            self._ids[name] = number
            self._note("create", name, file=number)
            self._note("write", file=number, raw=path.read_bytes())
            self._note("sync", file=number)
        self._note("syncdir", str(folder.relative_to(self.logs)))
        self._note("syncdir", ".")


def _opener(shim: Shim) -> Callable[[Path, str], Any]:
    def open_path(path: Path, mode: str = "r") -> Any:
        return shim.open_file(path, mode)

    return open_path


class _File:
    def __init__(self, shim: Shim, handle: int) -> None:
        self._shim, self._handle = shim, handle

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._shim.close(self._handle)

    def fileno(self) -> int:
        return self._handle

    def write(self, raw: bytes) -> None:
        self._shim.write(self._handle, raw)

    def truncate(self, size: int) -> None:
        self._shim.ftruncate(self._handle, size)

    def flush(self) -> None:
        pass


# ---- What is recorded ----


def recorded(seed: int) -> Recorded:
    """A run: some segments, some records that the disk refuses, an end or none."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        logs = Path(place)
        shim = Shim(logs)
        with shim as done:
            sync = draw.choice(
                ("always", "never")
            )  # the thread of `interval` syncs when it will: we do it here
            log = JournalWriter(logs / RUN, None, RUN, sync, segment_bytes=draw.choice((400, 900, 5000)))
            for number in range(draw.randrange(3, 30)):
                shim.full = draw.random() < 0.08
                arrival = Arrival(0, number, number, b"%d " % number + draw.randbytes(draw.randrange(80)))
                begun = len(done.calls)
                with contextlib.suppress(JournalError):
                    done.appended.append((begun, place := log.append(arrival), arrival.packet))
                    log.append_decision(place, arrival, Decision(Fate.MESSAGE, is_long=draw.random() < 0.7))
                    if sync == "always":
                        done.promise()
                shim.full = False
                if draw.random() < 0.2:
                    log.sync()
                    done.promise()
            if draw.random() < 0.6:
                log.close()
                done.promise()
            else:  # nothing more is asked of the file system
                calls = list(done.calls)
                log.close()
                done.calls[:] = calls
    return done


# ---- What a loss of power leaves ----


@dataclass(slots=True)
class Inode:
    """A file: what is surely in it, and what was asked for since."""

    safe: bytes = b""
    later: list[Call] = field(default_factory=list)

    def sync(self) -> None:
        self.safe = applied(self.safe, self.later)
        self.later = []


def applied(content: bytes, calls: list[Call]) -> bytes:
    raw = bytearray(content)
    for call in calls:
        if call.what == "cut":
            del raw[call.at :]
        else:
            raw.extend(bytes(max(0, call.at - len(raw))))
            raw[call.at : call.at + len(call.raw)] = call.raw
    return bytes(raw)


def left_of(inode: Inode, draw: random.Random) -> bytes:
    """The file after the loss of power: what is safe, and any part of the rest."""
    how = draw.choice(("all", "none", "first", "some", "some"))
    later = inode.later
    if how == "none":
        later = []
    elif how == "first":
        later = later[: draw.randrange(len(later) + 1)]
    elif how == "some":
        later = [call for call in later if draw.random() < 0.5]
        if draw.random() < 0.3:
            draw.shuffle(later)
        later = [_torn(call, draw) if draw.random() < 0.3 else call for call in later]
    content = applied(inode.safe, [call for call in later if call.what == "write" or how != "some"])
    if how == "some" and draw.random() < 0.2:  # the length came to the disk, the bytes did not
        content += bytes(max(0, len(applied(inode.safe, inode.later)) - len(content)))
    return content


def _torn(call: Call, draw: random.Random) -> Call:
    """Any piece of a write."""
    begin, end = sorted(draw.randrange(len(call.raw) + 1) for _ in range(2))
    if draw.random() < 0.7:
        begin = 0
    return call._replace(at=call.at + begin, raw=call.raw[begin:end])


@dataclass(slots=True)
class Names:
    """A folder's names, of files or folders: those that are safe, and what was asked for since."""

    safe: dict[str, int] = field(default_factory=dict)
    later: list[Call] = field(default_factory=list)


def _change(names: dict[str, int], call: Call) -> None:
    if call.what in ("create", "mkdir"):
        names[call.path] = call.file
    elif call.what == "unlink":
        names.pop(call.path, None)
    elif call.path in names or call.file:
        names.pop(call.path, None)
        names[call.to] = call.file


@dataclass(frozen=True, slots=True)
class State:
    """The files after a loss of power, by their names, and what had to be safe then."""

    files: dict[str, bytes]
    must: dict[int, bytes]  # payloads by number
    may: dict[int, bytes]


def state_after(done: Recorded, cut: int, draw: random.Random) -> State:
    """A state in which the power went after the first `cut` calls."""
    inodes: dict[int, Inode] = {}
    names: dict[str, Names] = {".": Names(), RUN: Names()}
    now: dict[str, int] = {}
    for call in done.calls[:cut]:
        if call.what in ("write", "cut"):
            inodes[call.file].later.append(call)
        elif call.what == "sync":
            inodes[call.file].sync()
        elif call.what == "syncdir":
            folder = names[call.path]
            for change in folder.later:
                _change(folder.safe, change)
            folder.later = []
        else:
            if call.what == "create":
                inodes[call.file] = Inode()
            call = call._replace(file=call.file or now.get(call.path, 0))
            _change(now, call)
            names[str(Path(call.path).parent)].later.append(call)
    may = {number: payload for calls, number, payload in done.appended if calls <= cut}
    must = [promised for calls, promised in done.promised if calls <= cut]
    return State(_files(inodes, names, draw), must[-1] if must else {}, may)


def _files(inodes: dict[int, Inode], names: dict[str, Names], draw: random.Random) -> dict[str, bytes]:
    there = dict(names["."].safe)
    if RUN not in there and (not names["."].later or draw.random() < 0.5):
        return {}
    found = dict(names[RUN].safe)
    share = draw.choice((0.0, 0.5, 1.0))
    for call in names[RUN].later:
        if draw.random() < share:
            _change(found, call)
    return {name: left_of(inodes[file], draw) for name, file in found.items()}


def make(state: State, logs: Path) -> None:
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    for name, content in state.files.items():
        path = logs / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


# ---- What has to hold ----


def check(state: State, logs: Path, draw: random.Random) -> str:
    """Recover a state, and return what does not hold; empty if all does."""
    make(state, logs)
    if draw.random() < AGAIN and (logs / RUN / "lock").exists() and list((logs / RUN).glob("*.cwj")):
        state = _cut_off_again(state, logs, draw)
        make(state, logs)
    for run in interrupted_runs(logs):
        recover(run)
    segments = list((logs / RUN).glob("*.cwj"))
    if not segments:
        return f"all of {len(state.must)} records is lost" if state.must else ""
    try:
        return _compare(state, logs / RUN)
    except JournalError as error:
        return f"it can't be read: {error}" if state.must else ""


def _cut_off_again(state: State, logs: Path, draw: random.Random) -> State:
    """The power goes during the recovery."""
    shim = Shim(logs)
    with shim as done:
        shim.knows(logs / RUN)
        begun = len(done.calls)
        recover(logs / RUN)
    again = state_after(done, draw.randrange(begun, len(done.calls) + 1), draw)
    return State(again.files, state.must, state.may)


def _compare(state: State, run: Path) -> str:
    told: list[Any] = []
    found = [record for record in read_journal(run).records(told.append) if record.kind == RecordKind.FRAME]
    numbers = [record.number for record in found]
    if numbers != sorted(set(numbers)):
        return f"records twice, or out of order: {numbers}"
    there = {record.number: record.payload for record in found}
    if lost := [number for number, payload in state.must.items() if there.get(number) != payload]:
        return f"records that were synced are lost or changed: {lost}"
    if invented := [number for number, payload in there.items() if state.may.get(number) != payload]:
        return f"records that were never appended: {invented}"
    holes = [hole for hole in told if isinstance(hole, JournalHole)]
    open_end = any(hole.last is None for hole in holes) or _interrupted(run)
    missing = [n for n in state.may if n not in there and not _is_told(n, holes, numbers, open_end)]
    return f"records are missing, and nothing says so: {missing}" if missing else ""


def _interrupted(run: Path) -> bool:
    """Whether the run says itself that it did not end in order: then its last records may be missing."""
    mark = read_segment(read_journal(run).paths[-1]).scan.mark
    return mark is None or mark.how != Ending.CLOSED


def _is_told(number: int, holes: list[JournalHole], there: list[int], open_end: bool) -> bool:
    if open_end and (not there or number > there[-1]):
        return True
    return any(hole.first <= number and (hole.last is None or number <= hole.last) for hole in holes)


# ---- Many of them ----


def states(first: int, count: int) -> Iterator[tuple[int, Recorded, int]]:
    """Numbers of states from `first` on, each with a recorded run and the call after which the power goes."""
    number, seed = 0, 0
    while number < first + count:
        done = recorded(seed)
        for cut in range(len(done.calls) + 1):
            for _ in range(3):
                if first <= number < first + count:
                    yield number, done, cut
                number += 1
        seed += 1


def run_states(first: int, count: int) -> dict[int, str]:
    """What does not hold, by the number of the state."""
    bad: dict[int, str] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as place:
        for number, done, cut in states(first, count):
            draw = random.Random(number)
            state = state_after(done, cut, draw)
            try:
                fault = check(state, Path(place) / "logs", draw)
            except Exception as error:
                fault = f"the recovery failed: {error!r}"
            if fault:
                bad[number] = fault
    return bad


def piece(number: int) -> Piece:
    bad = run_states(number * EVERY, EVERY)
    return Piece("states", {"states": EVERY}, [f"state {at}: {why}" for at, why in bad.items()])


SEARCH = Search("crash_states", "states", 10_000, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
