"""`clocks`: the epsilon and the delta that a deployment really held, and what would have covered it.

A beacon carries its sender's 32-bit time at its start-of-frame delimiter, and the heard record before it carries the
gateway's time at the same moment: the difference is that of two clocks, to the cycle. Several motes heard within a
moment give how far apart their clocks and the gateway's were. A health message carries the time at which it was sent:
from then to the gateway's time at its arrival is a delay. Neither needs a stamp, and neither wraps with a stamp's clock
field.

Without such times the answer is "unknown". The delays that stamps show are given too, but only up to where the stamp's
clock field wraps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.causality.modular import nearest
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import Beacon, Health, Reason, Record
from spark_jobs.engine import EngineOptions
from spark_jobs.tables.stored import StoredRun, names_of, over_runs

MOMENT_S = 20.0  # the longest time between two beacons of a mote in sync
SHARES = (0.99, 0.999, 1.0)
BACKWARDS = CRYSTAL_HZ  # a gateway's time that steps back by this much has started afresh
WRAP = 1 << 32
IN_SYNC = 1
NO_BEACON = "no beacon was heard in sync, together with its time"
NO_HEALTH = "no health message was heard in sync, together with its time"
NO_STAMP = "no message was in sync"
COLUMNS = ("kind", "line", "payload", "wall_ns", "gateway", "epoch", "synced", "heard_time", "heard")

Ints = NDArray[np.int64]

# The tables of results.
BOUNDS = ("epsilon", "delta", "stamped")
_WHOLE, _REAL = pa.int64(), pa.float64()
COVERINGS = [
    ("bound", pa.string()),
    *(
        (name, _WHOLE)
        for name in ("promised", "measured", "motes", "broken", "covers_99", "covers_99_9", "covers_100")
    ),
    ("why", pa.string()),
]
MOTES = [
    ("mote", _WHOLE), ("beacons", _WHOLE), ("mean", _REAL), ("least", _WHOLE), ("most", _WHOLE), ("skew_ppm", _REAL),
    ("healths", _WHOLE), ("delay_median", _REAL), ("delay_most", _WHOLE),
]  # fmt: skip
BREAKS = [
    ("at", _REAL), ("wall_ns", _WHOLE), ("kind", pa.string()), ("mote", _WHOLE), ("ticks", _WHOLE),
    ("text", pa.string()),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offsets:
    """The motes' clocks minus the gateway's, in cycles."""

    at: Ints  # the gateway's time, cycles, unwrapped
    mote: Ints
    gateway: Ints
    cycles: Ints


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays from a health message's sending to its first arrival, in cycles, on two clocks."""

    at: Ints
    mote: Ints
    cycles: Ints


@dataclass(frozen=True, slots=True)
class Break:
    """A moment at which a bound did not hold: `at` in seconds of network time, `wall_ns` if known."""

    at: float
    wall_ns: int | None
    kind: str  # epsilon, delta, epoch, restart, sync
    mote: int | None
    ticks: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Covering:
    """The promised bound, the measured values, and the least bound, in ticks, that covers each share of them.

    Values are None if nothing was measured; then `why` says what is missing.
    """

    promised: int
    measured: int
    motes: int  # of how many something was measured
    broken: int
    covers_99: int | None
    covers_99_9: int | None
    covers_100: int | None
    why: str = ""  # what is missing, or how far the measure goes


@dataclass(frozen=True, slots=True)
class MoteClock:
    mote: int
    beacons: int
    mean: float | None  # cycles ahead of the gateway
    least: int | None
    most: int | None
    skew_ppm: float | None
    healths: int
    delay_median: float | None  # cycles
    delay_most: int | None


@dataclass(frozen=True, slots=True)
class Clocks:
    epsilon: Covering
    delta: Covering
    stamped: Covering  # delta, by stamps
    motes: tuple[MoteClock, ...]
    breaks: tuple[Break, ...]


@dataclass(frozen=True, slots=True)
class MessageTimes:
    """The times in a run: offsets, delays, and the gateways' own times with their epochs."""

    offsets: Offsets
    delays: Delays
    # (at, mote, wall_ns): a mote that was in sync said that it no longer is.
    unsynced: tuple[tuple[int, int, int | None], ...]
    breaks: tuple[Break, ...]
    walls: tuple[Ints, Ints]  # network's time and wall clock, to tell when something was


# ---- Reading the frames ----


