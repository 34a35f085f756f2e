"""The lock that keeps a journal to one writer. It ends with the process that holds it, however that ends.

A writer that ends in order removes the lock's file. So a journal with a lock that nobody holds was interrupted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .record_format import JournalError

LOCK = "lock"


def take(folder: Path) -> int:
    """Lock a journal's folder, and return the handle for `leave`. `JournalError` names the process that holds it."""
    while True:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode("ascii", "replace").strip() or "another process"
            os.close(handle)
            raise JournalError(
                f"{folder}: the journal is being written by {holder}; end that first, or write to another folder"
            ) from None
        if _is_there(folder, handle):
            break
        os.close(handle)  # taken away by its last holder while we waited for it
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()}\n".encode(), 0)
    return handle


def _is_there(folder: Path, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(folder / LOCK), os.fstat(handle))
    return False


def leave(folder: Path, handle: int) -> None:
    try:
        (folder / LOCK).unlink(missing_ok=True)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    handle = take(folder)
    try:
        yield
    except BaseException:
        os.close(handle)
        raise
    leave(folder, handle)


def is_taken(folder: Path) -> bool:
    """Whether a process writes this journal now."""
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


def was_interrupted(folder: Path) -> bool:
    return (folder / LOCK).exists() and not is_taken(folder)
