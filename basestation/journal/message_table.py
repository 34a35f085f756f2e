"""From journal records to the table of messages: one function, over whole arrays.

It gives what the live observer made of the same frames: each frame is told apart, heard records are laid beside the
frames that they announce, sequence numbers and stamps are unwrapped against the observer's clock, copies are dropped.
A journal comes in segments, and what one segment leaves to the next is a `Carry`: `read_messages` over the segments one
by one gives the rows that it would give over all of them at once.

The observer's clock is the one that was noted in the journal. Where none was, it is the network's time as told so far.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.causality.boots import NO_BYTES, ROUND, UNTIMED, VARIANTS, Contents, MoteBoots, no_contents
from basestation.causality.modular import nearest
from basestation.observer import PATIENCE
from basestation.traces.schema import age_columns, messages_table, payload_column, values_column
from basestation.traces.stamp_columns import read_stamps
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import Deployment
from packet_formats.keys import Key
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import (
    ROUND_SHIFT,
    RSSI_UNKNOWN,
    Beacon,
    Health,
    Heard,
    Proof,
    Reason,
    Record,
    records_of,
)

from .decision import DECISION, NO_TIME, PAIRED, STRAY, Fate
from .projection import Projection
from .record_format import HEAD, RecordKind, Records
from .sealed_frames import ToldTimes, check_data, health_rounds, is_old, proven_beacons

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pairs = Iterable[tuple[int, Any]]

IN_SYNC, LQI_KNOWN = 1, 4
NOTHING = NO_TIME
WRAP = 1 << 32  # of the wire's times


@dataclass(frozen=True, slots=True)
class Carry:
    """What a segment leaves to the next."""

    rows: int = 0
    cycles: int | None = None  # the network's time, unwrapped, when it was last told
    epoch: int = 0
    wraps: int = 0  # by how many wraps of 32 bits the observer's clock is above that
    tick: int = 0  # the observer's clock at the last message
    # By line: the heard record that came last
    pending: dict[int, tuple[int, ...]] = field(default_factory=dict)
    motes: dict[int, MoteBoots] = field(default_factory=dict)

    def to_json(self) -> str:
        plain: dict[str, Any] = {"rows": self.rows, "cycles": self.cycles, "epoch": self.epoch}
        plain |= {"wraps": self.wraps, "tick": self.tick, "pending": sorted(self.pending.items())}
        plain["motes"] = [
            [
                source,
                mote.life,
                mote.booted,
                *(sorted(known.items()) for known in (mote.sequences, mote.bases)),
                mote.newest,
                [[boot, _listed(told)] for boot, told in sorted(mote.contents.items())],
                mote.first,
            ]
            for source, mote in sorted(self.motes.items())
        ]
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> Carry:
        plain = json.loads(text)
        return cls(
            rows=plain["rows"],
            cycles=plain["cycles"],
            epoch=plain["epoch"],
            wraps=plain["wraps"],
            tick=plain["tick"],
            pending={line: tuple(values) for line, values in plain["pending"]},
            motes={source: _mote(*told) for source, *told in plain["motes"]},
        )


def _mote(
    life: int,
    booted: int,
    sequences: Pairs,
    bases: Pairs = (),
    newest: int | None = None,
    contents: Pairs = (),
    first: int | bool = False,
) -> MoteBoots:
    """An older carry has no numbers, or a truth value last: then its digests are of another kind."""
    listed = {} if isinstance(first, bool) else dict(contents)
    told = {boot: _contents(listed.get(boot, ())) for boot, _ in sequences}
    return MoteBoots(life, booted, dict(sequences), dict(bases), newest, told, int(first))


def _listed(told: Contents) -> list[tuple[int, list[int]]]:
    """By sequence field what its messages say, where that is known."""
    rows = np.frombuffer(told, np.uint32).reshape(-1, VARIANTS).tolist()
    return [(at, [digest for digest in row if digest]) for at, row in enumerate(rows) if row[0]]


def _contents(listed: Pairs) -> Contents:
    told = no_contents()
    for at, digests in listed:
        if not (0 <= at < ROUND and len(digests) <= VARIANTS and all(0 <= one < 1 << 32 for one in digests)):
            raise ValueError(f"no digests of a message: {at}, {digests}")
        told[at * VARIANTS : at * VARIANTS + len(digests)] = array("I", digests)
    return told


@dataclass(frozen=True, slots=True)
class Heards:
    """For each frame the heard record that announced it; `known` is false where there was none."""

    known: Bools
    rows: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Names:
    """For each frame, where `known`, which mote's message it holds, copies too: the boot count and the sequence number
    are unwrapped."""

    known: Bools
    data: NDArray[np.void]
    life: Ints
    sequence: Ints


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """The messages of some records, and what is known of every frame among them, in order (`frames`: their records).

    `cycles` is when each was heard, `NOTHING` where nobody knows.
    """

    messages: pa.Table
    frames: Records
    fates: NDArray[np.uint8]
    heard: Heards
    names: Names
    cycles: Ints
    duplicate_sources: NDArray[np.uint16]  # whose copies they were
    carry: Carry

    def projection(self) -> Projection:
        """The same in the form that decisions give."""
        names, places = self.names, np.flatnonzero(self.names.known)
        decided = np.zeros(len(self.frames), DECISION)
        decided["fate"], decided["heard"], decided["clock"] = self.fates, self.cycles, NO_TIME
        decided["bits"] = np.where(self.heard.known, PAIRED, 0)
        for name in ("time", "gateway", "flags", "epoch", "rssi", "lqi"):
            decided[name] = self.heard.rows[name]
        decided["life"], decided["sequence"] = names.life, names.sequence
        if "mic" in (names.data.dtype.names or ()):
            decided["marks"][places] = np.where(names.data["in_sync"][places], 0, STRAY)
        return Projection(self.messages, self.frames, decided, places, names.data[places])


def read_messages(
    records: Records,
    deployment: Deployment,
    carry: Carry | None = None,
    numbering: Numbering | None = None,
) -> ReadMessages:
    """The table of messages in a journal's records, given what the records before them left."""
    before, layout = carry or Carry(), layout_of(deployment)
    read = _decoded(records, deployment)
    arrived, data, heard, fates = read.arrived, read.data, read.heard, read.fates
    told = _follow(read.sketch, deployment, before, numbering or number_by_objects)
    named, taken = told.named, np.flatnonzero(read.sketch.rows["message"])
    for row, said in told.opened:
        heard.known[row], heard.rows[row] = True, said
    timed = told.cycles[taken] != NOTHING
    fates[taken[~timed]] = Fate.UNTIMED
    fates[taken[~named.first]] = Fate.DUPLICATE
    chosen = named.first & timed
    rows = taken[chosen]
    late = np.where(heard.known[rows], 0, deployment.late_guess)  # a guess of when it was heard may be early
    columns = _plain_columns(data[rows], read.frames.payload[rows, : layout.length], layout)
    columns |= _heard_columns(heard, rows)
    columns |= {
        "in_sync": data["in_sync"][rows] & ~read.untimed[rows],
        "sequence": named.sequence[chosen],
        "number": pa.array(named.number[chosen], mask=named.number[chosen] == NOTHING),
        "stamp": read_stamps(data[rows], told.ticks[chosen] + late, deployment),
        "heard": told.ticks[chosen],
        "clock": told.clock[chosen],
        "batch": before.rows + np.arange(len(rows)),
        "fresh": np.zeros(len(rows), np.bool_),
        "mono_ns": arrived.head["mono_ns"][rows],
        "wall_ns": arrived.head["wall_ns"][rows],
    }
    table = messages_table(columns, len(rows))
    copies = data["source"][taken[~named.first]]
    names = _names(data, taken, named)
    return ReadMessages(table, arrived, fates, heard, names, told.cycles, copies, told.after)


