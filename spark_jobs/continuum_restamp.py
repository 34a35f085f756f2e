"""Stamps that a trace did not record, made from what its motes did: as exact as its table of events is complete.

One scheme at a time over the whole run, since a stamp may depend on any event before it. Simulators and testbeds alone
know the events, so such runs fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.causality.stamps import Scheme
from basestation.deployed import scheme_of
from basestation.simulator import fast
from basestation.simulator.results import Observed
from basestation.simulator.stream import SEND, Stream
from basestation.simulator.trace import stream_of
from basestation.traces.files import Trace, write_table
from spark_jobs.segments_files import TraceFault, TraceFiles

TAKEN = ["source", "sequence", "heard", "batch", "fresh"]


@dataclass(frozen=True, slots=True)
class RestampTask:
    trace: TraceFiles
    scheme: Scheme
    path: Path


@dataclass(frozen=True, slots=True)
class Restamped:
    """What the motes and the observer noticed meanwhile, as in a simulation."""

    sent: int
    bounded: int
    wrong_unwraps: int


def restamp(task: RestampTask) -> Restamped:
    """Write each arrival's stamp, as the observer would have read it, to a file with the trace's rows."""
    stream = _stream(task.trace)
    stamped = fast.stamp(stream, task.scheme)
    observed = fast.observe(stream, stamped, task.scheme)
    write_table(_table(observed), task.path)
    return Restamped(
        sent=stream.messages,
        bounded=stamped.bounded + observed.bounded,
        wrong_unwraps=stamped.wrong_unwraps + observed.wrong_unwraps,
    )


def differing(trace: TraceFiles) -> int:
    """How many of the recorded stamps do not come out again. If any, the events are not all that happened."""
    scheme, stream = scheme_of(trace.deployment), _stream(trace)
    made = _table(fast.observe(stream, fast.stamp(stream, scheme), scheme))
    recorded = pa.concat_tables(pq.read_table(part.path, columns=made.column_names) for part in trace.parts)
    same = np.ones(len(made), np.bool_)
    for name in made.column_names:
        same &= made[name].to_numpy() == recorded[name].to_numpy()
    return int((~same).sum())


def _table(observed: Observed) -> pa.Table:
    columns = {"r": pa.array(observed.r), "c": pa.array(observed.c, pa.uint16())}
    columns |= {f"kn{i}": pa.array(observed.kn[:, i], pa.uint16()) for i in range(observed.kn.shape[1])}
    return pa.table(columns)


@lru_cache(maxsize=1)
def _stream(trace: TraceFiles) -> Stream:
    """A worker stamps one trace by several schemes, and reads it once."""
    if trace.events is None:
        raise TraceFault(f"{trace.folder}: there are no events to make stamps from")
    messages = pa.concat_tables(pq.read_table(part.path, columns=TAKEN) for part in trace.parts)
    events = pq.read_table(trace.events)
    first = _first_sends(trace, events)
    events, messages = _from_zero(events, first), _from_zero(messages, first)
    try:
        stream, _ = stream_of(Trace(trace.run, trace.deployment, trace.origin, messages, events))
    except IndexError:
        raise TraceFault(f"{trace.events}: a message was received that nobody sent") from None
    if (stream.arrival_message < 0).any() or (stream.event_message < 0).any():
        raise TraceFault(f"{trace.events}: a message was received that nobody sent")
    if (stream.event_kind == SEND).sum() != stream.messages:
        raise TraceFault(f"{trace.events}: sends and messages do not agree")
    return stream


def _first_sends(trace: TraceFiles, events: pa.Table) -> NDArray[np.int64]:
    """Each mote's first number. Messages are told apart by mote and number, so its sends must count on from there."""
    sends = events["kind"].to_numpy() == "send"
    mote, sequence = events["mote"].to_numpy()[sends], events["sequence"].to_numpy()[sends]
    if len(mote) and mote.max() >= trace.motes:
        raise TraceFault(f"{trace.events}: mote {mote.max()}, but the deployment has {trace.motes} motes")
    first = np.zeros(trace.motes, np.int64)
    for one in range(trace.motes):
        mine = sequence[mote == one]
        if len(mine) and not np.array_equal(mine, np.arange(mine[0], mine[0] + len(mine))):
            raise TraceFault(f"{trace.events}: the sends of mote {one} are not numbered one after the other")
        first[one] = mine[0] if len(mine) else 0
    return first


def _from_zero(table: pa.Table, first: NDArray[np.int64]) -> pa.Table:
    """Numbers as they would be if every mote had begun with 0."""
    place = table.schema.get_field_index("sequence")
    sequence = table["sequence"].to_numpy() - first[table["source"].to_numpy()]
    return table.set_column(place, table.schema.field(place), pa.array(sequence, pa.int64()))
