"""`sf@HOST:PORT`: a serial forwarder of TinyOS 1.x or 2.x; its greeting says which.

A forwarder greets first. If it waits for us, we greet it in the version that the port, the deployment or `?tinyos=`
suggests and, if it refuses that, in the other.
"""

from __future__ import annotations

import asyncio

from basestation.sources.base import Source, SourceError, SourceOptions, Spec
from basestation.sources.inbox import LineLost
from basestation.sources.line import Connection, LineSource
from basestation.sources.tcp import TcpLink, dial, is_loopback
from packet_formats.boards import DEFAULT_BOARD
from packet_formats.framing import FrameCounters
from packet_formats.sf_protocol import (
    HELLO,
    HELLO_SECONDS,
    PLATFORM_BYTES,
    PORT,
    ProtocolError,
    encode,
    platform_bytes,
    platform_follows,
    to_message,
    to_packet,
    version_of,
)

SILENCE_SECONDS = 1.0
ELSEWHERE = " Plain `listen --serve` serves its own machine only; for others it needs --serve {}:{}"


class ForwarderWire:
    """The forwarder's framing: length and message. A length byte counts as a flag, so that every byte is counted."""

    acknowledges = False  # the forwarder has done it

    def __init__(self, tinyos: int, counters: FrameCounters) -> None:
        self._tinyos = tinyos
        self._counters = counters
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._counters.fed += len(data)
        self._held += data
        packets, at = [], 0
        while at < len(self._held) and at + self._held[at] < len(self._held):
            end = at + 1 + self._held[at]
            self._counters.flags += 1
            if end > at + 1:
                self._counters.frames += 1
                self._counters.good += end - at - 1
                packets.append(to_packet(self._tinyos, bytes(self._held[at + 1 : end])))
            at = end
        del self._held[:at]
        return packets

    def encode(self, packet: bytes) -> bytes:
        message = to_message(self._tinyos, packet)
        if message is None:
            raise SourceError(f"not sent: this forwarder takes only messages of TinyOS {self._tinyos}")
        return encode(message)

    def end(self) -> None:
        if self._held:
            self._counters.partial.add(len(self._held))
            self._held.clear()


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    spec.known("tinyos")
    said = spec.whole("tinyos", 0, 1, 2) if "tinyos" in spec.settings else None
    network = options.deployment.network if options.deployment else None
    host, port = spec.host_and_port(PORT[said or (network.tinyos if network else 2)])
    likely = said or (1 if port == PORT[1] else network.tinyos if network and port != PORT[2] else 2)
    platform = platform_bytes(network.board if network else DEFAULT_BOARD.name)

    async def connect(counters: FrameCounters) -> Connection:
        for tinyos in (likely,) if said else (likely, 3 - likely):
            link = await dial(spec.text, host, port, "" if _is_here(host) else ELSEWHERE.format(host, port))
            try:
                async with asyncio.timeout(HELLO_SECONDS):
                    spoken = await _greet(link, tinyos, said, platform)
                return Connection(link, ForwarderWire(spoken, counters))
            except (LineLost, ProtocolError, TimeoutError) as error:
                await link.close()
                why = str(error) or f"sent no greeting within {HELLO_SECONDS:g} s"
            except BaseException:
                await link.close()
                raise
        raise spec.wrong(f"{host}:{port} is not a serial forwarder that we understand: {why}")

    # A forwarder keeps acknowledgements to itself.
    return LineSource(spec.text, gateway, connect, options, acknowledges=False)


def _is_here(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


async def _greet(link: TcpLink, likely: int, said: int | None, platform: bytes) -> int:
    """Exchange greetings, and return the TinyOS version that the forwarder speaks."""
    spoke_first = False
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            hello = await _exactly(link, len(HELLO[1]))
    except TimeoutError:
        spoke_first = True
        await link.send(HELLO[likely])
        hello = await _exactly(link, len(HELLO[1]))
    tinyos = version_of(hello)
    if tinyos != likely and (said or spoke_first):
        raise ProtocolError(f"it speaks TinyOS {tinyos}, not {likely}")
    if not spoke_first:
        await link.send(HELLO[tinyos])
    if platform_follows(hello):
        await link.send(platform)
        await _exactly(link, PLATFORM_BYTES)
    return tinyos


async def _exactly(link: TcpLink, count: int) -> bytes:
    """Read exactly `count` bytes. What came with them, or too few when cancelled, is put back."""
    taken = b""
    try:
        while len(taken) < count:
            chunk = await link.receive()
            taken += chunk.data
            late = chunk
    except asyncio.CancelledError:
        if taken:
            link.inbox.put_back(late._replace(data=taken))
        raise
    if len(taken) > count:
        link.inbox.put_back(late._replace(data=taken[count:]))
    return taken[:count]
