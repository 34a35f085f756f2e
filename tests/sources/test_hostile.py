"""Lines at their worst: stalls, garbage, floods, ports that vanish. Every byte is accounted for, nothing hangs."""

import asyncio
import contextlib
import os
import random
import resource
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from basestation.sources import SourceError, attached_ports, inbox, open_source, tcp
from basestation.sources import serial as serial_source
from packet_formats.framing import encode_frame
from tests.sources.ends import QUICK, PtyEnd, TcpEnd, accounted, free_port, message, taking, wanting_ack
from tests.waiting import until

ENDS = []


def run(scene):
    async def play():
        try:
            await asyncio.wait_for(scene, 60)
        finally:
            for end in ENDS:
                await end.stop()
            ENDS.clear()

    asyncio.run(play())


async def tcp_end():
    end = TcpEnd()
    await end.start()
    ENDS.append(end)
    return end


def pty_end(path):
    end = PtyEnd(path)
    ENDS.append(end)
    return end


# Bytes


def test_a_stall_within_a_frame_delays_that_frame_alone(tmp_path):
    async def scene():
        for end in (pty_end(tmp_path / "tty"), await tcp_end()):
            async with taking(end.text) as taker:
                frame = encode_frame(message(2))
                await end.put(encode_frame(message(1)) + frame[:9])
                await taker.until(1)
                await asyncio.sleep(0.5)
                assert len(taker.packets) == 1
                resumed = time.monotonic_ns()
                await end.put(frame[9:])
                await taker.until(2)
                assert taker.packets == [message(1), message(2)]
                assert taker.lines[0].mono_ns < resumed - 4e8
                assert taker.lines[1].mono_ns > resumed
                assert not taker.gaps

    run(scene())


def test_a_line_lost_within_a_frame_counts_its_bytes_and_begins_anew(tmp_path):
    async def scene():
        end = pty_end(tmp_path / "tty")
        async with taking(end.text) as taker:
            frame = encode_frame(message(2))
            begun = encode_frame(message(1)) + frame[:9]
            await end.put(begun)
            await until(lambda: taker.source.counters.fed == len(begun), "all bytes")
            end.unplug()
            await taker.until(1, "gaps")
            assert taker.source.counters.partial.bytes == 8
            end.plug()
            await taker.until(2, "gaps")
            await end.put(frame[9:] + encode_frame(message(3)))
            await taker.until(2)
            assert taker.packets == [message(1), message(3)]
            assert taker.source.counters.noise.bytes == len(frame) - 10
        assert accounted(taker.source)

    run(scene())


def test_garbage_is_counted_to_the_byte_and_hides_no_frame():
    async def scene():
        chance = random.Random(5)
        end = await tcp_end()
        async with taking(end.text) as taker:
            size = 0
            for number in range(200):
                noise = chance.randbytes(chance.randrange(600))
                raw = noise + b"\x7e" + encode_frame(message(number))
                size += len(raw)
                await end.put(raw)
            ours = [message(number) for number in range(200)]
            await until(lambda: taker.packets[-1:] == ours[-1:], "the last packet")
            assert [packet for packet in taker.packets if packet in set(ours)] == ours
        assert taker.source.counters.fed == size
        assert accounted(taker.source)
        assert taker.source.counters.dropped_bytes > 10_000

    run(scene())


@pytest.mark.parametrize("tinyos", [1, 2])
def test_packets_that_want_an_acknowledgement_get_it(tmp_path, tinyos):
    async def scene():
        for end in (pty_end(tmp_path / "tty"), await tcp_end()):
            async with taking(end.text) as taker:
                wanting = [wanting_ack(number, tinyos, 255 - number) for number in range(5)]
                for packet in wanting:
                    await end.put_packet(packet)
                await taker.until(5)
                assert taker.packets == wanting
                kind = 0x40 if tinyos == 1 else 0x43
                assert await end.got(5) == [bytes([kind, 255 - number]) for number in range(5)]

    run(scene())


# Floods


def test_a_flood_is_taken_in_whole_and_in_order():
    """40,000 frames as fast as they go, where 57600 baud would bring 250 a second."""

    async def scene():
        packets = [message(number) for number in range(400)] * 100
        frames = b"".join(map(encode_frame, packets))
        end = await tcp_end()
        async with taking(end.text) as taker:
            await end.put(frames)
            await taker.until(len(packets))
        assert taker.packets == packets
        assert accounted(taker.source)

    run(scene())


def test_a_flood_that_nobody_takes_stays_outside():
    """The reader stops, so the sender must: what is read ahead is bounded, and nothing is lost."""

    async def scene():
        end = await tcp_end()
        source = open_source(end.text, 0, QUICK)
        await source.open()
        lines = source.lines()
        packets = [message(number) for number in range(2000)]
        frames = b"".join(map(encode_frame, packets))
        before, put = memory(), 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while True:
                    await end.put(frames)
                    put += len(packets)
        assert end.writer.transport.get_write_buffer_size() > 0, "the sender was never stopped"
        link = source._connection.link
        assert tcp.ROOM < link.inbox.most <= tcp.ROOM + 256 * 1024
        for number in range(put):
            assert (await anext(lines)).packet == packets[number % len(packets)]
        assert memory() - before < 32 << 20
        await source.close()

    run(scene())


