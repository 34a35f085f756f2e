"""The epsilon and the delta that a deployment really kept, and the bounds that would have covered its clocks.

A beacon carries its sender's 32-bit time at its start-of-frame delimiter, and the heard record before it carries the
gateway's time at the same moment: the difference is that of two clocks, to the cycle. Several motes heard within a
moment give how far apart their clocks and the gateway's were. A health message carries the time at which it was sent:
from then to the gateway's time at its arrival is a delay. Neither needs a stamp, and neither wraps with a stamp's clock
field.

Without such times the answer is "unknown". The delays that stamps show are given too, but only up to where the stamp's
clock field wraps.

The frames of a run may come in pieces, in any order. `times_in` and `delays_in` read a piece; `clocks_of` puts their
beacons and health messages together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.analysis.columns import Ints, Rows, changes, column, filled, where
from basestation.causality.modular import nearest
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.phrases import many
from packet_formats.records import Beacon, Health, Reason, Record

MOMENT_S = 20.0  # the longest time between two beacons of a mote in sync
SHARES = {"covers_99": 100, "covers_99_9": 1000}  # 1 - 1/n of less than n measurements are all of them
SURE = 0.95
BACKWARDS = CRYSTAL_HZ  # a gateway's time that steps back by this much has started afresh
WRAP = 1 << 32
IN_SYNC = 1
_GATEWAY = "was heard in sync, together with its time; log a gateway that is in sync and sends heard records"
NO_BEACON = f"no beacon {_GATEWAY}, near motes that are in sync"
NO_HEALTH = f"no health message {_GATEWAY}, for longer than motes wait between two of them"
NO_STAMP = "no message was in sync; motes need a root that gives them the time"
NO_CLOCK = "the stamp has no clock; a stamp with a clock shows delays"
COLUMNS = (
    "journal", "number", "fate", "line", "payload", "wall_ns", "gateway", "epoch", "synced", "heard_time", "heard",
)  # fmt: skip
STAMPS = ("source", "heard", "stamp.r", "in_sync")

# The results: a row for each run, with a list for each table.
_WHOLE, _REAL, _TEXT = pa.int64(), pa.float64(), pa.string()
COVERINGS = pa.schema(
    [
        ("bound", _TEXT),  # epsilon, delta, or stamped: delta by stamps
        *((name, _WHOLE) for name in ("promised", "measured", "motes", "broken")),
        # The least bound, in ticks, that covers each share; null with too few measurements.
        *((name, _WHOLE) for name in (*SHARES, "covers_100")),
        ("sure_share", _REAL),  # per cent of all times that covers_100 covers, SURE
        ("why", _TEXT),  # what is missing, what the measure is worth, and how far it goes
    ]
)
MOTES = pa.schema(
    [
        ("mote", _WHOLE),
        ("beacons", _WHOLE), ("mean", _REAL), ("least", _WHOLE), ("most", _WHOLE),  # cycles ahead of the gateway
        ("skew_ppm", _REAL),
        ("healths", _WHOLE), ("delay_median", _REAL), ("delay_most", _WHOLE),  # cycles
    ]
)  # fmt: skip
BREAKS = pa.schema(
    [
        ("at", _REAL), ("wall_ns", _WHOLE),  # seconds of network time; the wall clock's, if known
        ("kind", _TEXT),  # epsilon, delta, epoch, restart, sync
        ("mote", _WHOLE), ("ticks", _WHOLE), ("text", _TEXT),
    ]
)  # fmt: skip
TABLES = {"clocks": COVERINGS, "clock_motes": MOTES, "clock_breaks": BREAKS}

# The times in pieces of a run. `kind` says what the other columns mean.
BEACON, HEALTH, BORDER, BREAK, STAMPED = range(5)
TIMES = pa.schema(
    [
        ("kind", pa.int8()), ("journal", _TEXT), ("number", _WHOLE), ("at", _WHOLE), ("wall", _WHOLE),
        ("mote", pa.int32()), ("gateway", pa.int32()), ("value", _WHOLE), ("flags", pa.int8()), ("other", _WHOLE),
    ]
)  # fmt: skip
SAME_EPOCH, MOTE_SYNCED, BOTH_SYNCED = 1, 2, 4


# ---- Pieces of a run, in any order ----


def times_in(frames: pa.Table, deployment: Deployment) -> Iterator[pa.Table]:
    """The times in rows of the table of frames: beacons, health messages, and how the gateways' times went on."""
    layout = layout_of(deployment)
    for journal in frames["journal"].unique().to_pylist():
        mine = frames.filter(pc.equal(frames["journal"], journal))
        packets = mine.filter(pc.and_(mine["gateway"].is_valid(), pc.equal(mine["fate"], "record")))
        decoded = Frames.of_buffer(*_buffer(packets["payload"]), layout.tinyos)
        yield _told(_followed(mine), journal)
        yield _told(_decoded(decoded, packets, Beacon, "sender", layout) | {"kind": BEACON}, journal)
        yield _told(_decoded(decoded, packets, Health, "source", layout) | {"kind": HEALTH}, journal)


