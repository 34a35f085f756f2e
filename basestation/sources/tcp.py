"""A TCP connection as a link."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import Counter
from collections.abc import Iterable
from typing import cast

from basestation.sources.base import SourceError
from basestation.sources.inbox import Inbox, LineLost, Moment, TimedBytes, now, stamped

CONNECT_SECONDS = 5.0
SEND_SECONDS = 1.0
FINISH_SECONDS = 5.0  # a forwarder that paces what it passes on reads hundreds of messages in this time
ROOM = 65536  # bytes read ahead of whoever takes them
AT_ONCE = 256 * 1024  # bytes that the event loop reads at one go; less means that no more had come


class TcpLink(asyncio.Protocol):
    """A link over TCP. It stamps bytes as the event loop delivers them, and stops reading while nothing takes them."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._since: Moment | None = None  # from when on what comes may have waited for us
        self._writable = asyncio.Event()
        self._writable.set()
        self._finishing = False
        self._over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()  # whether in order

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._finishing:
            return
        self.inbox.put(stamped(data, self._since))
        if len(data) < AT_ONCE:
            self._since = None
        if self.inbox.size > ROOM and self._transport is not None:
            self._paused = True
            self._since = self._since or now()
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._end_in_order(True)
        self.inbox.end("the other end closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        self._end_in_order(False)
        self.inbox.end(_reason(error) if error is not None else "the connection was closed")
        self._transport = None
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def receive(self) -> TimedBytes:
        chunk = await self.inbox.get()
        if self._paused and self.inbox.size <= ROOM and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return chunk

    async def send(self, data: bytes) -> None:
        try:
            await asyncio.wait_for(self._writable.wait(), SEND_SECONDS)
        except TimeoutError:
            raise LineLost("the other end accepts no data") from None
        if self._transport is None or self._transport.is_closing():
            raise LineLost("the connection was closed")
        self._transport.write(data)

    async def finish(self) -> bool:
        """Say that nothing more follows, and wait until the other end has read all and closed; False if it does not.

        Closing at once would reset a connection on which something unread has come, and the other end would lose what
        it has not read yet.
        """
        if self._transport is None or self._transport.is_closing() or self._finishing:
            return False
        self._finishing = True
        if self._paused:
            self._transport.resume_reading()
        self._transport.write_eof()
        try:
            return await asyncio.wait_for(asyncio.shield(self._over), FINISH_SECONDS)
        except TimeoutError:
            return False

    def _end_in_order(self, in_order: bool) -> None:
        if not self._over.done():
            self._over.set_result(in_order)

    async def close(self) -> None:
        self.inbox.end("closed")
        if self._transport is not None:
            self._transport.abort()


async def dial(text: str, host: str, port: int, hint: str = "") -> TcpLink:
    """Connect to a host's port. `SourceError` says why that fails; `hint` follows if nothing listens there."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, link = await loop.create_connection(TcpLink, host, port)
    except TimeoutError:
        raise SourceError(f"{text}: {host} did not answer within {CONNECT_SECONDS:g} s") from None
    except ConnectionRefusedError:
        raise SourceError(
            f"{text}: refused: nothing listens on port {port} of {host}; is it started?{hint}"
        ) from None
    except (socket.gaierror, ValueError):  # ValueError: what can't be a host's name at all
        raise SourceError(f"{text}: unknown host {host}") from None
    except OSError as error:
        raise SourceError(f"{text}: {_reason(error)}") from None
    return link


def keep_alive(connection: socket.socket) -> None:
    """Notice within half a minute if the other end disappears, for example when it loses power."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_loopback(address: str) -> bool:
    """Whether an IP address is this machine's own, out of reach for others."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def is_everywhere(host: str) -> bool:
    """Whether serving on this address means on all of this machine's networks: 0.0.0.0 or ::."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == "0"


def crowd(addresses: Iterable[str], newcomer: str) -> str | None:
    """The address that has to make room for a newcomer, where all places are taken: the one with most of them.

    It must have two more than the newcomer's: else the two would take turns for ever.
    """
    places = Counter(addresses)
    most = max(places, key=lambda one: places[one], default=newcomer)
    return most if places[most] > places[newcomer] + 1 else None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
