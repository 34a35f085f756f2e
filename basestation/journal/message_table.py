"""From journal records to the table of messages: one function, over whole arrays.

It gives what the live observer made of the same frames: each frame is told apart, heard records are laid beside the
frames that they announce, sequence numbers and stamps are unwrapped against the observer's clock, copies are dropped.
A journal comes in segments, and what one segment leaves to the next is a `Carry`: `read_messages` over the segments one
by one gives the rows that it would give over all of them at once.

The observer's clock is the one that was noted in the journal. Where none was, it is the network's time as told so far.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.causality.boots import MoteBoots
from basestation.causality.modular import nearest
from basestation.observer import PATIENCE
from basestation.traces.schema import messages_table, payload_column, values_column
from basestation.traces.stamp_columns import read_stamps
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import RECORD_OF, Beacon, Health, Heard, Reason, Record, members

from .record_format import NO_TIME, RecordKind, Records

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pairs = Iterable[tuple[int, Any]]

IN_SYNC, LQI_KNOWN, RSSI_UNKNOWN = 1, 4, -128
NOTHING = NO_TIME
WRAP = 1 << 32  # of the wire's times


class Fate(IntEnum):
    """What became of a frame."""

    MESSAGE = 0  # a row of the table
    RECORD = 1  # a fixed message: heard, beacon, health, status, downlink
    DUPLICATE = 2
    FOREIGN = 3  # another layout or another application
    STRANGER = 4  # a data message whose source is no mote of the deployment
    UNTIMED = 5  # a data message before anything told the time: its stamp can't be read
    NO_MESSAGE = 6  # an acknowledgement, or bytes that are no packet


@dataclass(frozen=True, slots=True)
class Carry:
    """What a segment leaves to the next."""

    rows: int = 0
    cycles: int | None = None  # the network's time, unwrapped, when it was last told
    epoch: int = 0
    wraps: int = 0  # by how many wraps of 32 bits the observer's clock is above that
    tick: int = 0  # the observer's clock at the last message
    pending: dict[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # line -> the heard record that came last
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
    life: int, booted: int, sequences: Pairs, bases: Pairs = (), newest: int | None = None
) -> MoteBoots:
    """An older carry has no numbers."""
    return MoteBoots(life, booted, dict(sequences), dict(bases), newest)


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


def read_messages(
    records: Records,
    deployment: Deployment,
    carry: Carry | None = None,
    numbering: Numbering | None = None,
) -> ReadMessages:
    """The table of messages in a journal's records, given what the records before them left."""
    before, layout = carry or Carry(), layout_of(deployment)
    read = _read(records, deployment, before, numbering or number_by_objects)
    data, times, named, taken, fates = read.data, read.times, read.named, read.taken, read.fates
    timed = times.heard[taken] != NOTHING
    fates[taken[~timed]] = Fate.UNTIMED
    fates[taken[~named.first]] = Fate.DUPLICATE
    chosen = named.first & timed
    rows = taken[chosen]
    columns = _plain_columns(data[rows], read.frames.payload[rows, : layout.length], layout)
    columns |= _heard_columns(read.heard, rows)
    columns |= {
        "in_sync": data["in_sync"][rows] & ~times.untimed[rows],
        "sequence": named.sequence[chosen],
        "number": pa.array(named.number[chosen], mask=named.number[chosen] == NOTHING),
        "stamp": read_stamps(data[rows], read.ticks[chosen], deployment),
        "heard": read.ticks[chosen],
        "clock": read.clock[chosen],
        "batch": before.rows + np.arange(len(rows)),
        "fresh": np.zeros(len(rows), np.bool_),
        "mono_ns": read.arrived.head["mono_ns"][rows],
        "wall_ns": read.arrived.head["wall_ns"][rows],
    }
    table = messages_table(columns, len(rows))
    copies = data["source"][taken[~named.first]]
    names = _names(data, taken, named)
    return ReadMessages(table, read.arrived, fates, read.heard, names, times.heard, copies, read.after)


