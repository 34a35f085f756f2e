"""The whole base station on lines at their worst: every byte is accounted for, nothing hangs, and order stays right."""

from __future__ import annotations

import asyncio
import gc
import random
import resource
import time
from collections import Counter

from basestation.arrivals import Arrival
from basestation.causality.causal_graph import Node
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.writer import JournalWriter
from basestation.live import downlink, overtakings
from basestation.live.happenings import Alarm, ClockChanged, Delivered, Happening, LineChanged
from basestation.live.runner import WAITING, Runner
from basestation.live.station import Station
from basestation.sources import open_source, tcp
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.layout import layout_of
from tests.live.test_runner import Seen
from tests.live.world import MS, TICK, WALL, Gateway, Motes, arrival, beacon, deployment, names
from tests.sources.ends import QUICK, PtyEnd, TcpEnd, accounted
from tests.waiting import until

SETUP = deployment(policy="cbd", phi=100)
START = 100 * CRYSTAL_HZ
SECOND = 1000 * MS


def packets(count: int, start: int = START, motes: Motes | None = None) -> list[bytes]:
    """Messages that all receive at once; every second one takes longer to the gateway than the next."""
    motes, gateway = motes or Motes(SETUP, START), Gateway(SETUP)
    heard = []
    for number in range(count):
        at = start + number * 4 * TICK
        heard.append((at + (9 if number % 2 == 0 else 2) * TICK, motes.send(number % 4, at, (0, 1, 2, 3))))
    for cycles, data in sorted(heard, key=lambda item: item[0]):
        gateway.hear(data, cycles)
    return [line.packet for line in gateway.out if isinstance(line, Arrival)]


def line(*parts: list[bytes]) -> bytes:
    return b"".join(encode_frame(packet) for part in parts for packet in part)


def test_a_port_that_disappears_in_mid_frame_and_returns(tmp_path):
    """What came before and after it is delivered in order; the log has the gap, the alarm goes on and off."""
    motes, seen = Motes(SETUP, START), Seen()
    before, after = packets(20, motes=motes), packets(20, START + 5 * CRYSTAL_HZ, motes)
    end, station = PtyEnd(tmp_path / "tty"), Station(SETUP)
    source = open_source(end.text, 0, QUICK)

    async def scene(log: JournalWriter) -> None:
        runner = Runner(station, [source], [seen], log)
        running = asyncio.create_task(runner.run())
        cut = len(encode_frame(after[0])) // 2
        await until(lambda: source._connection is not None)
        await end.put(line(before) + encode_frame(after[0])[:cut])
        await until(lambda: source.counters.fed == len(line(before)) + cut)
        end.unplug()
        await until(lambda: any(isinstance(item, LineChanged) for item in seen.found))
        end.plug()
        await until(lambda: any(isinstance(item, LineChanged) and item.back for item in seen.found))
        await end.put(encode_frame(after[0])[cut:] + line(after))
        await until(lambda: len(names(seen.found)) == 40)
        runner.stop()
        await running
        await end.stop()

    with JournalWriter(tmp_path / "run", SETUP, "run") as log:
        asyncio.run(asyncio.wait_for(scene(log), 60))
    snapshot = station.snapshot(time.monotonic_ns())
    assert snapshot.arrival.overtaken >= 10
    assert snapshot.delivery.overtaken == 0
    assert snapshot.gateways[0].gaps == 1
    assert [item.raised for item in seen.found if isinstance(item, Alarm) and item.what == "line"] == [
        True,
        False,
    ]
    assert accounted(source)
    assert source.counters.partial.bytes > 0
    kinds = [record.kind for record in read_journal(tmp_path / "run").records(lambda fault: None)]
    assert kinds.count(RecordKind.FRAME) == 80
    assert kinds.count(RecordKind.GAP) == 2


def test_a_line_that_stalls_in_mid_frame_for_a_minute():
    """In the line's own time: the alarm comes and goes, the frame is read, and what follows is in order."""
    motes, station, decoder = Motes(SETUP, START), Station(SETUP), FrameDecoder()
    station.add_gateway(0, "line")
    before, after = packets(20, motes=motes), packets(20, START + 70 * CRYSTAL_HZ, motes)
    raw = line(before)
    found = []

    def feed(piece: bytes, mono_ns: int) -> None:
        while (due := station.next_due()) is not None and due < mono_ns:
            found.extend(station.advance(due))
        for packet in decoder.feed(piece):
            found.extend(station.take(Arrival(0, mono_ns, WALL + mono_ns, packet)))

    feed(raw[:-7], 2 * SECOND)
    whole = len(names(found))
    assert whole < 20
    feed(raw[-7:], 62 * SECOND)
    feed(line(after), 67 * SECOND)
    found.extend(station.finish())
    alarms = [item.raised for item in found if isinstance(item, Alarm) and item.what == "gateway"]
    assert alarms == [True, False]
    assert len(names(found)) == 40
    assert [item.what for item in found if isinstance(item, ClockChanged)] == []
    snapshot = station.snapshot(68 * SECOND)
    assert snapshot.arrival.overtaken >= 10
    # A minute passed with the last message on the line: the station could not know that it had to wait.
    last = [item for item in found if isinstance(item, Delivered)][19]
    assert snapshot.delivery.overtaken <= 1
    assert last.mono_ns >= 62 * SECOND
    counters = decoder.counters
    assert counters.fed == len(raw) + len(line(after)) == counters.flags + counters.good


