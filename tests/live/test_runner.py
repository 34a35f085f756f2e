"""The runner and the player: the log first, one timer, ends that end."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from basestation.arrivals import Arrival, Gap, Line, PolicyChange
from basestation.journal.decision import Decision, Noted
from basestation.journal.reader import read_journal
from basestation.journal.record_format import JournalError
from basestation.journal.writer import JournalWriter
from basestation.live import runner as runner_module
from basestation.live import watching
from basestation.live.happenings import Alarm, Arrived, Delivered, Happening, LineChanged, Note, PolicyChanged
from basestation.live.runner import WAITING, Player, Runner
from basestation.live.station import Station
from basestation.sources.base import SourceError
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.framing import FrameCounters
from tests.live.world import MS, TICK, Gateway, Motes, deliveries, deployment, gap, names
from tests.waiting import until

SETUP = deployment(policy="cbd", phi=100)
START = 100 * CRYSTAL_HZ


@dataclass
class Seen:
    """A sink that remembers."""

    found: list[Happening] = field(default_factory=list)
    closed: bool = False

    def take(self, happening: Happening) -> None:
        assert not self.closed
        self.found.append(happening)

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeSource:
    """Lines, each some seconds after the one before; stamped as they come if it is live."""

    script: list[tuple[float, Line]]
    live: bool = True
    text: str = "fake@"
    endless: bool = False
    fault: Exception | None = None
    refused: bool = False
    counters: FrameCounters = field(default_factory=FrameCounters)
    closed: bool = False
    given: int = 0

    async def open(self) -> None:
        if self.refused:
            raise SourceError("fake@: permission denied; join the group dialout")

    async def lines(self) -> AsyncIterator[Line]:
        for wait, line in self.script:
            if wait:
                await asyncio.sleep(wait)
            self.given += 1
            yield line._replace(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns()) if self.live else line
        if self.fault:
            raise self.fault
        while self.endless:
            await asyncio.sleep(10)

    async def send(self, packet: bytes) -> None:
        raise SourceError("no")

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakeLog:
    """Remembers what was appended, and may be full."""

    events: list[str] = field(default_factory=list)
    decisions: dict[int, Decision] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    changes: list[tuple[int, PolicyChange, int | None]] = field(default_factory=list)
    room: int = 10**9

    def append(self, line: Line) -> int:
        if len(self.lines) >= self.room:
            raise JournalError("no space left on the disk")
        self.lines.append(line)
        self.events.append("append")
        return len(self.lines) - 1

    def append_decision(self, number: int, arrival: Arrival, decision: Decision) -> int:
        assert self.lines[number] == arrival
        self.decisions[number] = decision
        return number

    def append_counters(self, gateway: int, counters: FrameCounters, mono_ns: int, wall_ns: int) -> int:
        self.events.append("counters")
        return 0

    def append_policy(self, change: PolicyChange, clock: int | None) -> int:
        self.events.append(f"policy {change.policy}, phi {change.phi}%")
        self.changes.append((len(self.lines), change, clock))
        return 0

    def append_note(self, text: str, mono_ns: int, wall_ns: int) -> int:
        self.events.append(f"note {text}")
        return 0

    def steps(self) -> list[tuple[Line | PolicyChange, Noted]]:
        """Lines and changes in order, each with its clock."""
        found: list[tuple[Line | PolicyChange, Noted]] = [
            (line, Noted(self.decisions[number].clock) if number in self.decisions else Noted())
            for number, line in enumerate(self.lines)
        ]
        for place, change, clock in reversed(self.changes):
            found.insert(place, (change, Noted(clock)))
        return found


def recorded(count: int = 12, apart: int = 4 * TICK) -> list[Line]:
    """Messages that arrive in pairs the wrong way round."""
    motes, gateway = Motes(SETUP, START), Gateway(SETUP)
    heard = []
    for number in range(count):
        at = START + number * apart
        heard.append((at + (9 if number % 2 == 0 else 2) * TICK, motes.send(number % 4, at, (0, 1, 2, 3))))
    for cycles, data in sorted(heard, key=lambda item: item[0]):
        gateway.hear(data, cycles)
    return gateway.out


def scripted(lines: list[Line]) -> list[tuple[float, Line]]:
    before = lines[0].mono_ns
    script = []
    for line in lines:
        script.append(((line.mono_ns - before) / 1e9, line))
        before = line.mono_ns
    return script


def run(runner: Runner | Player, seconds: float | None = None) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    asyncio.run(asyncio.wait_for(runner.run(seconds), 20))
    return time.monotonic() - began


def test_what_is_delivered_live_is_delivered_again_from_the_log():
    seen, log = Seen(), FakeLog()
    source = FakeSource(scripted(recorded()))
    run(Runner(Station(SETUP), [source], [seen], log))
    assert seen.closed
    assert source.closed
    assert len(names(seen.found)) == 12
    again = Seen()
    lines = log.steps()
    run(Player(Station(SETUP), lines, [again]))
    assert deliveries(seen.found) == deliveries(again.found)
    assert log.events[-1] == "counters"
    heard = {item.cycles for item in seen.found if isinstance(item, Arrived) and item.number}
    assert {one.heard for one in log.decisions.values()} == heard


def test_a_line_is_in_the_log_before_anybody_hears_of_it():
    log = FakeLog()

    class Checking(Seen):
        def take(self, happening: Happening) -> None:
            if isinstance(happening, Arrived):
                assert any(line.mono_ns == happening.mono_ns for line in log.lines)
            super().take(happening)

    seen = Checking()
    run(Runner(Station(SETUP), [FakeSource(scripted(recorded(4)))], [seen], log))
    assert len(names(seen.found)) == 4


def test_deliveries_come_at_their_time_without_another_frame():
    """No sooner than the wait allows; and no later than a timer of this machine, however busy it is, goes off."""
    seen, lag = Seen(), 0.0
    source = FakeSource(scripted(recorded(1)), endless=True)
    runner = Runner(Station(SETUP, "causal", allowance_ns=20 * MS), [source], [seen])

    async def scene() -> None:
        nonlocal lag
        running = asyncio.create_task(runner.run())
        while not names(seen.found):
            began = time.monotonic()
            await asyncio.sleep(0.005)
            lag = max(lag, time.monotonic() - began)
        runner.stop()
        await running

    asyncio.run(asyncio.wait_for(scene(), 60))
    (delivered,) = [item for item in seen.found if isinstance(item, Delivered)]
    heard = next(item for item in seen.found if isinstance(item, Arrived))
    assert delivered.mono_ns - heard.mono_ns > 40 * MS
    assert delivered.overdue_ms < 50 + 1000 * lag


def test_a_run_lasts_as_long_as_was_said():
    assert run(Runner(Station(SETUP), [FakeSource([], endless=True)], []), 0.2) >= 0.2


@pytest.mark.parametrize("live", [True, False])
def test_before_the_first_line_it_is_as_late_as_on_this_machine(live):
    """The page's axis begins with it, and once showed how long the machine was up."""
    shown = Runner(Station(SETUP), [FakeSource([], live)], []).snapshot()
    assert abs(shown.wall_ns - time.time_ns()) < 3600 * 10**9


