"""The serial forwarder: its protocol to the byte, its clients at their worst, and our own client at the other end."""

import asyncio
import contextlib
import socket
import struct
import time
from dataclasses import replace

import pytest

import packet_formats.sf_protocol
from basestation.live.happenings import Arrived, Note, Strange
from basestation.serving import forwarder as serving
from basestation.serving.forwarder import Forwarder
from basestation.sources import SourceError
from packet_formats.messages import Data
from packet_formats.tinyos import decode_packet
from tests.sources.ends import accounted, message, taking, wanting_ack
from tests.waiting import until

# A message of each version as the protocol carries it, and as a packet.
ONE = bytes.fromhex("09 ffff 04 7d 04 04000100")
TWO = bytes.fromhex("0a 00 ffff 0001 02 22 06 0001")
PACKET_ONE, PACKET_TWO = b"\x42" + ONE[1:], b"\x45" + TWO[1:]


class Served:
    """A forwarder on free ports, and what its clients have sent down."""

    def __init__(self, board="micaz", send=None):
        self.down, self.said = [], []
        self.forwarder = Forwarder(send or self._keep, board, self.said.append)

    @property
    def clients(self):
        return len(self.forwarder._greeted)

    async def _keep(self, packet):
        self.down.append(packet)

    async def __aenter__(self):
        await self.forwarder.open(ports={1: 0, 2: 0})
        return self

    async def __aexit__(self, *_):
        self.forwarder.close()
        await until(lambda: not self.forwarder._connected)

    async def connect(self, tinyos):
        return await asyncio.open_connection("127.0.0.1", self.forwarder.ports[tinyos])

    async def client(self, tinyos):
        """One that has greeted."""
        served = self.forwarder.counters.served
        reader, writer = await self.connect(tinyos)
        writer.write(b"T!\x03\0\0\0" if tinyos == 1 else b"U ")
        await reader.readexactly(6 if tinyos == 1 else 2)
        await until(lambda: self.forwarder.counters.served > served)
        return reader, writer


async def nothing(packet):
    pass


def run(scene):
    asyncio.run(asyncio.wait_for(scene(), 60))


# The protocol


def test_transcript_of_2x():
    async def scene():
        async with Served() as served:
            reader, writer = await served.connect(2)
            assert await reader.readexactly(2) == b"\x55\x20"  # before we have said a word
            writer.write(b"\x55\x20" + TWO)
            await until(lambda: served.down)
            assert served.down == [PACKET_TWO]
            for packet in (PACKET_TWO, b"\x44\x09" + TWO[1:], PACKET_ONE, b"\x43\x09", PACKET_TWO):
                served.forwarder.forward(packet)
            assert await reader.readexactly(3 * len(TWO)) == TWO * 3
            writer.close()

    run(scene)


def test_transcript_of_1x():
    async def scene():
        async with Served(board="mica2") as served:
            reader, writer = await served.connect(1)
            assert await reader.readexactly(2) == b"\x54\x21"
            writer.write(b"\x54\x21")
            assert await reader.readexactly(4) == b"\x01\x00\x00\x00"
            writer.write(b"\x03\x00\x00\x00" + ONE + ONE)
            await until(lambda: len(served.down) == 2)
            assert served.down == [PACKET_ONE] * 2
            for packet in (PACKET_ONE, PACKET_TWO, b"\x41\x09" + ONE[1:], b"\x40\x09"):
                served.forwarder.forward(packet)
            assert await reader.readexactly(2 * len(ONE)) == ONE * 2
            writer.close()

    run(scene)


def test_older_and_newer_clients():
    async def scene():
        async with Served() as served:
            for tinyos, hello, packet in ((1, b"T ", PACKET_ONE), (2, b"UT", PACKET_TWO)):
                reader, writer = await served.connect(tinyos)
                writer.write(hello + bytes([len(packet) - 1]) + packet[1:])
                await until(lambda packet=packet: packet in served.down)
                served.forwarder.forward(packet)
                assert (await reader.readexactly(2 + len(packet)))[2:] == bytes([len(packet) - 1]) + packet[
                    1:
                ]
                writer.close()

    run(scene)


