"""Makes the tables of one run in batches of rows: frames, messages, events, quarantine. It does not use Spark.

`basestation.journal.message_table` makes the messages from the records, as it makes the base station's own parts.
Journals of base stations that heard the same network at the same time are merged first, record by record, in the order
of their wall clocks. Then one rule drops copies over gateways and copies over relays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.journal import locking
from basestation.journal.field_truth import FieldTruth
from basestation.journal.message_table import NOTHING, Carry, Fate, ReadMessages, read_messages
from basestation.journal.reader import faults_of, read_segment, segment_paths
from basestation.journal.record_format import CLOCK, JournalError, RecordKind, Records
from basestation.testbed import testbed_trace as testbed
from basestation.testbed import truth_log
from basestation.traces.present import names_in, present
from basestation.traces.schema import events_schema, messages_schema
from packet_formats import bulk
from packet_formats import deployment as deployments
from packet_formats.bulk import Frames
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import Reason
from spark_jobs.journals import fast
from spark_jobs.storage import is_local, path_of, reading
from spark_jobs.tables.inputs import EVENTS, Group, Input, InputError, part_files

Ints = NDArray[np.int64]

FRAMES = pa.schema(
    [
        ("journal", pa.string()),  # the run as its base station called it
        ("number", pa.int64()),  # of the record in its journal
        ("kind", pa.string()),
        ("line", pa.int32()),
        ("mono_ns", pa.int64()),
        ("wall_ns", pa.int64()),
        ("payload", pa.binary()),
        ("fate", pa.string()),  # frames alone; what became of it
        ("source", pa.int32()),  # data messages alone, copies too; up to hops
        ("boot", pa.int32()),
        ("life", pa.int64()),
        ("sequence", pa.int64()),
        ("hops", pa.int32()),
        ("gateway", pa.int32()),  # by the heard record; up to heard_time
        ("epoch", pa.int32()),
        ("synced", pa.bool_()),
        ("root", pa.bool_()),
        ("rssi", pa.int32()),
        ("lqi", pa.int32()),
        ("heard_time", pa.int64()),
        ("heard", pa.int64()),  # cycles, unwrapped
    ]
)
QUARANTINE = pa.schema(
    [
        ("journal", pa.string()),
        ("path", pa.string()),
        ("at", pa.int64()),  # byte in its file, where it was no record
        ("number", pa.int64()),  # of the record, where it was one
        ("wall_ns", pa.int64()),
        ("reason", pa.string()),
        ("bytes", pa.binary()),
    ]
)
KINDS = ("", *(kind.name.lower() for kind in RecordKind))
UNKNOWN_KIND = "unknown"
FATES = [fate.name.lower() for fate in Fate]
ROOT, SYNCED, RSSI_UNKNOWN, LQI_KNOWN = 2, 1, -128, 4
ACKNOWLEDGEMENTS = (0x40, 0x43)
WHY = {
    Reason.PACKET: "no packet of this TinyOS version",
    Reason.GROUP: "another group",
    Reason.TYPE: "another message type: another layout or another application",
    Reason.LENGTH: "another length: another layout or another application",
    Reason.SPARE: "a padding bit of the stamp is set: another layout or another application",
    Reason.VALUE: "a stamp's value is too large for its field",
}
Batch = tuple[str, pa.Table]  # which table, and rows of it
Report = Callable[[dict[str, Any]], None]


def tables_of(group: Group) -> Iterator[Batch]:
    """The rows of a run's tables, in order, some megabytes at a time. A journal alone is read in parts instead."""
    kind = group.inputs[0].kind
    if kind == "journal":
        yield from _journals(group)
    elif kind == "trace":
        yield from _trace(group.inputs[0])
    else:
        yield from _testbed(group.inputs[0])


def quarantine(rows: list[dict[str, Any]]) -> Batch:
    return "quarantine", pa.Table.from_pylist(rows, schema=QUARANTINE)


# ---- Journals ----


@dataclass(frozen=True, slots=True)
class Chunk:
    """A batch of records of a group, in order. `journal` and `line` say where each record comes from."""

    records: Records
    journal: NDArray[np.int32]
    line: NDArray[np.uint8]


