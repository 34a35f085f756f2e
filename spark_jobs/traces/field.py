"""Gives a trace from the field what its messages themselves tell of happened-before (docs/analysis.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from basestation.journal.field_truth import with_field_truth
from basestation.traces import schema
from basestation.traces.files import ROW_GROUP, Trace, encodings
from spark_jobs.traces.files import MESSAGES, TraceFiles, open_trace, read_rows


def with_causes(trace: TraceFiles, scratch: Path) -> TraceFiles:
    """The trace, with the vectors of its causal graph if it has none of its own; those files are in `scratch`."""
    if not trace.rows or trace.untold < trace.rows:
        return trace
    place = scratch / "field"
    place.mkdir(parents=True, exist_ok=True)
    said = schema.metadata(trace.run, trace.deployment, trace.origin)
    wanted = schema.messages_schema().with_metadata(said)
    with pq.ParquetWriter(place / MESSAGES, wanted, **encodings(wanted)) as writer:
        for table in with_field_truth(_tables(trace), trace.deployment):
            writer.write_table(table, ROW_GROUP)
    return replace(open_trace(place), folder=trace.folder, events=trace.events, is_field=True)


def causes_in(trace: Trace) -> Trace:
    """The same for a trace in memory; it needs its payloads."""
    return replace(trace, messages=pa.concat_tables(with_field_truth([trace.messages], trace.deployment)))


def _tables(trace: TraceFiles) -> Iterator[pa.Table]:
    """The rows, one row group at a time."""
    for group in trace.groups():
        yield read_rows(trace, [group], schema.messages_schema().names)
