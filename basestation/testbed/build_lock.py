"""A lock on a build folder, so that two commands that build the same thing wait for one another."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

TELL_AFTER = 2.0  # seconds


def silent(text: str) -> None:
    """Reports nothing."""


@contextmanager
def locked(folder: Path, what: str, say: Callable[[str], None] = silent) -> Iterator[None]:
    """Hold the lock. `say` reports a wait for another build of `what`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _wait(file, f"waiting for another build of {what} to end", say)
        yield


def _wait(file: IO[str], text: str, say: Callable[[str], None]) -> None:
    timer = threading.Timer(TELL_AFTER, say, [text])
    timer.daemon = True
    timer.start()
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    finally:
        timer.cancel()