def _journals(group: Group) -> Iterator[Batch]:
    """Journals of one network at one time, merged. Clock records of several observers do not fit together, and network
    time is used instead."""
    bad: list[dict[str, Any]] = []
    deployment = deployments.parse(group.inputs[0].deployment)
    truth = FieldTruth(deployment)
    carry = Carry(wraps=1)  # an observer's clock begins there, too
    for chunk in merge([_records(item, bad.append) for item in group.inputs]):
        kept = chunk.records.head["kind"] != RecordKind.CLOCK
        reading = read_messages(_chosen(chunk.records, kept), deployment, carry, fast.numbering())
        carry = reading.carry
        yield "frames", frame_rows(chunk, reading, group)
        yield from (("messages", table) for table in truth.add(reading.messages))
        yield quarantine([*refused_rows(chunk, reading, deployment, group), *bad])
        bad.clear()
    yield from (("messages", table) for table in truth.finish())
    yield quarantine(bad)


def single(records: Records) -> Chunk:
    return Chunk(records, np.zeros(len(records), np.int32), records.head["gateway"].copy())


def _records(item: Input, report: Report) -> Iterator[Records]:
    """A journal's records, segment by segment. Damage is reported."""
    expected = 0
    for path, busy in segments_of(item):
        if (records := read_records(item, path, busy, report)) is not None:
            yield sound_records(item, path, records, expected, report)
            expected = next_number(records, expected)


def segments_of(item: Input) -> list[tuple[Path, bool]]:
    """The segment files of a run, and whether somebody is writing to them."""
    folder = path_of(item.path)
    busy, segments = is_local(folder) and locking.is_taken(folder), segment_paths(folder)
    if not segments:
        raise InputError(f"{folder}: the journal of run {item.run} is no longer there")
    return [(path, busy) for path in segments]


def read_records(item: Input, path: Path, busy: bool, report: Report) -> Records | None:
    """The intact records of a segment; None if it is none of this run's. Damage is reported."""
    try:
        segment = read_segment(path, fast.walk())
    except (JournalError, OSError) as error:
        report(bad_row(item, str(error).removeprefix(f"{path}: "), path=str(path)))
        return None
    if segment.header is not None and segment.header.run != item.run:
        report(bad_row(item, f"a segment of another run, {segment.header.run}", path=str(path)))
        return None
    for fault in faults_of(segment):
        if not (fault.tail and busy):
            raw = segment.raw[fault.at : fault.at + fault.length]
            report(bad_row(item, fault.reason, path=str(path), at=fault.at, bytes=raw))
    return segment.records


def sound_records(item: Input, path: Path, records: Records, expected: int, report: Report) -> Records:
    """The records without clock records of the wrong size. Those are reported, and missing records."""
    head = records.head
    broken = (head["kind"] == RecordKind.CLOCK) & (head["length"] != CLOCK.itemsize)
    for record in _chosen(records, broken) if broken.any() else ():
        why = f"a clock record of {len(record.payload)} bytes, it has {CLOCK.itemsize}"
        told = {"number": record.number, "wall_ns": record.wall_ns, "bytes": record.payload}
        report(bad_row(item, why, path=str(path), **told))
    for first, last in _holes(records, expected):
        report(bad_row(item, f"records {first} to {last} are missing", path=str(path), number=first))
    return _chosen(records, ~broken)


def next_number(records: Records, expected: int) -> int:
    return int(records.head["number"][-1]) + 1 if len(records) else expected


def bad_row(item: Input, reason: str, **where: Any) -> dict[str, Any]:
    return {"journal": item.run, "path": item.path, "reason": reason} | where


def _chosen(records: Records, which: NDArray[Any] | slice) -> Records:
    return Records(records.raw, records.head[which], records.starts[which])


def _holes(records: Records, expected: int) -> Iterator[tuple[int, int]]:
    numbers = np.concatenate(([expected - 1], records.head["number"].astype(np.int64)))
    for at in np.flatnonzero(np.diff(numbers) > 1).tolist():
        yield int(numbers[at]) + 1, int(numbers[at + 1]) - 1


# ---- Several journals as one ----


def merge(streams: list[Iterator[Records]]) -> Iterator[Chunk]:
    """The records of several journals in the order of their wall clocks, each journal's own order kept.

    A clock that was set back is taken to stand still until it is where it was. A record is given out only when no
    stream can have an earlier one, so the ends of segments make no difference, and only a segment or two of each
    journal is in memory.
    """
    waiting = [_AwaitedFrames(stream) for stream in streams]
    lines: dict[tuple[int, int], int] = {}
    while sum(stream.fill() for stream in waiting):
        limit = min((stream.newest for stream in waiting if not stream.ended), default=None)
        taken = [stream.take(limit) for stream in waiting]
        order = np.argsort(np.concatenate([keys for _, keys in taken]), kind="stable")
        journal = np.repeat(np.arange(len(taken), dtype=np.int32), [len(keys) for _, keys in taken])
        records, journal = _chosen(_joined([records for records, _ in taken]), order), journal[order]
        line = records.head["gateway"].copy()
        records.head["gateway"] = _lines(journal, line, lines)
        yield Chunk(records, journal, line)


