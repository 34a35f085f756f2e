"""Gateways with clocks, lines and hearing of their own: order is kept, and a dead gateway stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Line, LineCount
from basestation.deployed import scheme_of
from basestation.journal.reader import read_journal
from basestation.journal.writer import JournalWriter
from basestation.live.happenings import Alarm, Delivered, Happening, Tentative
from basestation.live.runner import Player, Runner
from basestation.live.station import Station
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.framing import FrameCounters
from packet_formats.messages import Data

from .several import START, Several, SeveralWorld, order, overtaken, run
from .test_runner import Seen
from .world import MS, WALL, Gateway, mono_at, play

EXACT = ["barrier", "delta-vector", "shlc", "kn"]
SECOND = 1000 * MS
WORLDS = {
    "level": Several(rate=0.5, seconds=40),
    "busy": Several(rate=4, seconds=10, hears=(0.95, 0.95)),
    "one slow line": Several(seconds=25, slow_ms=160),
    "hardly heard": Several(seconds=25, hears=(0.9, 0.1)),
    "three": Several(seconds=25, hears=(0.5, 0.5, 0.5), lines_ms=(2.0, 10.0, 80.0), slow_ms=80),
    "short delta": Several(seconds=15, ticks=(8, 4), slow_ms=80),
    "few clocks": Several(seconds=15, ticks=(1, 8), slow_ms=80),
}


@pytest.mark.few(7)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("scheme", EXACT)
def test_every_exact_scheme_keeps_causal_order(scheme, world):
    station, network, found = run(replace(WORLDS[world], scheme=scheme), 1)
    sends = order(network, found)
    assert len(sends) > 60
    assert overtaken(sends) == 0
    assert station.snapshot(0).delivery.overtaken == 0


@given(
    st.sampled_from(EXACT),
    st.sampled_from([(3, 32), (1, 8), (2, 27), (10, 10), (8, 4)]),
    st.sampled_from([0.5, 2.0, 8.0]),
    st.lists(st.sampled_from([0.1, 0.5, 0.7, 1.0]), min_size=2, max_size=3),
    st.sampled_from([6.0, 86.0, 170.0]),
    st.sampled_from([0.0, 0.2, 0.6]),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_any_lines_clocks_and_hearing(scheme, ticks, rate, hears, slow_ms, late, timers, seed):
    options = Several(scheme, ticks, 4, rate, 16 / rate, 0.3, tuple(hears), (2.0, 10.0, 80.0), slow_ms, late)
    _, network, found = run(replace(options, timers=timers), seed)
    assert overtaken(order(network, found)) == 0


def test_the_ledger_that_tolerates_nothing_keeps_order():
    options = replace(WORLDS["one slow line"], observer=(("policy", "ledger"), ("tolerate", 0)))
    _, network, found = run(options, 2)
    assert overtaken(order(network, found)) == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["barrier", "delta-vector", "vector"])
def test_with_timers_and_without_the_deliveries_are_the_same(scheme):
    """A replay has no timers."""
    options = replace(WORLDS["three"], scheme=scheme)
    with_timers, without = (run(replace(options, timers=timers), 3)[2] for timers in (True, False))
    assert left(with_timers) == left(without)


def left(found: list[Happening]) -> list[tuple[str, int]]:
    return [(str(one.name), one.left) for one in found if isinstance(one, Delivered)]


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", EXACT)
def test_a_line_within_a_long_allowance_is_waited_for(scheme):
    """Two seconds behind the others do not drop a line whose allowance is longer."""
    options = Several(scheme, lines_ms=(2.0, 2.0), slow_ms=1_800, allowance_ms=2_600, seconds=30)
    for seed in range(3):
        _, network, found = run(options, seed)
        assert overtaken(order(network, found)) == 0


def held_ms(found: list[Happening], since_ns: int, until_ns: int) -> list[float]:
    return [
        one.held_ms
        for one in found
        if isinstance(one, Delivered) and since_ns <= one.mono_ns - one.held_ms * MS < until_ns
    ]


def only(gateway: int, until_ns: int, options: Several) -> tuple[list[Happening], int]:
    """A run in which the other gateway says nothing from a time on; when the run began."""
    network = SeveralWorld(options, 1)
    station = Station(network.setup, allowance_ns=int(options.allowance_ms * MS))
    for number in range(2):
        station.add_gateway(number, f"gateway {number}")
    begin = mono_at(START)
    station.advance(begin)
    for number in range(2):
        station.alarms.expect_gateway(station.timeline.gateway(number), begin)
    lines = [line for line in network.lines() if line.gateway == gateway or line.mono_ns < begin + until_ns]
    return play(station, lines), begin


@pytest.mark.parametrize("dies_after", [0, 20 * SECOND])
def test_a_silent_gateway_delays_messages_until_its_alarm_and_stops_nothing(dies_after):
    """One that never spoke, and one that dies in mid-run: the hold grows by the allowance at most."""
    options = Several(seconds=100, rate=2, hears=(0.95, 0.95), loss=0.0, late=0.0)
    found, begin = only(0, dies_after, options)
    (alarm,) = [one for one in found if isinstance(one, Alarm) and one.what == "gateway"]
    assert (alarm.raised, alarm.subject) == (True, 1)
    assert begin + dies_after < alarm.mono_ns <= begin + dies_after + 32 * SECOND
    waiting = held_ms(found, begin + dies_after + SECOND, alarm.mono_ns)
    after = held_ms(found, alarm.mono_ns, begin + 100 * SECOND)
    w_ms = (options.ticks[1] + 4 * options.ticks[0] + 2) * 128 * 1000 / CRYSTAL_HZ
    assert len(waiting) > 100
    assert max(waiting) <= options.allowance_ms + options.slow_ms + w_ms + 5
    assert len(after) > 100
    assert sum(after) / len(after) < sum(waiting) / len(waiting) / 2


# ---- Idle records ----


class Recorded:
    """A source that brings recorded lines with their own times."""

    text, live, acknowledges = "recorded", False, False

    def __init__(self, lines: list[Line]) -> None:
        self.counters = FrameCounters()
        self._lines = lines

    async def open(self) -> None:
        pass

    async def lines(self) -> AsyncIterator[Line]:
        for line in self._lines:
            yield line

    async def send(self, packet: bytes) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def logged(folder: Path, options: Several) -> tuple[list[Happening], int]:
    """What a run with a log delivers, and how long its log is."""
    network, seen = SeveralWorld(options, 1), Seen()
    station = Station(network.setup)
    for gateway in range(len(options.hears)):
        station.add_gateway(gateway, f"gateway {gateway}")
    source = Recorded(sorted(network.lines(), key=lambda line: line.mono_ns))
    with JournalWriter(folder, network.setup, "run", "never") as log:
        asyncio.run(Runner(station, [source], [seen], log).run())
    return seen.found, sum(path.stat().st_size for path in folder.glob("*.cwj"))


@pytest.mark.few(1)
@pytest.mark.parametrize(("hears", "rate"), [((0.95, 0.95), 4.0), ((0.7, 0.7), 0.5), ((0.7, 0.7), 4.0)])
def test_idle_records_shorten_the_hold_and_the_log_grows_little(tmp_path, hears, rate):
    options = Several(motes=10, rate=rate, seconds=60 / rate, hears=hears, loss=0.05, late=0.0)
    plain, before = logged(tmp_path / "plain", options)
    found, size = logged(tmp_path / "idle", replace(options, idle_ms=20))
    assert hold(found) < 0.8 * hold(plain)
    assert size < 1.2 * before
    again = Seen()
    station = Station(options.deployment)
    for gateway in range(2):
        station.add_gateway(gateway, f"gateway {gateway}")
    lines = read_journal(tmp_path / "idle").lines(lambda fault: None)
    asyncio.run(Player(station, lines, [again]).run())
    assert left(again.found) == left(found)


def hold(found: list[Happening]) -> float:
    return fmean(one.held_ms for one in found if isinstance(one, Delivered))


@pytest.mark.wide
@given(st.sampled_from(EXACT), st.sampled_from([0.5, 4.0]), st.integers(0, 10_000))
def test_idle_records_break_no_order(scheme, rate, seed):
    options = Several(scheme, (3, 32), 5, rate, 16 / rate, 0.3, (0.7, 0.5), (2.0, 10.0), 86.0, idle_ms=20)
    _, network, found = run(options, seed)
    assert overtaken(order(network, found)) == 0


def test_a_message_that_waits_for_another_line_says_so():
    setup = Several().deployment
    station, found = Station(setup), []
    gateways = [Gateway(setup, number) for number in range(2)]
    for number in range(2):
        station.add_gateway(number, f"gateway {number}")
    program, codec = scheme_of(setup).start(0), scheme_of(setup).codec()
    for number, cycles, heard_by in ((1, START, 0), (2, START + CRYSTAL_HZ, 0)):
        stamp = program.on_send(cycles >> 7, number)
        data = Data(0, number - 1, codec.encode(stamp, 0, number), data=bytes(2))
        for line in gateways[heard_by].hear(data, cycles):
            found += station.take(line)
    assert [one.text for one in found if isinstance(one, Tentative)] == [
        "waits for the line of gateway 1"
    ] * 2
    assert [row.why for row in station.snapshot(gateways[0].last_ns).queue] == ["for the line of gateway 1"]


@pytest.mark.few(3)
@pytest.mark.parametrize("scheme", EXACT)
@pytest.mark.parametrize(
    ("slept_ms", "suspended"), [(300, False), (2_500, False), (8_000, False), (8_000, True)]
)
def test_after_a_sleep_the_lines_that_are_read_last_are_waited_for(scheme, slept_ms, suspended):
    """What waited comes line by line: the first line's clock is a whole sleep ahead of the others. The host's clock
    stands still while the machine is suspended."""
    options = Several(scheme, motes=5, seconds=25, loss=0.3, idle_ms=20)
    network = SeveralWorld(options, 1)
    lines = sorted(network.lines(), key=lambda line: line.mono_ns)
    asleep = mono_at(START) + 10 * SECOND
    awake = asleep + slept_ms * MS
    waited = [line for line in lines if asleep <= line.mono_ns < awake]
    waited.sort(key=lambda line: line.gateway)  # stable: each line stays in order
    read, still = awake + 1000 * len(waited), slept_ms * MS * suspended
    lines = [
        *[line for line in lines if line.mono_ns < asleep],
        LineCount(0, asleep, WALL + asleep, slept_ns=slept_ms * MS, suspended_ns=still),
        *[line._replace(mono_ns=awake - still + 1000 * place) for place, line in enumerate(waited)],
        *[line._replace(mono_ns=max(line.mono_ns, read) - still) for line in lines if line.mono_ns >= awake],
    ]
    station = Station(network.setup, allowance_ns=int(options.allowance_ms * MS))
    for gateway in range(2):
        station.add_gateway(gateway, f"gateway {gateway}")
    found = play(station, lines) + station.finish()
    assert len(left(found)) > 150
    assert overtaken(order(network, found)) == 0
