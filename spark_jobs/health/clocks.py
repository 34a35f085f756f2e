"""`clocks`: the epsilon and the delta that a deployment really held, and what would have covered it.

A beacon carries its sender's 32-bit time at its start-of-frame delimiter, and the heard record before it carries the
gateway's time at the same moment: the difference is that of two clocks, to the cycle. Several motes heard within a
moment give how far apart their clocks and the gateway's were. A health message carries the time at which it was sent:
from then to the gateway's time at its arrival is a delay. Neither needs a stamp, and neither wraps with a stamp's clock
field.

Without such times the answer is "unknown". The delays that stamps show are given too, but only up to where the stamp's
clock field wraps.

Pieces of a run are read side by side. What they tell of clocks comes together in one task for each run, which holds the
run's beacons and health messages and nothing of its other frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from spark_jobs.engine import Engine, Frame
from spark_jobs.health.links import column, joined
from spark_jobs.session import JobError, note
from spark_jobs.tables.stored import Piece, StoredRun, names_of, pieces

MOMENT_S = 20.0  # the longest time between two beacons of a mote in sync
SHARES = {"covers_99": 100, "covers_99_9": 1000}  # 1 - 1/n of less than n measurements are all of them
SURE = 0.95
BACKWARDS = CRYSTAL_HZ  # a gateway's time that steps back by this much has started afresh
WRAP = 1 << 32
IN_SYNC = 1
NO_BEACON = "no beacon was heard in sync, together with its time"
NO_HEALTH = "no health message was heard in sync, together with its time"
NO_STAMP = "no message was in sync"
COLUMNS = (
    "journal", "number", "fate", "line", "payload", "wall_ns", "gateway", "epoch", "synced", "heard_time", "heard",
)  # fmt: skip
STAMPS = ("source", "heard", "stamp", "in_sync")

Ints = NDArray[np.int64]

# The results: a row for each run, with a list for each table.
BOUNDS = ("epsilon", "delta", "stamped")
_WHOLE, _REAL, _TEXT = pa.int64(), pa.float64(), pa.string()
COVERINGS = [
    ("bound", _TEXT),
    *((name, _WHOLE) for name in ("promised", "measured", "motes", "broken", *SHARES, "covers_100")),
    ("sure_share", _REAL), ("why", _TEXT),
]  # fmt: skip
MOTES = [
    ("mote", _WHOLE), ("beacons", _WHOLE), ("mean", _REAL), ("least", _WHOLE), ("most", _WHOLE), ("skew_ppm", _REAL),
    ("healths", _WHOLE), ("delay_median", _REAL), ("delay_most", _WHOLE),
]  # fmt: skip
BREAKS = [
    ("at", _REAL), ("wall_ns", _WHOLE), ("kind", _TEXT), ("mote", _WHOLE), ("ticks", _WHOLE), ("text", _TEXT),
]  # fmt: skip
TABLES = {"clocks": COVERINGS, "clock_motes": MOTES, "clock_breaks": BREAKS}
RESULTS = pa.schema(
    [
        ("site", _TEXT), ("run", _TEXT), ("fault", _TEXT),
        *((name, pa.list_(pa.struct(columns))) for name, columns in TABLES.items()),
    ]
)  # fmt: skip

# What pieces of a run tell, row by row. `kind` says what the other columns mean.
BEACON, HEALTH, BORDER, BREAK, STAMPED, FAULT = range(6)
TIMES = pa.schema(
    [
        ("site", _TEXT), ("run", _TEXT), ("kind", pa.int32()), ("journal", _TEXT),
        *((name, _WHOLE) for name in ("number", "at", "wall", "mote", "gateway", "value", "flags", "other")),
    ]
)  # fmt: skip
SAME_EPOCH, MOTE_SYNCED, BOTH_SYNCED = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Offsets:
    """The motes' clocks minus the gateway's, in cycles."""

    at: Ints  # the gateway's time, cycles, unwrapped
    wall: Ints  # -1: not known
    mote: Ints
    gateway: Ints
    cycles: Ints


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays from a health message's sending to its first arrival, in cycles, on two clocks."""

    at: Ints
    wall: Ints
    mote: Ints
    cycles: Ints


