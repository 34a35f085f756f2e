"""An HLC whose counter counts only sends, so that it fits a byte with the clock."""

from __future__ import annotations

from collections.abc import Sequence

from basestation.causality.order import Stamp

from .hlc import HlcProgram
from .timed import TimedProgram, TimedScheme


class Shlc(TimedScheme):
    name = "shlc"
    kernel = "SHLC"

    def start(self, mote: int, rt: int = 0) -> TimedProgram:
        return ShlcProgram(self, rt)

    def place(self, stamp: Stamp) -> tuple[int, ...]:
        return (stamp.top, *stamp.kn)


class ShlcProgram(HlcProgram):
    """An HLC whose counter advances only at sends, so that it stays small: a receive just takes the larger pair."""

    def merge(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._bound(rt)
        pairs = [(s.top, s.kn[0]) for s in self._sound(rt, stamps)]
        self.l, self.counter = max([(self.l, self.counter), *pairs])


SCHEME = Shlc