def carry_after(records: Records, deployment: Deployment, carry: Carry, numbering: Numbering) -> Carry:
    """What `read_messages` would leave to the next records, without making a table."""
    return _read(records, deployment, carry, numbering).after


@dataclass(frozen=True, slots=True)
class _Read:
    """What is read of all frames, and of the data messages among them, which are those at `taken`."""

    arrived: Records
    frames: Frames
    data: NDArray[np.void]
    heard: Heards
    times: _HeardTimes
    fates: NDArray[np.uint8]
    taken: Ints
    ticks: Ints
    clock: Ints
    named: Named
    after: Carry


def _read(records: Records, deployment: Deployment, before: Carry, numbering: Numbering) -> _Read:
    layout = layout_of(deployment)
    arrived = records.of_kind(RecordKind.FRAME)
    frames = Frames.of_buffer(*arrived.payloads(), layout.tinyos)
    data, reasons = bulk.decode_data(frames, layout)
    heard, pending = _pair(frames, arrived, layout, before.pending)
    cycles, epoch = _network_time(frames, layout, before)
    times = _times(records, arrived, heard, cycles, before.wraps)
    fates = _first_fates(frames, reasons, layout)
    fates[(reasons == Reason.OK) & (data["source"] >= deployment.network.motes)] = Fate.STRANGER
    taken = np.flatnonzero(fates == Fate.MESSAGE)
    timed = times.heard[taken] != NOTHING
    shift = deployment.clock.tick_log2
    ticks = np.where(timed, times.heard[taken] >> shift, 0)
    clock = _never_falling(np.where(timed, times.clock[taken] >> shift, 0), before.tick)
    patience = PATIENCE * (deployment.clock.delta + 2 * deployment.clock.epsilon)
    named, motes = numbering(data[taken], ticks, patience, before.motes)
    after = Carry(
        rows=before.rows + int(np.count_nonzero(named.first & timed)),
        cycles=int(cycles[-1]) if len(cycles) and cycles[-1] != NOTHING else before.cycles,
        epoch=epoch,
        wraps=times.wraps,
        tick=int(clock[-1]) if len(clock) else before.tick,
        pending=pending,
        motes=motes,
    )
    return _Read(arrived, frames, data, heard, times, fates, taken, ticks, clock, named, after)


def _names(data: NDArray[np.void], taken: Ints, named: Named) -> Names:
    names = Names(
        np.zeros(len(data), np.bool_), data, np.zeros(len(data), np.int64), np.zeros(len(data), np.int64)
    )
    names.known[taken], names.life[taken], names.sequence[taken] = True, named.life, named.sequence
    return names


def read_all(segments: Iterable[Records], deployment: Deployment) -> Iterator[ReadMessages]:
    """`read_messages` over the segments of a journal, one after another."""
    carry = Carry()
    for records in segments:
        reading = read_messages(records, deployment, carry)
        carry = reading.carry
        yield reading


def _first_fates(frames: Frames, reasons: NDArray[np.uint8], layout: DataLayout) -> NDArray[np.uint8]:
    fates = np.full(len(frames), Fate.FOREIGN, np.uint8)
    fates[reasons == Reason.OK] = Fate.MESSAGE
    for record in RECORD_OF.values():
        fates[_is_record(frames, record, layout)] = Fate.RECORD
    fates[~frames.packet] = Fate.NO_MESSAGE
    return fates


def _is_record(frames: Frames, record: type[Record], layout: DataLayout) -> Bools:
    length = bulk.record_dtype(record, "little").itemsize
    ours = (frames.type == record.AM_TYPE) & (frames.length == length) & (frames.group == layout.group)
    return np.asarray(frames.packet & ours, np.bool_)