def delays_in(messages: pa.Table, deployment: Deployment) -> Iterator[pa.Table]:
    """How often stamps show which delay: the ticks from the stamp's clock to the gateway's, by mote."""
    rows = messages.filter(messages["in_sync"])
    if layout_of(deployment).stamp.clock_bits and len(rows):
        mote, ticks = column(rows, "source"), np.maximum(column(rows, "heard") - column(rows, "stamp.r"), 0)
        longest = int(ticks.max()) + 1
        pairs, counts = np.unique(mote * longest + ticks, return_counts=True)
        mote, ticks = np.divmod(pairs, longest)
        yield _told({"kind": STAMPED, "mote": mote, "value": ticks, "other": counts})


def _told(columns: dict[str, Any], journal: str | None = None) -> pa.Table:
    return filled(columns | {"journal": journal}, TIMES, len(columns["mote"]))


def _buffer(packets: pa.ChunkedArray) -> tuple[NDArray[np.uint8], Ints]:
    """Packets end to end, and their lengths."""
    whole = pa.concat_arrays([pa.array([], packets.type), *packets.chunks])
    _, offsets, content = whole.buffers()
    ends = (
        np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1]
        if offsets
        else np.zeros(1, int)
    )
    packed = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
    return packed[ends[0] : ends[-1]], np.diff(ends).astype(np.int64)


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
        "number": column(heard, "number"),
        "at": column(heard, "heard"),
        "wall": column(heard, "wall_ns"),
        "mote": said[who].astype(np.int64),
        "gateway": column(heard, "gateway"),
        "value": nearest(time - column(heard, "heard_time"), 0, WRAP),
        "flags": SAME_EPOCH * (said["epoch"] == column(heard, "epoch"))
        + MOTE_SYNCED * synced
        + BOTH_SYNCED * (synced & (column(heard, "synced") == 1)),
        "other": time,
    }


def _followed(frames: pa.Table) -> dict[str, Any]:
    """Where a line's epoch or time breaks, and its first and last time in each stretch of consecutive records.

    A stretch's ends are compared with the stretches before and after it when all are there (`_restarts`).
    """
    rows = {
        name: column(frames, name) for name in ("number", "line", "epoch", "heard_time", "heard", "wall_ns")
    }
    in_order = np.sort(rows["number"])
    begins = in_order[changes(in_order - np.arange(len(in_order)))]
    rows["stretch"] = np.searchsorted(begins, rows["number"], side="right")
    rows = where(rows, frames["gateway"].is_valid().to_numpy() & (column(frames, "synced") == 1))
    rows = where(rows, np.lexsort((rows["number"], rows["line"])))
    packed = (rows["epoch"] << 32) + rows["heard_time"]
    new = changes(rows["line"], rows["stretch"])
    changed, back = _jumps(np.concatenate((packed[:1], packed[:-1])), packed)
    broken = np.flatnonzero((changed | back) & ~new)
    begin = np.flatnonzero(new)
    last = np.append(begin[1:], len(packed))[: len(begin)] - 1
    chosen = np.concatenate((begin, broken))
    return {
        "kind": np.repeat([BORDER, BREAK], [len(begin), len(broken)]),
        "number": rows["number"][chosen],
        "mote": rows["line"][chosen],
        "at": rows["heard"][chosen],
        "wall": rows["wall_ns"][chosen],
        "value": packed[chosen],
        "flags": changed[chosen].astype(np.int64),
        "other": packed[np.concatenate((last, broken))],
    }


