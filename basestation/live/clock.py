"""The observer's clock: the network's time, in cycles of the crystal, carried on between records by the host's clock.

A gateway's record says when it heard a frame; the frame comes some time later, after the gateway's queue and the line.
The clock says up to which time everything that was heard is in. It may lag, and rules must know by how much: a message
may have been heard at a later time than the clock's (rule 0 of docs/evidence/algorithms.md). It must not lead, which
would break the order. So each line's clock goes on from the record that took the least time, a little slower than
any crystal runs, and an allowance behind it: as long as a full queue takes on the line. A new record shows at once how
far the clock has really got. With several gateways the slowest line counts. A line that is open and has brought no
record yet counts as if it had brought the newest time, an allowance ago.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from basestation.causality.modular import nearest
from packet_formats.deployment import CRYSTAL_HZ

WRAP = 1 << 32  # the wire carries 32 bits of time
SLOW_PPM = 200  # two crystals, the network's and the host's, are never further apart
CYCLES, NANOSECONDS = CRYSTAL_HZ * (1_000_000 - SLOW_PPM), 10**15  # cycles / nanoseconds, at the slow rate

# A gateway's queue holds 768 bytes of packets; flags, check sums and escapes make that some 900 on the line. A USB
# adapter keeps bytes back for up to 16 ms more.
QUEUE_BYTES, ADAPTER_NS = 900, 16_000_000

BACKWARDS = CRYSTAL_HZ  # a line is a queue: if its time steps back by this much, time started afresh
WAKING_NS = 2_000_000_000  # after a sleep; by then all that had waited was read
BEHIND = 2 * CRYSTAL_HZ  # a line further behind the others than this and its allowance is not waited for


def line_allowance_ns(baud: int = 57600) -> int:
    """How much later than the quickest a frame can come that had a full queue before it; ten bits are a byte."""
    return QUEUE_BYTES * 10 * 1_000_000_000 // baud + ADAPTER_NS


def cycles_in(ns: int) -> int:
    """The cycles that have surely passed in a time of the host's clock."""
    return ns * CYCLES // NANOSECONDS