@pytest.mark.parametrize("tinyos", [1, 2])
def test_our_own_client_both_ways(tinyos):
    async def scene():
        async with Served() as served, contextlib.AsyncExitStack() as stack:
            text = f"sf@127.0.0.1:{served.forwarder.ports[tinyos]}"
            takers = [await stack.enter_async_context(taking(text)) for _ in range(3)]
            await until(lambda: served.clients == 3)
            up = [message(number, tinyos, number % 28) for number in range(500)]
            for packet in up:
                served.forwarder.forward(packet)
            for taker in takers:
                await taker.until(len(up))
                assert taker.packets == up
                assert accounted(taker.source)
            down = [message(number, tinyos) for number in range(20)]
            for packet in down:
                await takers[1].source.send(packet)
            await until(lambda: len(served.down) == len(down))
            assert served.down == down
            assert served.forwarder.counters.forwarded == 1500
        await until(lambda: served.clients == 0)

    run(scene)


def test_as_a_sink_it_passes_on_all_that_came_up_the_line():
    async def scene():
        async with Served() as served:
            served.forwarder.take(Strange(0, 0, 0, "nobody listens yet", PACKET_ONE))
            reader, _ = await served.client(1)
            frame = decode_packet(message(7))
            for happening in (
                Arrived(0, 0, 0, frame, Data(1, 2, ())),
                Note(0, 0, "not a packet"),
                Strange(0, 0, 0, "another application", PACKET_ONE),
                Strange(0, 0, 0, "rubbish", b"\x99"),
                Arrived(0, 0, 0, replace(frame, kind="data-ack", token=3), Data(1, 2, ())),
            ):
                served.forwarder.take(happening)
            expected = b"".join(bytes([len(p) - 1]) + p[1:] for p in (message(7), PACKET_ONE, message(7)))
            assert await reader.readexactly(len(expected)) == expected

    run(scene)


# Clients at their worst


def test_a_slow_client_is_dropped_and_nobody_else_notices():
    async def scene():
        async with Served() as served, taking(f"sf@127.0.0.1:{served.forwarder.ports[1]}") as taker:
            await until(lambda: served.clients == 1)
            slow = await served.client(1)  # and never reads again
            packet, count, longest = message(1, 1, 29), 0, 0.0
            while served.forwarder.counters.dropped == 0:
                started = time.perf_counter()
                served.forwarder.forward(packet)
                longest = max(longest, time.perf_counter() - started)
                waiting = max((client.waiting for client in served.forwarder._greeted), default=0)
                assert waiting <= serving.ROOM + 256
                count += 1
                assert count < 1_000_000
                if count % 100 == 0:
                    await asyncio.sleep(0)
            await taker.until(count)
            assert taker.packets == [packet] * count
            assert served.forwarder.counters.dropped == 1
            assert "bytes behind and was dropped" in served.said[-1]
            assert longest < 0.5
            await until(lambda: served.clients == 1)
            slow[1].close()

    run(scene)


@pytest.mark.parametrize("tinyos", [1, 2])
def test_what_must_not_go_down_is_refused(tinyos):
    async def scene():
        async with Served() as served:
            _, writer = await served.client(tinyos)
            limit, at = (29, 4) if tinyos == 1 else (28, 5)
            good = message(1, tinyos, limit)[1:]
            oversize = bytearray(good + b"\0")
            oversize[at] += 1
            for wrong in (bytes(oversize), good[:-1], b"\xff" * 3):
                writer.write(bytes([len(wrong)]) + wrong)
            writer.write(bytes([len(good)]) + good)
            await until(lambda: served.down)
            assert served.down == [message(1, tinyos, limit)]
            assert served.forwarder.counters.refused == 3
            assert f"over the {limit}" in served.said[0]

    run(scene)


