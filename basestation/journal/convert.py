"""Conversions of a journal for other tools. Each form says what it leaves out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.traces.files import Trace
from basestation.traces.schema import messages_schema, value_of
from packet_formats.deployment import Deployment
from packet_formats.json_form import packet_to_plain
from packet_formats.layout import DataLayout, layout_of
from packet_formats.phrases import many
from packet_formats.tinyos import PacketError, decode_packet
from packet_formats.values import Value

from .decision import NO_TIME, Fate
from .field_truth import FieldTruth
from .parquet_parts import origin_of
from .projection import Projection, project_all
from .reader import Journal, Report
from .record_format import JournalError, Record, RecordKind

# What is in each form, and what of the journal is not.
HOLDS = {
    "parquet": "the messages, as a trace: no other frames, gaps, counters or notes",
    "csv": "the messages as they arrived: no deliveries (replay --json has them), other frames, gaps or notes",
    "ndjson": "every record that the log has",
    "pcap": "the frames on the air: no gaps, counters, notes, clocks or monotonic times, no radio sequence numbers",
    "shiviz": "the order of the messages: no stamps, times or data",
    "html": "the messages and events as the live page shows them: no stamps, no frames that are not messages",
    "dot": "the direct causes of the messages: no stamps, times or data",
}
LEFT_OUT = {
    Fate.UNTIMED: "came before the time was known",
    Fate.STRANGER: "came from a mote that the deployment does not have",
    Fate.FORGED: "had a wrong MIC: forged, or played again",
    Fate.REPLAYED: "had been played again",
    Fate.LATE: "took too long to be believed",
    Fate.UNDECIDED: "came when the station was interrupted",
}
CSV_ROWS = 1 << 16  # at a time
KINDS = {kind.value: kind.name.lower() for kind in RecordKind}


def trace_of(
    journal: Journal, deployment: Deployment, report: Report, tell: Callable[[str], None] = lambda text: None
) -> Trace:
    """The whole run as a trace, without events: only the motes know those. Messages that don't fit are reported."""
    empty = messages_schema().empty_table()
    readings = project_all(journal, deployment, report)
    for text in _left_out(readings):
        tell(text)
    truth = FieldTruth(deployment)
    messages = [table for reading in readings for table in truth.add(reading.messages)]
    messages += truth.finish()
    if truth.refused:
        tell(
            f"{many(truth.refused, 'name')} of causes contradicted others, and {_are(truth.refused)} left out"
        )
    return Trace(
        run=journal.header.run,
        deployment=deployment,
        origin=origin_of(journal),
        messages=pa.concat_tables([empty, *messages]),
        events=None,
    )


def _left_out(readings: Sequence[Projection]) -> Iterator[str]:
    for fate, why in LEFT_OUT.items():
        count = sum(reading.count(fate) for reading in readings)
        if count:
            yield f"{many(count, 'message')} {why}, and {_are(count)} left out"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def write_csv(trace: Trace, file: IO[str]) -> int:
    """Write one line for each message, with a column for each value of [[data]]: bytes in hex, unknown values empty,
    empty lists `-`. `time` is the wall clock in UTC."""
    table = csv.writer(file, lineterminator="\n")
    known = ["time", *_plain_columns(trace.messages).column_names]
    table.writerow([*known, *(_heading(value, known) for value in trace.deployment.data)])
    for batch in trace.messages.to_batches(CSV_ROWS):
        rows = pa.Table.from_batches([batch])
        columns = [
            map(_iso, rows["wall_ns"].to_pylist()),
            *(map(_cell, column.to_pylist()) for column in _plain_columns(rows).columns),
            *(_numbers(rows["values"], value) for value in trace.deployment.data),
        ]
        table.writerows(zip(*columns, strict=True))
    return len(trace.messages)


def _heading(value: Value, known: Collection[str]) -> str:
    """The name of a value's column, distinct from the columns of the messages."""
    return f"values.{value.column}" if value.column in known else value.column


def _plain_columns(messages: pa.Table) -> pa.Table:
    return messages.drop_columns("values").flatten()


def _numbers(column: pa.ChunkedArray, value: Value) -> Iterator[str]:
    for number in value_of(column, value.name).to_pylist():
        yield "" if number is None else str(value.number(number))


def _iso(wall_ns: int | None) -> str:
    """A time in ISO 8601, to the microsecond, which is what most readers take."""
    if wall_ns is None:
        return ""
    moment = datetime.fromtimestamp(wall_ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 1000 % 10**6:06d}Z"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(_cell, value)) or "-"
    if isinstance(value, dict):  # a cause
        return ":".join(map(_cell, value.values()))
    return value.hex() if isinstance(value, bytes) else str(value)


def write_ndjson(journal: Journal, deployment: Deployment | None, file: IO[str], report: Report) -> int:
    """Write one line for the run and one for each record. With a deployment, messages are decoded beside their
    bytes."""
    file.write(_line({"kind": "run", **asdict(journal.header)}))
    count = 0
    layout = layout_of(deployment) if deployment else None
    motes = deployment.network.motes if deployment else None
    for record in journal.records(report):
        file.write(_line(_plain(record, layout, motes)))
        count += 1
    return count


def _line(plain: dict[str, Any]) -> str:
    return json.dumps(plain, ensure_ascii=False) + "\n"


def _plain(record: Record, layout: DataLayout | None, motes: int | None) -> dict[str, Any]:
    kind = KINDS.get(record.kind, "")
    plain: dict[str, Any] = {
        "kind": kind or record.kind,
        "record": record.number,
        "gateway": record.gateway,
        "mono_ns": record.mono_ns,
        "wall_ns": record.wall_ns,
    }
    if kind == "frame":
        return plain | {"raw": record.payload.hex()} | _packet(record.payload, layout, motes)
    if kind == "gap":
        return plain | {"back": record.payload[:1] != b"\0", "reason": record.text(1)}
    if kind == "note":
        return plain | {"text": record.text()}
    try:
        return plain | _own(record, kind)
    except JournalError as error:
        return plain | {"raw": record.payload.hex(), "fault": str(error)}


def _own(record: Record, kind: str) -> dict[str, Any]:
    """The content of a record that the base station itself wrote; `JournalError` if it is invalid."""
    if kind == "decision":
        return {"decision": _decision(record.decision())}  # it has a gateway of its own
    if kind == "counters":
        return {"counters": record.plain()}
    if kind == "lost":
        count, reason = record.lost()
        return {"records": count, "reason": reason}
    if kind == "policy":
        change, reached = record.change()
        said = {"policy": change.policy, "phi": change.phi, "clock": reached}
        return said | ({} if change.tolerate is None else {"tolerate": change.tolerate})
    return {"raw": record.payload.hex()}


def _decision(row: NDArray[np.void]) -> dict[str, Any]:
    """All fields of a decision, by name; a time that is not known is null."""
    said: dict[str, Any] = {name: row[name][0].item() for name in row.dtype.names or ()}
    times = {name: None for name in ("heard", "clock") if said[name] == NO_TIME}
    return said | times | {"fate": Fate(said["fate"]).name.lower()}


def _packet(raw: bytes, layout: DataLayout | None, motes: int | None) -> dict[str, Any]:
    try:
        return {"packet": packet_to_plain(decode_packet(raw), layout, motes)}
    except PacketError as error:
        return {"fault": str(error)}