def read_all(segments: Iterable[Records], deployment: Deployment) -> Iterator[ReadMessages]:
    """`read_messages` over the segments of a journal, one after another."""
    carry = Carry()
    for records in segments:
        reading = read_messages(records, deployment, carry)
        carry = reading.carry
        yield reading


# ---- What frames say by themselves ----

ROW = np.dtype(
    [
        ("message", "?"),  # a data message of one of our motes
        *(("source", "u2"), ("boot", "u1"), ("sequence", "u1"), ("digest", "u4")),
        *(("announced", "?"), ("time", "u4")),  # by its heard record
        ("told", "i4"),  # how often the network's time was told up to here
        *(("noted", "?"), ("clock", "i8"), ("heard", "i8")),  # by the observer
    ]
)
TOLD = np.dtype([("time", "u4"), ("epoch", "u1"), ("round", "u1")])  # the round: with a key
HEARD = bulk.record_dtype(Heard, "little")
CHECK, TIME = list(HEARD.names or ()).index("check"), list(HEARD.names or ()).index("time")
LINE = np.dtype(
    [
        ("line", "u1"),
        # The row of its first packet, if that is no heard record; else -1
        *(("first", "i8"), ("check", "u2")),
        *(("leaves", "?"), ("heard", HEARD)),  # its last packet, if that is one
    ]
)