def time_for(cycles: int) -> int:
    """The host's time after which `cycles` have surely passed."""
    return -(-cycles * NANOSECONDS // CYCLES)


class ClockReading(NamedTuple):
    """What a record's time meant: the cycles, unwrapped, and what it showed of the clock so far."""

    cycles: int
    led: int = 0  # the clock had run ahead by this many cycles, and was set back
    restarted: bool = False  # time had stepped back: from here on it counts afresh, above all that was


class Nap(NamedTuple):
    """A sleep of this machine: for how long the host's clock went on in it, when it ended, and the line's time then."""

    ns: int
    end_ns: int
    end: int


@dataclass(slots=True)
class LineClock:
    """One line's clock. `heard` is its newest record, `anchor` the record that came the quickest and when it did.

    `live`: the line is open, and its gateway is not known to be dead. `mute`: no time has come since the line was
    opened; its anchor is then that of the line which is furthest.
    """

    allowance: int
    live: bool = True
    mute: bool = True
    nap: Nap | None = None  # while bytes that waited for this machine may still be on the line
    heard: int | None = None
    heard_ns: int = 0
    anchor: tuple[int, int] = field(default=(0, 0))  # cycles, host's nanoseconds
    known: bool = False

    def hear(self, cycles: int, mono_ns: int) -> int:
        """Take a record; by how much the clock had run ahead of it.

        It had when the line took longer than the allowance. What still comes is ordered by its own time, so the clock
        goes back to that.
        """
        led = self.at(mono_ns) - cycles if self.known else 0
        if led > 0:
            self.known = False
        else:
            led = 0
        self.suggest(cycles, mono_ns)
        self.heard, self.heard_ns = cycles, mono_ns
        return led

    def suggest(self, cycles: int, mono_ns: int) -> None:
        """Take a time that may be older than its frame's reception: it can only set the clock forward."""
        self.live, self.mute = True, False
        if self.nap is not None and cycles >= self.nap.end - self.allowance:
            self.nap = None  # what waited has come
        if not self.known or cycles >= self.carried(mono_ns):
            self.anchor, self.known = (cycles, mono_ns), True

    def guess(self, mono_ns: int, early: int = 0) -> int:
        """The likeliest time of reception of a frame that comes now without a record.

        `early`: by how much the guess may be too early. It must not be too late. Where records come, the frame may
        have waited for the line since the last one. Where none come, the time was sent in a beacon, which may have been
        late as well: half of the room is for the line, half for the beacon.
        """
        cycles = self.carried(mono_ns) - (early // 2 if self.heard is None else early)
        return cycles if self.heard is None or cycles > self.heard else self.heard

    def at(self, mono_ns: int) -> int:
        cycles = self.carried(mono_ns) - self.allowance
        return cycles if self.heard is None or cycles > self.heard else self.heard

    def when(self, cycles: int) -> int:
        """The earliest host time at which `at` has reached `cycles`, as far back as the records go."""
        since, mono_ns = self.anchor
        carried = mono_ns + max(0, time_for(cycles + self.allowance - since))
        return carried if self.heard is None or cycles > self.heard else min(carried, self.heard_ns)

    def wake(self, mono_ns: int) -> None:
        """Nothing waited on a line that has brought nothing for a while since the sleep."""
        if self.nap is not None and mono_ns > self.nap.end_ns + WAKING_NS:
            cycles, since = self.anchor
            self.anchor, self.nap = (cycles, since - self.nap.ns), None

    def carried(self, mono_ns: int) -> int:
        """The time of the anchor, carried on to now."""
        cycles, since = self.anchor
        if mono_ns <= since:
            return cycles
        return (
            cycles + (mono_ns - since) * CYCLES // NANOSECONDS
        )  # `cycles_in`: every frame asks several times


class ObserverClock:
    """The clocks of all lines as one. Cycles are unwrapped, and congruent to the network's time modulo 2^32."""

    def __init__(self, allowance_ns: int | None = None) -> None:
        self.allowance_ns = line_allowance_ns() if allowance_ns is None else allowance_ns
        self.allowance = cycles_in(self.allowance_ns) + 1
        self._lines: dict[Hashable, LineClock] = {}
        self._awaited: list[
            LineClock
        ] = []  # chosen anew with each record, so that between them nothing steps
        self._newest: int | None = None
        self._restarted = False
        self.jumped = 0  # cycles by which the clock has gone further than time, where that started afresh
        self._left = 0, 0  # the clock when time last started afresh, and the host's time then
        self._mono_ns = 0

    def hear(self, line: Hashable, time32: int, mono_ns: int) -> ClockReading:
        """A heard record of an in-sync gateway."""
        cycles, own = self._unwrap(time32), self._line(line)
        restarted = own.heard is not None and cycles < own.heard - BACKWARDS
        if restarted:
            self.restart()
            cycles, own = self._unwrap(time32), self._line(line)
        led = own.hear(cycles, mono_ns)
        self._keep(cycles, mono_ns)
        return ClockReading(cycles, 0 if restarted else led, restarted)

    def suggest(self, line: Hashable, time32: int, mono_ns: int) -> ClockReading:
        """A time that was sent, in a beacon or a health message, for a line without heard records."""
        cycles = self._unwrap(time32)
        self._line(line).suggest(cycles, mono_ns)
        self._keep(cycles, mono_ns)
        return ClockReading(cycles)

    def expect(self, line: Hashable) -> None:
        """A line is open: it is awaited before its first record, too."""
        own = self._line(line)
        own.live = own.mute = True
        self._choose()

    def pause(self, mono_ns: int, awake_ns: int, slept_ns: int) -> None:
        """This machine slept and read no line: time is carried on as if the sleep had not been. If the machine was
        suspended, the host's clock did not go on: it shows less than the sleep's length."""
        ns = awake_ns - mono_ns
        for line in self._lines.values():
            cycles, since = line.anchor
            line.anchor = cycles, since + ns
            line.nap = Nap(ns, awake_ns, cycles + cycles_in(max(0, mono_ns - since) + slept_ns))

    def restart(self) -> None:
        """Time starts afresh: the next record is placed above everything so far, so that the clock need not fall."""
        if self._newest is not None:
            top = max(
                [self._newest, *[line.at(self._mono_ns) for line in self._lines.values() if line.known]]
            )
            self._left = top, self._mono_ns
            self._newest = (top // WRAP + 1) * WRAP
            self._restarted = True
        self._lines = {name: LineClock(self.allowance) for name, line in self._lines.items() if line.live}
        self._awaited = []

    def lose(self, line: Hashable) -> None:
        """A line is gone, or its gateway is silent: the clock no longer waits for it."""
        if line in self._lines:
            self._lines[line].live = False
            self._choose()

    def guess(self, line: Hashable, mono_ns: int, early: int = 0) -> int | None:
        """When a frame that has just come without a record was probably heard; `early`: see `LineClock.guess`."""
        found = self._lines.get(line)
        if found is not None and found.known:
            return found.guess(mono_ns, early)
        times = [other.guess(mono_ns, early) for other in self._lines.values() if other.known]
        return max(times, default=None)

    def at(self, mono_ns: int) -> int | None:
        """The time up to which everything is in; None while no time is known. Between records it does not fall."""
        awaited = self._awaited
        if len(awaited) == 1:
            return awaited[0].at(mono_ns)
        return min([line.at(mono_ns) for line in awaited], default=None)

    def slowest(self) -> Hashable | None:
        """The line that the clock waits for; None while no time is known."""
        waiting = [name for name, line in self._lines.items() if line in self._awaited]
        return min(waiting, key=lambda name: self._lines[name].at(self._mono_ns), default=None)

    def when(self, cycles: int) -> int | None:
        """The earliest host time at which `at` reaches `cycles` if no record comes."""
        awaited = self._awaited
        if len(awaited) == 1:
            return awaited[0].when(cycles)
        return max([line.when(cycles) for line in awaited], default=None)

    def _choose(self) -> None:
        """Which lines count: those that are there and not too far behind; if none is left, the last ones."""
        known = [line for line in self._lines.values() if line.known]
        if len(self._lines) == 1:
            self._awaited = known
            return
        lines = [line for line in self._lines.values() if line.live] if known else []
        lines = lines if any(line.known for line in lines) else known
        if len(lines) <= 1:
            self._awaited = lines
            return
        for line in lines:
            line.wake(self._mono_ns)
        furthest = max(known, key=lambda line: line.carried(self._mono_ns))
        for line in lines:
            if line.mute:
                line.anchor = furthest.anchor
        first = max(line.at(self._mono_ns) for line in lines)
        self._awaited = [line for line in lines if self._is_near(line, first)]

    def _is_near(self, line: LineClock, first: int) -> bool:
        """Whether a line is near enough to the first to be waited for, or has bytes that waited."""
        return line.nap is not None or line.at(self._mono_ns) >= first - BEHIND - line.allowance

    def _line(self, line: Hashable) -> LineClock:
        found = self._lines.get(line)
        if found is None:
            found = self._lines[line] = LineClock(self.allowance)
        return found

    def _unwrap(self, time32: int) -> int:
        """The value nearest to the newest time."""
        if self._newest is None:
            return WRAP + time32  # room below, for a line that lags
        if self._restarted:
            return self._newest + time32  # the first since a restart
        return nearest(time32, self._newest, WRAP)

    def _keep(self, cycles: int, mono_ns: int) -> None:
        if self._restarted:
            left, since = self._left
            self.jumped += cycles - left - cycles_in(max(0, mono_ns - since))
            self._restarted = False
        if self._newest is None or cycles > self._newest:
            self._newest = cycles
        if mono_ns > self._mono_ns:
            self._mono_ns = mono_ns
        if len(self._lines) > 1 or not self._awaited:  # an only line stays the one that is awaited
            self._choose()
