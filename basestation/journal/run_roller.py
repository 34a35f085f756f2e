"""A log that goes on for ever, as runs one after the other: the old ones can be removed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from basestation.arrivals import Arrival, Line, PolicyChange
from packet_formats.framing import FrameCounters

from .decision import Decision
from .record_format import JournalError
from .retention import Keep
from .writer import JournalWriter


class RunRoller:
    """Appends to a run, and begins the next one when it is a day old or large enough.

    `begin` makes a run's writer. After each beginning `after` is called in a thread of its own with the run that was
    closed; None at first.
    """

    def __init__(
        self,
        begin: Callable[[], JournalWriter],
        keep: Keep,
        counters: Mapping[int, FrameCounters],
        after: Callable[[JournalWriter | None], None],
        say: Callable[[str], None],
    ) -> None:
        self._begin, self._keep, self._counters = begin, keep, counters
        self._after, self._say = after, say
        self._log, self._began = begin(), time.monotonic()
        # With the time of the first line
        self._runs: list[tuple[float, Path]] = [(-math.inf, self._log.folder)]
        self._tell(None)

    def append(self, line: Line) -> int:
        if self._is_due():
            self._roll(line)
        return self._log.append(line)

    def append_decision(self, number: int, arrival: Arrival, decision: Decision) -> int:
        return self._log.append_decision(number, arrival, decision)

    def append_counters(self, gateway: int, counters: Mapping[str, Any], mono_ns: int, wall_ns: int) -> int:
        return self._log.append_counters(gateway, counters, mono_ns, wall_ns)

    def append_policy(self, change: PolicyChange, clock: int | None) -> int:
        return self._log.append_policy(change, clock)

    def append_note(self, text: str, mono_ns: int, wall_ns: int) -> int:
        return self._log.append_note(text, mono_ns, wall_ns)

    def close(self) -> None:
        self._log.close()

    def _is_due(self) -> bool:
        full = self._keep.run_size is not None and self._log.written >= self._keep.run_size
        return full or time.monotonic() - self._began >= self._keep.run_seconds

    def _roll(self, line: Line) -> None:
        """Begin the next run. If that fails, go on in this one, which loses nothing, and try again a run later."""
        self._began = time.monotonic()
        try:
            log = self._begin()
        except (JournalError, OSError) as error:
            self._say(f"no new run could be begun, this one goes on: {error}")
            self._log.written = 0
            return
        ended, self._log = self._log, log
        self._runs.append((line.wall_ns / 1e6, log.folder))
        try:
            try:
                for gateway, counters in self._counters.items():
                    told = asdict(counters) | {"unread": 0}
                    for each in (ended, log):  # the end of one run, the beginning of the next
                        each.append_counters(gateway, told, line.mono_ns, line.wall_ns)
            finally:
                ended.close()  # or it would be locked for as long as we run, and never removed
        except JournalError as error:
            self._say(f"the end of a run may be missing: {error}")
        self._tell(ended)

    @property
    def folder(self) -> Path:
        """Of the run that is being written."""
        return self._log.folder

    def folder_at(self, wall_ms: float) -> Path:
        """Of the run that has what came at this time, on the wall clock, to a microsecond."""
        return next(folder for began, folder in reversed(list(self._runs)) if began <= wall_ms + 0.001)

    def _tell(self, ended: JournalWriter | None) -> None:
        threading.Thread(target=self._after, args=(ended,), name="old runs", daemon=True).start()