def test_a_recording_played_flat_out_has_its_own_time():
    seen = Seen()
    source = FakeSource([(0, line) for line in recorded(200)], live=False)
    took = run(Runner(Station(SETUP), [source], [seen]))
    held = [item.held_ms for item in seen.found if isinstance(item, Delivered)]
    assert len(held) == 200
    assert max(held) > 30
    assert took < 15
    assert not [item for item in seen.found if isinstance(item, Alarm)]


def test_several_sources_are_one_network():
    lines = recorded(20)
    other = [line._replace(gateway=1) for line in lines]
    seen = Seen()
    sources = [FakeSource([(0, line) for line in part], live=False) for part in (lines, other)]
    station = Station(SETUP)
    run(Runner(station, sources, [seen]))
    assert len(names(seen.found)) == 20
    snapshot = station.snapshot(0)
    assert sum(mote.duplicates for mote in snapshot.motes) == 20
    assert [gateway.name for gateway in snapshot.gateways] == ["fake@", "fake@"]


def test_stop_ends_it_at_once_and_in_order():
    seen, source = Seen(), FakeSource(scripted(recorded(4)), endless=True)
    runner = Runner(Station(SETUP), [source], [seen])

    async def work() -> None:
        task = asyncio.create_task(runner.run())
        await until(
            lambda: sum(one.frames for one in runner.snapshot().gateways) == len(source.script), "all lines"
        )
        runner.stop()
        await asyncio.wait_for(task, 5)

    asyncio.run(work())
    assert seen.closed
    assert source.closed
    assert len(names(seen.found)) == 4


def test_a_change_of_policy_is_told_and_noted_in_the_log():
    seen, log = Seen(), FakeLog()
    runner = Runner(Station(SETUP), [FakeSource(scripted(recorded(4)), endless=True)], [seen], log)

    async def work() -> None:
        task = asyncio.create_task(runner.run())
        await until(lambda: runner.snapshot().received, "a message")
        runner.set_policy("none", 100)
        runner.stop()
        await asyncio.wait_for(task, 5)

    asyncio.run(work())
    assert "policy none, phi 100%" in log.events
    assert [item.policy for item in seen.found if isinstance(item, PolicyChanged)] == ["none"]