@dataclass(frozen=True, slots=True)
class Falls:
    """The moments at which a mote that was in sync said that it no longer is."""

    at: Ints
    wall: Ints
    mote: Ints


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
    covers_99: int | None  # None also if there are too few measurements to tell
    covers_99_9: int | None
    covers_100: int | None
    sure_share: float | None  # per cent of all times that covers_100 covers, SURE
    why: str = ""  # what is missing, what the measure is worth, and how far it goes


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
    """The times in a run: offsets, delays, and what else happened to its clocks."""

    offsets: Offsets
    delays: Delays
    falls: Falls
    breaks: tuple[Break, ...]  # of the gateways' own times


# ---- Pieces of a run, in any order ----


def times_in(
    batches: Iterator[pa.RecordBatch], deployments: Mapping[str, Deployment]
) -> Iterator[pa.RecordBatch]:
    """What rows of the table of frames tell: beacons, health messages, and how the gateways' times went on."""
    for batch in batches:
        for named, rows in _by_run(batch):
            layout = layout_of(deployments[named["run"]])
            for journal in rows["journal"].unique().to_pylist():
                mine = rows.filter(pc.equal(rows["journal"], journal))
                words = named | {"journal": journal}
                yield from _told(words, _followed(mine))
                fixed = pc.and_(mine["gateway"].is_valid(), pc.equal(mine["fate"], "record"))
                packets = mine.filter(fixed)
                frames = Frames.of_packets(packets["payload"].to_pylist(), layout.tinyos)
                yield from _told(
                    words, _decoded(frames, packets, Beacon, "sender", layout) | {"kind": BEACON}
                )
                yield from _told(
                    words, _decoded(frames, packets, Health, "source", layout) | {"kind": HEALTH}
                )


def delays_in(
    batches: Iterator[pa.RecordBatch], deployments: Mapping[str, Deployment]
) -> Iterator[pa.RecordBatch]:
    """How often stamps show which delay: the ticks from the stamp's clock to the gateway's, by mote."""
    for batch in batches:
        for named, rows in _by_run(batch.filter(batch.column("in_sync"))):
            if not layout_of(deployments[named["run"]]).stamp.clock_bits:
                continue
            stamp = rows["stamp"]
            clock = (pc.struct_field(stamp, "r") if pa.types.is_struct(stamp.type) else stamp).to_numpy()
            ticks = np.maximum(_ints(rows, "heard") - clock, 0)
            pairs, counts = np.unique(np.stack([_ints(rows, "source"), ticks]), axis=1, return_counts=True)
            yield from _told(named, {"kind": STAMPED, "mote": pairs[0], "value": pairs[1], "other": counts})


def _by_run(batch: pa.RecordBatch) -> Iterator[tuple[dict[str, str], pa.Table]]:
    table = pa.Table.from_batches([batch])
    for pair in table.select(["site", "run"]).group_by(["site", "run"]).aggregate([]).to_pylist():
        yield pair, table.filter(pc.and_(*(pc.equal(table[name], text) for name, text in pair.items())))


