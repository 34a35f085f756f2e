"""What the runner looks at: bytes on a line without frames, the disk that holds the log, sleep of this machine."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from basestation.live.evidence import SECOND
from packet_formats.framing import FrameCounters

LEAST_UNREAD = 16  # bytes; fewer are noise of a plug
UNREAD_NS = 3 * SECOND
LOW_BYTES, LOW_SHARE = 1_000_000_000, 0.05  # of a disk; the smaller of the two
ENOUGH = 1.5  # times what is low
WRITTEN_NS = 60 * SECOND  # without a failure
LEAST_SLEEP_NS = SECOND // 4  # bytes of a line may wait for us if we are late by that


class LineWatch:
    """A line's counters: do bytes come, and no frame?"""

    def __init__(self, counters: FrameCounters) -> None:
        self._counters = counters
        self._frames, self._fed = counters.frames, counters.fed
        self._since: int | None = None
        self._told = False

    def unread(self, mono_ns: int) -> int:
        """The bytes that came for a while without a frame, once; else 0."""
        counters = self._counters
        if counters.frames != self._frames:
            self._frames, self._fed = counters.frames, counters.fed
            self._since, self._told = None, False
        unread = counters.fed - self._fed
        if not unread or self._told:
            return 0
        self._since = mono_ns if self._since is None else self._since
        if unread < LEAST_UNREAD or mono_ns - self._since < UNREAD_NS:
            return 0
        self._told = True
        return unread


def suspended_ns() -> int:
    """How long this machine was suspended so far, where the system knows: its monotonic clock stands still then."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0 if clock is None else time.clock_gettime_ns(clock) - time.monotonic_ns()


class SleepWatch:
    """Did this machine sleep while there was nothing to do? It may have been suspended; or, as a virtual machine or a
    stopped process is, paused: then the monotonic clock went on, and we neither woke up in time nor worked."""

    def __init__(self) -> None:
        self._suspended = suspended_ns()
        self.suspended = 0  # ns of the last sleep in which the monotonic clock stood still
        self._began = self._until = self._worked = 0

    def rest(self, until_ns: int) -> None:
        """There is nothing to do before then, unless something comes."""
        self._began, self._worked = time.monotonic_ns(), time.process_time_ns()
        self._until = max(until_ns, self._began)

    def slept(self) -> int:
        """The rest is over: how long it was, in ns, if this machine slept or woke us late; else 0. When in
        the rest the sleep began is unknown, so all of it counts."""
        before, self._suspended = self._suspended, suspended_ns()
        self.suspended = self._suspended - before
        awake = time.monotonic_ns() - (time.process_time_ns() - self._worked)
        paused = awake - self._began if awake - self._until >= LEAST_SLEEP_NS else 0
        slept = self.suspended + paused
        return slept if slept >= LEAST_SLEEP_NS else 0


class DiskWatch:
    """The disk of a folder: is it nearly full, and can the log be written?"""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._failure, self._failed_ns = "", 0
        self._low = False

    def failed(self, failure: str, mono_ns: int) -> None:
        self._failure, self._failed_ns = failure, mono_ns

    def fault(self, mono_ns: int) -> str:
        """What is wrong, in words; empty if nothing is."""
        if self._failure and mono_ns - self._failed_ns < WRITTEN_NS:
            return f"the log can't be written: {self._failure}"
        self._failure = ""
        return self._full() if self._folder is not None else ""

    def _full(self) -> str:
        try:
            found = shutil.disk_usage(self._folder or ".")
        except OSError:
            return ""  # the next record tells
        low = min(LOW_BYTES, LOW_SHARE * found.total)
        self._low = found.free < (ENOUGH * low if self._low else low)
        return f"the disk of the log is nearly full: {_size(found.free)} left" if self._low else ""


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
