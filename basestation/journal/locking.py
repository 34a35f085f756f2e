"""One writer to a journal: a lock that ends with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .records import JournalError

LOCK = "lock"


def take(folder: Path) -> int:
    """Lock a journal's folder; the handle to close. `JournalError` names the process that has it."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(handle, 32).decode("ascii", "replace").strip() or "another process"
        os.close(handle)
        raise JournalError(
            f"{folder}: the journal is being written by {holder}; end that first, or write to another folder"
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()}\n".encode(), 0)
    return handle


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    handle = take(folder)
    try:
        yield
    finally:
        os.close(handle)


def is_taken(folder: Path) -> bool:
    """Whether somebody writes this journal now."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)
