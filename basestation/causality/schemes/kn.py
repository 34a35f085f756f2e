"""The paper's stamp (ACO figure 1): the clock, c, and how many events are known at r + c and the clocks below it."""

from __future__ import annotations

from collections.abc import Sequence

from basestation.causality.order import Stamp

from .timed import TimedProgram, TimedScheme


class Kn(TimedScheme):
    name = "kn"
    kernel = "KN"

    def start(self, mote: int, rt: int = 0) -> TimedProgram:
        return KnProgram(self, rt)

    def place(self, stamp: Stamp) -> tuple[int, ...]:
        return (stamp.top, *stamp.kn) if self.entries > self.epsilon else ()


class KnProgram(TimedProgram):
    """The program of ACO figure 1 with only the entries that travel: `kn[i]` counts the events at clock r + c - i.

    The paper indexes its array from r. This one counts down from r + c, which never falls while the program is sound:
    an entry that leaves the window is never needed again, so a mote stores only k entries.
    """

    def __init__(self, scheme: TimedScheme, rt: int) -> None:
        self._epsilon = scheme.epsilon
        self._entry_max = scheme.entry_max
        self._counts_receives = scheme.count == "events"
        self.r = rt
        self.c = 0
        self.kn = [0] * scheme.entries
        self._count_event()

    def on_send(self, rt: int, number: int = 0) -> Stamp:
        self._shift_to(rt)
        self._count_event()
        return Stamp(self.r, self.c, tuple(self.kn))

    def merge(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._shift_to(rt)
        for stamp in stamps:
            self._merge(stamp)
        if self._counts_receives:
            self._count_event()

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        self.r, self.c = r, c
        self.kn = [min(value, self._entry_max) for value in kn[: len(self.kn)]]

    def _shift_to(self, rt: int) -> None:
        """Move r to the clock. A largest clock beyond rt + epsilon must be a fault: forget it."""
        top = self.r + self.c
        if top > rt + self._epsilon:
            self.bounded += 1
            top = rt
            self.kn = [0] * len(self.kn)
        self.r, self.c = rt, top - rt
        self._raise_top(rt)

    def _raise_top(self, top: int) -> None:
        """Slide the window up so that its first entry counts the events at clock `top`."""
        rise = top - (self.r + self.c)
        if rise > 0:
            self.c += rise
            self.kn = ([0] * min(rise, len(self.kn)) + self.kn)[: len(self.kn)]

    def _merge(self, stamp: Stamp) -> None:
        if stamp.top > self.r + self._epsilon:
            self.bounded += 1
            stamp = Stamp(stamp.r, 0, ())
        self._raise_top(stamp.top)
        below = self.r + self.c - stamp.top
        for i, known in enumerate(stamp.kn[: max(0, len(self.kn) - below)], start=below):
            self.kn[i] = max(self.kn[i], known)

    def _count_event(self) -> None:
        """Do kn[0] += 1 in the paper's indices. When c >= k, that entry is outside the window and never needed."""
        if self.c < len(self.kn):
            self.kn[self.c] = min(self.kn[self.c] + 1, self._entry_max)


SCHEME = Kn