def test_garbage_between_frames_costs_no_message_and_no_order():
    chance, station, decoder = random.Random(3), Station(SETUP), FrameDecoder()
    found, size = [], 0
    for number, packet in enumerate(packets(300)):
        raw = chance.randbytes(chance.randrange(200)) + b"\x7e" + encode_frame(packet)
        size += len(raw)
        now = SECOND + number * 8 * MS
        for item in decoder.feed(raw):
            found += station.take(Arrival(0, now, WALL + now, item))
    found += station.finish()
    ours = [item for item in found if isinstance(item, Delivered)]
    assert len(ours) == 300
    snapshot = station.snapshot(60 * SECOND)
    assert snapshot.arrival.overtaken >= 100
    assert snapshot.delivery.overtaken == 0
    counters = decoder.counters
    assert counters.fed == size == counters.flags + counters.good + counters.dropped_bytes
    assert counters.dropped_bytes > 10_000


def test_a_flood_far_beyond_line_rate(tmp_path):
    """Every message in eighty copies, all at once, and far more than is read ahead. It is taken as fast as we can;
    however long that takes, nothing is overtaken by what waits outside meanwhile."""
    flood = copied(packets(60), 80)
    raw = line(flood)
    assert len(raw) > 3 * tcp.ROOM
    seen, station = Counting(), Station(SETUP)
    before = memory()

    async def scene(log: JournalWriter) -> int:
        end = TcpEnd()
        await end.start()
        source = open_source(end.text, 0, QUICK)
        runner = Runner(station, [source], [seen], log)
        running = asyncio.create_task(runner.run())
        await asyncio.wait_for(end.client.wait(), 10)
        end.writer.write(raw)
        fullest = 0
        async with asyncio.timeout(90):
            while source.counters.fed < len(raw) or seen.counts[Delivered] < 60:
                await asyncio.sleep(0.005)
                fullest = max(fullest, runner._lines.qsize())
        assert source._connection.link.inbox.most <= tcp.ROOM + tcp.AT_ONCE
        assert accounted(source)
        runner.stop()
        await running
        await end.stop()
        return fullest

    with JournalWriter(tmp_path / "run", SETUP, "run", "never") as log:
        assert asyncio.run(asyncio.wait_for(scene(log), 120)) <= WAITING
    snapshot = station.snapshot(time.monotonic_ns())
    assert (snapshot.received, snapshot.delivered, snapshot.forced) == (60, 60, 0)
    assert sum(mote.duplicates for mote in snapshot.motes) == 60 * 79
    assert snapshot.arrival.overtaken >= 20
    assert snapshot.delivery.overtaken == 0
    assert memory() - before < 16 << 20
    kinds = [record.kind for record in read_journal(tmp_path / "run").records(lambda fault: None)]
    assert kinds.count(RecordKind.FRAME) == len(flood)


def test_a_mote_that_falls_silent_does_not_keep_what_came_after_it(monkeypatch):
    """The witness of its last message is remembered for good, but none of that message's effects."""
    monkeypatch.setattr(overtakings, "MOST_WINDOW", overtakings.LEAST_WINDOW)
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    for number in range(2 * overtakings.LEAST_WINDOW):
        at = START + number * 4 * TICK
        sender = 3 if number == 0 else number % 3
        for item in gateway.hear(motes.send(sender, at, (0, 1, 2, 3)), at):
            station.take(item)
        gateway.out.clear()
    gc.collect()
    assert sum(type(item) is Node for item in gc.get_objects()) <= overtakings.LEAST_WINDOW + 16


def test_what_nobody_asks_for_does_not_pile_up(monkeypatch):
    """Not while `send` waits for an acknowledgement on a line that floods: the newest are kept."""
    monkeypatch.setattr(downlink, "MOST_HEARD", 64)

    async def scene() -> list[int]:
        conversation = downlink.Talk([], layout_of(SETUP))
        for number in range(3 * downlink.MOST_HEARD):
            conversation._take(0, arrival(beacon(number), 0, setup=SETUP).packet)
        return [message.time async for message in conversation.heard(0.05)]

    last = 3 * downlink.MOST_HEARD
    assert asyncio.run(scene()) == list(range(last - downlink.MOST_HEARD, last))


def copied(pairs: list[bytes], copies: int) -> list[bytes]:
    """Each heard record with its frame, `times` times."""
    return [packet for at in range(0, len(pairs), 2) for _ in range(copies) for packet in pairs[at : at + 2]]


class Counting:
    """A sink that only counts."""

    def __init__(self) -> None:
        self.counts: Counter[type[Happening]] = Counter()

    def take(self, happening: Happening) -> None:
        self.counts[type(happening)] += 1

    def close(self) -> None:
        pass


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