def test_a_source_that_cannot_be_opened_says_why_and_the_others_are_closed():
    good, bad = FakeSource([], endless=True), FakeSource([], refused=True)
    with pytest.raises(SourceError, match="dialout"):
        run(Runner(Station(SETUP), [good, bad], []))
    assert good.closed


def test_a_fault_of_a_source_is_not_swallowed():
    source = FakeSource(scripted(recorded(2)), fault=SourceError("fake@: the end of the world"))
    seen = Seen()
    with pytest.raises(SourceError, match="end of the world"):
        run(Runner(Station(SETUP), [source], [seen]))
    assert len(names(seen.found)) == 2


def test_a_full_disk_stops_nothing_and_is_told_once():
    seen, log = Seen(), FakeLog(room=5)
    runner = Runner(Station(SETUP), [FakeSource(scripted(recorded(8)))], [seen], log)
    run(runner)
    assert len(names(seen.found)) == 8
    notes = [item.text for item in seen.found if isinstance(item, Note)]
    assert len(notes) == 1
    assert "no space left" in notes[0]
    assert runner.unlogged == 11
    assert [item.text for item in seen.found if isinstance(item, Alarm)] == [
        "the log can't be written: no space left on the disk"
    ]


def test_a_reader_that_went_away_ends_the_run():
    class Gone(Seen):
        def take(self, happening: Happening) -> None:
            raise BrokenPipeError

    source = FakeSource(scripted(recorded(8)), endless=True)
    with pytest.raises(BrokenPipeError):
        run(Runner(Station(SETUP), [source], [Gone()]))
    assert source.closed


def test_gaps_pass_through():
    seen = Seen()
    script: list[tuple[float, Line]] = [(0, gap(0, back=False)), (0.01, gap(0, back=True))]
    run(Runner(Station(SETUP), [FakeSource(script)], [seen]))
    assert [item.back for item in seen.found if isinstance(item, LineChanged)] == [False, True]
    assert all(isinstance(line, Gap) for _, line in script)


def test_a_quick_source_waits_for_a_slow_station():
    """The queue is bounded: what is not taken yet stays with the source."""
    station = Station(SETUP)
    lines = recorded(50) * 60
    source = FakeSource([(0, line) for line in lines], live=True)
    runner = Runner(station, [source], [])

    async def work() -> None:
        task = asyncio.create_task(runner.run())
        while source.given < WAITING:
            await asyncio.sleep(0)
        assert source.given - station.snapshot(0).gateways[0].frames <= WAITING + 2
        runner.stop()
        await asyncio.wait_for(task, 10)

    asyncio.run(work())


def test_a_log_played_at_a_pace_takes_its_time():
    lines = [(line, None) for line in recorded(10, apart=40 * TICK)]
    length = (lines[-1][0].mono_ns - lines[0][0].mono_ns) / 1e9
    slow, quick = Seen(), Seen()
    assert run(Player(Station(SETUP), lines, [slow], pace=4)) >= length / 4 * 0.9
    run(Player(Station(SETUP), lines, [quick]))
    assert deliveries(slow.found) == deliveries(quick.found)


def test_a_log_ends_after_so_many_of_its_seconds():
    lines = [(line, None) for line in recorded(10, apart=40 * TICK)]
    seen = Seen()
    run(Player(Station(SETUP), lines, [seen]), 0.5)
    assert 2 <= len(names(seen.found)) < 6


def test_a_run_can_be_stopped_while_a_source_is_being_opened():
    """A host that does not answer, a testbed that is being built: Ctrl-C does not wait for them."""
    opening = asyncio.Event()

    class Slow(FakeSource):
        async def open(self) -> None:
            opening.set()
            await asyncio.sleep(3600)

    source, other, seen = Slow([]), FakeSource([]), Seen()
    runner = Runner(Station(SETUP), [source, other], [seen])

    async def scene() -> None:
        running = asyncio.create_task(runner.run())
        await opening.wait()
        runner.stop()
        await running

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert source.closed
    assert other.closed
    assert seen.closed


def test_a_run_that_is_cancelled_while_a_source_is_being_opened_is_cancelled():
    class Slow(FakeSource):
        async def open(self) -> None:
            runner.stopped = True
            await asyncio.sleep(3600)

    source = Slow([])
    runner = Runner(Station(SETUP), [source], [])
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(runner.run(), 0.05))
    assert source.closed


