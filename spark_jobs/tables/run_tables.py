"""Makes the tables of one run in batches of rows: frames, messages, events, quarantine. It does not use Spark.

Journals of base stations that heard the same network at the same time are merged first, record by record, in the order
of their wall clocks. Then one station decides them all, and drops copies over gateways and copies over relays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from basestation.journal.frame_table import frame_rows, frames_of
from basestation.journal.merging import merge, single
from basestation.journal.projection import project
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind, Records
from basestation.live.deciding import decisions_on, station_of
from basestation.live.station import Station
from basestation.testbed import testbed_trace as testbed
from basestation.testbed import truth_log
from basestation.traces.checks import row_faults
from basestation.traces.files import open_table
from basestation.traces.present import ADDED, present
from basestation.traces.schema import events_schema, messages_schema
from packet_formats.deployment import Deployment
from spark_jobs.journals.parts import (
    Batch,
    Report,
    bad_row,
    quarantine,
    read_part,
    records_of,
    refused_rows,
    segments,
)
from spark_jobs.storage import path_of, reading
from spark_jobs.tables.inputs import EVENTS, Group, Input, InputError, part_files


def tables_of(group: Group) -> Iterator[Batch]:
    """The rows of a run's tables, in order, some megabytes at a time. A decided journal is read in parts instead."""
    item, *others = group.inputs
    if item.kind == "trace":
        yield from _trace(item)
    elif item.kind == "testbed":
        yield from _testbed(item)
    elif others:
        yield from _merged(group)
    else:
        yield from _undecided(item)


# ---- Journals ----


def _undecided(item: Input) -> Iterator[Batch]:
    """A journal without decisions: one station decides its segments, in order."""
    station = station_of(read_journal(path_of(item.path)), item.deployed)
    for segment in segments(item):
        yield from read_part(segment, lambda path, records: decisions_on(records, station))


def _merged(group: Group) -> Iterator[Batch]:
    """Journals of several stations that heard one network at one time. Their own decisions do not fit together."""
    bad: list[dict[str, Any]] = []
    deployment = group.inputs[0].deployed
    station, merging = Station(deployment), _Merging()
    for chunk in merge([_records(item, bad.append) for item in group.inputs]):
        records = merging.numbered(chunk.records)
        projected = project(records, deployment, decisions_on(merging.on_one_clock(records), station))
        yield "frames", frame_rows(chunk, projected, group.names)
        yield "messages", projected.messages
        yield quarantine([*refused_rows(chunk, projected, deployment, group), *bad])
        bad.clear()
    yield quarantine(bad)


def _records(item: Input, report: Report) -> Iterator[Records]:
    found = (records_of(segment, report) for segment in segments(item))
    return (records for records in found if records is not None)


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
        """The records with their wall clock, made to never fall, as the station's clock."""
        head = records.head.copy()
        head["mono_ns"] = np.maximum.accumulate(np.maximum(head["wall_ns"], self._newest))
        self._newest = int(head["mono_ns"][-1]) if len(head) else self._newest
        return Records(records.raw, head, records.starts)


# ---- Traces, and logs of the testbed ----


def _trace(item: Input) -> Iterator[Batch]:
    """The tables of a trace, checked row by row."""
    deployment = item.deployed
    number = 0
    for path in part_files(path_of(item.path)):
        with open_table(reading(path)) as file:
            _same_columns(file.schema_arrow.names, messages_schema(), path)
            for batch in file.iter_batches(1 << 17):
                rows_of = _as(batch, messages_schema(), path)
                yield from _checked(rows_of, deployment, item, str(path), number)
                number += len(batch)
    events = path_of(item.path) / EVENTS
    if events.exists():
        with open_table(reading(events)) as file:
            _same_columns(file.schema_arrow.names, events_schema(), events)
            for batch in file.iter_batches(1 << 17):
                yield "events", _as(batch, events_schema(), events)


def _as(batch: pa.RecordBatch, wanted: pa.Schema, path: Path) -> pa.Table:
    try:
        table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
        return present(table, wanted.names, wanted).cast(wanted)
    except ValueError as error:  # Arrow reports a null in a column without nulls as a plain ValueError
        raise InputError(f"{path}: {error}") from None


def _same_columns(found: list[str], of: pa.Schema, path: Path) -> None:
    wanted = [name for name in of.names if name in found or name not in ADDED]
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
