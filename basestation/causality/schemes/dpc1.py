"""Only the physical clock: a mote learns nothing from other motes. DEW calls it the real-time scalar."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from basestation.causality.order import Stamp

from .timed import TimedProgram, TimedScheme


class Dpc1(TimedScheme):
    name = "dpc1"
    kernel = "DPC1"

    def start(self, mote: int, rt: int = 0) -> TimedProgram:
        return Dpc1Program()

    @cached_property
    def carries_c(self) -> bool:
        return False


class Dpc1Program(TimedProgram):
    def on_send(self, rt: int, number: int = 0) -> Stamp:
        return Stamp(rt, 0, ())

    def merge(self, rt: int, stamps: Sequence[Stamp]) -> None:
        pass

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        pass


SCHEME = Dpc1
