"""The hybrid logical clock: the largest clock known, and a counter of the events at it."""

from __future__ import annotations

from collections.abc import Sequence

from basestation.causality.order import Stamp

from .timed import TimedProgram, TimedScheme


class Hlc(TimedScheme):
    name = "hlc"
    kernel = "HLC"

    def start(self, mote: int, rt: int = 0) -> TimedProgram:
        return HlcProgram(self, rt)

    def place(self, stamp: Stamp) -> tuple[int, ...]:
        return (stamp.top, *stamp.kn)


class HlcProgram(TimedProgram):
    """A hybrid logical clock (l, counter): l is the largest clock known, the counter orders events that share it.

    A full counter carries into l, which may then run ahead of the clocks: so three bits order what would need five.
    A receiver's clock may be epsilon behind the sender's, and reads l up to `lead` ahead of itself: lead - epsilon is
    the room to carry. When it is used up the counter saturates, at its top code.
    """

    def __init__(self, scheme: TimedScheme, rt: int) -> None:
        self._lead = scheme.lead
        self._entry_max = scheme.entry_max
        self._carry_room = scheme.lead - scheme.epsilon
        self._carries_sum = scheme.carry == "sum"
        self.l = rt
        self.counter = 0

    def on_send(self, rt: int, number: int = 0) -> Stamp:
        self._bound(rt)
        self._step(rt, self.l, self.counter)
        if self._carries_sum:
            return Stamp(self.l, 0, (self.counter,))
        return Stamp(rt, self.l - rt, (self.counter,))

    def merge(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._bound(rt)
        best = max(((s.top, s.kn[0]) for s in self._sound(rt, stamps)), default=(self.l, self.counter))
        self._step(rt, *max(best, (self.l, self.counter)))

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        self.l, self.counter = r + c, min(kn[0], self._entry_max)

    def _step(self, rt: int, known: int, counter: int) -> None:
        """Count one event at clock `rt`; `counter` events are known at `known`, the largest clock known."""
        if rt > known:
            self.l, self.counter = rt, 0
        elif counter + 1 < self._entry_max:
            self.l, self.counter = known, counter + 1
        elif known < rt + self._carry_room:
            self.l, self.counter = known + 1, 0
        else:
            self.l, self.counter = known, self._entry_max

    def _bound(self, rt: int) -> None:
        if self.l > rt + self._lead:
            self.bounded += 1
            self.l, self.counter = rt, 0

    def _sound(self, rt: int, stamps: Sequence[Stamp]) -> list[Stamp]:
        sound = [s for s in stamps if s.top <= rt + self._lead]
        self.bounded += len(stamps) - len(sound)
        return sound


SCHEME = Hlc
