"""What was let in without a time: kept beside a run, so that the next one knows it.

In a network with a key, a message that a mote sends out of sync has a MIC that holds no time. The guard lets each in
once, and remembers it; this file remembers it beyond a restart. It begins with what was known when the run began, so
that a replay of the run decides as the run did; behind a line `-` follows what came in it. A line is a mote and the
message's name, in hex. It is a help and no record: a line that makes no sense is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from .reader import find_journals, read_journal
from .record_format import JournalError
from .recovery import make_folder, write_whole

NAME = "strays"
BEGUN = "-"
LONGEST = 64 << 20  # bytes; a longer file is none of ours

Stray = tuple[int, bytes]  # whose it seems to be, and what the guard knows it by


class StrayFile:
    """The strays of a run that is being written. A disk that fails loses them, and the log reports that."""

    def __init__(self, folder: Path, known: Iterable[Stray]) -> None:
        self._path = folder / NAME
        lines = "".join(_line(stray) for stray in known)
        with contextlib.suppress(OSError):
            write_whole(self._path, f"{lines}{BEGUN}\n".encode(), make_folder(folder))

    def add(self, stray: Stray) -> None:
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(_line(stray))


def known_before(folder: Path) -> list[Stray]:
    """What was known when a run began."""
    return _read(folder)[0]


def known_after(logs: Path, deployment: str) -> list[Stray]:
    """The strays that the newest run of this deployment knows."""
    for run in reversed(find_journals(logs)) if logs.is_dir() else ():
        if (run / NAME).exists():
            with contextlib.suppress(JournalError):
                if read_journal(run).header.deployment == deployment:
                    before, since = _read(run)
                    return before + since
    return []


def _read(folder: Path) -> tuple[list[Stray], list[Stray]]:
    found: tuple[list[Stray], list[Stray]] = [], []
    place = 0
    try:
        path = folder / NAME
        text = path.read_text("ascii", "replace") if path.is_file() and path.stat().st_size < LONGEST else ""
    except OSError:
        return found
    for line in text.splitlines():
        if line == BEGUN:
            place = 1
            continue
        mote, _, name = line.partition(" ")
        with contextlib.suppress(ValueError):
            found[place].append((int(mote), bytes.fromhex(name)))
    return found


def _line(stray: Stray) -> str:
    return f"{stray[0]} {stray[1].hex()}\n"
