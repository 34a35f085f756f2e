"""Compares schemes on a recorded run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from basestation.causality.stream import Int32, Int64, Stream
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.simulated_trace import stream_of
from basestation.traces.files import Trace, TraceError
from basestation.traces.schema import matrix_of
from packet_formats.deployment import Deployment

from .catalogue import Terms
from .comparison import ComparisonRow, KnownStream, SweepPoint, measure
from .field_run import field_stream

# The columns of a message that a comparison reads.
COLUMNS = ("source", "sequence", "number", "heard", "clock", "batch", "fresh", "vector")
FIELD_COLUMNS = (*COLUMNS, "payload", "in_sync", "stamp", "heard_time")  # for a log without events


def ways_to_order(trace: Trace, ours: str, papers: str) -> dict[str, ComparisonRow]:
    """The same run in order of arrival, by a paper's stamp, by ours, and by the paper's with about the hold of ours."""
    place, recorded = place_in(trace.deployment), [recorded_in(trace)]
    arrival, paper, own = (measure(place, recorded, name, Terms()) for name in ("none", papers, ours))
    phi = int(100 * own.hold_mean / max(paper.hold_mean, 1e-9))
    hasty = measure(place, recorded, papers, Terms(phi=min(phi, 100)))
    return {"arrival": arrival, papers: paper, f"{papers}, {phi}% of the wait": hasty, ours: own}


def place_in(deployment: Deployment) -> SweepPoint:
    network, clock = deployment.network, deployment.clock
    return SweepPoint(network.motes, clock.epsilon, clock.delta, rate=None, loss=None)


def options_in(deployment: Deployment, messages: int) -> WorldOptions:
    """The options of a network like this one, from which the widths of stamps follow."""
    try:
        return WorldOptions(
            motes=deployment.network.motes,
            epsilon=deployment.clock.epsilon,
            delta=deployment.clock.delta,
            events_per_tick=deployment.stamp.events_per_tick,
            messages=max(messages, 1),
        )
    except OptionError as error:
        raise TraceError(f"schemes cannot be compared on its network: {error}") from None


def recorded_in(trace: Trace) -> KnownStream:
    """The stream of a trace; `TraceError` if its events are incomplete, since the result would be wrong.

    A field log has no events. Its stream is made from its causal graph.
    """
    if trace.events is None:
        made, sure, most = field_stream(trace)
        _check_arrivals(made)
        unknown = trace.messages["vector"].null_count
        return KnownStream(made, sure, options_in(trace.deployment, made.messages), most, unknown)
    stream, vectors = stream_of(trace)
    stream = replace(stream, arrival_clock=_clock(trace.messages), arrival_heard=stream.arrival_clock)
    _check_arrivals(stream)
    _check_truth(trace, vectors[stream.arrival_message])
    return KnownStream(stream, vectors, options_in(trace.deployment, stream.messages))


def _clock(messages: pa.Table) -> Int64:
    """The observer's clock at each arrival; where it was not recorded, the tick when the message was heard."""
    noted, heard = messages["clock"], messages["heard"].to_numpy()
    clock: Int64 = np.where(noted.is_null().to_numpy(), heard, noted.fill_null(0).to_numpy())
    return clock


def _check_arrivals(stream: Stream) -> None:
    clock, batch = stream.arrival_clock, stream.arrival_batch
    if len(np.unique(stream.arrival_message)) < stream.arrivals:
        raise TraceError("some messages appear twice")
    if (np.diff(clock) < 0).any():
        raise TraceError("the observer's clock runs backwards")
    if ((np.diff(batch) < 0) | (np.diff(batch) == 0) & (np.diff(clock) != 0)).any():
        raise TraceError("batches are not in order, or one spans several ticks")


def _check_truth(trace: Trace, made: Int32) -> None:
    """Check that the events give each message the same causes as its recorded vector clock."""
    column = trace.messages["vector"]
    told = np.flatnonzero(column.is_valid().to_numpy())
    if not len(told):
        return
    wrong = int((matrix_of(column, made.shape[1]) != made)[told].any(axis=1).sum())
    if wrong:
        raise TraceError(
            f"the events do not explain the vector clocks of {wrong} of {len(made)} messages: some events are missing"
        )
