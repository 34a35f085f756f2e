"""Computes stamps that a trace did not record from its table of events. They are exact if that table is complete.

One scheme at a time runs over the whole trace, since a stamp may depend on any earlier event, batch by batch
(`events.py`). Only the events of a causal graph, and the papers' stamps, are made with the whole run in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import Stream
from basestation.comparing.field_run import field_stream
from basestation.comparing.recorded_run import FIELD_COLUMNS
from basestation.deployed import scheme_of, timed_scheme_of
from basestation.simulator import engine_numba
from basestation.simulator.results import Observed
from basestation.simulator.scheme_run import stamp_rows
from basestation.simulator.simulated_trace import stream_of
from basestation.traces.files import TraceError
from basestation.traces.schema import KINDS, LATER, UnevenRow, matrix_of, stamp_column
from basestation.traces.stamp_columns import read_stamps
from spark_jobs.measuring import events
from spark_jobs.traces.field import causes_in
from spark_jobs.traces.files import TraceFault, TraceFiles, read_rows, read_whole

TAKEN = ["source", "sequence", "heard", "batch", "fresh"]


@dataclass(frozen=True, slots=True)
class RestampTask:
    trace: TraceFiles
    scheme: TimedScheme
    path: Path


@dataclass(frozen=True, slots=True)
class Restamped:
    """The counts of what motes and observer noticed, as in a simulation."""

    sent: int
    bounded: int
    wrong_unwraps: int


def restamp(task: RestampTask) -> Restamped:
    """Write each arrival's stamp, as the observer would have read it, to a file with the trace's rows."""
    partial = task.path.with_name(f".{uuid4().hex}")  # another try of the same task may be writing too
    with _made(task.trace, task.scheme, task.path.parent) as (found, parts), ExitStack() as opened:
        writer = None
        for part in parts:
            table = pa.table({"stamp": _column(part)})
            if writer is None:
                writer = opened.enter_context(pq.ParquetWriter(partial, table.schema, compression="zstd"))
            writer.write_table(table)
            noticed = found.bounded + part.bounded, found.wrong_unwraps + part.wrong_unwraps
            found = Restamped(found.sent, *noticed)
    partial.replace(task.path)
    return found


@contextmanager
def _made(
    trace: TraceFiles, scheme: TimedScheme, scratch: Path | None
) -> Iterator[tuple[Restamped, Iterator[Observed]]]:
    """What the motes noticed, and the stamps as the observer reads them, in the order of the rows, part by part."""
    if trace.events is not None and scheme.kernel is not None:
        with events.stamped(trace, scheme, scratch) as made:
            noticed = Restamped(events.numbers_in(trace).messages, made.bounded, made.wrong_unwraps)
            yield noticed, events.observed(trace, made, scheme)
        return
    stream = _stream(trace)
    stamped = engine_numba.stamp(stream, scheme)
    noticed = Restamped(stream.messages, stamped.bounded, stamped.wrong_unwraps)
    yield noticed, iter([engine_numba.observe(stream, stamped, scheme)])


def differing(trace: TraceFiles) -> int:
    """Count the recorded stamps that can't be reproduced. If there are any, events are missing.

    A mote out of sync has a clock of its own that no event shows; its messages are not ordered. No event shows either
    when a mote gained the time: while names depend on that, the stamps' clock alone is compared.
    """
    if not trace.deployment.scheme.is_ordered:
        stream = _stream(trace)
        return _differs(trace, trace.groups(), _papers(trace, stream), stream)
    with _made(trace, timed_scheme_of(trace.deployment), None) as (_, parts):
        wrong, groups = 0, iter(trace.groups())
        for part in parts:
            mine = [next(groups)]
            while sum(trace.parts[p].groups[g] for _, p, g in mine) < len(part.r):
                mine.append(next(groups))
            wrong += _differs(trace, mine, _column(part))
        return wrong


def _differs(
    trace: TraceFiles,
    groups: Sequence[tuple[int, int, int]],
    made: pa.StructArray,
    stream: Stream | None = None,
) -> int:
    recorded = read_rows(trace, groups, ["stamp.r", "stamp.c", "stamp.kn", "in_sync"])
    wrong = np.zeros(len(made), np.bool_)
    for name in ("r", "c"):
        wrong |= made.field(name).to_numpy() != recorded[f"stamp.{name}"].to_numpy()
    entries = trace.layout.stamp.entries
    try:
        kn = matrix_of(recorded["stamp.kn"], entries)
    except UnevenRow as fault:
        row = groups[0][0] + fault.row
        raise TraceFault(f"{trace.folder}: row {row}: entries of its stamp: {fault}") from None
    in_sync = recorded["in_sync"].to_numpy()
    unlike = (matrix_of(pa.chunked_array([made.field("kn")]), entries) != kn).any(axis=1)
    if stream is not None:
        unlike &= _settled(stream, in_sync, scheme_of(trace.deployment).settling)
    return int(((wrong | unlike) & in_sync).sum())


def _settled(stream: Stream, in_sync: NDArray[np.bool_], ticks: int) -> NDArray[np.bool_]:
    """Which arrivals were sent when no mote had gained the time in the last `ticks`, so far as arrivals tell."""
    at, source = stream.sent_at[stream.arrival_message], stream.sent_by[stream.arrival_message]
    settled = np.ones(len(at), np.bool_)
    for mote in range(stream.motes if ticks else 0):
        since = stream.sent_at[stream.sent_by == mote].min(initial=at.max(initial=0))
        was = False
        for row in sorted(np.flatnonzero(source == mote), key=stream.arrival_message.__getitem__):
            if in_sync[row] and not was:
                settled &= (at < since) | (at > at[row] + ticks)
            since, was = at[row], in_sync[row]
    return settled


def _papers(trace: TraceFiles, stream: Stream) -> pa.StructArray:
    """The entries as they were on the wire. They name messages by the numbers that the motes gave them."""
    told = read_whole(trace, []).events
    if told is not None:  # a stream counts each mote's messages from 1, whatever number came first
        sends = told.filter(pc.equal(told["kind"], KINDS[0]))
        stream = replace(stream, sent_index=sends["sequence"].to_numpy() + 1)
    rows = stamp_rows(stream, trace.deployment)[stream.arrival_message]
    return read_stamps(rows, stream.arrival_clock, trace.deployment)


def _column(observed: Observed) -> pa.StructArray:
    return stamp_column(observed.r, observed.c, observed.kn)


@lru_cache(maxsize=1)
def _stream(trace: TraceFiles) -> Stream:
    """The stream of a trace. A worker stamps it by several schemes, and reads it once."""
    try:
        if trace.events is None:
            return field_stream(causes_in(read_whole(trace, [*FIELD_COLUMNS, LATER])))[0]
        stream, _ = stream_of(read_whole(trace, TAKEN))
    except TraceError as error:
        raise TraceFault(f"{trace.events or trace.folder}: {error}") from None
    return stream
