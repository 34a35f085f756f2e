"""Turns a simulated run into a trace: the bytes on the wire, and the true events."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.causality.schemes import Scheme
from basestation.causality.stream import CORRUPT, MERGE, RECEIVE, SEND, Int32, Int64, Stream
from basestation.deployed import timed_scheme_of
from basestation.traces.files import Trace, TraceError
from basestation.traces.numbers import arrival_numbers, not_in_a_row, numbered_by
from basestation.traces.schema import (
    KINDS,
    binary_column,
    events_schema,
    messages_table,
    payload_column,
    stamp_column,
    values_column,
)
from basestation.traces.stamp_columns import read_stamps
from packet_formats import bulk
from packet_formats.boards import DEFAULT_BOARD
from packet_formats.deployment import Deployment, DeploymentError, from_dict
from packet_formats.layout import DataLayout, layout_of
from packet_formats.schemes import PHI_POLICIES, descriptor

from . import engine
from .options import OptionError, WorldOptions
from .scheme_run import stamp_rows
from .simulation import SimulatedRun

TICK_LOG2 = 7  # the paper's ticks have no length; 3.9 ms lets its numbers fit a MICAz network


def deployment_for(
    options: WorldOptions, scheme: Scheme, policy: str, phi: int, tolerate: float | None = None
) -> Deployment:
    """The deployment whose motes would send these stamps. A policy that cannot read them is replaced by the default."""
    setting, row = scheme.setting, descriptor(scheme.name)
    clock: dict[str, Any] = {"tick_log2": TICK_LOG2, "epsilon": options.epsilon, "delta": options.delta}
    if setting.modulus:
        clock["clock_bits"] = (setting.modulus - 1).bit_length()
        if setting.modulus != 1 << clock["clock_bits"]:
            reason = "a trace holds what the wire carries, where B is a power of two"
            raise OptionError("modulus", setting.modulus, reason)
    stamp: dict[str, Any] = {"scheme": scheme.name, "events_per_tick": options.events_per_tick}
    widths = {"entries": setting.entries, "count": setting.count, "carry": setting.carry}
    widths |= {"counter_bits": setting.entry_max.bit_length()}
    stamp |= {key: value for key, value in widths.items() if key in row.settings}
    network = {
        "name": "simulation",
        "board": DEFAULT_BOARD.name,
        "motes": options.motes,
        "hops": max(options.network.hops),
        "gateways": options.gateways,
    }
    observer: dict[str, Any] = {"policy": policy if policy in row.policies else row.policy}
    observer |= {} if tolerate is None else {"tolerate": tolerate}
    observer |= {"phi": phi} if observer["policy"] in PHI_POLICIES else {}
    try:
        return from_dict({"network": network, "clock": clock, "stamp": stamp, "observer": observer})
    except DeploymentError as error:
        raise OptionError(error.key, error.value, error.reason) from None


def trace_of(run: SimulatedRun, deployment: Deployment) -> Trace:
    """Stamp the run as the deployment's motes would, and lay it out as tables."""
    layout = layout_of(deployment)
    stamped, stamps = _ours(run, deployment) if deployment.scheme.is_ordered else _papers(run, deployment)
    message = run.stream.arrival_message
    rows = wire_rows(stamped[message], run.stream.sent_by[message], run.stream.sent_index[message], message)
    payload = bulk.encode_data(rows, layout)
    name = f"{run.options} {deployment.to_toml()}"
    return Trace(
        run=f"sim-{hashlib.sha256(name.encode()).hexdigest()[:16]}",
        deployment=deployment,
        origin=f"simulator, seed {run.options.seed}",
        messages=_messages(run, rows, stamps, payload, deployment, layout),
        events=_events(run.stream),
    )


def _ours(run: SimulatedRun, deployment: Deployment) -> tuple[NDArray[np.void], pa.StructArray]:
    """The stamp fields of all sent messages, and those that the observer reads in each arrival."""
    scheme = timed_scheme_of(deployment)
    stamped = engine.stamp(run.stream, scheme, run.fault)
    observed = engine.observe(run.stream, stamped, scheme)
    rows = np.zeros(run.stream.messages, bulk.data_dtype(layout_of(deployment)))
    rows["clock"] = stamped.r % scheme.modulus
    rows["c"] = stamped.c
    rows["entries"] = stamped.kn
    rows["saturated"] = (stamped.kn == scheme.entry_max).any(axis=1)
    return rows, stamp_column(observed.r, observed.c, observed.kn)


def _papers(run: SimulatedRun, deployment: Deployment) -> tuple[NDArray[np.void], pa.StructArray]:
    """The same for the papers' schemes, whose entries stay as they are on the wire."""
    if run.fault is not None:
        raise OptionError("corrupt", deployment.stamp.scheme, "faults are for Causeway's own stamps")
    stream = run.stream
    rows = stamp_rows(stream, deployment)
    return rows, read_stamps(rows[stream.arrival_message], stream.read_at, deployment)


def wire_rows(
    rows: NDArray[np.void], source: NDArray[Any], index: NDArray[Any], message: Int64
) -> NDArray[np.void]:
    """Each arrival's fields as its sender packed them: adds to the stamps in `rows` the other fields. The application
    data is the message's number."""
    rows["source"] = source
    rows["sequence"] = (index - 1) % 256
    rows["in_sync"] = True
    rows["receipt_source"] = rows["source"][:, None]
    rows["receipt_sequence"] = rows["sequence"][:, None]
    number = message.astype(np.uint32).view(np.uint8).reshape(-1, 4)
    rows["data"][:, :4] = number[:, : rows["data"].shape[1]]
    return rows