def _lines(
    journal: NDArray[np.int32], line: NDArray[np.uint8], known: dict[tuple[int, int], int]
) -> NDArray[np.uint8]:
    """Number the lines of all journals, in the order in which they appear. Each journal's lines are its own."""
    pairs = list(zip(journal.tolist(), line.tolist(), strict=True))
    for pair in dict.fromkeys(pairs):
        known.setdefault(pair, len(known))
    if len(known) > 256:
        raise InputError(f"{len(known)} lines at one time and place; 256 are the most")
    return np.array([known[pair] for pair in pairs], np.uint8)


@dataclass(slots=True)
class _AwaitedFrames:
    """A stream, and its records that were read and not yet given out. `keys` are the wall clock, never falling."""

    stream: Iterator[Records]
    records: Records | None = None
    keys: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    newest: int = NOTHING
    ended: bool = False

    def fill(self) -> bool:
        """Read on unless there is enough; False if nothing is left."""
        while not self.ended and (self.records is None or not (self.keys < self.newest).any()):
            records = next(self.stream, None)
            if records is None:
                self.ended = True
                break
            keys = np.maximum.accumulate(np.maximum(records.head["wall_ns"], self.newest))
            self.newest = int(keys[-1]) if len(keys) else self.newest
            self.records = records if self.records is None else _joined([self.records, records])
            self.keys = np.concatenate((self.keys, keys))
        return len(self.keys) > 0

    def take(self, limit: int | None) -> tuple[Records, Ints]:
        """Give out the records before the limit, or all of them without one."""
        count = len(self.keys) if limit is None else int(np.searchsorted(self.keys, limit, side="left"))
        if self.records is None:
            return _EMPTY, self.keys
        taken, keys = _chosen(self.records, slice(0, count)), self.keys[:count]
        self.records, self.keys = _chosen(self.records, slice(count, None)), self.keys[count:]
        return taken, keys


_EMPTY = Records.of(b"", [])


def _joined(parts: list[Records]) -> Records:
    """Join records, and drop bytes that belong to no record any more."""
    parts = [_trimmed(part) for part in parts]
    before = np.cumsum([0, *(len(part.raw) for part in parts)])
    starts = [part.starts + at for part, at in zip(parts, before.tolist(), strict=False)]
    return Records(
        np.concatenate([part.raw for part in parts]),
        np.concatenate([part.head for part in parts]),
        np.concatenate(starts),
    )


def _trimmed(records: Records) -> Records:
    if not len(records):
        return _EMPTY
    begin = int(records.starts[0])
    end = int(records.starts[-1]) + records.head.dtype.itemsize + int(records.head["length"][-1])
    return Records(records.raw[begin:end], records.head, records.starts - begin)


# ---- Rows ----


def frame_rows(chunk: Chunk, reading: ReadMessages | None, group: Group) -> pa.Table:
    """The rows for all records of any kind: a journal can be made from them again."""
    head = chunk.records.head
    payload, lengths = chunk.records.payloads()
    columns: dict[str, Any] = {
        "journal": _words(chunk.journal, [item.run for item in group.inputs]),
        "number": head["number"].astype(np.int64),
        "kind": kind_column(head["kind"]),
        "line": chunk.line,
        "mono_ns": head["mono_ns"],
        "wall_ns": head["wall_ns"],
        "payload": _binary(payload, lengths),
    }
    if reading is not None:
        columns |= _read_columns(head["kind"] == RecordKind.FRAME, reading)
    arrays = [
        pa.array(columns[item.name], item.type) if item.name in columns else pa.nulls(len(head), item.type)
        for item in FRAMES
    ]
    return pa.Table.from_arrays(arrays, schema=FRAMES)


def kind_column(kinds: NDArray[Any]) -> pa.Array:
    return _words(np.where(kinds < len(KINDS), kinds, 0), [UNKNOWN_KIND, *KINDS[1:]])


def _words(index: NDArray[Any], words: list[str]) -> pa.Array:
    return pa.array(words).take(pa.array(index, pa.int64()))


def _binary(payload: NDArray[np.uint8], lengths: Ints) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(payload))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers)


