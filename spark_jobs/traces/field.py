"""The causal graph of a field log (docs/guide/analysis.md), and runs as streams, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.causality.stream import Stream
from basestation.comparing.comparison import KnownStream
from basestation.comparing.field_run import field_stream
from basestation.comparing.recorded_run import COLUMNS, FIELD_COLUMNS, recorded_in
from basestation.journal.field_truth import with_field_truth
from basestation.simulator.simulated_trace import stream_of
from basestation.traces import schema
from basestation.traces.files import Trace, encodings
from basestation.traces.footers import Footer
from basestation.traces.schema import LATER
from spark_jobs.storage import Place, parquet, write_whole
from spark_jobs.tables.stored import CAUSES, part_name
from spark_jobs.traces.trace_files import (
    GRAPH,
    PartFile,
    TraceFault,
    TraceFiles,
    located,
    read_rows,
    read_whole,
)


def with_causes(trace: TraceFiles, scratch: Path) -> TraceFiles:
    """The trace, with its causal graph if it has no vectors of its own. The graph of a run in the tables of `ingest` is
    made once, and kept in their table `causes`; that of another trace is made in `scratch`."""
    if trace.causes is not None or not trace.rows or trace.without_causes < trace.rows:
        return trace
    path = None if trace.kept is None else trace.kept / part_name(0)
    if path is None or not path.exists():
        path = _made(trace, path, scratch)
    with parquet(path, TraceFault) as file:
        footer = Footer(file.metadata, lambda column: 0)
    if sum(footer.groups) != trace.rows:
        raise TraceFault(
            f"{path}: {sum(footer.groups)} rows, and the run has {trace.rows}; ingest --again removes it"
        )
    return replace(
        trace,
        causes=PartFile(path, footer.groups),
        without_causes=footer.nulls("vector"),
        unsure=footer.told(LATER),
        is_field=True,
    )


def _made(trace: TraceFiles, path: Place | None, scratch: Path) -> Place:
    """Make the graph, and keep it at the path; in `scratch` without a path, or if the path can't be written."""
    made = scratch / CAUSES / f"{trace.run.replace('/', '_')}.parquet"
    made.parent.mkdir(parents=True, exist_ok=True)
    wanted = pa.schema([field for field in schema.messages_schema() if field.name in ("batch", *GRAPH)])
    wanted = wanted.with_metadata(schema.metadata(trace.run, trace.deployment, trace.origin))
    with pq.ParquetWriter(made, wanted, **encodings(wanted)) as writer:
        for table in with_field_truth(_tables(trace), trace.deployment):
            writer.write_table(table.select(wanted.names).cast(wanted), max(len(table), 1))
    if path is None:
        return made
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, made.read_bytes())
    except OSError:  # tables that this user may only read
        return made
    return path


def _tables(trace: TraceFiles) -> Iterator[pa.Table]:
    """The rows, one row group at a time."""
    for group in trace.groups():
        yield read_rows(trace, [group], schema.messages_schema().names)


@lru_cache(maxsize=1)
def known_stream(trace: TraceFiles) -> KnownStream:
    """A whole run as a stream. A worker plays several schemes on it, and reads it once."""
    with located(trace.folder):
        return recorded_in(read_whole(trace, list(COLUMNS)) if trace.events else _with_graph(trace))


@lru_cache(maxsize=1)
def stream_as_heard(trace: TraceFiles) -> Stream:
    """A whole run as a stream to stamp again: with the times at which messages were heard, without vectors."""
    with located(trace.events or trace.folder):
        if trace.events is None:
            return field_stream(_with_graph(trace))[0]
        return stream_of(read_whole(trace, ["source", "sequence", "number", "heard", "batch", "fresh"]))[0]


def rows_in(trace: TraceFiles) -> NDArray[np.int64]:
    """The rows of a trace that are the arrivals of its stream. One made from the causal graph lacks messages of which
    the causes are unknown."""
    if trace.events is not None or not trace.without_causes:
        return np.arange(trace.rows)
    told = (table["vector"].is_valid().to_numpy() for table in trace.tables(["vector"]))
    return np.flatnonzero(np.concatenate(list(told)))


def _with_graph(trace: TraceFiles) -> Trace:
    """A run without events, in memory, with the vectors of its causal graph."""
    found = read_whole(trace, [*FIELD_COLUMNS, LATER])
    return replace(found, messages=pa.concat_tables(with_field_truth([found.messages], found.deployment)))
