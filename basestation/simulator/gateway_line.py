"""A simulated run as bytes on the gateway's serial line: a heard record before each data frame.

With the deployment's key, the frames have the MICs of its motes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, starmap
from typing import NamedTuple

import numpy as np

from basestation.deployed import scheme_of
from basestation.traces.files import Trace
from packet_formats import bulk
from packet_formats.deployment import Deployment
from packet_formats.framing import crc16, encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Heard
from packet_formats.seal import Seal
from packet_formats.tinyos import BROADCAST, ActiveMessage, encode_packet

from . import engine
from .options import WorldOptions
from .scheme_run import StampingMotes, pack_stamps
from .simulated_trace import wire_rows


class HeardMessage(NamedTuple):
    """A frame that a gateway heard: its batch, its tick, the network's time, and its bytes."""

    batch: int
    tick: int
    time: int
    payload: bytes


def serial_line(trace: Trace) -> Iterator[tuple[int, bytes]]:
    """The pairs (tick, bytes on the line in that tick), one for each batch that the observer took in."""
    columns = [
        trace.messages[name].to_numpy(zero_copy_only=False).tolist()
        for name in ("batch", "heard", "heard_time")
    ]
    rows = zip(*columns, trace.messages["payload"].to_pylist(), strict=True)
    return line_of(starmap(HeardMessage, rows), trace.deployment)


def simulated_line(options: WorldOptions, deployment: Deployment) -> Iterator[tuple[int, bytes]]:
    """The same for a run that is simulated step by step."""
    return line_of(_simulated(options, deployment), deployment)


def _simulated(options: WorldOptions, deployment: Deployment) -> Iterator[HeardMessage]:
    layout, tick_log2 = layout_of(deployment), deployment.clock.tick_log2
    motes = StampingMotes(scheme_of(deployment), options.motes)
    for events, arrivals in engine.parts(options):
        motes.take(events.tolist())
        messages = [motes.sent[number] for number in arrivals[:, 0].tolist()]
        source, index = np.array([[one.source, one.sequence] for one in messages], np.int64).reshape(-1, 2).T
        rows = wire_rows(pack_stamps(messages, deployment), source, index, arrivals[:, 0].copy())
        payloads, lengths = bulk.encode_data(rows, layout), bulk.data_lengths(rows, layout)
        for (_, clock, batch, *_), payload, length in zip(arrivals.tolist(), payloads, lengths, strict=True):
            yield HeardMessage(batch, clock, (clock << tick_log2) % 2**32, payload[:length].tobytes())
        motes.forget(options.most_under_way)


def line_of(messages: Iterable[HeardMessage], deployment: Deployment) -> Iterator[tuple[int, bytes]]:
    """The pairs (tick, bytes on the line in that tick), one for each batch."""
    layout = layout_of(deployment)
    seal = Seal(deployment.key, layout) if deployment.key is not None else None
    gateway = deployment.network.motes
    records = 0
    for (_, tick), batch in groupby(messages, key=lambda message: (message.batch, message.tick)):
        line = b""
        for *_, time, payload in batch:
            payload = payload if seal is None else _sealed(payload, seal, time)
            record = Heard(
                gateway, 0, records % 256, 0, flags=3, rssi=-60, lqi=100, check=crc16(payload), time=time
            )
            records += 1
            source = gateway if layout.tinyos == 2 else None
            data = ActiveMessage(layout.tinyos, BROADCAST, layout.group, layout.am_type, payload, source)
            for message in (encode_message(record, layout), data):
                line += encode_frame(encode_packet(message))
        yield tick, line


def _sealed(payload: bytes, seal: Seal, time: int) -> bytes:
    """The payload with its MIC; `time` is when it was heard, close enough to when it was sent."""
    layout = seal.layout
    source = 0 if layout.tinyos == 2 else None
    data = decode_message(
        ActiveMessage(layout.tinyos, BROADCAST, layout.group, layout.am_type, payload, source), layout
    )
    assert isinstance(data, Data)
    return seal.sealed_data(data, 0, time).data
