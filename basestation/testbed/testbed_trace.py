"""Makes a trace of a testbed run: the log of a base station at its gateways, and the true events.

A station reads the gateways' lines; its decisions become a table as those of a journal. The truth comes from the flight
recorders: which sends led to each message, and every send and merged reception in its true order.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.causality.modular import nearest
from basestation.causality.truth import VectorTruth
from basestation.journal.projection import project
from basestation.journal.record_format import Record, RecordKind, Records, encode_record
from basestation.live.deciding import decisions_on
from basestation.live.station import Station
from basestation.traces.files import Trace
from basestation.traces.schema import KINDS, binary_column, events_schema
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder
from packet_formats.phrases import many

from .recorded_messages import MessageBook, Sent
from .scenario import ScenarioNetwork
from .truth_log import Event, RecordedEvent, Start, TruthError, Uart

TICKS = 1 << 16  # a recorder keeps 16 bits of a tick


def network_of(events: Sequence[Event], deployment: Deployment, gateways: int = 1) -> ScenarioNetwork:
    """The network of a log with only one network: its motes, then its gateways."""
    start = events[0] if events else None
    if not isinstance(start, Start):
        raise TruthError("not a log of the testbed: its first line is not a start event")
    motes = start.nodes - gateways
    if not 0 < motes <= deployment.network.motes:
        more = start.nodes - deployment.network.motes
        way_on = f": if it has {more} gateways, say --gateways {more}" if more > gateways else ""
        raise TruthError(
            f"{start.nodes} nodes, {gateways} of them gateways, do not fit {deployment.network.name}, "
            f"which has {deployment.network.motes} motes{way_on}"
        )
    network = ScenarioNetwork(deployment, tuple(range(motes)), tuple(range(motes, start.nodes)))
    _check_gateways(events, network, start.nodes)
    return network


def _check_gateways(events: Iterable[Event], network: ScenarioNetwork, nodes: int) -> None:
    """The log does not list gateways, but only gateways have a host, and they send no messages of their own."""
    talking = {event.node for event in events if isinstance(event, Uart)}
    sending = {event.node for event in events if isinstance(event, RecordedEvent) and event.kind == "send"}
    if talking - set(network.gateways) or sending & set(network.gateways):
        first = min(talking, default=nodes - 1)
        raise TruthError(
            f"{many(len(network.gateways), 'gateway')} of {nodes} nodes do not fit this log: node {first} is the first "
            f"that has a host; say --gateways {nodes - first}"
        )


def records_of(events: Iterable[Event], network: ScenarioNetwork) -> Records:
    """The gateways' packets as the records of a journal; both of the host's clocks are the true time."""
    decoders = {node: FrameDecoder() for node in network.gateways}
    raw: list[bytes] = []
    starts, size = [], 0
    for event in sorted((e for e in events if isinstance(e, Uart)), key=lambda uart: uart.t):
        if event.node not in decoders:
            continue
        for packet in decoders[event.node].feed(event.bytes):
            line = network.gateways.index(event.node)
            raw.append(encode_record(Record(len(raw), RecordKind.FRAME, line, event.t, event.t, packet)))
            starts.append(size)
            size += len(raw[-1])
    return Records.of(b"".join(raw), starts)


def trace_of(events: Sequence[Event], network: ScenarioNetwork, origin: str = "testbed") -> Trace:
    deployment = network.deployment
    recorded = sorted((e for e in events if isinstance(e, RecordedEvent)), key=lambda event: event.t)
    records = records_of(events, network)
    messages = project(records, deployment, decisions_on(records, Station(deployment))).messages
    book, table = _truth(recorded, network, _Ticks(messages))
    name = f"{deployment.to_toml()} {[(e.t, e.node, e.number) for e in recorded]}"
    return Trace(
        run=f"testbed-{hashlib.sha256(name.encode()).hexdigest()[:16]}",
        deployment=deployment,
        origin=origin,
        messages=_with_truth(messages, book, network),
        events=table,
    )


class _Ticks:
    """Unwraps ticks of flight recorders to the clock of a run's messages, whose upper bits hold the epoch."""

    def __init__(self, messages: pa.Table) -> None:
        synced = messages.filter(messages["in_sync"])
        self._times: list[int] = synced["mono_ns"].to_pylist()
        self._heard: list[int] = synced["heard"].to_pylist()

    def at(self, t: int, tick: int) -> int:
        """A recorded tick, as the nearest to when the last message before it was heard, or else the first one."""
        if not self._times:
            return tick
        return nearest(tick, self._heard[max(0, bisect_right(self._times, t) - 1)], TICKS)