def _decode(
    frames: Frames, record: type[Record], layout: DataLayout
) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Where the frames of this kind are, and what they say."""
    at = np.flatnonzero(_is_record(frames, record, layout))
    chosen = Frames.of_payloads(frames.payload[at, : _size(record)], layout, record.AM_TYPE)
    return at, bulk.decode_records(chosen, record, layout)[0]


def _size(record: type[Record]) -> int:
    return bulk.record_dtype(record, "little").itemsize


HEARD = bulk.record_dtype(Heard, "little")


def _pair(
    frames: Frames, arrived: Records, layout: DataLayout, pending: dict[int, tuple[int, ...]]
) -> tuple[Heards, dict[int, tuple[int, ...]]]:
    """A heard record belongs to the next message of its line, if that is the one that its check sum says."""
    count = len(frames)
    known, rows = np.zeros(count, np.bool_), np.zeros(count, HEARD)
    at, said = _decode(frames, Heard, layout)
    heard_rows, is_heard = np.zeros(count, HEARD), np.zeros(count, np.bool_)
    heard_rows[at], is_heard[at] = said, True
    left: dict[int, tuple[int, ...]] = dict(pending)
    check = bulk.payload_crc16(frames)
    for line in np.unique(arrived.head["gateway"]).tolist():
        mine = np.flatnonzero((arrived.head["gateway"] == line) & frames.packet)
        if not len(mine):
            continue
        announced = np.concatenate(
            (np.array([left.get(line, (0,) * len(members(Heard)))], HEARD), heard_rows[mine[:-1]])
        )
        is_announced = np.concatenate(([line in left], is_heard[mine[:-1]]))
        fits = is_announced & ~is_heard[mine] & (announced["check"] == check[mine])
        known[mine], rows[mine] = fits, announced
        left.pop(line, None)
        if is_heard[mine[-1]]:
            left[line] = heard_rows[mine[-1]].tolist()
    return Heards(known, rows), left


def _network_time(frames: Frames, layout: DataLayout, before: Carry) -> tuple[Ints, int]:
    """At each frame the network's time in cycles as last told, unwrapped, `NOTHING` before it first was; and the epoch.

    Within an epoch times are taken as the nearest; a new epoch starts time afresh, which here may only go forward. Who
    is not in sync, or still in an old epoch, is not asked.
    """
    at, time, epoch = _told_times(frames, layout)
    start = int(epoch[0]) if before.cycles is None and len(epoch) else before.epoch
    epochs = start + np.cumsum(nearest(np.diff(epoch, prepend=start), 0, 256))
    newest = np.maximum.accumulate(np.maximum(epochs, start))
    current = epochs == newest
    at, time, newest = at[current], time[current], newest[current]
    known = NOTHING if before.cycles is None else before.cycles
    origin = int(time[0]) if before.cycles is None and len(time) else known
    rise = np.diff(time, prepend=origin)
    afresh = np.diff(newest, prepend=start) > 0
    unwrapped = origin + np.cumsum(np.where(afresh, rise % WRAP, nearest(rise, 0, WRAP)))
    latest = np.searchsorted(at, np.arange(len(frames)), side="right")
    return np.concatenate(([known], unwrapped))[latest], int(newest[-1] % 256) if len(newest) else start


def _told_times(frames: Frames, layout: DataLayout) -> tuple[Ints, Ints, Ints]:
    """Where somebody in sync told the network's time, the time, and its epoch."""
    told = [_decode(frames, record, layout) for record in (Heard, Beacon, Health)]
    at = np.concatenate([where for where, _ in told])
    time, epoch, flags = (
        np.concatenate([rows[name].astype(np.int64) for _, rows in told])
        for name in ("time", "epoch", "flags")
    )
    order = np.argsort(at, kind="stable")
    order = order[flags[order] & IN_SYNC != 0]
    return at[order], time[order], epoch[order]


