"""Makes the tables of one run in batches of rows: frames, messages, events, quarantine. It does not use Spark.

Journals of base stations that heard the same network at the same time are merged first, record by record, in the order
of their wall clocks. Then one station decides them all, and drops copies over gateways and copies over relays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from basestation.journal import fast, locking
from basestation.journal.frame_table import frame_rows, frames_of, refused
from basestation.journal.merging import Chunk, merge, single
from basestation.journal.projection import Projection, project
from basestation.journal.reader import (
    Account,
    JournalSegment,
    faults_of,
    foreign,
    read_journal,
    read_segment,
    segment_paths,
)
from basestation.journal.record_format import JournalError, RecordKind, Records
from basestation.live.deciding import decisions_on, station_of
from basestation.live.station import Station
from basestation.testbed import testbed_trace as testbed
from basestation.testbed import truth_log
from basestation.traces.checks import row_faults
from basestation.traces.files import open_table
from basestation.traces.present import ADDED, names_in, present
from basestation.traces.schema import events_schema, messages_schema
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from spark_jobs.storage import is_local, path_of, reading
from spark_jobs.tables.inputs import EVENTS, Group, Input, InputError, part_files

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
Batch = tuple[str, pa.Table]  # which table, and rows of it
Report = Callable[[dict[str, Any]], None]


def tables_of(group: Group) -> Iterator[Batch]:
    """The rows of a run's tables, in order, some megabytes at a time. A decided journal is read in parts instead."""
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


def _journals(group: Group) -> Iterator[Batch]:
    """Journals that are decided here: one without decisions, or those of several stations that heard one network at
    one time. Their own decisions do not fit together, so one station takes all their records."""
    bad: list[dict[str, Any]] = []
    deployment = group.inputs[0].deployed
    alone = len(group.inputs) == 1
    streams = [_records(item, bad.append) for item in group.inputs]
    station = (
        station_of(read_journal(path_of(group.inputs[0].path)), deployment) if alone else Station(deployment)
    )
    merging = _Merging()
    for chunk in map(single, streams[0]) if alone else merge(streams):
        records = chunk.records if alone else merging.numbered(chunk.records)
        played = records if alone else merging.on_one_clock(records)
        projected = project(records, deployment, decisions_on(played, station))
        yield "frames", frame_rows(chunk, projected, group.names)
        yield "messages", projected.messages
        yield quarantine([*refused_rows(chunk, projected, deployment, group), *bad])
        bad.clear()
    yield quarantine(bad)


class _Merging:
    """Records of several stations as if one had written them."""

    def __init__(self) -> None:
        self._next, self._newest = 0, 0

    def numbered(self, records: Records) -> Records:
        """The records, numbered anew, without the decisions of their own stations."""
        head = records.head.copy()
        head["number"] = np.arange(self._next, self._next + len(head))
        self._next += len(head)
        return Records(records.raw, head, records.starts).chosen(head["kind"] != RecordKind.DECISION)

    def on_one_clock(self, records: Records) -> Records:
        """The records as a station hears them whose own clock is their wall clock, and never falls."""
        head = records.head.copy()
        head["mono_ns"] = np.maximum.accumulate(np.maximum(head["wall_ns"], self._newest))
        self._newest = int(head["mono_ns"][-1]) if len(head) else self._newest
        return Records(records.raw, head, records.starts)


def _records(item: Input, report: Report) -> Iterator[Records]:
    """A journal's records, segment by segment. Damage is reported."""
    expected = 0
    for path, busy, final in segments_of(item):
        if (segment := read_records(item, path, busy, report, final)) is not None:
            records = segment.records
            for first, last in _holes(records, expected):
                report(bad_row(item, f"records {first} to {last} are missing", path=str(path), number=first))
            expected = int(records.head["number"][-1]) + 1 if len(records) else expected
            yield records


def segments_of(item: Input) -> list[tuple[Path, bool, bool]]:
    """The segment files of a run, whether somebody is writing to them, and which is the last."""
    folder = path_of(item.path)
    busy, segments = is_local(folder) and locking.is_taken(folder), segment_paths(folder)
    if not segments:
        raise InputError(f"{folder}: the journal of run {item.run} is no longer there")
    return [(path, busy, path == segments[-1]) for path in segments]