def _jumps(before: Ints, after: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the epoch changed, or else the time stepped back, from one to the other."""
    changed = before >> 32 != after >> 32
    return changed, ~changed & (nearest((after & WRAP - 1) - (before & WRAP - 1), 0, WRAP) < -BACKWARDS)


# ---- A whole run ----


def clocks_of(
    times: pa.Table, deployment: Deployment, moment_s: float = MOMENT_S
) -> dict[str, list[dict[str, Any]]]:
    """The rows of `TABLES` on a run's clocks, from the times in its pieces."""
    clock, shift = deployment.clock, deployment.clock.tick_log2
    rows = _in_order(times)
    stamped = _of_kind(rows, STAMPED)
    offsets, delays = _offsets(rows), _delays(rows)
    spread, farthest = _spreads(offsets, moment_s)
    apart, late = _ticks(spread, shift), _ticks(delays["cycles"], shift)
    why_not = NO_STAMP if layout_of(deployment).stamp.clock_bits else NO_CLOCK
    by_stamps = (
        stamped["value"],
        stamped["mote"],
        clock.delta,
        why_not,
        _reach(deployment),
        stamped["other"],
    )
    breaks = [
        *_restarts(rows),
        *_beyond(apart, where(offsets, farthest), clock.epsilon, "epsilon"),
        *_beyond(late, delays, clock.delta, "delta"),
        *_falls(rows),
    ]
    return {
        "clocks": [
            {"bound": "epsilon"} | _covering(apart, offsets["mote"], clock.epsilon, NO_BEACON),
            {"bound": "delta"} | _covering(late, delays["mote"], clock.delta, NO_HEALTH),
            {"bound": "stamped"} | _covering(*by_stamps),
        ],
        "clock_motes": [*_motes(offsets, delays)],
        "clock_breaks": sorted(breaks, key=lambda item: (item["wall_ns"] or 0, item["at"])),
    }


def _in_order(times: pa.Table) -> Rows:
    """The rows as numbers, in order of arrival: a journal's own, or the wall clocks' of several."""
    words = pc.dictionary_encode(times["journal"].combine_chunks())
    rows = {
        item.name: column(times, item.name, item.type.to_pandas_dtype())
        for item in TIMES
        if item.type != _TEXT
    }
    rows["journal"] = words.indices.fill_null(-1).to_numpy(False).astype(np.int16)
    order = np.lexsort((rows["number"], rows["wall"] * (len(words.dictionary) > 1)))
    for name in rows:  # one by one, since they may be many
        rows[name] = rows[name][order]
    return rows


def _of_kind(rows: Rows, *kinds: int, flags: int = 0, names: tuple[str, ...] = ()) -> Rows:
    return where(rows, np.isin(rows["kind"], kinds) & (rows["flags"] & flags == flags), *names)


def _offsets(rows: Rows) -> Rows:
    """The motes' clocks minus the gateway's, of beacons whose sender and hearer were in sync, with one root."""
    names = ("at", "wall", "mote", "gateway", "value")
    found = _of_kind(rows, BEACON, flags=SAME_EPOCH | BOTH_SYNCED, names=names)
    found["cycles"] = found.pop("value")
    return found


def _delays(rows: Rows) -> Rows:
    """The delays from a health message's sending to its first arrival, in cycles, on two clocks."""
    sound = _of_kind(
        rows, HEALTH, flags=SAME_EPOCH | BOTH_SYNCED, names=("at", "wall", "mote", "value", "other")
    )
    order = np.lexsort((sound["other"], sound["mote"]))  # stable: the first of several copies comes first
    found = where(sound, np.sort(order[changes(sound["mote"][order], sound["other"][order])]))
    return found | {"cycles": -found["value"]}


def _break(
    kind: str, at: int, wall: int, text: str, mote: int | None = None, ticks: int | None = None
) -> dict[str, Any]:
    """A moment at which something did not hold."""
    wall_ns = None if wall < 0 else wall
    return {
        "at": at / CRYSTAL_HZ,
        "wall_ns": wall_ns,
        "kind": kind,
        "mote": mote,
        "ticks": ticks,
        "text": text,
    }


def _plain(rows: Rows, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].tolist() for name in names), strict=True)