def times_in(batches: Iterator[pa.Table], deployment: Deployment) -> MessageTimes:
    """Read the times from the rows of the table of frames, in order."""
    layout = layout_of(deployment)
    beacons: list[NDArray[Any]] = []
    healths: list[NDArray[Any]] = []
    follower, walls = _Follower(), []
    for batch in batches:
        rows = batch.filter(batch["gateway"].is_valid())
        if not len(rows):
            continue
        follower.take(rows)
        walls.append(np.stack([_ints(rows, "heard"), _ints(rows, "wall_ns")]))
        packets = rows.filter(pc.equal(rows["kind"].cast(pa.string()), "frame"))  # a trace has payloads alone
        frames = Frames.of_packets(packets["payload"].to_pylist(), layout.tinyos)
        beacons.append(_decoded(frames, packets, Beacon, "sender", layout))
        healths.append(_decoded(frames, packets, Health, "source", layout))
    told = np.concatenate(beacons, axis=1) if beacons else _NONE
    sent = np.concatenate(healths, axis=1) if healths else _NONE
    times = np.concatenate(walls, axis=1) if walls else np.zeros((2, 0), np.int64)
    return MessageTimes(
        offsets=_offsets(told),
        delays=_delays(sent),
        unsynced=tuple(_falls(told, sent)),
        breaks=tuple(follower.breaks),
        walls=(times[0], times[1]),
    )


# Rows of `_decoded`.
AT, WALL, MOTE, GATEWAY, DIFFERENCE, SAME_EPOCH, MOTE_SYNCED, BOTH_SYNCED, SENT = range(9)
_NONE = np.zeros((9, 0), np.int64)


def _decoded(
    frames: Frames, rows: pa.Table, record: type[Record], who: str, layout: DataLayout
) -> NDArray[Any]:
    """Messages of one kind with their heard records, and their time minus the gateway's."""
    said, reasons = bulk.decode_records(frames, record, layout)
    at = np.flatnonzero(reasons == Reason.OK)
    said, heard = said[at], rows.take(pa.array(at))
    synced = (said["flags"] & IN_SYNC).astype(np.int64)
    columns = [
        _ints(heard, "heard"),
        _ints(heard, "wall_ns"),
        said[who].astype(np.int64),
        _ints(heard, "gateway"),
        nearest(said["time"].astype(np.int64) - _ints(heard, "heard_time"), 0, WRAP),
        (said["epoch"] == _ints(heard, "epoch")).astype(np.int64),
        synced,
        synced & _ints(heard, "synced"),
        said["time"].astype(np.int64),
    ]
    return np.stack(columns)


def _ints(rows: pa.Table, name: str) -> Ints:
    values: Ints = rows[name].cast(pa.int64()).fill_null(-1).to_numpy()
    return values