def _read_columns(frames: NDArray[np.bool_], reading: ReadMessages) -> dict[str, Any]:
    """The columns read from the frames, aligned with all records."""
    names, heard = reading.names, reading.heard
    said, flags = heard.rows, heard.rows["flags"]
    nobody = ~heard.known

    def spread(values: NDArray[Any], unknown: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
        whole, mask = np.zeros(len(frames), values.dtype), np.ones(len(frames), np.bool_)
        whole[frames], mask[frames] = values, unknown
        return pa.array(whole, kind, mask=mask)

    columns = {
        name: spread(names.data[name], ~names.known, FRAMES.field(name).type)
        for name in ("source", "boot", "hops")
    }
    columns |= {name: spread(getattr(names, name), ~names.known, pa.int64()) for name in ("life", "sequence")}
    columns |= {
        name: spread(said[name], nobody | unknown, FRAMES.field(name).type)
        for name, unknown in (
            ("gateway", False),
            ("epoch", False),
            ("rssi", said["rssi"] == RSSI_UNKNOWN),
            ("lqi", flags & LQI_KNOWN == 0),
        )
    }
    fates = spread(reading.fates, np.zeros(len(nobody), np.bool_), pa.int64())
    return columns | {
        "fate": pa.array(FATES).take(fates),
        "synced": spread((flags & SYNCED).astype(np.bool_), nobody, pa.bool_()),
        "root": spread((flags & ROOT).astype(np.bool_), nobody, pa.bool_()),
        "heard_time": spread(said["time"], nobody, pa.int64()),
        "heard": spread(reading.cycles, reading.cycles == NOTHING, pa.int64()),
    }


def refused_rows(
    chunk: Chunk, reading: ReadMessages, deployment: Deployment, group: Group
) -> Iterator[dict[str, Any]]:
    """The rows for frames that should have given a message and did not, and for unknown frames."""
    frames, fates = reading.frames, reading.fates
    at = np.flatnonzero(np.isin(fates, (Fate.FOREIGN, Fate.STRANGER, Fate.UNTIMED, Fate.NO_MESSAGE)))
    if not len(at):
        return
    layout = layout_of(deployment)
    chosen = _chosen(frames, at)
    reasons = bulk.decode_data(Frames.of_buffer(*chosen.payloads(), layout.tinyos), layout)[1]
    whose = chunk.journal[chunk.records.head["kind"] == RecordKind.FRAME][at]
    for record, fate, reason, journal in zip(
        chosen, fates[at].tolist(), reasons.tolist(), whose.tolist(), strict=True
    ):
        if fate == Fate.NO_MESSAGE and record.payload[:1] and record.payload[0] in ACKNOWLEDGEMENTS:
            continue
        told = {"number": record.number, "wall_ns": record.wall_ns, "bytes": record.payload}
        yield bad_row(group.inputs[journal], _why(fate, reason, record.payload, layout, deployment), **told)


def _why(fate: int, reason: int, packet: bytes, layout: DataLayout, deployment: Deployment) -> str:
    if fate == Fate.STRANGER:
        frames = Frames.of_packets([packet], layout.tinyos)
        source = int(bulk.decode_data(frames, layout)[0]["source"][0])
        return f"source {source} is no mote of this deployment, which has 0..{deployment.network.motes - 1}"
    if fate == Fate.UNTIMED:
        return "came before anything told the time: its stamp can't be read"
    return WHY[Reason(reason)]


# ---- Traces, and logs of the testbed ----


def _trace(item: Input) -> Iterator[Batch]:
    """The tables of a trace, checked row by row."""
    deployment = deployments.parse(item.deployment)
    entries = layout_of(deployment).stamp.entries
    number, truth = 0, FieldTruth(deployment)
    for path in part_files(path_of(item.path)):
        with pq.ParquetFile(reading(path), page_checksum_verification=True) as file:
            _same_columns(file.schema_arrow.names, names_in(file.schema_arrow.names, entries), path)
            for batch in file.iter_batches(1 << 17):
                rows_of = _as(batch, messages_schema(), path)
                for name, rows in _checked(rows_of, deployment, item, str(path), number):
                    yield from (
                        (name, table) for table in (truth.add(rows) if name == "messages" else [rows])
                    )
                number += len(batch)
    yield from (("messages", table) for table in truth.finish())
    events = path_of(item.path) / EVENTS
    if events.exists():
        with pq.ParquetFile(reading(events), page_checksum_verification=True) as file:
            _same_columns(file.schema_arrow.names, events_schema().names, events)
            for batch in file.iter_batches(1 << 17):
                yield "events", _as(batch, events_schema(), events)


def _as(batch: pa.RecordBatch, wanted: pa.Schema, path: Path) -> pa.Table:
    try:
        table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
        return present(table, wanted.names, wanted).cast(wanted)
    except ValueError as error:  # a null where there can be none is not told as Arrow's own
        raise InputError(f"{path}: {error}") from None


def _same_columns(found: list[str], wanted: list[str], path: Path) -> None:
    if found != wanted:
        odd = sorted(set(found) ^ set(wanted)) or found
        raise InputError(f"{path}: not the columns that its deployment has: {', '.join(odd)}")


def _checked(table: pa.Table, deployment: Deployment, item: Input, path: str, first: int) -> Iterator[Batch]:
    reasons = _faults(table, deployment)
    good = pa.array([reason is None for reason in reasons], pa.bool_())
    numbers = pa.array(range(first, first + len(table)), pa.int64())
    yield "messages", table.filter(good)
    yield "frames", _frames_of(table.filter(good), numbers.filter(good), item, deployment)
    bad = table.filter(pc.invert(good))
    places = [at for at, reason in enumerate(reasons) if reason is not None]
    rows = zip(places, bad["payload"].to_pylist(), bad["wall_ns"].to_pylist(), strict=True)
    yield quarantine(
        [
            bad_row(item, reasons[at] or "", path=path, number=first + at, wall_ns=wall, bytes=payload)
            for at, payload, wall in rows
        ]
    )


def _faults(table: pa.Table, deployment: Deployment) -> list[str | None]:
    """The reason why each row is refused: its columns must agree with its payload."""
    layout = layout_of(deployment)
    data, reasons = bulk.decode_data(Frames.of_payload_list(table["payload"].to_pylist(), layout), layout)
    column = {name: table[name].to_numpy() for name in ("source", "boot", "sequence", "am_type")}
    r = pc.struct_field(table["stamp"], "r").to_numpy()
    motes = deployment.network.motes
    told: list[str | None] = [None] * len(table)
    checks = (
        ("its stamp is not what its payload says", r % layout.stamp.modulus != data["clock"]),
        ("its number is not what its payload says", column["sequence"] % 256 != data["sequence"]),
        ("its boot count is not what its payload says", column["boot"] != data["boot"]),
        ("its source is not what its payload says", column["source"] != data["source"]),
        ("its payload can't be read", reasons != Reason.OK),
        ("another message type: another layout", column["am_type"] != layout.am_type),
        (f"its source is no mote of this deployment, which has 0..{motes - 1}", column["source"] >= motes),
    )
    for why, wrong in checks:
        for at in np.flatnonzero(wrong).tolist():
            told[at] = why
    return told


def _frames_of(messages: pa.Table, numbers: pa.Array, item: Input, deployment: Deployment) -> pa.Table:
    """The rows of frames for a trace's messages, so that all jobs find raw frames in one place."""
    count = len(messages)
    names = ("mono_ns", "wall_ns", "payload", "source", "boot", "sequence")
    columns: dict[str, Any] = {name: messages[name].combine_chunks() for name in names}
    columns |= {name: messages[name].combine_chunks() for name in ("gateway", "rssi", "lqi", "heard_time")}
    columns |= {
        "journal": _words(np.zeros(count), [item.run]),
        "number": numbers,
        "kind": _words(np.zeros(count), ["message"]),
        "fate": _words(np.zeros(count), FATES),
        "life": messages["boot"].combine_chunks(),
        "heard": pc.shift_left(messages["heard"].combine_chunks(), deployment.clock.tick_log2),
    }
    arrays = [
        columns[kind.name].cast(kind.type) if kind.name in columns else pa.nulls(count, kind.type)
        for kind in FRAMES
    ]
    return pa.Table.from_arrays(arrays, schema=FRAMES)


def _testbed(item: Input) -> Iterator[Batch]:
    deployment = deployments.parse(item.deployment)
    try:
        events = list(truth_log.read(path_of(item.path)))
        network = testbed.network_of(events[0] if events else None, deployment, item.gateways)
    except truth_log.TruthError as error:
        raise InputError(str(error)) from None
    records = testbed.records_of(events, network)
    reading = read_messages(records, deployment)
    chunk, group = single(records), Group((item,))
    traced = testbed.trace_of(events, network)
    yield "frames", frame_rows(chunk, reading, group)
    yield "messages", traced.messages
    yield "events", traced.events
    yield quarantine(list(refused_rows(chunk, reading, deployment, group)))