def _falls(rows: Rows) -> Iterator[dict[str, Any]]:
    """The moments at which a mote that was in sync first said that it no longer is."""
    rows = _of_kind(rows, BEACON, HEALTH, names=("kind", "at", "wall", "mote", "flags"))
    rows = where(rows, np.lexsort((rows["kind"], rows["at"], rows["mote"])))
    synced = rows["flags"] & MOTE_SYNCED != 0
    fell = ~changes(rows["mote"]) & ~synced
    fell[1:] &= synced[:-1]
    found = where(rows, fell)
    for at, wall, mote in _plain(where(found, np.argsort(found["at"], kind="stable")), "at", "wall", "mote"):
        yield _break("sync", at, wall, f"mote {mote} says that it is out of sync", mote)


def _restarts(rows: Rows) -> Iterator[dict[str, Any]]:
    """The breaks of gateways' times inside stretches, and between the end of a stretch and the next one of its line."""
    inside, borders = _of_kind(rows, BREAK), _of_kind(rows, BORDER)
    borders = where(borders, np.lexsort((borders["number"], borders["mote"], borders["journal"])))
    changed, back = _jumps(np.concatenate((borders["value"][:1], borders["other"][:-1])), borders["value"])
    borders["flags"] = changed.astype(np.int8)
    between = where(borders, ~changes(borders["mote"], borders["journal"]) & (changed | back))
    found = {name: np.concatenate((inside[name], between[name])) for name in inside}
    found = where(found, np.lexsort((found["number"], found["journal"])))
    for at, wall, value, is_new in _plain(found, "at", "wall", "value", "flags"):
        if is_new:
            yield _break("epoch", at, wall, f"root epoch {value >> 32} begins: time starts afresh")
        else:
            yield _break("restart", at, wall, "the network's time stepped back")


def _beyond(ticks: Ints, rows: Rows, bound: int, kind: str) -> Iterator[dict[str, Any]]:
    said = {"epsilon": "its clock and another were {} apart", "delta": "its message took {}"}[kind]
    found = where(rows | {"ticks": ticks}, np.flatnonzero(ticks > bound), "ticks", "at", "wall", "mote")
    for taken, at, wall, mote in _plain(found, "ticks", "at", "wall", "mote"):
        text = f"mote {mote}: {said.format(many(taken, 'tick'))}, {kind} is {bound}"
        yield _break(kind, at, wall, text, mote, taken)


