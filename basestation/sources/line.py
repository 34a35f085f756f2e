"""A source on a line that may be lost and come back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from basestation.arrivals import Arrival, Gap, Line
from basestation.sources.base import SourceError, SourceOptions, check_sendable
from basestation.sources.inbox import LineLost, Link
from basestation.sources.tcp import TcpLink
from packet_formats.framing import FrameCounters, FrameDecoder, encode_frame
from packet_formats.tinyos import PACKET_TYPES, TYPE_OF

PIECE = 4096  # bytes decoded at one go, so that a flood never holds up the others for long


class Framing(Protocol):
    """The framing of one connection: how packets become bytes."""

    acknowledges: bool  # the other end may want acknowledgements

    def feed(self, data: bytes) -> list[bytes]:
        """The packets that these bytes complete, each from its type byte on."""

    def encode(self, packet: bytes) -> bytes: ...

    def end(self) -> None:
        """Count the bytes of an unfinished frame, at the end of the connection."""


class FrameWire:
    """TinyOS serial frames. Each connection starts out of sync; the counters go on across connections."""

    acknowledges = True

    def __init__(self, counters: FrameCounters) -> None:
        self._decoder = FrameDecoder()
        self._decoder.counters = counters

    def feed(self, data: bytes) -> list[bytes]:
        return self._decoder.feed(data)

    def encode(self, packet: bytes) -> bytes:
        return encode_frame(packet)

    def end(self) -> None:
        self._decoder.close()


@dataclass(frozen=True, slots=True)
class Connection:
    link: Link
    wire: Framing

    async def close(self) -> None:
        self.wire.end()
        await self.link.close()


Connect = Callable[[FrameCounters], Awaitable[Connection]]


class LineSource:
    """A source that connects, reads, and reconnects when the line is lost: at first soon, then after longer pauses.

    It reads only what is asked for. If the reader is too slow, the buffers of the kernel and of the other end fill up,
    and at last the gateway counts what it drops.
    """

    live = True

    def __init__(
        self, text: str, gateway: int, connect: Connect, options: SourceOptions, acknowledges: bool = True
    ) -> None:
        self.text = text
        self.acknowledges = acknowledges
        self.counters = FrameCounters()
        self._gateway = gateway
        self._connect = connect
        self._options = options
        self._pause = options.first_retry
        self._connection: Connection | None = None
        self._why_not = "not opened yet"
        self._closed = asyncio.Event()

    async def open(self) -> None:
        """Connect. With the option `patient` a failure raises nothing: `lines` goes on trying."""
        try:
            await self._dial()
        except SourceError as error:
            if self._closed.is_set() or not self._options.patient:
                raise
            self._why_not = str(error)

    async def _dial(self) -> None:
        if self._connection is None:
            connection = await self._connect(self.counters)
            if self._closed.is_set():
                await connection.close()
                raise SourceError(f"{self.text}: closed")
            self._connection = connection

    async def lines(self) -> AsyncIterator[Line]:
        try:
            await self.open()
        except SourceError:
            if self._closed.is_set():
                return
            raise
        if self._connection is None:
            yield self._gap(False, self._why_not)
            if not await self._reconnect():
                return
            yield self._gap(True, "connected")
        while not self._closed.is_set():
            try:
                async for arrival in self._arrivals():
                    yield arrival
            except LineLost as lost:
                await self._drop(str(lost))
                if self._closed.is_set() or await self._is_over():
                    return
                yield self._gap(False, str(lost))
            if not await self._reconnect():
                return
            yield self._gap(True, "connected again")

    async def send(self, packet: bytes) -> None:
        check_sendable(packet)
        connection = self._connection
        if connection is None:
            raise SourceError(f"{self.text}: not connected: {self._why_not}")
        try:
            await connection.link.send(connection.wire.encode(packet))
        except LineLost as lost:
            raise SourceError(f"{self.text}: not sent: {lost}") from None

    async def finish(self) -> bool:
        """Close, and return whether the other end is known to have read all that was sent: with TCP only."""
        self._closed.set()
        link = self._connection.link if self._connection else None
        known = isinstance(link, TcpLink) and await link.finish()
        await self.close()
        return known

    async def close(self) -> None:
        self._closed.set()
        await self._drop("closed")

    async def _arrivals(self) -> AsyncIterator[Arrival]:
        connection = self._connection
        assert connection is not None
        while True:
            chunk = await connection.link.receive()
            self._pause = self._options.first_retry
            for start in range(0, len(chunk.data), PIECE):
                packets = connection.wire.feed(chunk.data[start : start + PIECE])
                if connection.wire.acknowledges:
                    await self._acknowledge(connection, packets)
                for packet in packets:
                    yield Arrival(self._gateway, chunk.mono_ns, chunk.wall_ns, packet)

    async def _acknowledge(self, connection: Connection, packets: Sequence[bytes]) -> None:
        """Acknowledge at once: it only says that the CRC was good. If it gets lost, the gateway asks again."""
        acks = b"".join(map(connection.wire.encode, filter(None, map(acknowledgement, packets))))
        if acks:
            with contextlib.suppress(LineLost):
                await connection.link.send(acks)

    async def _is_over(self) -> bool:
        """Whether the other end has ended in order, which is not a loss."""
        return False

    async def _reconnect(self) -> bool:
        """Try to connect until it works; False if the source was closed meanwhile."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), self._pause)
            if self._closed.is_set():
                return False
            self._pause = min(2 * self._pause, self._options.longest_retry)
            try:
                await self._dial()
            except SourceError as error:
                self._why_not = str(error)
            else:
                return True

    async def _drop(self, why: str) -> None:
        connection, self._connection, self._why_not = self._connection, None, why
        if connection is not None:
            await connection.close()

    def _gap(self, back: bool, reason: str) -> Gap:
        return Gap(self._gateway, time.monotonic_ns(), time.time_ns(), back, reason)


def acknowledgement(packet: bytes) -> bytes | None:
    """The acknowledgement of a packet that wants one."""
    tinyos, kind = PACKET_TYPES.get(packet[0], (0, ""))
    return bytes([TYPE_OF[tinyos, "ack"], packet[1]]) if kind == "data-ack" else None
