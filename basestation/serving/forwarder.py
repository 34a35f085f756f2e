"""A serial forwarder: many clients on one base station, of TinyOS 1.x and 2.x, each on its own port.

A slow client delays no other: each has a buffer, and is dropped when that is full. What a client sends is read no
faster than a gateway could take it. A client that sends too many invalid messages is dropped, too. When all places are
taken, a client that has not greeted makes room for a newcomer, or one of the address that has most places.

Clients of other machines only read, unless `control` is set. Each message that a client sends is reported with the
client's address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from basestation.live.happenings import Arrived, Happening, Strange
from basestation.sources.base import SourceError
from basestation.sources.tcp import crowd, is_loopback, keep_alive
from packet_formats import sf_protocol
from packet_formats.boards import DEFAULT_BOARD
from packet_formats.tinyos import ActiveMessage, PacketError, decode_am, encode_packet

LOOPBACK = "127.0.0.1"
CLIENTS = 32  # at a time
IDLE_SECONDS = 60.0  # without a message, after which a client makes room for another one of its own address
ROOM = 65536  # bytes that may wait for one client here, and about as many in the kernel
WRONG = 16  # bad messages after which a client is dropped
TOLD = 20  # notes about clients; a thousand of them must not fill the screen
PACE_SECONDS = 0.01  # between two messages of one client: a line of 57600 baud carries about 150 a second

READ_ONLY = "clients of other machines only read: `listen --serve-control` lets them send"

Send = Callable[[bytes], Awaitable[None]]
Sent = Callable[[str, ActiveMessage, bool], None]  # by whom, what, and whether there is still room to show it


def _silent(message: str) -> None:
    pass


def _unheard(by: str, message: ActiveMessage, shown: bool) -> None:
    pass


@dataclass(slots=True)
class ServingCounters:
    """What the forwarder did since it was opened."""

    served: int = 0  # clients that have greeted
    forwarded: int = 0  # messages, to one client each
    sent: int = 0  # messages of clients handed down
    refused: int = 0  # messages of clients that were not
    dropped: int = 0  # clients that were too slow, or idle when others wanted their places
    strangers: int = 0  # connections that spoke another language, or none, or were too many


class _Client:
    def __init__(self, tinyos: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tinyos, self.reader, self.writer = tinyos, reader, writer
        self.refused = 0
        self.wrong = 0
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        keep_alive(connection)
        host, port, *_ = writer.get_extra_info("peername") or ("?", 0)
        self.host = str(host)
        self.name = f"{self.host}:{port}"
        self.greeted = False
        self.busy_at = asyncio.get_running_loop().time()  # when it greeted, or sent something, last

    @property
    def waiting(self) -> int:
        return self.writer.transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close at once. A client of whom something was refused sees a reset: the protocol has no other answer."""
        if self.refused:
            connection: socket.socket = self.writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Forwarder:
    """A sink that forwards each packet to the clients of its TinyOS version.

    `send` is called with each packet of a client, from its type byte on. It may raise `SourceError`. `sent` is called
    for each that was sent. `control`: clients of other machines may send, too.
    """

    def __init__(
        self,
        send: Send,
        board: str = DEFAULT_BOARD.name,
        say: Callable[[str], None] = _silent,
        sent: Sent = _unheard,
        control: bool = False,
    ) -> None:
        self.counters = ServingCounters()
        self.ports: dict[int, int] = {}  # TinyOS version -> TCP port
        self._send = send
        self._platform = sf_protocol.platform_bytes(board)
        self._say, self._sent = say, sent
        self._control = control
        self._told = 0
        self._servers: list[asyncio.Server] = []
        self._connected: set[_Client] = set()
        self._greeted: set[_Client] = set()

    async def open(self, host: str = LOOPBACK, ports: Mapping[int, int] = sf_protocol.PORT) -> None:
        """Listen on a port for each TinyOS version; port 0 is any free one. `OSError` if one is taken."""
        try:
            for tinyos, port in ports.items():
                server = await asyncio.start_server(partial(self._serve, tinyos), host, port, limit=1024)
                self._servers.append(server)
                self.ports[tinyos] = server.sockets[0].getsockname()[1]
        except OSError:
            self.close()
            raise

    def take(self, happening: Happening) -> None:
        if not self._greeted:
            return
        if isinstance(happening, Arrived):
            self.forward(encode_packet(happening.frame))
        elif isinstance(happening, Strange):
            self.forward(happening.packet)

    def forward(self, packet: bytes) -> None:
        """Send a packet, from its type byte on, to every client that understands it."""
        for tinyos in sf_protocol.HELLO:
            message = sf_protocol.to_message(tinyos, packet) if packet else None
            if message is not None:
                self._to_clients(tinyos, sf_protocol.encode(message))

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for client in list(self._connected):
            client.abort()

    def _tell(self, text: str) -> None:
        if self._has_room_to_tell():
            self._say(text)

    def _has_room_to_tell(self) -> bool:
        self._told += 1
        if self._told == TOLD + 1:
            self._say("further notes on clients are left out; a log has who sent what")
        return self._told <= TOLD

    def _to_clients(self, tinyos: int, data: bytes) -> None:
        for client in [client for client in self._greeted if client.tinyos == tinyos]:
            if client.writer.transport.is_closing():  # asyncio would warn of each write
                self._greeted.discard(client)
                continue
            client.writer.write(data)
            self.counters.forwarded += 1
            if client.waiting > ROOM:
                self._greeted.discard(client)
                self.counters.dropped += 1
                self._tell(f"client {client.name} fell {client.waiting} bytes behind and was dropped")
                client.abort()

    async def _serve(self, tinyos: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            client = _Client(tinyos, reader, writer)
        except OSError:  # it has gone already
            writer.transport.abort()
            return
        if len(self._connected) >= CLIENTS and not self._make_room(client):
            self.counters.strangers += 1
            self._tell(f"more than {CLIENTS} clients: one was turned away")
            client.abort()
            return
        self._connected.add(client)
        try:
            await self._greet(client)
            client.greeted = True
            client.busy_at = asyncio.get_running_loop().time()
            self._greeted.add(client)
            self.counters.served += 1
            await self._listen(client)
        except (sf_protocol.ProtocolError, TimeoutError) as error:
            self.counters.strangers += 1
            self._tell(f"client {client.name} was turned away: {str(error) or 'it did not greet'}")
        except (EOFError, OSError, asyncio.CancelledError):
            pass  # it has gone, or we have: a task of a server that ends cancelled is shown as a fault
        finally:
            self._connected.discard(client)
            self._greeted.discard(client)
            client.abort()

    def _make_room(self, newcomer: _Client) -> bool:
        """Drop a client that makes no use of its place; False if there is none."""
        now = asyncio.get_running_loop().time()
        strangers = [client for client in self._connected if not client.greeted]
        crowded = crowd((client.host for client in self._connected), newcomer.host)
        idle = [
            client
            for client in self._connected
            if client.host == crowded
            or (client.host == newcomer.host and now - client.busy_at >= IDLE_SECONDS)
        ]
        leaving = min(strangers or idle, key=lambda client: client.busy_at, default=None)
        if leaving is None:
            return False
        self.counters.dropped += leaving.greeted
        self.counters.strangers += not leaving.greeted
        self._connected.discard(leaving)
        self._greeted.discard(leaving)
        self._tell(f"client {leaving.name} was idle and made room for {newcomer.name}")
        leaving.abort()
        return True

    async def _greet(self, client: _Client) -> None:
        async with asyncio.timeout(sf_protocol.HELLO_SECONDS):
            client.writer.write(sf_protocol.HELLO[client.tinyos])
            hello = await client.reader.readexactly(len(sf_protocol.HELLO[client.tinyos]))
            spoken = sf_protocol.version_of(hello)
            if spoken != client.tinyos:
                other = f"TinyOS {spoken} is served on port {self.ports.get(spoken)}"
                raise sf_protocol.ProtocolError(
                    f"it speaks TinyOS {spoken}, but this port is for TinyOS {client.tinyos}; {other}"
                )
            if sf_protocol.platform_follows(hello):
                client.writer.write(self._platform)
                await client.reader.readexactly(sf_protocol.PLATFORM_BYTES)

    async def _listen(self, client: _Client) -> None:
        while True:
            (length,) = await client.reader.readexactly(1)
            message = await client.reader.readexactly(length)
            client.busy_at = asyncio.get_running_loop().time()
            try:
                read = decode_am(client.tinyos, message)
                if not (self._control or is_loopback(client.host)):
                    raise SourceError(READ_ONLY)
                await self._send(sf_protocol.to_packet(client.tinyos, message))
                self.counters.sent += 1
                self._sent(client.name, read, self._has_room_to_tell())
            except PacketError as error:
                client.wrong += 1
                self._refuse(client, error)
            except SourceError as error:
                self._refuse(client, error)
            await asyncio.sleep(PACE_SECONDS)

    def _refuse(self, client: _Client, error: Exception) -> None:
        self.counters.refused += 1
        client.refused += 1
        if client.refused == 1:
            self._tell(f"client {client.name}: a message was refused: {error}")
        if client.wrong == WRONG:
            raise sf_protocol.ProtocolError(f"{WRONG} of its messages were invalid")