def _sound(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows in which both clocks were in sync and followed the same root."""
    return rows[:, (rows[SAME_EPOCH] == 1) & (rows[BOTH_SYNCED] == 1)]


def _offsets(beacons: NDArray[Any]) -> Offsets:
    sound = _sound(beacons)
    return Offsets(sound[AT], sound[MOTE], sound[GATEWAY], sound[DIFFERENCE])


def _delays(healths: NDArray[Any]) -> Delays:
    """The delays of health messages. Of several copies the first counts."""
    sound = _sound(healths)
    _, first = np.unique(sound[[MOTE, SENT]], axis=1, return_index=True)
    rows = sound[:, np.sort(first)]
    return Delays(rows[AT], rows[MOTE], -rows[DIFFERENCE])


def _falls(beacons: NDArray[Any], healths: NDArray[Any]) -> Iterator[tuple[int, int, int | None]]:
    """The moments at which a mote that was in sync first said that it no longer is."""
    rows = np.concatenate((beacons, healths), axis=1)
    rows = rows[:, np.argsort(rows[AT], kind="stable")]
    before: dict[int, int] = {}
    for at, wall, mote, synced in rows[[AT, WALL, MOTE, MOTE_SYNCED]].T.tolist():
        if before.get(mote) and not synced:
            yield at, mote, None if wall < 0 else wall
        before[mote] = synced


class _Follower:
    """Follows each line's epoch and time, across batches."""

    def __init__(self) -> None:
        self.breaks: list[Break] = []
        self._last: dict[int, tuple[int, int]] = {}  # epoch and 32-bit time, by line

    def take(self, rows: pa.Table) -> None:
        synced = rows.filter(rows["synced"])
        columns = [_ints(synced, name) for name in ("line", "epoch", "heard_time", "heard", "wall_ns")]
        line, epoch, time, at, wall = columns
        for one in np.unique(line).tolist():
            mine = np.flatnonzero(line == one)
            epochs, times = epoch[mine], time[mine]
            first = self._last.get(one, (int(epochs[0]), int(times[0])))
            changed = np.diff(epochs, prepend=first[0]) != 0
            back = ~changed & (nearest(np.diff(times, prepend=first[1]), 0, WRAP) < -BACKWARDS)
            for place in np.flatnonzero(changed | back).tolist():
                row = mine[place]
                self._add(bool(changed[place]), int(epochs[place]), int(at[row]), int(wall[row]))
            self._last[one] = int(epochs[-1]), int(times[-1])

    def _add(self, changed: bool, epoch: int, at: int, wall: int) -> None:
        kind = "epoch" if changed else "restart"
        text = (
            f"root epoch {epoch} begins: time starts afresh" if changed else "the network's time stepped back"
        )
        self.breaks.append(Break(at / CRYSTAL_HZ, None if wall < 0 else wall, kind, None, None, text))


# ---- What follows from them ----


def clocks_of(
    times: MessageTimes, stamped: tuple[Ints, Ints], deployment: Deployment, moment_s: float = MOMENT_S
) -> Clocks:
    """The findings on a run's clocks. `stamped` holds the delays that stamps show, in ticks, and their motes."""
    clock, shift = deployment.clock, deployment.clock.tick_log2
    spread, at, mote = _spreads(times.offsets, moment_s)
    apart = _ticks(spread, shift)
    late = _ticks(times.delays.cycles, shift)
    breaks = [
        *times.breaks,
        *_beyond(times, apart, at, mote, clock.epsilon, "epsilon"),
        *_beyond(times, late, times.delays.at, times.delays.mote, clock.delta, "delta"),
        *(
            Break(at / CRYSTAL_HZ, wall, "sync", mote, None, f"mote {mote} says that it is out of sync")
            for at, mote, wall in times.unsynced
        ),
    ]
    return Clocks(
        epsilon=_covering(apart, times.offsets.mote, clock.epsilon, NO_BEACON),
        delta=_covering(late, times.delays.mote, clock.delta, NO_HEALTH),
        stamped=_covering(*stamped, clock.delta, NO_STAMP, _reach(deployment)),
        motes=tuple(_motes(times)),
        breaks=tuple(sorted(breaks, key=lambda item: (item.wall_ns or 0, item.at))),
    )


def _spreads(offsets: Offsets, moment_s: float) -> tuple[Ints, Ints, Ints]:
    """For each gateway and moment: how far apart clocks were, when, and which mote was farthest from the gateway."""
    moment = (offsets.at // int(moment_s * CRYSTAL_HZ)).astype(np.int64)
    order = np.lexsort((offsets.at, moment, offsets.gateway))
    new = np.diff(moment[order], prepend=-1) | np.diff(offsets.gateway[order], prepend=-1)
    begins = np.flatnonzero(new)
    if not len(begins):
        return (np.zeros(0, np.int64),) * 3
    cycles = offsets.cycles[order]
    most = np.maximum(np.maximum.reduceat(cycles, begins), 0)
    least = np.minimum(np.minimum.reduceat(cycles, begins), 0)
    rank = np.lexsort((np.abs(cycles), np.cumsum(new != 0)))
    farthest = order[rank[np.append(begins[1:], len(order)) - 1]]
    return most - least, offsets.at[farthest], offsets.mote[farthest]


def _ticks(cycles: Ints, shift: int) -> Ints:
    """The largest difference in ticks that two clocks can show which are so many cycles apart."""
    return np.asarray(np.maximum(-(-cycles >> shift), 0), np.int64)


def _beyond(times: MessageTimes, ticks: Ints, at: Ints, mote: Ints, bound: int, kind: str) -> Iterator[Break]:
    walls = _walls(times, at)
    for row in np.flatnonzero(ticks > bound).tolist():
        what = "its clock and another were" if kind == "epsilon" else "its message took"
        end = "ticks apart" if kind == "epsilon" else "ticks"
        text = f"mote {mote[row]}: {what} {ticks[row]} {end}, {kind} is {bound}"
        yield Break(int(at[row]) / CRYSTAL_HZ, walls[row], kind, int(mote[row]), int(ticks[row]), text)


def _walls(times: MessageTimes, at: Ints) -> list[int | None]:
    heard, wall = times.walls
    order = np.argsort(heard, kind="stable")
    place = np.clip(np.searchsorted(heard[order], at), 0, max(len(order) - 1, 0))
    return [None if wall[order[i]] < 0 else int(wall[order[i]]) for i in place.tolist()]


def _covering(ticks: Ints, motes: Ints, promised: int, why: str, how: str = "") -> Covering:
    """The `Covering` of measured values. `motes` sent them; `why` says why there are none, `how` how far they reach."""
    if not len(ticks):
        return Covering(promised, 0, 0, 0, None, None, None, why)
    ordered = np.sort(ticks)
    least, usual, most = (int(ordered[math.ceil(share * len(ordered)) - 1]) for share in SHARES)
    beyond = int(np.sum(ticks > promised))
    return Covering(promised, len(ticks), len(np.unique(motes)), beyond, least, usual, most, how)


def _motes(times: MessageTimes) -> Iterator[MoteClock]:
    offsets, delays = times.offsets, times.delays
    for mote in np.unique(np.concatenate((offsets.mote, delays.mote))).tolist():
        mine, late = offsets.mote == mote, delays.cycles[delays.mote == mote]
        cycles, at = offsets.cycles[mine], offsets.at[mine]
        known = len(cycles) > 0
        yield MoteClock(
            mote=mote,
            beacons=len(cycles),
            mean=float(cycles.mean()) if known else None,
            least=int(cycles.min()) if known else None,
            most=int(cycles.max()) if known else None,
            skew_ppm=_slope(at, cycles),
            healths=len(late),
            delay_median=float(np.median(late)) if len(late) else None,
            delay_most=int(late.max()) if len(late) else None,
        )


def _slope(at: Ints, cycles: Ints) -> float | None:
    """The drift of a clock against the gateway's, in parts per million."""
    span = at - at.mean() if len(at) else np.zeros(0)
    power = float(np.sum(span**2))
    return float(np.sum(span * cycles)) / power * 1e6 if power > 0 else None


def delays_by_stamps(messages: Iterator[pa.Table]) -> tuple[Ints, Ints]:
    """The ticks from the stamp's clock to the gateway's, and the mote of each message."""
    ticks, motes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in messages:
        rows = batch.filter(batch["in_sync"])
        ticks.append(np.maximum(_ints(rows, "heard") - _ints(rows, "stamp.r"), 0))
        motes.append(_ints(rows, "source"))
    return np.concatenate(ticks), np.concatenate(motes)


def _reach(deployment: Deployment) -> str:
    """A sentence on how far the delays from stamps can be trusted."""
    stamp, epsilon = layout_of(deployment).stamp, deployment.clock.epsilon
    told = f"a delay over {stamp.modulus - epsilon - 1} ticks looks like a shorter one"
    if stamp.carry == "sum":
        told += (
            f"; stamps hold the largest clock that their sender knew, so up to {epsilon} ticks are missing"
        )
    return told


# ---- The job ----


def of_run(run: StoredRun, moment_s: float) -> Clocks:
    deployment = run.deployment
    times = times_in(run.batches("frames", COLUMNS), deployment)
    timed = layout_of(deployment).stamp.clock_bits > 0
    columns = ("source", "heard", "stamp.r", "in_sync")
    stamped = delays_by_stamps(run.batches("messages", columns) if timed else iter(()))
    return clocks_of(times, stamped, deployment, moment_s)


def clocks(
    runs: Sequence[StoredRun], options: EngineOptions, moment_s: float = MOMENT_S
) -> tuple[list[tuple[StoredRun, Clocks]], dict[str, str]]:
    """What each run's clocks kept, and the faults of the runs that have none."""
    return over_runs("clocks", options, lambda run: of_run(run, moment_s), runs)


def tables_of(found: Sequence[tuple[StoredRun, Clocks]]) -> dict[str, pa.Table]:
    """The tables of all runs in one, with the names of site and run."""
    return {
        "clocks": _table(found, _coverings, COVERINGS),
        "clock_motes": _table(found, lambda clocks: map(asdict, clocks.motes), MOTES),
        "clock_breaks": _table(found, lambda clocks: map(asdict, clocks.breaks), BREAKS),
    }


def _coverings(clocks: Clocks) -> Iterator[dict[str, Any]]:
    for name in BOUNDS:
        yield {"bound": name} | asdict(getattr(clocks, name))


def _table(
    found: Sequence[tuple[StoredRun, Clocks]],
    rows: Callable[[Clocks], Iterable[dict[str, Any]]],
    columns: list[tuple[str, pa.DataType]],
) -> pa.Table:
    named = [("site", pa.string()), ("run", pa.string()), *columns]
    told = [names_of(run) | row for run, clocks in found for row in rows(clocks)]
    return pa.Table.from_pylist(told, schema=pa.schema(named))


def plain(clocks: Clocks) -> dict[str, Any]:
    """The JSON form. A bound that was not measured is "unknown", never 0."""
    told: dict[str, Any] = {}
    for name in BOUNDS:
        covering: Covering = getattr(clocks, name)
        nobody_knows = {"promised": covering.promised, "covers_100": "unknown", "why": covering.why}
        told[name] = asdict(covering) if covering.measured else nobody_knows
    told["motes"] = [asdict(mote) for mote in clocks.motes]
    return told | {"breaks": [asdict(item) for item in clocks.breaks]}
