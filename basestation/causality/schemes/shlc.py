"""HLC whose counter counts sends alone, so that it fits a byte with the clock."""

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


class ShlcProgram(HlcProgram):
    """HLC whose counter advances at sends only, so that it stays small: a receive just takes the larger pair."""

    def merge(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._bound(rt)
        pairs = [(s.top, s.kn[0]) for s in self._sound(rt, stamps)]
        self.l, self.counter = max([(self.l, self.counter), *pairs])


SCHEME = Shlc