def _spreads(offsets: Rows, moment_s: float) -> tuple[Ints, Ints]:
    """For each gateway and moment: how far apart clocks were, and the row of the mote farthest from the gateway."""
    moment = (offsets["at"] // int(moment_s * CRYSTAL_HZ)).astype(np.int64)
    order = np.lexsort((np.abs(offsets["cycles"]), moment, offsets["gateway"]))
    begins = np.flatnonzero(changes(moment[order], offsets["gateway"][order]))
    if not len(begins):
        return (np.zeros(0, np.int64),) * 2
    cycles = offsets["cycles"][order]
    most = np.maximum(np.maximum.reduceat(cycles, begins), 0)
    least = np.minimum(np.minimum.reduceat(cycles, begins), 0)
    return most - least, order[np.append(begins[1:], len(order)) - 1]


def _ticks(cycles: Ints, shift: int) -> Ints:
    """The largest difference in ticks that two clocks can show, by the cycles between them."""
    return np.asarray(np.maximum(-(-cycles >> shift), 0), np.int64)


def _covering(
    ticks: Ints, motes: Ints, promised: int, why: str, how: str = "", counts: Ints | None = None
) -> dict[str, Any]:
    """The bounds that cover measured values. `motes` sent them; `why`: why there are none, `how`: how far they reach.

    `counts` says how often each value was measured, if not once.
    """
    counts = np.ones(len(ticks), np.int64) if counts is None else counts
    total = int(counts.sum())
    found: dict[str, Any] = dict.fromkeys(COVERINGS.names[1:]) | {"promised": promised, "why": why}
    if not total:
        return found | {"measured": 0, "motes": 0, "broken": 0}
    order = np.argsort(ticks)
    ordered, upto = ticks[order], np.cumsum(counts[order])
    enough = {name: n for name, n in SHARES.items() if total >= n}
    return found | {
        "measured": total,
        "motes": len(np.unique(motes)),
        "broken": int(counts[ticks > promised].sum()),
        **{name: int(ordered[np.searchsorted(upto, total - total // n)]) for name, n in enough.items()},
        "covers_100": int(ordered[-1]),
        "sure_share": sure(total),
        "why": "; ".join(text for text in (_worth(total), how) if text),
    }


def sure(count: int) -> float:
    """The share, in per cent, that the largest of `count` independent values covers with the confidence `SURE`.

    The chance that all of them stay below the bound of a share s is s to the power of their number.
    """
    return math.floor(1e6 * float((1 - SURE) ** (1 / count))) / 1e4


def _worth(count: int) -> str:
    """A sentence on what few measurements are worth."""
    unknown = [name.removeprefix("covers_").replace("_", ".") for name, n in SHARES.items() if count < n]
    if not unknown:
        return ""
    measured = f"{count} measurements are" if count > 1 else "1 measurement is"
    return (
        f"{measured} too few to say what covers {' or '.join(unknown)}%; one can be {SURE:.0%} sure that covers_100 "
        f"covers {math.floor(sure(count) * 10) / 10}% of all times, if measurements are independent"
    )


def _motes(offsets: Rows, delays: Rows) -> Iterator[dict[str, Any]]:
    beacons, healths = _rows_by(offsets["mote"]), _rows_by(delays["mote"])
    for mote in sorted(beacons.keys() | healths.keys()):
        told: dict[str, Any] = dict.fromkeys(MOTES.names) | {"mote": mote, "beacons": 0, "healths": 0}
        if mote in beacons:
            cycles, at = (offsets[name][beacons[mote]] for name in ("cycles", "at"))
            told |= {"beacons": len(cycles), "mean": float(cycles.mean()), "skew_ppm": _slope(at, cycles)}
            told |= {"least": int(cycles.min()), "most": int(cycles.max())}
        if mote in healths:
            late = delays["cycles"][healths[mote]]
            told |= {
                "healths": len(late),
                "delay_median": float(np.median(late)),
                "delay_most": int(late.max()),
            }
        yield told


def _rows_by(mote: Ints) -> dict[int, Ints]:
    """The rows of each mote, in their order."""
    order = np.argsort(mote, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(mote[order])) + 1)
    return {int(mote[rows[0]]): rows for rows in groups if len(rows)}


def _slope(at: Ints, cycles: Ints) -> float | None:
    """The drift of a clock against the gateway's, in parts per million."""
    span = at - at.mean()
    power = float(np.sum(span**2))
    return float(np.sum(span * cycles)) / power * 1e6 if power > 0 else None


def _reach(deployment: Deployment) -> str:
    """A sentence on how far the delays from stamps can be trusted."""
    stamp, epsilon = layout_of(deployment).stamp, deployment.clock.epsilon
    told = f"a delay over {many(stamp.modulus - epsilon - 1, 'tick')} looks like a shorter one"
    if stamp.carry == "sum":
        told += (
            "; stamps hold the largest clock that their sender knew, so a delay may be too short by up to "
            f"{many(epsilon, 'tick')}"
        )
    return told


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """The JSON form of a run's row. A bound that was not measured is "unknown", never 0."""
    told: dict[str, Any] = {"site": row["site"], "run": row["run"]}
    for covering in row["clocks"]:
        values = {name: value for name, value in covering.items() if name != "bound"}
        unmeasured = {"promised": covering["promised"], "covers_100": "unknown", "why": covering["why"]}
        told[covering["bound"]] = values if covering["measured"] else unmeasured
    return told | {"motes": row["clock_motes"], "breaks": row["clock_breaks"]}