def test_a_line_that_takes_nothing_costs_no_client_its_place():
    async def scene():
        async def fail(packet):
            raise SourceError("not connected")

        async with Served(send=fail) as served:
            reader, writer = await served.client(1)
            writer.write(ONE * 40)
            await until(lambda: served.forwarder.counters.refused == 40)
            served.forwarder.forward(PACKET_ONE)
            assert await reader.readexactly(len(ONE)) == ONE
            assert len(served.said) == 1

    run(scene)


def test_strangers_are_turned_away(monkeypatch):
    async def scene():
        async with Served() as served:
            for port, hello, why in (
                (2, b"GET / HTTP/1.0\r\n", "no serial forwarder"),
                (2, b"T!\x03\0\0\0", "TinyOS 1 is served on port"),
                (1, b"\0\0\0\0", "no serial forwarder"),
            ):
                reader, writer = await served.connect(port)
                writer.write(hello)
                with contextlib.suppress(ConnectionError):
                    await reader.read()  # to its end: it was closed
                await until(lambda why=why: served.said and why in served.said[-1])
            monkeypatch.setattr(packet_formats.sf_protocol, "HELLO_SECONDS", 0.1)
            silent, _ = await served.connect(1)
            assert await silent.readexactly(2) == b"T!"
            await until(lambda: "did not greet" in served.said[-1])
            assert served.forwarder.counters.strangers == 4
            assert served.forwarder.counters.served == 0

    run(scene)


def test_garbage_and_a_half_open_client_do_not_slow_the_others():
    async def scene():
        async with Served() as served, taking(f"sf@127.0.0.1:{served.forwarder.ports[1]}") as taker:
            await until(lambda: served.clients == 1)
            clients = [await served.client(1) for _ in range(11)]
            for (_, writer), garbage in zip(clients, [b"\x01\xff", b"\x00"] * 5, strict=False):
                writer.write(garbage * 200_000)
            clients[10][1].write(b"\xff\x01\x02")  # and not a byte more
            for number in range(200):
                served.forwarder.forward(message(number))
                await asyncio.sleep(0.001)
            await taker.until(200)
            late = [line.mono_ns for line in taker.lines]
            assert late == sorted(late)
            await until(lambda: served.forwarder.counters.strangers == 10)
            assert served.forwarder.counters.refused == 10 * serving.WRONG
            assert served.clients == 2

    run(scene)


def test_a_thousand_strangers_do_not_fill_the_screen():
    told = []

    async def scene():
        server = Forwarder(nothing, say=told.append)
        await server.open(ports={1: 0})
        for _ in range(200):
            _, writer = await asyncio.open_connection("127.0.0.1", server.ports[1])
            writer.write(b"GET / HTTP/1.1")
            await writer.drain()
            writer.close()
        await until(lambda: server.counters.strangers == 200)
        server.close()

    run(scene)
    assert len(told) == serving.TOLD + 1


def test_clients_at_the_end_of_a_run_are_no_fault(caplog):
    """The event loop ends with them connected, and shows no exception of theirs."""

    async def scene():
        server = Forwarder(nothing)
        await server.open(ports={1: 0})
        clients = [await asyncio.open_connection("127.0.0.1", server.ports[1]) for _ in range(3)]
        await until(lambda: len(server._connected) == len(clients))

    run(scene)
    assert caplog.records == []


def test_there_is_a_most_of_clients(monkeypatch):
    monkeypatch.setattr(serving, "CLIENTS", 3)

    async def scene():
        async with Served() as served:
            kept = [await served.client(2) for _ in range(3)]
            reader, _ = await served.connect(2)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            kept[0][1].close()
            await until(lambda: served.clients == 2)
            await served.client(2)

    run(scene)


