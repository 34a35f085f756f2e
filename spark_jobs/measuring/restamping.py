"""Makes stamps that a trace did not record from its table of events (`basestation.analysis.made_stamps`).

One scheme at a time runs over the whole trace, since a stamp may depend on any earlier event. Memory does not grow with
the run: a stamp may be received long after it was sent, so those of all messages are kept in scratch files. Only
stamps from a causal graph, and the papers' stamps, are made with the whole run in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.analysis import made_stamps as stamps_of
from basestation.analysis.made_stamps import Events, Numbers
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import Stream
from basestation.deployed import scheme_of, timed_scheme_of
from basestation.simulator import engine
from basestation.simulator.results import Observed
from basestation.simulator.scheme_run import stamp_rows
from basestation.traces.numbers import arrival_numbers
from basestation.traces.schema import KINDS, stamp_column
from basestation.traces.stamp_columns import read_stamps
from spark_jobs.storage import parquet
from spark_jobs.traces.field import rows_in, stream_as_heard
from spark_jobs.traces.trace_files import TraceFault, TraceFiles, located, read_rows, read_whole

Ints = NDArray[Any]
Groups = Sequence[tuple[int, int, int]]  # row groups, as `TraceFiles.groups` has them
BATCH = 1 << 18  # events at a time


@dataclass(frozen=True, slots=True)
class RestampTask:
    trace: TraceFiles
    scheme: TimedScheme
    path: Path


@dataclass(frozen=True, slots=True)
class Restamped:
    """Counts by motes and observer, as in a simulation."""

    sent: int
    bounded: int
    wrong_unwraps: int


def restamp(task: RestampTask) -> Restamped:
    """Write each arrival's stamp, as the observer would have read it, to a file with the trace's rows."""
    partial = task.path.with_name(f".{uuid4().hex}")  # another try of the same task may be writing too
    with _made(task.trace, task.scheme, task.path.parent) as (found, parts), ExitStack() as opened:
        writer = None
        for _, part in parts:
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
) -> Iterator[tuple[Restamped, Iterator[tuple[Groups, Observed]]]]:
    """The motes' counts, and the stamps as the observer reads them, row groups after row groups. Both are gone
    afterwards."""
    if trace.events is None or scheme.kernel is None:
        stream = stream_as_heard(trace)
        stamped = engine.stamp(stream, scheme)
        noticed = Restamped(stream.messages, stamped.bounded, stamped.wrong_unwraps)
        observed = engine.observe(stream, stamped, scheme)
        yield noticed, iter([(trace.groups(), _in_rows(observed, rows_in(trace), trace.rows))])
        return
    with TemporaryDirectory(dir=scratch) as place, located(trace.events):
        numbers = _numbers_in(trace)
        shapes = {"r": (np.int64, ()), "c": (np.int32, ()), "kn": (np.int32, (scheme.entries,))}
        r, c, kn = (
            _on_file(Path(place) / name, kind, (numbers.messages, *more))
            for name, (kind, more) in shapes.items()
        )
        bounded, wrong = stamps_of.stamp(_batches(trace), numbers, scheme, (r, c, kn)).tolist()
        noticed = Restamped(numbers.messages, bounded, wrong)
        yield noticed, _observed(trace, numbers, scheme, (r, c, kn))


def _in_rows(found: Observed, rows: Ints, count: int) -> Observed:
    """The stamps with a place for each of `count` rows. Rows without a stamp are never read."""
    if len(rows) == count:
        return found
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(len(rows))
    return replace(found, r=found.r[places], c=found.c[places], kn=found.kn[places])


def _observed(
    trace: TraceFiles, numbers: Numbers, scheme: TimedScheme, stamps: tuple[Ints, Ints, Ints]
) -> Iterator[tuple[Groups, Observed]]:
    for group in trace.groups():
        rows = read_rows(trace, [group], ["source", "heard", numbers.by])
        source, heard = (rows[name].to_numpy().astype(np.int64) for name in ("source", "heard"))
        messages = numbers.of(source, arrival_numbers(rows, numbers.by))
        yield [group], stamps_of.observe(messages, heard, scheme, stamps)


@lru_cache(maxsize=4)
def _numbers_in(trace: TraceFiles) -> Numbers:
    return stamps_of.numbers_of(_batches(trace), trace.motes)


def _batches(trace: TraceFiles) -> Iterator[Events]:
    assert trace.events is not None
    with parquet(trace.events, TraceFault) as file:
        yield from map(Events.of, file.iter_batches(BATCH))


def _on_file(path: Path, kind: Any, shape: tuple[int, ...]) -> Ints:
    if not np.prod(shape):
        return np.zeros(shape, kind)
    return np.asarray(np.memmap(path, kind, "w+", shape=shape))


def differing(trace: TraceFiles) -> int:
    """Count the recorded stamps that can't be reproduced. If there are any, events are missing.

    No event shows when a mote gained the time: while names depend on that, only the stamps' clock is compared.
    """
    if not trace.deployment.scheme.is_ordered:
        return _differs(trace, trace.groups(), _papers(trace), stream_as_heard(trace))
    with _made(trace, timed_scheme_of(trace.deployment), None) as (_, parts):
        return sum(_differs(trace, groups, _column(part)) for groups, part in parts)


def _differs(
    trace: TraceFiles,
    groups: Groups,
    made: pa.StructArray,
    stream: Stream | None = None,
) -> int:
    recorded = read_rows(trace, groups, ["stamp.r", "stamp.c", "stamp.kn", "in_sync", "boot"])
    settled = None
    if stream is not None:
        ticks = scheme_of(trace.deployment).settling
        in_sync, boot = (recorded[name].to_numpy() for name in ("in_sync", "boot"))
        settled = stamps_of.settled(stream, in_sync, boot, ticks)
    with located(trace.folder):
        return stamps_of.differing(made, recorded, trace.layout.stamp.entries, groups[0][0], settled)


def _papers(trace: TraceFiles) -> pa.StructArray:
    """The entries as they were on the wire. They name messages by the numbers that the motes gave them."""
    stream, told = stream_as_heard(trace), read_whole(trace, []).events
    if told is not None:  # a stream counts each mote's messages from 1, whatever number came first
        sends = told.filter(pc.equal(told["kind"], KINDS[0]))
        stream = replace(stream, sent_index=sends["sequence"].to_numpy() + 1)
    rows = stamp_rows(stream, trace.deployment)[stream.arrival_message]
    return read_stamps(rows, stream.read_at, trace.deployment)


def _column(observed: Observed) -> pa.StructArray:
    return stamp_column(observed.r, observed.c, observed.kn)