def test_a_policy_that_was_changed_is_changed_again_in_a_replay():
    """With messages held at that moment, on a timer that is late, and to one that lets go at once."""
    seen, log = Seen(), FakeLog()
    source = FakeSource(scripted(recorded(60)), endless=True)
    runner = Runner(Station(SETUP), [source], [seen], log)

    async def scene() -> None:
        running = asyncio.create_task(runner.run())
        changes = (
            (10, "dapw", 40),
            (20, "none", 100),
            (30, "cbd", 100),
            (37, "ledger", 100, 30.0),
            (45, "cbd", 5),
        )
        for at, *policy in changes:
            await until(lambda: source.given >= 2 * at, f"{at} messages")  # noqa: B023 (awaited here)
            runner.set_policy(*policy)
        await until(lambda: len(names(seen.found)) >= 60, "sixty deliveries")
        runner.stop()
        await running

    asyncio.run(asyncio.wait_for(scene(), 60))
    again, other = Seen(), Seen()
    run(Player(Station(SETUP), log.steps(), [again]))
    run(Player(Station(SETUP), [step for step in log.steps() if isinstance(step[0], Arrival)], [other]))
    assert len([item for item in again.found if isinstance(item, PolicyChanged)]) == 5
    assert deliveries(again.found) == deliveries(seen.found)
    assert deliveries(other.found) != deliveries(seen.found)


class Garbled(FakeSource):
    """A line at the wrong speed, until an alarm is raised."""

    async def lines(self) -> AsyncIterator[Line]:
        self.counters.fed += 400
        while not self.endless:
            await asyncio.sleep(0.001)
        for line in recorded(1):
            self.counters.frames += 1
            yield line._replace(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())


def test_bytes_without_a_frame_are_an_alarm_live_and_in_a_replay(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "LOOK_NS", 10 * MS)
    monkeypatch.setattr(watching, "UNREAD_NS", 20 * MS)
    source = Garbled([])

    class Mending(Seen):
        def take(self, happening: Happening) -> None:
            super().take(happening)
            source.endless = source.endless or isinstance(happening, Alarm)

    live, again = Mending(), Seen()
    with JournalWriter(tmp_path / "run", SETUP, "run") as log:
        run(Runner(Station(SETUP), [source], [live], log, tmp_path))
    journal = read_journal(tmp_path / "run")
    run(Player(Station(SETUP), journal.steps(lambda fault: None), [again]))
    alarms = [item for item in live.found if isinstance(item, Alarm)]
    assert [(item.what, item.raised) for item in alarms] == [("speed", True), ("speed", False)]
    assert "400 bytes but no frame: wrong speed?" in alarms[0].text
    assert abs(alarms[0].wall_ns - time.time_ns()) < 600 * 10**9, "the time of day"
    told = [item for item in again.found if isinstance(item, Alarm)]
    assert [(item.mono_ns, item.wall_ns, item.raised) for item in told] == [
        (item.mono_ns, item.wall_ns, item.raised) for item in alarms
    ]


def test_a_line_is_garbled_after_some_bytes_and_seconds_and_told_once():
    counters = FrameCounters(fed=1000, frames=7)
    watch, second = watching.LineWatch(counters), 1000 * MS
    assert watch.unread(0) == 0
    counters.fed += 300
    assert [watch.unread(at * second) for at in range(1, 7)] == [0, 0, 0, 300, 0, 0]
    counters.frames, counters.fed = 8, 1330
    assert watch.unread(7 * second) == 0
    counters.fed += watching.LEAST_UNREAD - 1
    assert [watch.unread(at * second) for at in range(8, 14)] == [0] * 6, "a little noise"


def test_a_disk_that_fills_up_is_told_and_over_when_there_is_room(monkeypatch, tmp_path):
    free = [40, 4.9, 6, 7.4, 8]  # per cent of a small disk
    usage = iter([shutil._ntuple_diskusage(10**9, 0, int(share * 10**7)) for share in free])
    monkeypatch.setattr(watching.shutil, "disk_usage", lambda folder: next(usage))
    disk = watching.DiskWatch(tmp_path)
    assert [disk.fault(at) for at in range(5)] == [
        "",
        "the disk of the log is nearly full: 49 MB left",
        "the disk of the log is nearly full: 60 MB left",
        "the disk of the log is nearly full: 74 MB left",
        "",
    ]
    disk.failed("no space left on device", 0)
    assert disk.fault(1) == "the log can't be written: no space left on device"
    monkeypatch.setattr(watching.shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 0, 50))
    assert disk.fault(watching.WRITTEN_NS) == ""
