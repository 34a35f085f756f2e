"""A machine that sleeps says so once: no line is slow for that, and no mote silent. A replay says the same."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from basestation.arrivals import LineCount
from basestation.journal.reader import read_journal
from basestation.journal.writer import JournalWriter
from basestation.live import runner as runner_module
from basestation.live import watching
from basestation.live.happenings import Alarm, ClockChanged
from basestation.live.runner import Player, Runner
from basestation.live.station import Station
from packet_formats.deployment import CRYSTAL_HZ
from tests.live.station_runs import of
from tests.live.test_runner import SETUP, START, FakeSource, Seen, recorded, run, scripted
from tests.live.world import TICK, WALL, Gateway, Motes, names, play
from tests.waiting import until

SECOND = 10**9
ASLEEP, AWAKE = 20 * SECOND, 45 * SECOND


@dataclass
class Clocks:
    """The clocks of a machine, in seconds: suspended only the last one goes on."""

    monotonic: float = 100.0
    worked: float = 3.0
    since_boot: float = 100.0

    def pass_by(self, seconds: float, worked: float = 0.0) -> None:
        self.monotonic += seconds
        self.since_boot += seconds
        self.worked += worked

    def as_module(self, knows_boot: bool) -> SimpleNamespace:
        def ns(seconds: float) -> int:
            return round(seconds * SECOND)

        known = {"CLOCK_BOOTTIME": 7} if knows_boot else {}
        return SimpleNamespace(
            monotonic_ns=lambda: ns(self.monotonic),
            process_time_ns=lambda: ns(self.worked),
            clock_gettime_ns=lambda _: ns(self.since_boot),
            **known,
        )


@pytest.mark.parametrize("knows_boot", [True, False])
def test_a_sleep_is_told_from_work_and_from_a_busy_machine(monkeypatch, knows_boot):
    clocks = Clocks()
    monkeypatch.setattr(watching, "time", clocks.as_module(knows_boot))
    watch = watching.SleepWatch()

    def rest(seconds: float, worked: float = 0.0, suspended: float = 0.0) -> float:
        """A rest of a second that ends after this many."""
        watch.rest(round((clocks.monotonic + 1) * SECOND))
        clocks.pass_by(seconds, worked)
        clocks.since_boot += suspended
        return watch.slept() / SECOND

    assert rest(0.3) == rest(1.0) == rest(1.2) == 0, "something came, nothing came, others were busy"
    assert rest(1.5) == 1.5, "late enough for bytes to wait"
    assert rest(26) == 26, "paused"
    assert rest(26, worked=25) == 0, "busy"
    assert rest(0.5, suspended=25) == (25 if knows_boot else 0)
    assert rest(1) == 0, "once"


def night() -> list:
    """Four motes each send twice a second. What is heard between 20 and 45 s comes when the machine is awake again."""
    motes, gateway = Motes(SETUP), Gateway(SETUP)
    for number in range(400):
        at = CRYSTAL_HZ + number * CRYSTAL_HZ // 8
        gateway.hear(motes.send(number % 4, at, (0, 1, 2, 3)), at)
    return [
        line._replace(mono_ns=AWAKE + place) if ASLEEP < line.mono_ns < AWAKE else line
        for place, line in enumerate(gateway.out)
    ]


def test_neither_a_line_nor_a_mote_is_blamed_for_a_sleep():
    lines = night()
    asleep = LineCount(0, ASLEEP, WALL + ASLEEP, slept_ns=AWAKE - ASLEEP)
    before = sum(line.mono_ns <= ASLEEP for line in lines)
    station = Station(SETUP)
    found = play(station, [*lines[:before], asleep, *lines[before:]])
    assert [change.text for change in of(ClockChanged, found)] == ["this machine slept 25 s"]
    assert of(Alarm, found) == []
    assert station.snapshot(lines[-1].mono_ns).gateways[0].lags == 0
    unknown = play(Station(SETUP), lines)
    assert "slower than allowed for" in of(ClockChanged, unknown)[0].text
    assert {alarm.what for alarm in of(Alarm, unknown)} == {"mote"}


def test_a_line_that_is_slow_after_a_sleep_is_told():
    lines = night()
    last = lines[-1]
    slow = [line._replace(mono_ns=last.mono_ns + 3 * SECOND) for line in lines[-2:]]
    asleep = LineCount(0, ASLEEP, WALL + ASLEEP, slept_ns=AWAKE - ASLEEP)
    before = sum(line.mono_ns <= ASLEEP for line in lines)
    found = play(Station(SETUP), [*lines[:before], asleep, *lines[before:-2], *slow])
    assert [change.what for change in of(ClockChanged, found)] == ["sleep", "lag"]


def test_a_replay_says_the_same(tmp_path, monkeypatch):
    class Dozing(watching.SleepWatch):
        sleeps = iter([0, 25 * SECOND])

        def slept(self) -> int:
            return next(self.sleeps, 0)

    monkeypatch.setattr(runner_module, "SleepWatch", Dozing)
    live, again = Seen(), Seen()
    with JournalWriter(tmp_path / "run", SETUP, "run") as log:
        run(Runner(Station(SETUP), [FakeSource(scripted(recorded()))], [live], log, tmp_path))
    steps = read_journal(tmp_path / "run").steps(lambda fault: None)
    run(Player(Station(SETUP), steps, [again]))
    (told,) = of(ClockChanged, live.found)
    assert told.text == "this machine slept 25 s"
    assert of(ClockChanged, again.found) == [told]


def test_no_timer_runs_over_a_sleep_before_waiting_bytes_are_read():
    """The effect came. The machine slept until long after the effect was due. Its cause waits in the port, whose
    thread wakes after our timer."""
    motes, gateway = Motes(SETUP, START), Gateway(SETUP)
    cause = motes.send(0, START, (1,))
    effect = motes.send(1, START + TICK, ())
    early, late = gateway.hear(effect, START + 2 * TICK), gateway.hear(cause, START + 4 * TICK)
    source = FakeSource([*((0, line) for line in early), (0.9, late[0]), (0, late[1])])
    station, seen = Station(SETUP), Seen()

    async def scene() -> None:
        running = asyncio.create_task(Runner(station, [source], [seen]).run())
        await until(lambda: station.leaving.held == 1)
        time.sleep(2)  # nothing of this process runs
        await running

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert names(seen.found) == ["0#0", "1#0"]


def test_a_message_that_was_held_when_the_machine_was_suspended_leaves_after_its_own_wait():
    """The host's clock stood still for an hour, and nothing more comes."""
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    for line in gateway.hear(motes.send(0, START, ()), START):
        station.take(line)
    tick, when, hour = station.observer.next_due(), station.timeline.when, 3600 * SECOND
    due = when(tick)
    station.take(LineCount(0, gateway.last_ns, WALL, slept_ns=hour, suspended_ns=hour))
    assert when(tick) == due
    station.take(LineCount(0, gateway.last_ns, WALL, slept_ns=hour))
    assert when(tick) == due + hour