def _told(words: dict[str, str], columns: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of `TIMES`; what is not given is null."""
    count = len(columns["mote"])
    whole = {name: pa.repeat(text, count) for name, text in words.items()} | columns
    whole["kind"] = np.broadcast_to(np.int32(columns["kind"]), count)
    arrays = [pa.array(whole[item.name], item.type) if item.name in whole else pa.nulls(count, item.type)
              for item in TIMES]  # fmt: skip
    if count:
        yield pa.record_batch(arrays, schema=TIMES)


def _decoded(
    frames: Frames, rows: pa.Table, record: type[Record], who: str, layout: DataLayout
) -> dict[str, Any]:
    """Messages of one kind with their heard records, and their time minus the gateway's."""
    said, reasons = bulk.decode_records(frames, record, layout)
    at = np.flatnonzero(reasons == Reason.OK)
    said, heard = said[at], rows.take(pa.array(at))
    synced = said["flags"] & IN_SYNC != 0
    time = said["time"].astype(np.int64)
    return {
        "number": _ints(heard, "number"),
        "at": _ints(heard, "heard"),
        "wall": _ints(heard, "wall_ns"),
        "mote": said[who].astype(np.int64),
        "gateway": _ints(heard, "gateway"),
        "value": nearest(time - _ints(heard, "heard_time"), 0, WRAP),
        "flags": SAME_EPOCH * (said["epoch"] == _ints(heard, "epoch"))
        + MOTE_SYNCED * synced
        + BOTH_SYNCED * (synced & (_ints(heard, "synced") == 1)),
        "other": time,
    }


def _ints(rows: pa.Table, name: str) -> Ints:
    return column(rows, name, np.int64, -1)


def _followed(rows: pa.Table) -> dict[str, Any]:
    """Where a line's epoch or time breaks, and its first and last time in each stretch of consecutive records.

    A stretch's ends are compared with the stretches before and after it when all are there (`_across`).
    """
    number, line = _ints(rows, "number"), _ints(rows, "line")
    order = np.lexsort((number, line))
    stretch = np.zeros(len(order), np.int64)
    in_order = np.sort(number)
    begins = in_order[np.flatnonzero(np.diff(in_order, prepend=in_order[:1] - 2) != 1)]
    stretch = np.searchsorted(begins, number[order], side="right")
    known = rows["gateway"].is_valid().to_numpy() & (_ints(rows, "synced") == 1)
    kept = known[order]
    order, stretch = order[kept], stretch[kept]
    new = np.diff(line[order], prepend=-2) != 0
    new |= np.diff(stretch, prepend=-2) != 0
    epoch, time, at, wall = (_ints(rows, name)[order] for name in ("epoch", "heard_time", "heard", "wall_ns"))
    changed, back = _breaks(epoch, time)
    broken = np.flatnonzero((changed | back) & ~new)
    begin = np.flatnonzero(new)
    last = np.append(begin[1:], len(order))[: len(begin)] - 1
    chosen_rows = np.concatenate((begin, broken))
    packed = (epoch << 32) + time
    return {
        "kind": np.repeat([BORDER, BREAK], [len(begin), len(broken)]),
        "number": number[order][chosen_rows],
        "mote": line[order][chosen_rows],
        "at": at[chosen_rows],
        "wall": wall[chosen_rows],
        "value": packed[chosen_rows],
        "flags": changed[chosen_rows].astype(np.int64),
        "other": packed[np.concatenate((last, broken))],
    }


def _breaks(epoch: Ints, time: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the epoch changed, or else the time stepped back, since the row before. The first has none before it."""
    changed = np.diff(epoch, prepend=epoch[:1]) != 0
    return changed, ~changed & (nearest(np.diff(time, prepend=time[:1]), 0, WRAP) < -BACKWARDS)


# ---- A whole run ----


Rows = dict[str, NDArray[Any]]
"""Columns of `TIMES`, as numbers."""


def _times_of(rows: Rows) -> MessageTimes:
    """Put together what the pieces told, in order of arrival. `rows` are sorted in place, since they may be many."""
    journals = np.unique(rows["journal"])
    merged = np.sum(journals >= 0) > 1
    order = np.lexsort(
        (rows["number"], rows["wall"] * merged)
    )  # a journal's own order, else the wall clocks'
    for name in rows:
        rows[name] = rows[name][order]
    del order
    sound = (
        rows["flags"] & (SAME_EPOCH | BOTH_SYNCED) == SAME_EPOCH | BOTH_SYNCED
    )  # both in sync, with one root
    offsets = _where(rows, sound & (rows["kind"] == BEACON), "at", "wall", "mote", "gateway", "value")
    return MessageTimes(
        falls=_falls(_where(rows, rows["kind"] <= HEALTH, "kind", "at", "wall", "mote", "flags")),
        delays=_delays(
            _where(rows, sound & (rows["kind"] == HEALTH), "at", "wall", "mote", "value", "other")
        ),
        breaks=tuple(_across(_of_kind(rows, BORDER, BREAK))),
        offsets=Offsets(*offsets.values()),
    )


def _of_kind(rows: Rows, *kinds: int) -> Rows:
    return _where(rows, np.isin(rows["kind"], kinds))


def _where(rows: Rows, which: NDArray[Any], *names: str) -> Rows:
    """Some rows, of these columns or of all."""
    return {name: rows[name][which] for name in names or rows}


def _delays(sound: Rows) -> Delays:
    """The delays of health messages. Of several copies the first counts."""
    order = np.lexsort((sound["other"], sound["mote"]))  # stable: the first of equals comes first
    mote, sent = sound["mote"][order], sound["other"][order]
    new = np.diff(mote, prepend=-1) != 0
    new[1:] |= np.diff(sent) != 0
    rows = _where(sound, np.sort(order[new]))
    return Delays(rows["at"], rows["wall"], rows["mote"], -rows["value"])


def _falls(rows: Rows) -> Falls:
    """The moments at which a mote that was in sync first said that it no longer is."""
    order = np.lexsort((rows["kind"], rows["at"], rows["mote"]))
    synced = rows["flags"][order] & MOTE_SYNCED != 0
    fell = np.zeros(len(order), np.bool_)
    fell[1:] = synced[:-1] & ~synced[1:] & (np.diff(rows["mote"][order]) == 0)
    found = _where(rows, order[fell])
    found = _where(found, np.argsort(found["at"], kind="stable"))
    return Falls(found["at"], found["wall"], found["mote"])


def _across(rows: Rows) -> Iterator[Break]:
    """The breaks inside stretches, and those between the end of a stretch and the next one of its line."""
    inside = _of_kind(rows, BREAK)
    borders = _of_kind(rows, BORDER)
    order = np.lexsort((borders["number"], borders["mote"], borders["journal"]))
    borders = _where(borders, order)
    begin, end = borders["value"], np.concatenate((borders["value"][:1], borders["other"][:-1]))
    same = np.ones(len(order), np.bool_)
    same[1:] = (np.diff(borders["mote"]) == 0) & (np.diff(borders["journal"]) == 0)
    changed = begin >> 32 != end >> 32
    back = nearest((begin & WRAP - 1) - (end & WRAP - 1), 0, WRAP) < -BACKWARDS
    borders["flags"] = changed.astype(np.int64)
    between = _where(borders, same & (changed | back))
    found = {name: np.concatenate((inside[name], between[name])) for name in inside}
    found = _where(found, np.lexsort((found["number"], found["journal"])))
    names = ("at", "wall", "value", "flags")
    for at, wall, value, flags in zip(*(found[name].tolist() for name in names), strict=True):
        text = (
            f"root epoch {value >> 32} begins: time starts afresh"
            if flags
            else "the network's time stepped back"
        )
        yield Break(at / CRYSTAL_HZ, _wall(wall), "epoch" if flags else "restart", None, None, text)


def _wall(wall: int) -> int | None:
    return None if wall < 0 else wall


# ---- What follows from them ----


def clocks_of(
    times: MessageTimes, stamped: tuple[Ints, Ints, Ints], deployment: Deployment, moment_s: float = MOMENT_S
) -> Clocks:
    """The findings on a run's clocks. `stamped`: the delays that stamps show, in ticks, their motes, and how often."""
    clock, shift = deployment.clock, deployment.clock.tick_log2
    offsets, delays, falls = times.offsets, times.delays, times.falls
    spread, row = _spreads(offsets, moment_s)
    apart = _ticks(spread, shift)
    late = _ticks(delays.cycles, shift)
    breaks = [
        *times.breaks,
        *_beyond(apart, (offsets.at[row], offsets.wall[row], offsets.mote[row]), clock.epsilon, "epsilon"),
        *_beyond(late, (delays.at, delays.wall, delays.mote), clock.delta, "delta"),
        *(
            Break(
                at / CRYSTAL_HZ, _wall(wall), "sync", mote, None, f"mote {mote} says that it is out of sync"
            )
            for at, wall, mote in zip(
                falls.at.tolist(), falls.wall.tolist(), falls.mote.tolist(), strict=True
            )
        ),
    ]
    return Clocks(
        epsilon=_covering(apart, offsets.mote, clock.epsilon, NO_BEACON),
        delta=_covering(late, delays.mote, clock.delta, NO_HEALTH),
        stamped=_covering(stamped[0], stamped[1], clock.delta, NO_STAMP, _reach(deployment), stamped[2]),
        motes=tuple(_motes(times)),
        breaks=tuple(sorted(breaks, key=lambda item: (item.wall_ns or 0, item.at))),
    )


def _spreads(offsets: Offsets, moment_s: float) -> tuple[Ints, Ints]:
    """For each gateway and moment: how far apart clocks were, and the row of the mote farthest from the gateway."""
    moment = (offsets.at // int(moment_s * CRYSTAL_HZ)).astype(np.int64)
    order = np.lexsort((offsets.at, moment, offsets.gateway))
    new = np.diff(moment[order], prepend=-1) | np.diff(offsets.gateway[order], prepend=-1)
    begins = np.flatnonzero(new)
    if not len(begins):
        return (np.zeros(0, np.int64),) * 2
    cycles = offsets.cycles[order]
    most = np.maximum(np.maximum.reduceat(cycles, begins), 0)
    least = np.minimum(np.minimum.reduceat(cycles, begins), 0)
    rank = np.lexsort((np.abs(cycles), np.cumsum(new != 0)))
    return most - least, order[rank[np.append(begins[1:], len(order)) - 1]]


def _ticks(cycles: Ints, shift: int) -> Ints:
    """The largest difference in ticks that two clocks can show which are so many cycles apart."""
    return np.asarray(np.maximum(-(-cycles >> shift), 0), np.int64)


def _beyond(ticks: Ints, rows: tuple[Ints, Ints, Ints], bound: int, kind: str) -> Iterator[Break]:
    what, end = (
        ("its clock and another were", "ticks apart") if kind == "epsilon" else ("its message took", "ticks")
    )
    which = np.flatnonzero(ticks > bound)
    for many, at, wall, mote in zip(*(values[which].tolist() for values in (ticks, *rows)), strict=True):
        text = f"mote {mote}: {what} {many} {end}, {kind} is {bound}"
        yield Break(at / CRYSTAL_HZ, _wall(wall), kind, mote, many, text)


def _covering(
    ticks: Ints, motes: Ints, promised: int, why: str, how: str = "", counts: Ints | None = None
) -> Covering:
    """The `Covering` of measured values. `motes` sent them; `why` says why there are none, `how` how far they reach.

    `counts` says how often each value was measured, if not once.
    """
    counts = np.ones(len(ticks), np.int64) if counts is None else counts
    total = int(counts.sum())
    if not total:
        return Covering(promised, 0, 0, 0, None, None, None, None, why)
    order = np.argsort(ticks)
    ordered, upto = ticks[order], np.cumsum(counts[order])
    covers = {
        name: int(ordered[np.searchsorted(upto, total - total // n)]) if total >= n else None
        for name, n in SHARES.items()
    }
    return Covering(
        promised=promised,
        measured=total,
        motes=len(np.unique(motes)),
        broken=int(counts[ticks > promised].sum()),
        covers_100=int(ordered[-1]),
        sure_share=_sure(total),
        why="; ".join(text for text in (_worth(total), how) if text),
        **covers,
    )


def _sure(count: int) -> float:
    """The share, in per cent, that the largest of so many independent values covers with the confidence `SURE`.

    The chance that all of them stay below the bound of a share s is s to the power of their number.
    """
    return math.floor(1e6 * float((1 - SURE) ** (1 / count))) / 1e4


def _worth(count: int) -> str:
    """A sentence on what few measurements are worth."""
    unknown = [name.removeprefix("covers_").replace("_", ".") for name, n in SHARES.items() if count < n]
    if not unknown:
        return ""
    many = f"{count} measurements are" if count > 1 else "1 measurement is"
    return (
        f"{many} too few to say what covers {' or '.join(unknown)}%; one can be {SURE:.0%} sure that covers_100 "
        f"covers {math.floor(_sure(count) * 10) / 10}% of all times, if measurements are independent"
    )


def _motes(times: MessageTimes) -> Iterator[MoteClock]:
    offsets, delays = times.offsets, times.delays
    beacons, healths = _rows_by(offsets.mote), _rows_by(delays.mote)
    for mote in sorted(beacons.keys() | healths.keys()):
        mine, late = beacons.get(mote, _NO_ROWS), delays.cycles[healths.get(mote, _NO_ROWS)]
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


_NO_ROWS = np.zeros(0, np.int64)


def _rows_by(mote: Ints) -> dict[int, Ints]:
    """The rows of each mote, in their order."""
    order = np.argsort(mote, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(mote[order])) + 1)
    return {int(mote[rows[0]]): rows for rows in groups if len(rows)}


def _slope(at: Ints, cycles: Ints) -> float | None:
    """The drift of a clock against the gateway's, in parts per million."""
    span = at - at.mean() if len(at) else np.zeros(0)
    power = float(np.sum(span**2))
    return float(np.sum(span * cycles)) / power * 1e6 if power > 0 else None


def _reach(deployment: Deployment) -> str:
    """A sentence on how far the delays from stamps can be trusted."""
    stamp, epsilon = layout_of(deployment).stamp, deployment.clock.epsilon
    told = f"a delay over {stamp.modulus - epsilon - 1} ticks looks like a shorter one"
    if stamp.carry == "sum":
        told += (
            f"; stamps hold the largest clock that their sender knew, so up to {epsilon} ticks are missing"
        )
    return told


# ---- Frames in, tables out ----


def clocks(
    engine: Engine,
    frames: Frame,
    messages: Frame,
    deployments: Mapping[str, Deployment],
    moment_s: float = MOMENT_S,
) -> Frame:
    """A row of `RESULTS` for each run that tells something. `deployments` are by run; `messages` have the stamps."""
    told = engine.mapped(
        frames.select(["site", "run", *COLUMNS]), lambda rows: times_in(rows, deployments), TIMES
    )
    stamped = engine.mapped(
        messages.select(["site", "run", *STAMPS]), lambda rows: delays_in(rows, deployments), TIMES
    )
    return of_times(engine, engine.joined([told, stamped]), deployments, moment_s)


def of_times(engine: Engine, times: Frame, deployments: Mapping[str, Deployment], moment_s: float) -> Frame:
    return engine.grouped(times, ["site", "run"], lambda rows: _of_run(rows, deployments, moment_s), RESULTS)


# In memory, narrower than in the tables.
_KINDS: dict[str, Any] = {
    "kind": np.int8, "number": np.int64, "at": np.int64, "wall": np.int64, "mote": np.int32, "gateway": np.int32,
    "value": np.int64, "flags": np.int8, "other": np.int64, "journal": np.int16,
}  # fmt: skip


def _of_run(
    batches: Iterator[pa.RecordBatch], deployments: Mapping[str, Deployment], moment_s: float
) -> Iterator[pa.RecordBatch]:
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _KINDS}
    journals: dict[str, int] = {}
    named: dict[str, Any] = {}
    for batch in batches:
        named = {name: batch.column(name)[0].as_py() for name in ("site", "run")}
        faults = batch.filter(pc.equal(batch.column("kind"), FAULT)).column("journal").to_pylist()
        if faults:
            yield from pa.Table.from_pylist([named | {"fault": faults[0]}], schema=RESULTS).to_batches()
            return
        words = batch.column("journal").dictionary_encode()
        known = [journals.setdefault(word, len(journals)) for word in words.dictionary.to_pylist()]
        parts["journal"].append(np.array([*known, -1], np.int16)[words.indices.fill_null(-1).to_numpy(False)])
        for name in _KINDS.keys() - {"journal"}:
            parts[name].append(column(batch, name, _KINDS[name], -1))
    rows = {name: joined(parts.pop(name), kind) for name, kind in _KINDS.items()}
    yield from _results(named, rows, deployments[named["run"]], moment_s).to_batches()


def _results(named: dict[str, str], rows: Rows, deployment: Deployment, moment_s: float) -> pa.Table:
    stamped = _of_kind(rows, STAMPED)
    found = clocks_of(
        _times_of(rows),
        (stamped["value"], stamped["mote"], stamped["other"]),
        deployment,
        moment_s,
    )
    row = named | {
        "clocks": [{"bound": name} | asdict(getattr(found, name)) for name in BOUNDS],
        "clock_motes": [asdict(mote) for mote in found.motes],
        "clock_breaks": [asdict(item) for item in found.breaks],
    }
    return pa.Table.from_pylist([row], schema=RESULTS)


# ---- The job ----


def of_runs(
    engine: Engine, runs: Sequence[StoredRun], moment_s: float
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The row of `RESULTS` of each stored run, and what is wrong with the runs that have none."""
    deployments, faults = {}, {}
    for run in runs:
        try:
            deployments[run.name] = run.deployment
        except JobError as error:
            faults[run.name] = str(error)
    tasks, unreadable = pieces([run for run in runs if run.name in deployments], "frames", "messages")
    times = engine.rows(lambda piece: _of_piece(piece, deployments), tasks, TIMES)
    found = engine.collect(of_times(engine, times, deployments, moment_s)).to_pylist()
    faults |= unreadable | {row["run"]: row["fault"] for row in found if row["fault"]}
    for why in faults.values():
        note(why)
    of_run = {row["run"]: row for row in found}
    nothing = {name: np.zeros(0, kind) for name, kind in _KINDS.items()}
    for run in runs:  # nothing is known of the clocks of some
        if run.name not in of_run and run.name not in faults:
            (of_run[run.name],) = _results(
                names_of(run), nothing, deployments[run.name], moment_s
            ).to_pylist()
    return [of_run[run.name] for run in runs if run.name not in faults], faults


def _of_piece(piece: Piece, deployments: Mapping[str, Deployment]) -> Iterator[pa.RecordBatch]:
    """What a piece of a run tells. A fault is a row, so that other runs go on."""
    run = piece.run
    named = names_of(run)
    try:
        if piece.table == "frames":
            yield from times_in(_named(piece.batches(COLUMNS), named), deployments)
        else:
            clocks_alone = [name if name != "stamp" else "stamp.r" for name in STAMPS]
            tables = (table.rename_columns(list(STAMPS)) for table in piece.batches(clocks_alone))
            yield from delays_in(_named(tables, named), deployments)
    except JobError as error:
        yield from _told(named | {"journal": str(error)}, {"kind": FAULT, "mote": [-1]})


def _named(tables: Iterator[pa.Table], named: dict[str, str]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        columns = {name: pa.repeat(text, len(table)) for name, text in named.items()}
        columns |= {name: table[name] for name in table.column_names}
        yield from pa.table(columns).to_batches()


def tables_of(found: Sequence[dict[str, Any]]) -> dict[str, pa.Table]:
    """The tables of all runs, from rows of `RESULTS`."""
    return {
        name: pa.Table.from_pylist(
            [{"site": row["site"], "run": row["run"]} | item for row in found for item in row[name]],
            schema=pa.schema([("site", _TEXT), ("run", _TEXT), *columns]),
        )
        for name, columns in TABLES.items()
    }


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """The JSON form of a row of `RESULTS`. A bound that was not measured is "unknown", never 0."""
    told: dict[str, Any] = {"site": row["site"], "run": row["run"]}
    for covering in row["clocks"]:
        values = {name: value for name, value in covering.items() if name != "bound"}
        nobody_knows = {"promised": covering["promised"], "covers_100": "unknown", "why": covering["why"]}
        told[covering["bound"]] = values if covering["measured"] else nobody_knows
    return told | {"motes": row["clock_motes"], "breaks": row["clock_breaks"]}