def test_a_serial_flood_that_nobody_takes_stays_in_the_kernel(tmp_path):
    async def scene():
        end = pty_end(tmp_path / "tty")
        source = open_source(end.text, 0, QUICK)
        await source.open()
        os.set_blocking(end.master, False)
        most = serial_source.CHUNKS_AHEAD * (serial_source.CHUNK + 1) + 65536
        frame, put, quiet = encode_frame(message(0)), 0, 0
        while quiet < 50:
            try:
                put += os.write(end.master, frame[put % len(frame) :])
                quiet = 0
                assert put <= most
            except BlockingIOError:
                quiet += 1
                await asyncio.sleep(0.01)
        lines, count = source.lines(), 0
        async with asyncio.timeout(10):
            while count < put // len(frame):
                assert (await anext(lines)).packet == message(0)
                count += 1
        await source.close()
        # The last frame may have been cut off, and not read yet.
        assert put - len(frame) < source.counters.fed <= put
        assert accounted(source)

    run(scene())


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Lines that come and go


def test_a_port_is_found_again_by_its_usb_serial_number(tmp_path, monkeypatch):
    async def scene():
        first, second = pty_end(tmp_path / "ttyUSB1"), pty_end(tmp_path / "ttyUSB3")
        other = pty_end(tmp_path / "ttyUSB2")
        board = attached_ports.SerialPort(str(first.link), "MIB520", "0403:6010", "XBOW1", "1.1")
        half = replace(board, device=str(other.link), interface="1.0")
        plugged, looks = [half, board], []

        def attached():
            looks.append(plugged)
            return plugged

        monkeypatch.setattr(attached_ports, "attached", attached)
        async with taking(first.text) as taker:
            await first.put_packet(message(1))
            await taker.until(1)
            stranger = replace(board, serial_number="OTHER")
            plugged[:] = [half, stranger]
            first.unplug()
            first.plug()  # another board under the old name: not ours
            await taker.until(1, "gaps")
            looks.clear()
            await until(lambda: len(looks) >= 3, "some tries to find it")
            assert len(taker.gaps) == 1
            with pytest.raises(SourceError, match="the board XBOW1 is not plugged in"):
                await taker.source.send(message(9))
            plugged[:] = [half, stranger, replace(board, device=str(second.link))]
            await taker.until(2, "gaps")
            await second.put_packet(message(2))
            await taker.until(2)
            assert taker.packets == [message(1), message(2)]

    run(scene())


def test_a_port_is_ours_alone(tmp_path):
    async def scene():
        end = pty_end(tmp_path / "tty")
        async with taking(end.text):
            with pytest.raises(SourceError, match=r"in use|busy"):
                await open_source(end.text, 1, QUICK).open()

    run(scene())


def test_a_patient_source_waits_for_its_first_connection():
    async def scene():
        with free_port() as port:
            end = TcpEnd()
            ENDS.append(end)
            end.port = port
            source = open_source(end.text, 0, replace(QUICK, patient=True))
            lines = source.lines()
            lost = await anext(lines)
            assert not lost.back
            assert "refused" in lost.reason
        await end.start()
        assert (await anext(lines)).back
        await end.put_packet(message(1))
        assert (await anext(lines)).packet == message(1)
        await source.close()

    run(scene())


def test_what_cannot_be_opened_is_said_at_once():
    async def scene():
        with free_port() as port:
            source = open_source(f"network@127.0.0.1:{port}", 0, QUICK)
            with pytest.raises(SourceError, match="refused: nothing listens on port"):
                await anext(source.lines())
        with pytest.raises(SourceError, match="/dev/ttyUSB77 is not there"):
            await open_source("serial@/dev/ttyUSB77", 0, QUICK).open()

    run(scene())


def test_tries_become_rarer_until_something_comes():
    async def scene():
        tries = []

        async def connect(counters):
            tries.append(time.monotonic())
            raise SourceError("no")  # each try is as late as the machine is busy, but never too early

        from basestation.sources.line import LineSource

        options = replace(QUICK, patient=True, first_retry=0.02, longest_retry=0.16)
        source = LineSource("x@", 0, connect, options)
        lines = source.lines()
        await anext(lines)
        waiting = asyncio.ensure_future(anext(lines, None))
        await until(lambda: len(tries) >= 7, "seven tries")
        assert source._pause == 0.16
        await source.close()
        assert await waiting is None
        pauses = [b - a for a, b in pairwise(tries)]
        for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.16, 0.16, 0.16), strict=False):
            assert pause >= least

    run(scene())


def test_the_inbox_gives_what_came_before_the_end_first():
    async def scene():
        box = inbox.Inbox()
        box.put(inbox.stamped(b"last"))
        box.end("gone")
        box.end("again")
        assert (await box.get()).data == b"last"
        with pytest.raises(inbox.LineLost, match="gone"):
            await box.get()

    run(scene())