@dataclass(frozen=True, slots=True)
class _HeardTimes:
    """At each frame, in cycles: when it was heard, and the observer's clock; and the wraps to go on with.

    `untimed`: the observer did not know when it was heard, and could not order it.
    """

    heard: Ints
    clock: Ints
    untimed: Bools
    wraps: int


def _times(records: Records, arrived: Records, heard: Heards, network: Ints, wraps: int) -> _HeardTimes:
    """What was noted; where nothing was, the heard record's time, or the network's as last told.

    Those two are put as many wraps up as the last note was: how often time has wrapped, or started afresh, the observer
    alone knows.
    """
    known, clock, noted, untimed = _noted(records, arrived)
    told = network != NOTHING
    at = np.flatnonzero(known & told)
    ahead = np.concatenate(([wraps], np.rint((noted[at] - network[at]) / WRAP).astype(np.int64)))
    ahead = ahead[np.searchsorted(at, np.arange(len(network)), side="right")]
    now = np.where(told, network, 0) + ahead * WRAP
    own = np.where(heard.known, nearest(heard.rows["time"].astype(np.int64), now, WRAP), now)
    own = np.where(told, own, NOTHING)
    return _HeardTimes(
        heard=np.where(known, noted, own),
        clock=np.where(known, clock, own),
        untimed=untimed,
        wraps=int(ahead[-1]) if len(ahead) else wraps,
    )


def _noted(records: Records, arrived: Records) -> tuple[Bools, Ints, Ints, Bools]:
    """For which frames a clock was noted, what it was, when they were heard (if nobody knew: then), and where nobody
    knew."""
    clocks = records.clocks()
    numbers = arrived.head["number"]
    known, untimed = np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.bool_)
    clock, heard = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    at = np.searchsorted(numbers, clocks["number"])
    at[at == len(numbers)] = 0
    same = numbers[at] == clocks["number"] if len(numbers) else np.zeros(len(clocks), np.bool_)
    at, clocks = at[same], clocks[same]
    known[at], clock[at], untimed[at] = True, clocks["clock"], clocks["heard"] == NO_TIME
    heard[at] = np.where(untimed[at], clocks["clock"], clocks["heard"])
    return known, clock, heard, untimed


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


def number_by_objects(
    data: NDArray[np.void], ticks: Ints, patience: int, before: Motes
) -> tuple[Named, Motes]:
    motes = {source: mote.copy() for source, mote in before.items()}
    rows: list[tuple[int, int, int, bool]] = []
    fields = (data[name].tolist() for name in ("source", "boot", "sequence"))
    for source, boot, told, now in zip(*fields, ticks.tolist(), strict=True):
        mote = motes.get(source)
        if mote is None:
            mote = motes[source] = MoteBoots(boot, now)
        life, sequence, copy, fresh, _ = mote.accept(boot, told, now, patience)
        number = None if copy else mote.number(boot, sequence, fresh)
        rows.append((life, sequence, NOTHING if number is None else number, not copy))
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Named(columns[0], columns[1], columns[2], columns[3].astype(np.bool_)), motes


def _plain_columns(data: NDArray[np.void], payload: NDArray[np.uint8], layout: DataLayout) -> dict[str, Any]:
    return {
        "source": data["source"],
        "boot": data["boot"],
        "am_type": np.full(len(data), layout.am_type),
        "payload": payload_column(payload, bulk.data_lengths(data, layout)),
        "saturated": data["saturated"],
        "values": values_column(data["data"], layout),
    }


def _heard_columns(heard: Heards, rows: Ints) -> dict[str, Any]:
    said, unknown = heard.rows[rows], ~heard.known[rows]
    return {
        "heard_time": pa.array(said["time"], mask=unknown),
        "gateway": pa.array(said["gateway"], mask=unknown),
        "rssi": pa.array(said["rssi"], mask=unknown | (said["rssi"] == RSSI_UNKNOWN)),
        "lqi": pa.array(said["lqi"], mask=unknown | (said["flags"] & LQI_KNOWN == 0)),
    }