@pytest.mark.parametrize("control", [False, True])
def test_clients_of_other_machines_only_read_unless_told_otherwise(control, monkeypatch):
    monkeypatch.setattr(serving, "is_loopback", lambda address: False)  # as if it came from elsewhere
    told = []

    async def scene():
        async with Served() as served:
            served.forwarder._control = control
            served.forwarder._sent = lambda by, read, shown: told.append((by, read.type, shown))
            reader, writer = await served.client(2)
            writer.write(TWO)
            counters = served.forwarder.counters
            await until(lambda: counters.sent + counters.refused == 1)
            assert (served.down, counters.refused) == (([PACKET_TWO], 0) if control else ([], 1))
            served.forwarder.forward(PACKET_TWO)
            assert await reader.readexactly(len(TWO)) == TWO
            port = writer.get_extra_info("sockname")[1]
            assert told == ([(f"127.0.0.1:{port}", 6, True)] if control else [])
            assert control or "--serve-control" in served.said[-1]
            writer.write_eof()  # as `send` does, which then waits for our end: a reset says that all was not taken
            with contextlib.nullcontext() if control else pytest.raises(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()

    run(scene)


def test_whoever_does_not_greet_makes_room(monkeypatch):
    monkeypatch.setattr(serving, "CLIENTS", 3)

    async def scene():
        async with Served() as served:
            kept = [await served.client(2) for _ in range(2)]
            mute = [await served.connect(2) for _ in range(9)]
            await served.client(1)
            assert served.clients == 3
            for _, writer in kept + mute:
                writer.close()

    run(scene)


def test_the_idle_make_room_for_others(monkeypatch):
    """One machine that takes all places must not keep others out, and idle clients not their own machine."""
    monkeypatch.setattr(serving, "CLIENTS", 3)

    async def scene():
        async with Served() as served:
            crowd = [await served.client(2) for _ in range(3)]
            oldest, *_ = sorted(served.forwarder._greeted, key=lambda client: client.busy_at)
            for client in served.forwarder._greeted:
                client.host = "192.0.2.7"
            await served.client(2)
            assert oldest not in served.forwarder._connected
            assert served.clients == 3
            for client in served.forwarder._greeted:
                client.host, client.busy_at = "127.0.0.1", client.busy_at - 2 * serving.IDLE_SECONDS
            await served.client(2)
            assert served.clients == 3
            assert "made room" in served.said[-1]
            for _, writer in crowd:
                writer.close()

    run(scene)


def test_clients_that_reset_say_nothing_on_standard_error(caplog):
    """asyncio warns of each write to a connection that is gone: a burst of frames was a flood of warnings."""

    async def scene():
        async with Served() as served:
            for _ in range(20):
                _, writer = await served.client(2)
                linger = struct.pack("ii", 1, 0)  # closing then resets
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
                await asyncio.sleep(0)
                for _ in range(100):
                    served.forwarder.forward(PACKET_TWO)
                await until(lambda: served.clients == 0)

    run(scene)
    assert caplog.records == []


def test_loopback_unless_told_otherwise_and_a_port_in_use_is_an_error():
    async def scene():
        async with Served() as served:
            hosts = {sock.getsockname()[0] for server in served.forwarder._servers for sock in server.sockets}
            assert hosts == {"127.0.0.1"}
            other = Forwarder(served._keep)
            with pytest.raises(OSError, match="in use"):
                await other.open(ports={1: 0, 2: served.forwarder.ports[2]})
            assert not any(server.is_serving() for server in other._servers)

    run(scene)


def test_a_token_is_never_shown_to_clients():
    async def scene():
        async with Served() as served:
            reader, _ = await served.client(2)
            served.forwarder.forward(wanting_ack(9, 2, 0x55))
            expected = wanting_ack(9, 2, 0x55)[2:]
            assert await reader.readexactly(1 + len(expected)) == bytes([len(expected)]) + expected

    run(scene)
