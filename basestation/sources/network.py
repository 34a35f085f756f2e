"""`network@HOST:PORT`: a UART's raw bytes over TCP, as a MIB600 or a terminal server gives them."""

from __future__ import annotations

from basestation.sources.base import Source, SourceOptions, Spec
from basestation.sources.line import Connection, FrameWire, LineSource
from basestation.sources.tcp import dial
from packet_formats.framing import FrameCounters

MIB600_PORT = 10002


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    spec.known()
    host, port = spec.host_and_port(MIB600_PORT)

    async def connect(counters: FrameCounters) -> Connection:
        return Connection(await dial(spec.text, host, port), FrameWire(counters))

    return LineSource(spec.text, gateway, connect, options)