def _truth(
    recorded: Iterable[RecordedEvent], network: ScenarioNetwork, ticks: _Ticks
) -> tuple[MessageBook, pa.Table]:
    """The messages with their causes, and the table of events. Sequences count from 0 in each boot, unwrapped;
    numbers count on over all boots.

    A mote without the network's time records its own, which is meaningless: its sends get the network's. Its stamps
    are cleared in the first epoch that it enters.
    """
    id_of = {node: mote for mote, node in enumerate(network.motes)}
    truth, book = VectorTruth(len(network.motes)), MessageBook()
    sequences: dict[int, int] = {}
    known: dict[tuple[int, int], int] = {}  # the sequence of each send, by source and index
    rows: list[tuple[int, int, int, int, int, int]] = []
    epochs: Counter[int] = Counter()  # since a mote's boot: the first is its own, unless it is the root
    clock: int | None = None
    for event in recorded:
        mote = id_of.get(event.node)
        if mote is None:
            continue
        if event.kind == "boot":
            sequences.pop(mote, None)
            epochs.pop(mote, None)
        elif event.kind == "epoch":
            epochs[mote] += 1
        if epochs[mote] > (mote != network.deployment.clock.root):
            clock = ticks.at(event.t, event.tick)
        tick = clock or 0
        if event.kind == "send":
            before = sequences.get(mote)
            sequence = event.sequence if before is None else before + (event.sequence - before) % 256
            sequences[mote] = sequence
            sent = Sent(truth.on_send(mote), event.t, 0, began=tick)
            book.add(event.sequence, sent)
            known[sent.send.source, sent.send.index] = sequence
            rows.append((0, mote, tick, mote, sequence, sent.send.index))
        elif event.kind == "receive":
            cause = book.find(event.peer, event.sequence, event.t)
            if cause is not None:
                truth.on_receive(mote, [cause.send])
                number = cause.send.index
                rows.append((1, mote, tick, event.peer, known[cause.send.source, number], number))
    return book, _events_table(rows)


def _events_table(rows: Sequence[tuple[int, int, int, int, int, int]]) -> pa.Table:
    """The table of events, from rows of (kind, mote, clock, source, sequence, number)."""
    kind, mote, clock, source, sequence, number = np.array(rows, np.int64).reshape(-1, 6).T
    columns = [
        pa.array(KINDS).take(pa.array(kind)),
        pa.array(np.ones(len(rows), np.bool_)),
        pa.array(mote, pa.int32()),
        pa.array(clock),
        pa.array(source, pa.int32()),
        pa.array(sequence),
        pa.array(number),
    ]
    return pa.Table.from_arrays(columns, schema=events_schema())


def _with_truth(messages: pa.Table, book: MessageBook, network: ScenarioNetwork) -> pa.Table:
    columns = (messages[name].to_pylist() for name in ("source", "sequence", "mono_ns", "heard"))
    motes = network.deployment.network.motes
    vectors = np.zeros((len(messages), motes), "<i4")
    sent_at: list[int | None] = []
    numbers: list[int | None] = []
    for row, (source, sequence, t, heard) in enumerate(zip(*columns, strict=True)):
        sent = book.find(source, sequence % 256, t)
        sent_at.append(None if sent is None else nearest(sent.began, heard, TICKS))
        numbers.append(None if sent is None else sent.send.index)
        if sent is not None:
            vectors[row, : len(network.motes)] = sent.send.vector
    found = np.array([at is not None for at in sent_at], np.bool_)
    schema = messages.schema
    truth = {"sent": pa.array(sent_at, pa.int64()), "number": pa.array(numbers, pa.int64())}
    truth["vector"] = _where(found, binary_column(vectors))
    for name, column in truth.items():
        messages = messages.set_column(schema.get_field_index(name), schema.field(name), column)
    return messages


def _where(known: NDArray[np.bool_], column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pa.array(known), column, pa.scalar(None, column.type))