def read_records(item: Input, path: Path, busy: bool, report: Report, final: bool) -> JournalSegment | None:
    """A segment; None if it is not of this run. Damage is reported, and an end that is
    missing in the last one."""
    try:
        segment = read_segment(path, fast.walk())
    except (JournalError, OSError) as error:
        report(bad_row(item, str(error).removeprefix(f"{path}: "), path=str(path)))
        return None
    if (other := foreign(segment, item.run)) is not None:
        report(bad_row(item, other.reason, path=str(path)))
        return None
    for fault in faults_of(segment):
        if not (fault.tail and busy):
            raw = segment.raw[fault.at : fault.at + fault.length]
            report(bad_row(item, fault.reason, path=str(path), at=fault.at, bytes=raw))
    if final and not busy:
        for hole in Account.of_last(segment).end():
            report(bad_row(item, f"the end of the run is missing: {hole.reason}", path=str(path)))
    return segment


def bad_row(item: Input, reason: str, **where: Any) -> dict[str, Any]:
    return {"journal": item.run, "path": item.path, "reason": reason} | where


def refused_rows(
    chunk: Chunk, reading: Projection, deployment: Deployment, group: Group
) -> Iterator[dict[str, Any]]:
    for journal, why, told in refused(chunk, reading, deployment):
        yield bad_row(group.inputs[journal], why, **told)


def _holes(records: Records, expected: int) -> Iterator[tuple[int, int]]:
    numbers = np.concatenate(([expected - 1], records.head["number"].astype(np.int64)))
    for at in np.flatnonzero(np.diff(numbers) > 1).tolist():
        yield int(numbers[at]) + 1, int(numbers[at + 1]) - 1


# ---- Traces, and logs of the testbed ----


def _trace(item: Input) -> Iterator[Batch]:
    """The tables of a trace, checked row by row."""
    deployment = item.deployed
    entries = layout_of(deployment).stamp.entries
    number = 0
    for path in part_files(path_of(item.path)):
        with open_table(reading(path)) as file:
            _same_columns(file.schema_arrow.names, names_in(file.schema_arrow.names, entries), path)
            for batch in file.iter_batches(1 << 17):
                rows_of = _as(batch, messages_schema(), path)
                yield from _checked(rows_of, deployment, item, str(path), number)
                number += len(batch)
    events = path_of(item.path) / EVENTS
    if events.exists():
        with open_table(reading(events)) as file:
            has = file.schema_arrow.names
            wanted = [name for name in events_schema().names if name in has or name not in ADDED]
            _same_columns(has, wanted, events)
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
    reasons = row_faults(table, deployment)
    good = pa.array([reason is None for reason in reasons], pa.bool_())
    numbers = pa.array(range(first, first + len(table)), pa.int64())
    yield "messages", table.filter(good)
    yield "frames", frames_of(table.filter(good), numbers.filter(good), item.run, deployment)
    bad = table.filter(pc.invert(good))
    places = [at for at, reason in enumerate(reasons) if reason is not None]
    rows = zip(places, bad["payload"].to_pylist(), bad["wall_ns"].to_pylist(), strict=True)
    yield quarantine(
        [
            bad_row(item, reasons[at] or "", path=path, number=first + at, wall_ns=wall, bytes=payload)
            for at, payload, wall in rows
        ]
    )


def _testbed(item: Input) -> Iterator[Batch]:
    deployment = item.deployed
    try:
        events = list(truth_log.read(path_of(item.path)))
        network = testbed.network_of(events, deployment, item.gateways)
    except truth_log.TruthError as error:
        raise InputError(str(error)) from None
    records = testbed.records_of(events, network)
    reading = project(records, deployment, decisions_on(records, Station(deployment)))
    chunk, group = single(records), Group((item,))
    traced = testbed.trace_of(events, network)
    yield "frames", frame_rows(chunk, reading, group.names)
    yield "messages", traced.messages
    yield "events", traced.events
    yield quarantine(list(refused_rows(chunk, reading, deployment, group)))