def _messages(
    run: SimulatedRun,
    rows: NDArray[np.void],
    stamps: pa.StructArray,
    payload: NDArray[np.uint8],
    deployment: Deployment,
    layout: DataLayout,
) -> pa.Table:
    stream = run.stream
    message, count = stream.arrival_message, stream.arrivals
    index = stream.sent_index[message].astype(np.int64)
    columns: dict[str, Any] = {
        "source": stream.sent_by[message],
        "boot": np.zeros(count, np.int32),
        "sequence": index - 1,
        "number": index,
        "am_type": np.full(count, layout.am_type),
        "payload": payload_column(payload, bulk.data_lengths(rows, layout)),
        "heard_time": (stream.read_at << deployment.clock.tick_log2).astype(np.uint32),  # it wraps
        "heard": stream.read_at,
        "batch": stream.arrival_batch,
        "fresh": stream.arrival_fresh.astype(np.bool_),
        "gateway": np.full(count, deployment.network.motes),
        "in_sync": np.ones(count, np.bool_),
        "saturated": (payload[:, layout.flags_at] & bulk.FLAG_SATURATED).astype(np.bool_),
        "values": values_column(rows["data"], layout),
        "stamp": stamps,
        "sent": stream.sent_at[message],
        "vector": binary_column(run.vectors[message].astype("<i4")),
    }
    if stream.arrival_gateway is not None:
        columns |= {"clock": stream.arrival_clock, "gateway": columns["gateway"] + stream.arrival_gateway}
    return messages_table(columns, count)


def _events(stream: Stream) -> pa.Table:
    real = stream.event_kind != CORRUPT
    kind = stream.event_kind[real]
    message = stream.event_message[real]
    arrays = [
        pa.array(KINDS).take(pa.array((kind != SEND).astype(np.int8))),
        pa.array(kind != MERGE),
        pa.array(stream.event_mote[real]),
        pa.array(stream.event_clock[real]),
        pa.array(stream.sent_by[message]),
        pa.array(stream.sent_index[message].astype(np.int64) - 1),
        pa.array(stream.sent_index[message].astype(np.int64)),
    ]
    return pa.Table.from_arrays(arrays, schema=events_schema())


def stream_of(trace: Trace) -> tuple[Stream, Int32]:
    """The stream of a trace with events, and the vector clocks of all sent messages.

    A mote may begin with any number. `TraceError` if the events contradict themselves.
    """
    if trace.events is None:
        raise TraceError(f"run {trace.run} holds no events of the motes, only what its observer received")
    motes = trace.deployment.network.motes
    sends = pc.equal(trace.events["kind"], KINDS[0]).to_numpy()
    mote, clock = _integers(trace.events, "mote"), _column(trace.events, "clock")
    by = numbered_by(trace.events)
    numbers = _integers(trace.events, by)
    if (mote >= motes).any():
        raise TraceError(f"mote {mote.max()}, but the deployment has {motes} motes")
    first = _first_numbers(mote[sends], numbers[sends], motes, by)
    sent_by = mote[sends].astype(np.int32)
    sent_index = (numbers[sends] - first[sent_by] + 1).astype(np.int32)
    number = _numbering(sent_by, sent_index, first, motes)
    message = number(_integers(trace.events, "source"), numbers)
    _check_causes(sends, message)
    kind = np.where(sends, SEND, np.where(_column(trace.events, "ends"), RECEIVE, MERGE))
    stream = Stream(
        motes=motes,
        sent_by=sent_by,
        sent_index=sent_index,
        sent_at=clock[sends],
        event_kind=kind.astype(np.int8),
        event_mote=mote.astype(np.int32),
        event_clock=clock,
        event_message=message,
        arrival_message=number(_integers(trace.messages, "source"), arrival_numbers(trace.messages, by)),
        arrival_clock=_column(trace.messages, "heard"),
        arrival_batch=_column(trace.messages, "batch"),
        arrival_fresh=_column(trace.messages, "fresh").astype(np.int8),
    )
    return stream, engine.vector_clocks(stream)


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def _integers(table: pa.Table, name: str) -> Int64:
    return _column(table, name).astype(np.int64)


def _first_numbers(mote: Int64, numbers: Int64, motes: int, by: str) -> Int64:
    """Each mote's first number. Mote and number identify a message, so the sends must count on from there."""
    first = np.zeros(motes, np.int64)
    for one in range(motes):
        mine = numbers[mote == one]
        if len(mine) and not np.array_equal(mine, np.arange(mine[0], mine[0] + len(mine))):
            raise not_in_a_row(one, by)
        first[one] = mine[0] if len(mine) else 0
    return first


def _check_causes(sends: NDArray[np.bool_], message: Int64) -> None:
    so_far = np.cumsum(sends)
    if not np.array_equal(message[sends], so_far[sends] - 1):
        raise TraceError("a mote sent in the name of another")
    if (message >= so_far).any():
        raise TraceError("a message was received before it was sent")


def _numbering(sent_by: Int32, sent_index: Int32, first: Int64, motes: int) -> Any:
    """Make a function from a mote and its number of a message to that message's place in the order of all sends."""
    per_mote = np.bincount(sent_by, minlength=motes)
    row = np.concatenate(([0], np.cumsum(per_mote)))
    table: Int64 = np.zeros(row[-1], np.int64)
    table[row[sent_by] + sent_index - 1] = np.arange(len(sent_by))

    def number(mote: Int64, numbers: Int64) -> Int64:
        if (mote >= motes).any():
            raise TraceError(f"mote {mote.max()}, but the deployment has {motes} motes")
        place = numbers - first[mote]
        if ((place < 0) | (place >= per_mote[mote])).any():
            raise TraceError("a message was received that nobody sent")
        found: Int64 = table[row[mote] + place]
        return found

    return number
