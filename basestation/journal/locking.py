"""The lock that keeps a journal to one writer. It ends with the process that holds it, however that ends.

The folder itself is locked, so that deleting a file does not remove the lock. The file `lock` names the holder.
It is locked too: for file systems that lock no folders, and for older versions. A writer that ends in order removes it.
So a journal with such a file and without a holder was interrupted.

A writer whose disk is full notes in the file which record would be the next, how many before it were lost, and why. The
room for that is taken when the lock is, so that it can be written then. If the writer is interrupted before the log
itself can tell, its recovery does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .record_format import JournalError

LOCK = "lock"
LINE = 32  # bytes of each of the file's first two lines: who holds it, and the next record's number
REASON = 128  # bytes of the third line: how many records were lost, and why
TRIES, PAUSE_S = 10, 0.01  # a process that looks whether it is taken holds it for a moment


class Held(NamedTuple):
    """A lock, for `leave` or `drop`."""

    folder: Path
    folder_handle: int
    file_handle: int


def take(folder: Path) -> Held:
    """Lock a journal's folder. `JournalError` names the process that holds it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _lock(handle):
            raise _busy(folder)
        return Held(folder, handle, _take_file(folder))
    except BaseException:
        os.close(handle)
        raise


def _busy(folder: Path) -> JournalError:
    holder = ""
    with contextlib.suppress(OSError):
        holder = (folder / LOCK).read_bytes()[:LINE].decode("ascii", "replace").strip()
    return JournalError(
        f"{folder}: the journal is being written by {holder or 'another process'}; "
        "end that first, or write to another folder"
    )


def _lock(handle: int) -> bool:
    """Whether we have it now. A file system that can't lock this has only the other lock."""
    for _ in range(TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE_S)
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            return True
        else:
            return True
    return False


def _take_file(folder: Path) -> int:
    while True:
        # A link to another file, in a folder from elsewhere, would have that file overwritten.
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if not _lock(handle):
            os.close(handle)
            raise _busy(folder)
        if _is_there(folder, handle):
            break
        os.close(handle)  # taken away by its last holder while we waited for it
    os.pwrite(handle, _line(f"process {os.getpid()}"), 0)
    if os.fstat(handle).st_size < 2 * LINE + REASON:
        os.pwrite(handle, _line("") + _line("", REASON), LINE)
    return handle


def _line(text: str, size: int = LINE) -> bytes:
    return text.encode(errors="replace")[: size - 1].ljust(size - 1) + b"\n"


def note_lost(held: Held, number: int, count: int, reason: str) -> None:
    """The next record would have this number; the `count` before it could not be written."""
    with contextlib.suppress(OSError):
        os.pwrite(held.file_handle, _line(f"next {number}") + _line(f"{count} {reason}", REASON), LINE)


class Lost(NamedTuple):
    """What `note_lost` noted. An older version noted no more than the number."""

    number: int = 0
    records: int = 0
    reason: str = ""


def noted_lost(folder: Path) -> Lost:
    """What a writer noted of records that could not be written, if it did."""
    noted = Lost()
    with contextlib.suppress(OSError, ValueError):
        raw = (folder / LOCK).read_bytes()[LINE:]
        word, number = raw[:LINE].split()
        noted = Lost(int(number)) if word == b"next" else noted
        count, _, reason = raw[LINE : LINE + REASON].decode(errors="replace").strip().partition(" ")
        noted = noted._replace(records=int(count), reason=reason)
    return noted


def _is_there(folder: Path, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(folder / LOCK), os.fstat(handle))
    return False


def leave(held: Held) -> None:
    """End in order."""
    try:
        (held.folder / LOCK).unlink(missing_ok=True)
    finally:
        drop(held)


def drop(held: Held) -> None:
    """Give up the lock, and leave its file: the work was interrupted."""
    os.close(held.file_handle)
    os.close(held.folder_handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    held = take(folder)
    try:
        yield
    except BaseException:
        drop(held)
        raise
    leave(held)


def is_taken(folder: Path) -> bool:
    """Whether a process writes this journal now."""
    return _is_locked(folder) or _is_locked(folder / LOCK)


def _is_locked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # there is none, or we may not look
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # it can't be locked
    else:
        return False
    finally:
        os.close(handle)


def was_interrupted(folder: Path) -> bool:
    return (folder / LOCK).exists() and not is_taken(folder)
