"""A gateway with a few motes behind it, made of a thread and a line: for commands that speak to one."""

from __future__ import annotations

import os
import pty
import socket
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict
from packet_formats.framing import FrameDecoder, crc16, encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Message, decode_message, encode_message
from packet_formats.records import Command, Downlink, Health, Heard, Status
from packet_formats.tinyos import BROADCAST, Ack, ActiveMessage, decode_am, decode_packet, encode_packet


def network(tinyos: int = 1, **more: object) -> Deployment:
    """Three motes."""
    return from_dict(
        {
            "network": {"name": "test", "board": "micaz", "motes": 3, "hops": 2, "tinyos": tinyos} | more,
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": "shlc"},
        }
    )


class Line:
    """Serial frames over a pty."""

    def __init__(self) -> None:
        self.fd, slave = pty.openpty()
        tty.setraw(slave)
        self.text = f"serial@{os.ttyname(slave)}"
        self._slave, self._decoder = slave, FrameDecoder()

    def read(self) -> list[bytes]:
        return self._decoder.feed(os.read(self.fd, 4096))

    def write(self, packet: bytes) -> None:
        os.write(self.fd, encode_frame(packet))

    def close(self) -> None:
        os.close(self._slave)
        os.close(self.fd)


class Socket:
    """Serial frames over TCP."""

    kind = "network"

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.text = f"{self.kind}@127.0.0.1:{self._server.getsockname()[1]}"
        self._client: socket.socket | None = None
        self._decoder = FrameDecoder()

    def meet(self, client: socket.socket) -> None:
        pass

    def read(self) -> list[bytes]:
        if self._client is None:
            client = self._server.accept()[0]
            self.meet(client)
            self._client = client
        data = self._client.recv(4096)
        if not data:
            raise OSError("gone")
        return self._decoder.feed(data)

    def write(self, packet: bytes) -> None:
        if self._client is not None:
            self._client.sendall(encode_frame(packet))

    def close(self) -> None:
        for each in (self._client, self._server):
            if each is not None:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


class Forwarder(Socket):
    """A serial forwarder of TinyOS 2."""

    kind = "sf"

    def meet(self, client: socket.socket) -> None:
        client.sendall(b"U ")
        assert client.recv(2) == b"U "

    def read(self) -> list[bytes]:
        if self._client is None:
            client = self._server.accept()[0]
            self.meet(client)
            self._client = client
        length = self._client.recv(1)
        if not length:
            self._client.close()  # as a forwarder does when it has read all
            raise OSError("gone")
        return [b"\x45" + self._client.recv(length[0])]

    def write(self, packet: bytes) -> None:
        if self._client is not None:
            self._client.sendall(bytes([len(packet) - 1]) + packet[1:])


class Gateway:
    """Acknowledges, but not the first `deaf` packets; motes that are in `reached` answer.

    `boots` are the boot counts, changed by a reboot. `got` is what came down, in order.
    """

    def __init__(self, deployment: Deployment, line: Line | Socket, deaf: int = 0) -> None:
        self.deployment, self.line, self.deaf = deployment, line, deaf
        self.layout = layout_of(deployment)
        motes = deployment.network.motes
        self.gateway = motes
        self.reached = {*range(motes), motes}
        self.boots = dict.fromkeys(range(motes + 1), 4)
        self.got: list[ActiveMessage] = []
        self.records = 0

    @property
    def text(self) -> str:
        return self.line.text

    def run(self) -> None:
        with suppress(OSError):
            while True:
                for packet in self.line.read():
                    self._take(packet)

    def now(self) -> int:
        return time.monotonic_ns() * CRYSTAL_HZ // 10**9 % 2**32

    def put(self, message: Message | ActiveMessage) -> None:
        frame = message if isinstance(message, ActiveMessage) else encode_message(message, self.layout)
        with suppress(OSError):
            self.line.write(encode_packet(frame))

    def put_heard(self, message: Message | ActiveMessage, time: int | None = None) -> None:
        """A frame from the air, behind its record."""
        frame = message if isinstance(message, ActiveMessage) else encode_message(message, self.layout)
        when = self.now() if time is None else time
        self.put(Heard(self.gateway, 0, self.records % 256, 0, 7, -60, 100, crc16(frame.data), when))
        self.records += 1
        self.put(frame)

    def health(self, node: int, layout: int | None = None, flags: int = 1) -> Health:
        own = self.layout.hash if layout is None else layout
        return Health(node, self.now(), 0, flags, self.boots[node], own, 9, 8, 0, 0, 0, 0, 149, 1)

    def status(self, **counters: int) -> Status:
        names = ("heard", "forwarded", "radio_crc", "radio_overrun", "foreign")
        names += ("up_full", "line_crc", "line_refused", "down_sent", "down_full")
        return Status(self.gateway, self.now(), 0, 4, **dict.fromkeys(names, 0) | counters)

    def _take(self, packet: bytes) -> None:
        frame = decode_packet(packet)
        assert isinstance(frame, ActiveMessage)
        self.got.append(frame)
        if len(self.got) <= self.deaf:
            return
        if frame.token is not None:
            with suppress(OSError):
                self.line.write(encode_packet(Ack(frame.tinyos, frame.token)))
        message = decode_message(frame, self.layout)
        if isinstance(message, Downlink):
            self._obey(message)

    def _obey(self, order: Downlink) -> None:
        for node in sorted(self.reached):
            if order.target not in (node, BROADCAST):
                continue
            if order.command == Command.REBOOT and node != self.gateway:
                self.boots[node] += 1
            if order.command not in (Command.REPORT, Command.REBOOT):
                continue
            if node < self.gateway:
                self.put_heard(self.health(node))
            else:
                self.put(self.health(node))


@contextmanager
def gateway(
    deployment: Deployment, line: type[Line] | type[Socket] = Socket, **more: int
) -> Iterator[Gateway]:
    made = Gateway(deployment, line(), **more)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.line.close()
        thread.join(5)


def message(tinyos: int, group: int, am_type: int, data: bytes) -> ActiveMessage:
    """A frame of another application."""
    return decode_am(
        tinyos,
        bytes([0xFF, 0xFF, am_type, group, len(data)]) + data
        if tinyos == 1
        else bytes([0, 0xFF, 0xFF, 0, 1, len(data), group, am_type]) + data,
    )
