"""Somebody with a radio who poses as a gateway or as a mote: what is honest stays in order, and it is said."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

from basestation.arrivals import Line
from basestation.causality import causal_graph
from basestation.deployed import scheme_of
from basestation.journal.projection import project_all
from basestation.journal.reader import read_journal
from basestation.live.happenings import Alarm, Arrived, ClockChanged, Delivered, Happening, Strange
from basestation.live.station import Station
from basestation.observer import Observer
from packet_formats.deployment import CRYSTAL_HZ, from_dict
from packet_formats.messages import Data, Message
from packet_formats.records import Health, Heard, Status
from tests.journal import logs
from tests.live.world import (
    MS,
    TICK,
    Gateway,
    Motes,
    arrival,
    beacon,
    deployment,
    health,
    mono_at,
    play,
)

SETUP = deployment(policy="cbd", phi=100)
START = 100 * CRYSTAL_HZ
EVERY = 8 * TICK  # a message: 400 take 12 s


def heard_record(time: int, epoch: int = 1) -> Heard:
    return Heard(4, epoch, 77, 0, 3, -60, 100, 0x1234, time % 2**32)


def status(time: int, epoch: int = 1) -> Status:
    return Status(4, time % 2**32, epoch, 1, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0)


@cache
def honest(count: int = 400) -> list[tuple[int, Message]]:
    """When each message is heard: one in two takes longer than the next."""
    motes, heard = Motes(SETUP, START), []
    for number in range(count):
        at = START + number * EVERY
        heard.append((at + (10 if number % 2 else 1) * TICK, motes.send(number % 4, at, (0, 1, 2, 3))))
    return sorted(heard, key=lambda item: item[0])


def pairs(frames: list[tuple[int, Message]]) -> list[Line]:
    """Through a gateway that hands up all that it hears, as those of older versions do."""
    gateway = Gateway(SETUP)
    for cycles, message in sorted(frames, key=lambda item: item[0]):
        gateway.hear(message, cycles)
    return gateway.out


def alone(frames: list[tuple[int, Message]]) -> list[Line]:
    """Through a BaseStation: frames only. A beacon every second gives the time."""
    last = max(cycles for cycles, _ in frames)
    beacons = [(at, beacon(at)) for at in range(START - TICK, last, CRYSTAL_HZ)]
    every = sorted([*frames, *beacons], key=lambda item: item[0])
    return [arrival(message, mono_at(cycles) + 4 * MS + n) for n, (cycles, message) in enumerate(every)]


def unordered(found: list[Happening]) -> int:
    return sum(not item.in_sync for item in found if isinstance(item, Delivered))


def alarms(found: list[Happening], what: str) -> list[bool]:
    return [item.raised for item in found if isinstance(item, Alarm) and item.what == what]


def logged(folder: Path, lines: list[Line]) -> tuple[Station, list[Happening]]:
    """Play lines, and keep the log that the runner would keep."""
    station, found = logs.logged(folder, sorted(lines, key=lambda line: line.mono_ns), SETUP)
    return station, found + station.finish()


def table(folder: Path) -> pa.Table:
    return pa.concat_tables(one.messages for one in project_all(read_journal(folder), SETUP, pytest.fail))


# ---- As a gateway ----


def gateways_health(time: int) -> Health:
    return health(4, time, SETUP)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("lines", "times", "forge"),
    [
        (pairs, 1, heard_record),
        (pairs, 4, heard_record),
        (alone, 4, heard_record),
        (pairs, 1, status),
        (alone, 1, status),
        (pairs, 1, gateways_health),
    ],
)
def test_a_gateways_record_from_the_air_is_not_believed(lines, times, forge):
    """One, or four within 31 s, of the next epoch: all messages are still ordered."""
    first = START + 5 * CRYSTAL_HZ
    forged = [(first + n * 10 * CRYSTAL_HZ, forge(first + n * 10 * CRYSTAL_HZ)) for n in range(times)]
    count = 400 * times
    station = Station(SETUP)
    found = play(station, lines(honest(count) + forged)) + station.finish()
    assert sum(isinstance(item, Delivered) for item in found) == count
    assert unordered(found) == 0
    assert not [item for item in found if isinstance(item, ClockChanged)]
    assert sum(isinstance(item, Strange) for item in found) == times
    assert alarms(found, "records")[0]
    snapshot = station.snapshot(0)
    assert snapshot.delivery.overtaken == 0
    assert snapshot.gateways[0].posed == times
    assert snapshot.gateways[0].status is None


def test_a_forged_record_whose_own_record_the_line_lost_is_not_believed():
    """Nothing shows that it came by air; but no frame of its own follows it."""
    forged = (START + 5 * CRYSTAL_HZ, heard_record(START + 5 * CRYSTAL_HZ))
    lines = pairs([*honest(), forged])
    at = next(n for n, line in enumerate(lines) if line.mono_ns >= mono_at(forged[0]) + 4 * MS)
    del lines[at]
    station = Station(SETUP)
    found = play(station, lines) + station.finish()
    assert unordered(found) == 0
    assert not [item for item in found if isinstance(item, ClockChanged)]


def test_whoever_sends_a_record_and_its_frame_behind_a_foreign_gateway_is_found_out():
    """The two look like a gateway of ours at first. The frames of the motes, which have no record, show otherwise."""
    message = Motes(SETUP, START).send(3, START)
    forged = replace(Gateway(SETUP, epoch=1).heard(message, START), epoch=1)
    frames = honest(200)
    lines = [arrival(forged, 1), arrival(message, 2), *alone(frames)]
    station = Station(SETUP)
    found = play(station, lines) + station.finish()
    assert station.snapshot(0).gateways[0].foreign
    assert unordered(found) < 40, "until the next beacon"
    assert station.timeline.epoch == 0


# ---- As a mote ----


def imitations(count: int) -> list[tuple[int, Message]]:
    """Of each message another one with its number, which says something else and is heard before it."""
    return [
        (cycles - TICK // 2, replace(data, data=b"\x66" * len(data.data), hops=data.hops ^ 1))
        for cycles, data in honest(count)
    ]


def relayed(frames: list[tuple[int, Message]]) -> list[tuple[int, Message]]:
    """Copies, which differ only in their hops."""
    return [(cycles + TICK // 4, replace(data, hops=data.hops ^ 2)) for cycles, data in frames]


def test_whoever_sends_the_next_number_first_drops_no_message(tmp_path):
    """Both are kept and shown, copies of both are dropped, and the order stays right; the table has the same rows."""
    frames = [*honest(300), *imitations(300), *relayed(honest(300)), *relayed(imitations(300))]
    station, found = logged(tmp_path, pairs(frames))
    delivered = [item for item in found if isinstance(item, Delivered)]
    assert Counter((item.name, item.data.data) for item in delivered).most_common(1)[0][1] == 1
    assert len(delivered) == 600
    assert sum(item.differs for item in delivered) == 300
    assert unordered(found) == 0
    assert alarms(found, "imitated") == [True] * 4
    text = next(item.text for item in found if isinstance(item, Alarm) and item.what == "imitated")
    assert text.startswith("somebody else speaks as mote ")
    snapshot = station.snapshot(0)
    assert snapshot.delivery.overtaken == 0
    assert sum(mote.imitated for mote in snapshot.motes) == 300
    assert sum(mote.lost for mote in snapshot.motes) == 0
    rows = table(tmp_path)
    assert list(zip(rows["source"].to_pylist(), rows["sequence"].to_pylist(), strict=True)) == [
        (item.name.source, item.name.sequence)
        for item in found
        if isinstance(item, Arrived) and isinstance(item.message, Data) and not item.copy
    ]


@pytest.mark.parametrize(("after", "believed"), [(20 * TICK, 0), (CRYSTAL_HZ, 20)])
def test_without_a_key_a_replay_is_known_until_its_mote_is_silent(tmp_path, after, believed):
    """Within the patience of 0.28 s it is a copy. Later it looks like a message that was sent again."""
    frames = honest(400)
    later = frames[-1][0] + after
    replays = [(later + n * TICK, data) for n, (_, data) in enumerate(frames[-20:])]
    station, found = logged(tmp_path, pairs(frames + replays))
    assert sum(isinstance(item, Delivered) for item in found) == 400 + believed
    assert sum(mote.duplicates for mote in station.snapshot(0).motes) == 20 - believed
    assert len(table(tmp_path)) == 400 + believed


@pytest.mark.parametrize("scheme", ["barrier", "vector", "delta-vector", "history", "sequence", "two-hop"])
def test_under_every_rule_both_messages_of_a_number_leave(scheme):
    setup = from_dict(
        {
            "network": {"name": "t", "board": "micaz", "motes": 4, "tinyos": 2},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": scheme},
        }
    )
    made, codec, observer = scheme_of(setup), scheme_of(setup).codec(), Observer(setup)
    programs = [made.start(mote) for mote in range(4)]
    left = []
    for number in range(1, 60):
        for source, program in enumerate(programs):
            now = 1000 + 8 * number + source
            fields = codec.encode(program.on_send(now, number), source, number)
            for said in (b"real", b"fake", b"real"):
                data = Data(source, (number - 1) % 256, fields, data=said)
                left += observer.receive(data, now + 2, digest=crc32(said)).deliveries
    left += observer.due(10_000)
    assert Counter((one.message.source, one.message.number) for one in left) == {
        (source, number): 2 for source in range(4) for number in range(1, 60)
    }


# ---- Costs ----


def test_receipts_of_what_is_to_come_cost_bounded_work(monkeypatch):
    """Mote 3 claims in each message what mote 0 has yet to send, and no mote hears mote 3. Mote 0 sends seldom, so that
    each of its messages has hundreds of effects that came before it, and changes what is known of all of them."""
    steps = 0
    raised = causal_graph._raise

    def counted(*given):
        nonlocal steps
        steps += 1
        return raised(*given)

    monkeypatch.setattr(causal_graph, "_raise", counted)
    motes, gateway, station, most = Motes(SETUP, START), Gateway(SETUP), Station(SETUP), 0
    for number in range(3000):
        source = 0 if number % 1000 == 0 else 1 + number % 3
        data = motes.send(source, START + number * TICK, () if source == 3 else (0, 1, 2))
        if source == 3:
            data = replace(data, receipts=((0, motes.sequences[0] % 256),) * 2)
        for line in gateway.hear(data, START + (number + 2) * TICK):
            steps = 0
            station.take(line)
            most = max(most, steps)
    assert 10 < most <= causal_graph.HANDED + 50