@dataclass(frozen=True, slots=True)
class Sketch:
    """What frames say by themselves, as far as the meaning of later ones depends on it. `carry_after` needs no more.

    Anybody can make it of any segment, and it is small: so the segments of a run are decoded at the same time, and
    only the sketches are gone over in order.
    """

    rows: NDArray[np.void]  # ROW, for each frame, or each that matters
    told: NDArray[np.void]  # TOLD, each time that somebody in sync told the network's time
    lines: NDArray[np.void]  # LINE, for each line with packets

    @classmethod
    def nothing(cls) -> Sketch:
        return cls(*(np.zeros(0, kind) for kind in (ROW, TOLD, LINE)))

    def brief(self) -> Sketch:
        """Without the frames on which nothing depends."""
        kept = self.rows["message"] | self.rows["noted"]
        lines, places = self.lines.copy(), np.where(kept, np.cumsum(kept) - 1, -1)
        lines["first"] = np.where(lines["first"] < 0, -1, places[lines["first"]]) if len(kept) else -1
        return Sketch(self.rows[kept], self.told, lines)


def sketch(records: Records, deployment: Deployment) -> Sketch:
    return _decoded(records, deployment).sketch.brief()


def carry_after(told: Sketch, deployment: Deployment, carry: Carry, numbering: Numbering) -> Carry:
    """What `read_messages` would leave to the next records, of the records' sketch."""
    return _follow(told, deployment, carry, numbering).after


@dataclass(frozen=True, slots=True)
class _Decoded:
    """All frames, as far as they can be read without those before. `untimed`: the observer did not know when it was
    heard, and could not order it."""

    arrived: Records
    frames: Frames
    data: NDArray[np.void]
    heard: Heards
    fates: NDArray[np.uint8]
    untimed: Bools
    sketch: Sketch


