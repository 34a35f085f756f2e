"""What is put in at one end comes out at the other: the same tests over every kind of source."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from basestation.arrivals import Arrival
from basestation.journal.writer import JournalWriter
from basestation.sources import SourceError, open_source, testbed_source
from packet_formats.framing import encode_frame
from tests.sources.ends import QUICK, ForwarderEnd, PtyEnd, TcpEnd, accounted, message, taking
from tests.waiting import until

FAKE_TESTBED = """
import socket, sys, threading
print("building", file=sys.stderr, flush=True)
server = socket.create_server(("127.0.0.1", 0))
print(f"meadow, gateway 20: network@127.0.0.1:{server.getsockname()[1]}", file=sys.stderr, flush=True)
line, _ = server.accept()
far, _ = server.accept()
def carry(a, b):
    while data := a.recv(4096):
        b.sendall(data)
    b.close()
threading.Thread(target=carry, args=(line, far), daemon=True).start()
carry(far, line)
sys.exit(1)  # cut off: no end in order
"""


class SerialLine:
    @asynccontextmanager
    async def end(self, tmp_path: Path, monkeypatch: Any) -> AsyncIterator[Any]:
        end = PtyEnd(tmp_path / "tty")
        try:
            yield end
        finally:
            await end.stop()


class NetworkLine:
    @asynccontextmanager
    async def end(self, tmp_path: Path, monkeypatch: Any) -> AsyncIterator[Any]:
        end = self.make()
        await end.start()
        try:
            yield end
        finally:
            await end.stop()

    def make(self) -> TcpEnd:
        return TcpEnd()


class ForwarderLine(NetworkLine):
    tinyos = 1

    def make(self) -> TcpEnd:
        return ForwarderEnd(self.tinyos)


class TestbedEnd(TcpEnd):
    """A stand-in for the program: what the far end puts in comes out of its port."""

    __test__ = False
    text = "testbed@?motes=3"


class BackToBack:
    """Every live line."""

    tinyos = 1
    comes_back = True
    end: Any

    def run(self, tmp_path: Path, monkeypatch: Any, scene: Any) -> None:
        async def play() -> None:
            async with self.end(tmp_path, monkeypatch) as end:
                await scene(end)

        asyncio.run(asyncio.wait_for(play(), 30))

    def test_packets_come_up_in_order_with_the_time_of_their_coming(self, tmp_path, monkeypatch):
        async def scene(end):
            sent = [message(number, self.tinyos, number % 28) for number in range(300)]
            async with taking(end.text, gateway=2) as taker:
                before = time.monotonic_ns()
                for packet in sent:
                    await end.put_packet(packet)
                await taker.until(len(sent))
                assert taker.packets == sent
                assert {line.gateway for line in taker.lines} == {2}
                times = [line.mono_ns for line in taker.lines]
                assert times == sorted(times)
                assert before < times[0]
                assert times[-1] < time.monotonic_ns()
                assert abs(taker.lines[-1].wall_ns - time.time_ns()) < 60e9
                assert taker.source.counters.frames == len(sent)
            assert accounted(taker.source)

        self.run(tmp_path, monkeypatch, scene)

    def test_packets_go_down(self, tmp_path, monkeypatch):
        async def scene(end):
            async with taking(end.text) as taker:
                await end.put_packet(message(0, self.tinyos))
                await taker.until(1)
                down = [message(number, self.tinyos) for number in range(20)]
                for packet in down:
                    await taker.source.send(packet)
                assert await end.got(20) == down

        self.run(tmp_path, monkeypatch, scene)

    def test_what_a_gateway_would_radiate_corrupt_is_refused(self, tmp_path, monkeypatch):
        async def scene(end):
            async with taking(end.text) as taker:
                limit = 29 if self.tinyos == 1 else 28
                oversize = bytearray(message(1, self.tinyos, limit)) + b"\0"
                oversize[5 if self.tinyos == 1 else 6] += 1
                for wrong, why in ((bytes(oversize), "over the"), (b"\x99\x01", "unknown packet type")):
                    with pytest.raises(SourceError, match=why):
                        await taker.source.send(wrong)
                await taker.source.send(message(7, self.tinyos))
                assert await end.got(1) == [message(7, self.tinyos)]

        self.run(tmp_path, monkeypatch, scene)

    def test_a_line_that_goes_away_and_comes_back(self, tmp_path, monkeypatch):
        async def scene(end):
            async with taking(end.text) as taker:
                await end.put_packet(message(1, self.tinyos))
                await taker.until(1)
                await end.cut()
                await taker.until(1, "gaps")
                assert not taker.gaps[0].back
                assert taker.gaps[0].reason
                with pytest.raises(SourceError):
                    await taker.source.send(message(5, self.tinyos))
                if not self.comes_back:
                    await asyncio.wait_for(taker.task, 5)
                    return
                await asyncio.sleep(0.2)
                await end.mend()
                await taker.until(2, "gaps")
                assert taker.gaps[1].back
                await end.put_packet(message(2, self.tinyos))
                await taker.until(2)
                await taker.source.send(message(3, self.tinyos))
                assert await end.got(1) == [message(3, self.tinyos)]
                kinds = ["packet" if isinstance(line, Arrival) else line.back for line in taker.lines]
                assert kinds == ["packet", False, True, "packet"]

        self.run(tmp_path, monkeypatch, scene)

    def test_closing_ends_the_lines_at_once(self, tmp_path, monkeypatch):
        async def scene(end):
            async with taking(end.text) as taker:
                await end.put_packet(message(1, self.tinyos))
                await taker.until(1)
                started = time.monotonic()
            assert time.monotonic() - started < 2
            assert not taker.gaps
            with pytest.raises(SourceError, match="closed"):
                await taker.source.send(message(5, self.tinyos))

        self.run(tmp_path, monkeypatch, scene)


class TestSerial(SerialLine, BackToBack):
    pass


class TestSerial2(SerialLine, BackToBack):
    tinyos = 2


class TestNetwork(NetworkLine, BackToBack):
    pass


class TestForwarder1(ForwarderLine, BackToBack):
    pass


class TestForwarder2(ForwarderLine, BackToBack):
    tinyos = 2


class TestTestbed(BackToBack):
    """With a program in the testbed's place that has its manners."""

    comes_back = False

    @asynccontextmanager
    async def end(self, tmp_path: Path, monkeypatch: Any) -> AsyncIterator[Any]:
        program = tmp_path / "fake.py"
        program.write_text(FAKE_TESTBED)
        monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))
        real = testbed_source.dial
        end = TestbedEnd()

        async def dial_both(text: str, host: str, port: int) -> Any:
            link = await real(text, host, port)
            end.reader, end.writer = await asyncio.open_connection(host, port)
            end.client.set()
            return link

        monkeypatch.setattr(testbed_source, "dial", dial_both)
        end.server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        try:
            yield end
        finally:
            await end.stop()


