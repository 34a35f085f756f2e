"""Reads the network time of each mote from its memory and compares them at the same true moment (G1).

As in firmware/net/network_time.c, a clock is a line over local time, less the rest of a correction.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packet_formats.deployment import CRYSTAL_HZ

from .scenario import ScenarioNetwork
from .truth_log import ClockSample, Event, Leds, Power, Reset

LINE = struct.Struct("<IIHhiIB")  # line_t of network_time.c; with a key its round follows
RED = 1
# Counts of timer 0 after which its overflow has been served; with a schedule a waking radio delays that.
SETTLED, SETTLED_SCHEDULED = 4, 16
INSTANT_NS = 10_000_000  # readings closer together belong together
TICK = 128  # cycles of the crystal that timer 0 counts as one while the processor sleeps by a schedule
WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The network's time at a node, in cycles, at true time `t`."""

    t: int
    node: int
    epoch: int
    time: int


@dataclass(frozen=True, slots=True)
class MoteSkew:
    """The largest difference of a node's clock from the root's, in cycles; ahead is positive."""

    id: int
    readings: int
    worst: float


@dataclass(frozen=True, slots=True)
class Skew:
    """The skew of one network's clocks while in sync. `ticks` is the largest difference of any two at one moment."""

    readings: int
    root_cycles: float  # the largest distance from the root's clock
    spread_cycles: float  # between the two farthest apart
    ticks: int
    epsilon: int
    beyond: int  # moments at which two were more than epsilon ticks apart
    last_beyond: float | None  # seconds
    motes: tuple[MoteSkew, ...]


def shown(lines: bytes, current: int, local: int) -> int:
    """The network time at local time `local`, computed as network_time_shown() does."""
    start, network, part, skew, behind, since, slew = LINE.unpack_from(lines, len(lines) // 2 * (current & 1))
    gained = ((_signed(local - start) >> 8) * skew + part) >> 16
    return int(network + local - start + gained - _left(behind, _signed(local - since), slew)) % WORD


def _left(behind: int, elapsed: int, slew: int) -> int:
    if behind == 0 or elapsed < 0:
        return behind
    done = (elapsed + (1 << max(slew - 1, 0))) >> slew
    return max(behind - done, 0) if behind > 0 else min(behind + done, 0)


def _signed(word: int) -> int:
    return (word + WORD // 2) % WORD - WORD // 2


def readings(events: Iterable[Event]) -> Iterator[NodeTime]:
    """The readings of nodes in sync: their red LED went on and then off."""
    in_sync: dict[int, bool | None] = {}
    for event in events:
        match event:
            case Power(node=node) | Reset(node=node):
                in_sync[node] = None
            case Leds(node=node, lit=lit):
                red = bool(lit & RED)
                if red or in_sync.get(node) is not None:
                    in_sync[node] = not red
            case ClockSample(node=node) if in_sync.get(node):
                reading = _reading(event)
                if reading is not None:
                    yield reading


def local_time(clock: ClockSample) -> int | None:
    """A node's local time in cycles, as boards/mica/clock.c has it; None while memory and timer do not match.

    With a schedule timer 0 counts ticks of 128 cycles while the processor sleeps; the prescaler has the cycles.
    """
    watch = clock.watch
    slow, shift = watch.get("slow", b"\0")[0], watch.get("shift", b"\0")[0]
    if "periods" not in watch or clock.divider != (TICK if slow else 1):
        return None
    periods = int.from_bytes(watch["periods"], "little")
    if slow and not watch["asleep"][0]:
        return None  # it may be counting at this moment
    if slow:
        ticks = periods + (clock.tcnt0 - watch["ticked"][0]) % 256
        return (ticks * TICK + clock.prescaler % TICK) % WORD
    settled = SETTLED_SCHEDULED if "slow" in watch else SETTLED
    return None if clock.tcnt0 < settled else ((periods << 8 | clock.tcnt0) + shift) % WORD


def _reading(clock: ClockSample) -> NodeTime | None:
    watch = clock.watch
    local = local_time(clock)
    if local is None or not {"lines", "current"} <= watch.keys():
        return None
    time = shown(watch["lines"], watch["current"][0], local)
    return NodeTime(clock.t, clock.node, watch.get("timesync", b"\0")[0], time)  # which begins with the epoch


def skew_of(all_readings: Sequence[NodeTime], network: ScenarioNetwork) -> Skew:
    moments: dict[tuple[int, int], list[NodeTime]] = defaultdict(list)
    members = set(network.nodes)
    for reading in all_readings:
        if reading.node in members:
            moments[(reading.t + INSTANT_NS // 5) // INSTANT_NS, reading.epoch].append(reading)
    clock = network.deployment.clock
    distances: dict[int, list[float]] = defaultdict(list)
    spread, ticks, beyond, last = 0.0, 0, 0, None
    for together in moments.values():
        offsets = _offsets(together)
        spread = max(spread, max(offsets.values()) - min(offsets.values()))
        apart = _ticks_apart(together[0].time, offsets.values(), clock.tick_log2)
        ticks = max(ticks, apart)
        if apart > clock.epsilon:
            beyond, last = beyond + 1, together[0].t / 1e9
        if network.root in offsets:
            for node, offset in offsets.items():
                distances[node].append(offset - offsets[network.root])
    motes = tuple(
        MoteSkew(network.id_of(node), len(found), max(found, key=abs))
        for node, found in sorted(distances.items())
        if node != network.root
    )
    root_cycles = max((abs(mote.worst) for mote in motes), default=0.0)
    count = sum(map(len, moments.values()))
    return Skew(count, root_cycles, spread, ticks, clock.epsilon, beyond, last, motes)


def _offsets(together: Sequence[NodeTime]) -> dict[int, float]:
    """Each node's clock less the first one's at one moment, corrected for the time between the two readings."""
    first = together[0]
    return {
        reading.node: _signed(reading.time - first.time) - (reading.t - first.t) * CRYSTAL_HZ / 1e9
        for reading in together
    }


def _ticks_apart(first: int, offsets: Iterable[float], tick_log2: int) -> int:
    found = [round(first + offset) >> tick_log2 for offset in offsets]
    return max(found) - min(found)
