"""The stamp programs that run on a mote: kn (ACO figure 1), DPC1, DPC2, HLC and sHLC.

A program is stepped by `on_send` and `on_receive`; one receive event may bring several messages. `Scheme` holds what
all motes of a deployment share and puts stamps on the wire and takes them off again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .order import Stamp, unwrap

SchemeName = Literal["kn", "dpc1", "dpc2", "hlc", "shlc"]
Count = Literal["events", "sends"]
Carry = Literal["pair", "sum"]


class StampProgram(Protocol):
    """The part of a mote that stamps. `bounded` counts how often the self-stabilizing bound had to cut."""

    bounded: int

    def on_send(self, rt: int) -> Stamp:
        """Take a send event at clock `rt`; the stamp that goes into the message."""

    def on_receive(self, rt: int, stamps: Sequence[Stamp]) -> None:
        """Take one receive event at clock `rt` that brings these stamps."""

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        """Overwrite the state, as a fault in the mote's memory would."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """What every mote of a deployment agrees on: the guarantees, and the widths of the fields on the wire."""

    name: SchemeName
    epsilon: int
    delta: int
    modulus: int
    entries: int
    entry_max: int
    count: Count = "events"
    carry: Carry = "pair"

    def start(self, rt: int) -> StampProgram:
        """A mote's stamp program, started at clock `rt`."""
        return PROGRAMS[self.name](self, rt)

    def encode(self, stamp: Stamp) -> tuple[int, ...]:
        """The fields in the order they travel: the clock modulo B, c where it is carried, the entries."""
        clock = stamp.r % self.modulus
        return (clock, stamp.c, *stamp.kn) if self.carries_c else (clock, *stamp.kn)

    def decode(self, fields: Sequence[int], now: int) -> Stamp:
        """The stamp that `fields` mean to a receiver whose clock read `now` at the time of reception."""
        r = unwrap(fields[0], now, self.epsilon, self.modulus)
        if self.carries_c:
            return Stamp(r, fields[1], tuple(fields[2:]))
        return Stamp(r, 0, tuple(fields[1:]))

    def observe(self, stamp: Stamp, now: int) -> Stamp:
        """The observer's bound: no clock is ahead of `now + epsilon`, so a stamp that says so is cut, its kn void."""
        if stamp.top <= now + self.epsilon:
            return stamp
        return Stamp(stamp.r, now + self.epsilon - stamp.r, (0,) * self.entries)

    def saturated(self, stamp: Stamp) -> bool:
        """A field's top code means "this many or more": a tie on it may hide an order."""
        return self.entry_max in stamp.kn

    @property
    def carries_c(self) -> bool:
        return self.name != "dpc1" and self.carry == "pair"

    @property
    def bits(self) -> int:
        """Size on the wire, bit-packed."""
        c_bits = self.epsilon.bit_length() if self.carries_c else 0
        return (self.modulus - 1).bit_length() + c_bits + self.entries * self.entry_max.bit_length()


class KnProgram:
    """ACO figure 1, keeping only the entries that travel: `kn[i]` counts the events at clock r + c - i.

    The paper indexes its array from r. Counted from r + c, which never falls while the program is sound, what drops
    out of the window is never needed again, so a mote stores k entries and no more.
    """

    def __init__(self, scheme: Scheme, rt: int) -> None:
        self._epsilon = scheme.epsilon
        self._entry_max = scheme.entry_max
        self._counts_receives = scheme.count == "events"
        self.bounded = 0
        self.r = rt
        self.c = 0
        self.kn = [0] * scheme.entries
        self._count_event()

    def on_send(self, rt: int) -> Stamp:
        self._shift_to(rt)
        self._count_event()
        return Stamp(self.r, self.c, tuple(self.kn))

    def on_receive(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._shift_to(rt)
        for stamp in stamps:
            self._merge(stamp)
        if self._counts_receives:
            self._count_event()

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        self.r, self.c = r, c
        self.kn = [min(value, self._entry_max) for value in kn[: len(self.kn)]]

    def _shift_to(self, rt: int) -> None:
        """Move r to the clock. A largest clock beyond rt + epsilon can only be a fault: forget it."""
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
        """kn[0] += 1 in the paper's indices; out of the window when c >= k, and then nobody can ask for it."""
        if self.c < len(self.kn):
            self.kn[self.c] = min(self.kn[self.c] + 1, self._entry_max)


class Dpc1Program:
    """The physical clock alone: nothing is known of other motes."""

    def __init__(self, scheme: Scheme, rt: int) -> None:
        self.bounded = 0

    def on_send(self, rt: int) -> Stamp:
        return Stamp(rt, 0, ())

    def on_receive(self, rt: int, stamps: Sequence[Stamp]) -> None:
        pass

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        pass


class HlcProgram:
    """Hybrid logical clock (l, counter): l is the largest clock known, the counter orders events that share it.

    A counter that is full carries into l, which may so run ahead of the clocks: a counter of three bits orders what
    would else need five. It stops a quarter short of epsilon, since a receiver may be behind the sender and must not
    take l for an impossible value. Only when that is used up too does the counter saturate, at its top code.
    """

    def __init__(self, scheme: Scheme, rt: int) -> None:
        self._epsilon = scheme.epsilon
        self._entry_max = scheme.entry_max
        self._carry_room = scheme.epsilon - scheme.epsilon // 4
        self._carries_sum = scheme.carry == "sum"
        self.bounded = 0
        self.l = rt
        self.counter = 0

    def on_send(self, rt: int) -> Stamp:
        self._bound(rt)
        self._step(rt, self.l, self.counter)
        if self._carries_sum:
            return Stamp(self.l, 0, (self.counter,))
        return Stamp(rt, self.l - rt, (self.counter,))

    def on_receive(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._bound(rt)
        best = max(((s.top, s.kn[0]) for s in self._sound(rt, stamps)), default=(self.l, self.counter))
        self._step(rt, *max(best, (self.l, self.counter)))

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        self.l, self.counter = r + c, min(kn[0], self._entry_max)

    def _step(self, rt: int, known: int, counter: int) -> None:
        """One event at clock `rt`, when `counter` events are known at `known`, the largest clock known."""
        if rt > known:
            self.l, self.counter = rt, 0
        elif counter + 1 < self._entry_max:
            self.l, self.counter = known, counter + 1
        elif known < rt + self._carry_room:
            self.l, self.counter = known + 1, 0
        else:
            self.l, self.counter = known, self._entry_max

    def _bound(self, rt: int) -> None:
        if self.l > rt + self._epsilon:
            self.bounded += 1
            self.l, self.counter = rt, 0

    def _sound(self, rt: int, stamps: Sequence[Stamp]) -> list[Stamp]:
        sound = [s for s in stamps if s.top <= rt + self._epsilon]
        self.bounded += len(stamps) - len(sound)
        return sound


class ShlcProgram(HlcProgram):
    """HLC whose counter advances at sends only, so that it stays small: a receive just takes the larger pair."""

    def on_receive(self, rt: int, stamps: Sequence[Stamp]) -> None:
        self._bound(rt)
        pairs = [(s.top, s.kn[0]) for s in self._sound(rt, stamps)]
        self.l, self.counter = max([(self.l, self.counter), *pairs])


PROGRAMS: dict[SchemeName, Callable[[Scheme, int], StampProgram]] = {
    "kn": KnProgram,
    "dpc1": Dpc1Program,
    "dpc2": KnProgram,
    "hlc": HlcProgram,
    "shlc": ShlcProgram,
}
