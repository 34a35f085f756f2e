"""The far ends of lines: what a source is connected to in tests."""

import asyncio
import contextlib
import os
import pty
import socket
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from basestation.arrivals import Arrival, Gap, Line
from basestation.sources import Source, SourceOptions, open_source
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.tinyos import ActiveMessage, encode_packet

QUICK = SourceOptions(first_retry=0.02, longest_retry=0.1)
PATIENCE = 10.0


def message(number: int, tinyos: int = 1, size: int = 8) -> bytes:
    """A packet of an unacknowledged message, distinct by its number; its bytes need escapes now and then."""
    data = (number.to_bytes(4, "little") + bytes([0x7E, 0x7D, number & 0xFF]) + bytes(size))[:size]
    source = None if tinyos == 1 else 5
    return encode_packet(ActiveMessage(tinyos, 0xFFFF, 0x7D, 0x42, data, source))


def wanting_ack(number: int, tinyos: int, token: int) -> bytes:
    source = None if tinyos == 1 else 5
    am = ActiveMessage(tinyos, 0xFFFF, 0x7D, 0x42, bytes([number]), source, "data-ack", token)
    return encode_packet(am)


def accounted(source: Source, held: int = 0) -> bool:
    """Whether every byte went somewhere."""
    counters = source.counters
    return counters.fed == counters.flags + counters.good + counters.dropped_bytes + held


class Taker:
    """Takes a source's lines in a task of its own, as the base station does."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: list[Line] = []
        self.more = asyncio.Event()
        self.task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async for line in self.source.lines():
            self.lines.append(line)
            self.more.set()

    @property
    def packets(self) -> list[bytes]:
        return [line.packet for line in self.lines if isinstance(line, Arrival)]

    @property
    def gaps(self) -> list[Gap]:
        return [line for line in self.lines if isinstance(line, Gap)]

    async def until(self, count: int, what: str = "packets") -> None:
        async with asyncio.timeout(PATIENCE):
            while len(getattr(self, what)) < count:
                if self.task.done():
                    self.task.result()
                    raise AssertionError(f"the source ended with {self.lines}")
                self.more.clear()
                await asyncio.wait(
                    [self.task, asyncio.ensure_future(self.more.wait())], return_when="FIRST_COMPLETED"
                )


@asynccontextmanager
async def taking(text: str, options: SourceOptions = QUICK, gateway: int = 0) -> AsyncIterator[Taker]:
    source = open_source(text, gateway, options)
    await source.open()
    taker = Taker(source)
    try:
        yield taker
    finally:
        await source.close()
        async with asyncio.timeout(PATIENCE):
            await taker.task


class PtyEnd:
    """A serial port whose gateway is us; its name is a link, as udev's are, so that it can come back."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.master = -1
        self.plug()

    @property
    def text(self) -> str:
        return f"serial@{self.link}:57600"

    def plug(self) -> None:
        self.master, slave = pty.openpty()
        tty.setraw(slave, termios.TCSANOW)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(os.ttyname(slave))
        os.close(slave)

    def unplug(self) -> None:
        self.link.unlink()
        os.close(self.master)
        self.master = -1

    async def stop(self) -> None:
        if self.master >= 0:
            self.unplug()

    async def put(self, raw: bytes) -> None:
        await asyncio.to_thread(self._write, raw)

    async def put_packet(self, packet: bytes) -> None:
        await self.put(encode_frame(packet))

    async def got(self, count: int) -> list[bytes]:
        return await asyncio.to_thread(_packets, lambda: os.read(self.master, 4096), count)

    async def cut(self) -> None:
        self.unplug()

    async def mend(self) -> None:
        self.plug()

    def _write(self, raw: bytes) -> None:
        while raw:
            raw = raw[os.write(self.master, raw) :]


def _packets(read, count: int) -> list[bytes]:
    decoder, packets = FrameDecoder(), []
    while len(packets) < count:
        packets += decoder.feed(read())
    return packets


class TcpEnd:
    """A TCP server that gives one client at a time what we put."""

    greeting = b""
    answer_bytes = 0
    kind = "network"

    def __init__(self) -> None:
        self.port = 0
        self.server: asyncio.Server | None = None
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.client = asyncio.Event()
        self.greeted = b""

    @property
    def text(self) -> str:
        return f"{self.kind}@127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._meet, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.greeting)
        self.reader, self.writer = reader, writer
        with contextlib.suppress(asyncio.IncompleteReadError):
            self.greeted = await reader.readexactly(self.answer_bytes)
            self.client.set()

    async def put(self, raw: bytes) -> None:
        await self.client.wait()
        self.writer.write(raw)
        await self.writer.drain()

    async def put_packet(self, packet: bytes) -> None:
        await self.put(encode_frame(packet))

    async def got(self, count: int) -> list[bytes]:
        decoder, packets = FrameDecoder(), []
        async with asyncio.timeout(PATIENCE):
            while len(packets) < count:
                packets += decoder.feed(await self.reader.read(4096))
        return packets

    async def cut(self) -> None:
        assert self.server is not None
        self.server.close()
        await self.client.wait()
        self.client.clear()
        self.writer.transport.abort()

    async def mend(self) -> None:
        await self.start()

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
        if self.client.is_set():
            self.writer.transport.abort()


class ForwarderEnd(TcpEnd):
    """A serial forwarder made of literal bytes, so that it can't share a mistake with the code."""

    kind = "sf"

    def __init__(self, tinyos: int) -> None:
        super().__init__()
        self.tinyos = tinyos
        self.greeting = b"\x54\x21\x03\x00\x00\x00" if tinyos == 1 else b"\x55\x20"
        self.answer_bytes = len(self.greeting)

    async def put_packet(self, packet: bytes) -> None:
        await self.put(bytes([len(packet) - 1]) + packet[1:])

    async def got(self, count: int) -> list[bytes]:
        packets = []
        async with asyncio.timeout(PATIENCE):
            for _ in range(count):
                (length,) = await self.reader.readexactly(1)
                packets.append(
                    (b"\x42" if self.tinyos == 1 else b"\x45") + await self.reader.readexactly(length)
                )
        return packets


@contextmanager
def free_port() -> Iterator[int]:
    """A port on which nothing listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