def _decoded(records: Records, deployment: Deployment) -> _Decoded:
    layout, arrived = layout_of(deployment), records.of_kind(RecordKind.FRAME)
    lengths = arrived.head["length"].astype(np.int64)
    frames = Frames.of_buffer(arrived.raw, lengths, layout.tinyos, arrived.starts + HEAD.itemsize)
    data, reasons = bulk.decode_data(frames, layout)
    fates = _first_fates(frames, reasons, layout)
    fates[(reasons == Reason.OK) & (data["source"] >= deployment.network.motes)] = Fate.STRANGER
    at, said = _decode(frames, Heard, layout)
    gateway = arrived.head["gateway"]
    posed = _posed(frames, gateway, at, said)
    fates[at[posed]] = Fate.FOREIGN
    at, said = at[~posed], said[~posed]
    heard, lines = _pair(frames, gateway, at, said)
    places, told = _told_times(frames, layout, at, said, deployment.key, fates)
    rows = np.zeros(len(frames), ROW)
    untimed = _note(rows, _clocks(records), arrived.head["number"])
    rows["announced"], rows["time"] = heard.known, heard.rows["time"]
    if deployment.key is not None:
        clocks = (gateway, *(arrived.head[name].astype(np.int64) for name in ("mono_ns", "wall_ns")))
        checked = check_data(
            frames,
            data,
            np.flatnonzero(fates == Fate.MESSAGE),
            (heard.known, heard.rows),
            (rows["noted"] & ~untimed, rows["heard"].copy()),
            ToldTimes(places, told, *clocks),
            deployment,
        )
        fates[checked.forged], fates[checked.unchecked] = Fate.FORGED, Fate.UNCHECKED
        # The first frame of a line may have its record in the segment before.
        alone = ~np.isin(checked.found, lines["first"])
        found, cycles = checked.found[alone], checked.cycles[alone]
        rows["heard"][found] = cycles  # where it was noted; else it is as if a record had said it
        rows["announced"][found], rows["time"][found] = True, cycles % WRAP
    rows["message"] = fates == Fate.MESSAGE
    for name in ("source", "boot", "sequence"):
        rows[name] = data[name]
    if layout.mic:  # strays are numbered apart, as if other motes had sent them
        rows["source"] += np.where(data["in_sync"], 0, deployment.network.motes).astype("u2")
    rows["digest"] = bulk.data_digests(frames, layout)
    rows["told"] = np.cumsum(np.bincount(places, minlength=len(frames)))
    return _Decoded(arrived, frames, data, heard, fates, untimed, Sketch(rows, told, lines))


def _first_fates(frames: Frames, reasons: NDArray[np.uint8], layout: DataLayout) -> NDArray[np.uint8]:
    fates = np.full(len(frames), Fate.FOREIGN, np.uint8)
    fates[reasons == Reason.OK] = Fate.MESSAGE
    for record in records_of(layout.mic).values():
        fates[_is_record(frames, record, layout)] = Fate.RECORD
    fates[~frames.packet] = Fate.NO_MESSAGE
    return fates


def _is_record(frames: Frames, record: type[Record], layout: DataLayout) -> Bools:
    ours = (
        (frames.type == record.AM_TYPE)
        & (frames.length == layout.record_bytes(record))
        & (frames.group == layout.group)
    )
    return np.asarray(frames.packet & ours, np.bool_)


