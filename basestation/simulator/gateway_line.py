"""A simulated run as bytes on the gateway's serial line: a heard record before each data frame.

If the deployment's key is at hand, the frames have MICs as its motes would make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from basestation.traces.files import Trace
from packet_formats.framing import crc16, encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Heard
from packet_formats.seal import Seal
from packet_formats.tinyos import BROADCAST, ActiveMessage, encode_packet


def serial_line(trace: Trace) -> Iterator[tuple[int, bytes]]:
    """The pairs (tick, bytes on the line in that tick), one for each batch that the observer took in."""
    layout = layout_of(trace.deployment)
    seal = Seal(trace.deployment.key, layout) if trace.deployment.key is not None else None
    gateway = trace.deployment.network.motes
    columns = [
        trace.messages[name].to_numpy(zero_copy_only=False) for name in ("batch", "heard", "heard_time")
    ]
    rows = zip(*columns, trace.messages["payload"].to_pylist(), strict=True)
    records = 0
    for _, batch in groupby(rows, key=lambda row: int(row[0])):
        line = b""
        for _, heard, time, payload in batch:
            tick = int(heard)
            payload = payload if seal is None else _sealed(payload, seal, int(time))
            record = Heard(
                gateway, 0, records % 256, 0, flags=3, rssi=-60, lqi=100, check=crc16(payload), time=int(time)
            )
            records += 1
            source = gateway if layout.tinyos == 2 else None
            data = ActiveMessage(layout.tinyos, BROADCAST, layout.group, layout.am_type, payload, source)
            for message in (encode_message(record, layout), data):
                line += encode_frame(encode_packet(message))
        yield tick, line


def _sealed(payload: bytes, seal: Seal, time: int) -> bytes:
    """The payload with its MIC; `time` is when it was heard, near enough to when it was sent."""
    layout = seal.layout
    source = 0 if layout.tinyos == 2 else None
    data = decode_message(
        ActiveMessage(layout.tinyos, BROADCAST, layout.group, layout.am_type, payload, source), layout
    )
    assert isinstance(data, Data)
    return seal.sealed_data(data, 0, time).data