class Recorded:
    """What is played comes out the same, whatever the pace."""

    def play(self, text: str, **options: Any) -> tuple[Any, list[Any]]:
        async def take() -> tuple[Any, list[Any]]:
            source = open_source(text, 0, QUICK)
            lines = [line async for line in source.lines()]
            await source.close()
            return source, lines

        return asyncio.run(asyncio.wait_for(take(), 60))

    def text(self, tmp_path: Path, root: Path, pace: str) -> str:
        raise NotImplementedError

    def test_the_same_packets_at_every_pace(self, tmp_path, root):
        fast, lines = self.play(self.text(tmp_path, root, "0"))
        paced, others = self.play(self.text(tmp_path, root, "5"))
        assert (fast.live, paced.live) == (False, True)
        assert len(lines) >= 20
        assert [line.packet for line in lines] == [line.packet for line in others]
        assert fast.counters.frames == paced.counters.frames == len(lines)
        recorded = (lines[-1].mono_ns - lines[0].mono_ns) / 1e9
        played = (others[-1].mono_ns - others[0].mono_ns) / 1e9
        assert recorded > 0.2
        assert recorded / 5 - 0.01 <= played < recorded / 5 + 1
        assert [line.mono_ns for line in lines] == sorted(line.mono_ns for line in lines)

    def test_nothing_can_be_sent_and_closing_ends_it(self, tmp_path, root):
        async def scene() -> None:
            source = open_source(self.text(tmp_path, root, "0.001"), 0, QUICK)
            taken = []

            async def take() -> None:
                async for line in source.lines():
                    taken.append(line)

            task = asyncio.create_task(take())
            await until(lambda: taken, "a line")
            with pytest.raises(SourceError, match="hears nothing"):
                await source.send(message(1))
            await source.close()
            await asyncio.wait_for(task, 1)

        asyncio.run(asyncio.wait_for(scene(), 30))


class TestReplayOfACapture(Recorded):
    def text(self, tmp_path: Path, root: Path, pace: str) -> str:
        path = tmp_path / "capture.bin"
        path.write_bytes(b"".join(encode_frame(message(number)) for number in range(100)))
        return f"replay@{path}?pace={pace}"


class TestReplayOfHex(Recorded):
    def text(self, tmp_path: Path, root: Path, pace: str) -> str:
        path = tmp_path / "capture.txt"
        path.write_text("\n".join(encode_frame(message(number)).hex(" ") for number in range(100)))
        return f"replay@{path}?pace={pace}"


class TestReplayOfAJournal(Recorded):
    def text(self, tmp_path: Path, root: Path, pace: str) -> str:
        with JournalWriter(tmp_path / f"run{pace}", None, "run", "never") as journal:
            for number in range(30):
                at = 10**12 + number * 20_000_000
                journal.append(Arrival(0, at, 10**18 + at, message(number)))
        return f"replay@{tmp_path}/run{pace}?pace={pace}"


class TestSimulate(Recorded):
    def text(self, tmp_path: Path, root: Path, pace: str) -> str:
        return f"simulate@{root}/examples/micaz.toml?messages=60&motes=5&seed=3&rate=0.05&pace={pace}"