def _decode(
    frames: Frames, record: type[Record], layout: DataLayout
) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Where the frames of this kind are, and what they say."""
    at = np.flatnonzero(_is_record(frames, record, layout))
    chosen = Frames.of_payloads(frames.payload[at, : layout.record_bytes(record)], layout, record.AM_TYPE)
    return at, bulk.decode_records(chosen, record, layout)[0]


def _posed(frames: Frames, gateway: NDArray[np.uint8], at: Ints, said: NDArray[np.void]) -> Bools:
    """Which heard records came by air: the record before them on their line announces them.

    One that came by air announces nothing. (Whether a segment's first is one, only the segment before could tell.)
    """
    posed = np.zeros(len(at), np.bool_)
    for line in np.unique(gateway[at]):
        mine = np.flatnonzero(gateway[at] == line)
        next_packet = np.diff(np.cumsum(frames.packet & (gateway == line))[at[mine]]) == 1
        before, after = mine[:-1][next_packet], mine[1:][next_packet]
        fits = said["check"][before] == bulk.payload_crc16(frames.chosen(at[after]))
        for announcer, one in zip(before[fits].tolist(), after[fits].tolist(), strict=True):
            posed[one] = not posed[announcer]
    return posed


def _pair(
    frames: Frames, gateway: NDArray[np.uint8], at: Ints, said: NDArray[np.void]
) -> tuple[Heards, NDArray[np.void]]:
    """A heard record belongs to the next message of its line, if that is the one that its check sum says. (The heard
    records are those at `at`.)"""
    count = len(frames)
    heards = Heards(np.zeros(count, np.bool_), np.zeros(count, HEARD))
    which = np.full(count, -1, np.int64)
    which[at] = np.arange(len(at))
    mine = np.flatnonzero(frames.packet)
    mine = mine[np.argsort(gateway[mine], kind="stable")]
    edges = np.flatnonzero(np.diff(gateway[mine].astype(np.int64), prepend=-1, append=-1))
    first, last = edges[:-1], edges[1:] - 1
    announced = np.concatenate((mine[:1], mine[:-1]))
    announced[first] = mine[first]  # by nobody here
    asked = (which[mine] < 0) & (which[announced] >= 0)
    rows, by = mine[asked], which[announced[asked]]
    fits = said["check"][by] == bulk.payload_crc16(frames.chosen(rows))
    heards.known[rows[fits]], heards.rows[rows[fits]] = True, said[by[fits]]
    lines, begins, ends = np.zeros(len(first), LINE), mine[first], which[mine[last]]
    lines["line"], lines["check"] = gateway[begins], bulk.payload_crc16(frames.chosen(begins))
    lines["first"], lines["leaves"] = np.where(which[begins] < 0, begins, -1), ends >= 0
    lines["heard"][ends >= 0] = said[ends[ends >= 0]]
    return heards, lines


def _told_times(
    frames: Frames,
    layout: DataLayout,
    at: Ints,
    said: NDArray[np.void],
    key: Key | None,
    fates: NDArray[np.uint8],
) -> tuple[Ints, NDArray[np.void]]:
    """Where somebody in sync told the network's time, and what they said; heard records are those at `at`.

    With a key, what is not genuine tells nothing, and gets its fate; nor does what is old tell anything.
    """
    beacons, health = (_decode(frames, record, layout) for record in (Beacon, Health))
    of_health = np.zeros(len(health[0]), np.int64)
    if key is not None:
        proven = proven_beacons(frames, beacons, _decode(frames, Proof, layout), key, layout)
        of_health = health_rounds(frames, *health, key, layout)
        right = of_health >= 0
        fates[beacons[0][~proven]], fates[health[0][~right]] = Fate.UNCHECKED, Fate.FORGED
        beacons, health = (beacons[0][proven], beacons[1][proven]), (health[0][right], health[1][right])
        of_health = of_health[right]
    told = [(at, said), beacons, health]
    where = np.concatenate([places for places, _ in told])
    times, flags = np.zeros(len(where), TOLD), np.concatenate([rows["flags"] for _, rows in told])
    for name in ("time", "epoch"):
        times[name] = np.concatenate([rows[name] for _, rows in told])
    if key is not None:
        times["round"] = np.concatenate(
            (*(rows["flags"] >> ROUND_SHIFT for _, rows in told[:2]), of_health.astype(np.uint8))
        )
    order = np.argsort(where, kind="stable")
    order = order[flags[order] & IN_SYNC != 0]
    if key is not None:
        order = order[~is_old(times[order]) | (order < len(at))]  # a gateway's own records are believed
    return where[order], times[order]


def _clocks(records: Records) -> NDArray[np.void]:
    """The decisions that note the observer's clock."""
    rows = records.decisions()
    chosen: NDArray[np.void] = rows[rows["clock"] != NO_TIME]
    return chosen


def _note(rows: NDArray[np.void], clocks: NDArray[np.void], numbers: NDArray[np.uint64]) -> Bools:
    """Fill in what the observer noted of these frames: its clock, and when they were heard (if nobody knew: then).
    Returns where nobody knew."""
    untimed = np.zeros(len(rows), np.bool_)
    at = np.searchsorted(numbers, clocks["frame"])
    at[at == len(numbers)] = 0
    same = numbers[at] == clocks["frame"] if len(numbers) else np.zeros(len(clocks), np.bool_)
    at, clocks = at[same], clocks[same]
    untimed[at] = clocks["heard"] == NO_TIME
    rows["noted"][at], rows["clock"][at] = True, clocks["clock"]
    rows["heard"][at] = np.where(untimed[at], clocks["clock"], clocks["heard"])
    return untimed


# ---- What they mean after those before ----


class _Followed(NamedTuple):
    """`cycles`: when each row's frame was heard; `ticks` and the observer's `clock` are of the messages alone.

    `opened`: rows that a heard record before these records announced, and what it says.
    """

    cycles: Ints
    ticks: Ints
    clock: Ints
    named: Named
    opened: list[tuple[int, tuple[int, ...]]]
    after: Carry


def _follow(told: Sketch, deployment: Deployment, before: Carry, numbering: Numbering) -> _Followed:
    rows, pending = told.rows, dict(before.pending)
    announced, time = rows["announced"].copy(), rows["time"].astype(np.int64)
    opened = []
    for line, first, check, leaves, heard in told.lines.tolist():
        said = pending.pop(line, None)
        if said is not None and first >= 0 and said[CHECK] == check:
            announced[first], time[first] = True, said[TIME]
            opened.append((first, said))
        if leaves:
            pending[line] = heard
    known, epoch = _network_time(told.told, before)
    cycles, clocks, wraps = _times(rows, announced, time, known[rows["told"]], before.wraps)
    messages = rows["message"]
    timed, shift = cycles[messages] != NOTHING, deployment.clock.tick_log2
    ticks = np.where(timed, cycles[messages] >> shift, UNTIMED)
    clock = _never_falling(np.where(timed, clocks[messages] >> shift, 0), before.tick)
    patience = PATIENCE * (deployment.clock.delta + 2 * deployment.clock.epsilon)
    strays = rows["source"][messages] >= deployment.network.motes
    named, motes = numbering(rows[messages], np.where(strays, UNTIMED, ticks), patience, before.motes)
    named.number[strays] = NOTHING
    after = Carry(
        rows=before.rows + int(np.count_nonzero(named.first & timed)),
        cycles=int(known[-1]) if known[-1] != NOTHING else None,
        epoch=epoch,
        wraps=wraps,
        tick=int(clock[-1]) if len(clock) else before.tick,
        pending=pending,
        motes=motes,
    )
    return _Followed(cycles, ticks, clock, named, opened, after)


def _network_time(told: NDArray[np.void], before: Carry) -> tuple[Ints, int]:
    """The network's time in cycles, unwrapped, before it was told and each time that it was (`NOTHING` before it first
    was); and the epoch.

    Within an epoch times are taken as the nearest; a new epoch starts time afresh, which here may only go forward. Who
    is not in sync, or still in an old epoch, is not asked.
    """
    time, epoch = told["time"].astype(np.int64), told["epoch"].astype(np.int64)
    start = int(epoch[0]) if before.cycles is None and len(epoch) else before.epoch
    epochs = start + np.cumsum(nearest(np.diff(epoch, prepend=start), 0, 256))
    newest = np.maximum.accumulate(np.maximum(epochs, start))
    current = epochs == newest
    time, newest = time[current], newest[current]
    known = NOTHING if before.cycles is None else before.cycles
    origin = int(time[0]) if before.cycles is None and len(time) else known
    rise = np.diff(time, prepend=origin)
    afresh = np.diff(newest, prepend=start) > 0
    unwrapped = origin + np.cumsum(np.where(afresh, rise % WRAP, nearest(rise, 0, WRAP)))
    latest = np.concatenate(([0], np.cumsum(current)))
    return np.concatenate(([known], unwrapped))[latest], int(newest[-1] % 256) if len(newest) else start


def _times(
    rows: NDArray[np.void], announced: Bools, time: Ints, network: Ints, wraps: int
) -> tuple[Ints, Ints, int]:
    """When each frame was heard and the observer's clock then, in cycles; and the wraps to go on with.

    It is what was noted; where nothing was, the heard record's time, or the network's as last told. Those two are put
    as many wraps up as the last note was: how often time has wrapped, or started afresh, the observer alone knows.
    """
    noted, heard, told = rows["noted"], rows["heard"], network != NOTHING
    at = np.flatnonzero(noted & told)
    ahead = np.concatenate(([wraps], np.rint((heard[at] - network[at]) / WRAP).astype(np.int64)))
    now = np.where(told, network, 0) + ahead[np.cumsum(noted & told)] * WRAP
    own = np.where(told, np.where(announced, nearest(time, now, WRAP), now), NOTHING)
    return np.where(noted, heard, own), np.where(noted, rows["clock"], own), int(ahead[-1])


def _never_falling(ticks: Ints, last: int) -> Ints:
    return np.maximum.accumulate(np.maximum(ticks, last))


class Named(NamedTuple):
    """Which message of its mote each one is: boot count, sequence number in it, and number over all boots (`NOTHING`
    for copies, and where the numbers were not kept); and whether it is the first of its copies."""

    life: Ints
    sequence: Ints
    number: Ints
    first: Bools


Motes = dict[int, MoteBoots]
# Names messages (their rows, ticks and the patience), given what is known of each mote; and what is known then.
Numbering = Callable[[NDArray[np.void], Ints, int, Motes], tuple[Named, Motes]]


def digests_in(data: NDArray[np.void]) -> NDArray[np.uint32]:
    """What messages say, as far as somebody knows."""
    known = "digest" in (data.dtype.names or ())
    return data["digest"] if known else np.full(len(data), NO_BYTES, np.uint32)


def number_by_objects(
    data: NDArray[np.void], ticks: Ints, patience: int, before: Motes
) -> tuple[Named, Motes]:
    motes = {source: mote.copy() for source, mote in before.items()}
    rows: list[tuple[int, int, int, bool]] = []
    fields = (data[name].tolist() for name in ("source", "boot", "sequence"))
    digests = digests_in(data).tolist()
    for source, boot, told, now, digest in zip(*fields, ticks.tolist(), digests, strict=True):
        mote = motes.get(source)
        if mote is None:
            mote = motes[source] = MoteBoots(boot, now)
        life, sequence, copy, fresh, _ = mote.accept(boot, told, now, patience, digest)
        number = None if copy else mote.number(boot, sequence, fresh)
        rows.append((life, sequence, NOTHING if number is None else number, not copy))
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Named(columns[0], columns[1], columns[2], columns[3].astype(np.bool_)), motes


# ---- Columns ----


def _names(data: NDArray[np.void], taken: Ints, named: Named) -> Names:
    names = Names(
        np.zeros(len(data), np.bool_), data, np.zeros(len(data), np.int64), np.zeros(len(data), np.int64)
    )
    names.known[taken], names.life[taken], names.sequence[taken] = True, named.life, named.sequence
    return names


def _plain_columns(data: NDArray[np.void], payload: NDArray[np.uint8], layout: DataLayout) -> dict[str, Any]:
    return {
        "source": data["source"],
        "boot": data["boot"],
        "am_type": np.full(len(data), layout.am_type),
        "payload": payload_column(payload, bulk.data_lengths(data, layout)),
        "saturated": data["saturated"],
        "values": values_column(data["data"], layout),
        **age_columns(data, layout),
    }


def _heard_columns(heard: Heards, rows: Ints) -> dict[str, Any]:
    said, unknown = heard.rows[rows], ~heard.known[rows]
    return {
        "heard_time": pa.array(said["time"], mask=unknown),
        "gateway": pa.array(said["gateway"], mask=unknown),
        "rssi": pa.array(said["rssi"], mask=unknown | (said["rssi"] == RSSI_UNKNOWN)),
        "lqi": pa.array(said["lqi"], mask=unknown | (said["flags"] & LQI_KNOWN == 0)),
    }
