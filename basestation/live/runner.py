"""Where the station meets the world: sources in, one timer, the log first, then the station, then the sinks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from basestation.arrivals import Arrival, Gap, Line, LineCount, PolicyChange
from basestation.journal.decision import Decision, Noted
from basestation.journal.record_format import JournalError
from basestation.journal.writer import UnsyncedError
from basestation.live.counters import Snapshot
from basestation.live.happenings import Happening, Note, Sink
from basestation.live.station import NOTHING_NOTED, Station
from basestation.live.watching import DiskWatch, LineWatch, SleepWatch
from basestation.sources.base import Source

WAITING = 1024  # lines; a source that is quicker than we are waits itself
AT_ONCE = 32  # lines between two turns of the event loop
TURNS = 3  # of the event loop: bytes into an inbox, out of it, and into our queue
SECOND = 1_000_000_000
TERMINAL = "from the terminal"
IDLE_NS = 10 * SECOND  # between two idle records of a gateway in the log, if no message left by them
NEVER = 1 << 62
LOOK_NS = SECOND  # between two looks at the lines' counters and the disk
BUSY_NS = SECOND  # under constant load, check only the disk, this much later


class LineLog(Protocol):
    """The log of a run: a line is written before the station takes it, the station's decision after."""

    def append(self, line: Line) -> int: ...

    def append_decision(self, number: int, arrival: Arrival, decision: Decision) -> int: ...

    def append_counters(
        self, gateway: int, counters: Mapping[str, Any], mono_ns: int, wall_ns: int
    ) -> int: ...

    def append_policy(self, change: PolicyChange, clock: int | None) -> int: ...

    def append_note(self, text: str, mono_ns: int, wall_ns: int) -> int: ...


class Stage:
    """A station with its sinks, and what a view may ask of them while they run."""

    def __init__(self, station: Station, sinks: Iterable[Sink]) -> None:
        self.station = station
        self.sinks = list(sinks)
        self.stopped = False
        self.ended = False

    def now(self) -> int:
        """The station's present, on the host's clock."""
        return time.monotonic_ns()

    def snapshot(self) -> Snapshot:
        return self.station.snapshot(self.now())

    def set_policy(self, name: str, phi: int, tolerate: float | None = None, by: str = TERMINAL) -> None:
        """`by`: who asked for it; views show it unless it was the person at the terminal."""
        self._change(PolicyChange(self.now(), 0, name, phi, tolerate))
        self.remark(f"{by}: policy {name}", shown=by != TERMINAL)

    def remark(self, text: str, shown: bool = True) -> None:
        """Show a remark at the terminal, such as who changed what; a live run's log keeps it."""
        if shown:
            self.tell([Note(self.now(), time.time_ns(), text)])

    def _change(self, change: PolicyChange, clock: int | None = None) -> None:
        self.tell(self.station.advance(change.mono_ns, clock))
        self.tell(self.station.set_policy(change.policy, change.phi, change.tolerate))

    def stop(self) -> None:
        self.stopped = True

    def tell(self, happenings: Iterable[Happening]) -> None:
        for happening in happenings:
            for sink in self.sinks:
                sink.take(happening)

    def finish(self) -> None:
        """Deliver what is held, and close the sinks whatever becomes of it."""
        self.ended = True
        try:
            self.tell(self.station.finish())
        finally:
            for sink in self.sinks:
                sink.close()


class Runner(Stage):
    """Live: `run` ends when all sources have, `seconds` after they were opened, or when `stop` was called."""

    def __init__(
        self,
        station: Station,
        sources: Sequence[Source],
        sinks: Iterable[Sink],
        log: LineLog | None = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` is where the log is kept, to see whether its disk has room."""
        super().__init__(station, sinks)
        self.unlogged = 0  # records
        self.unsynced = ""  # what the disk may not have kept, when it last failed to
        self._complained = False
        self.sources = self._sources = sources
        self._log = log
        self._lines: asyncio.Queue[Line | None] = asyncio.Queue(WAITING)
        self._running = 0
        self._opening: asyncio.Task[None] | None = None
        self._newest = 0  # the host's time of the last line
        self._watches = [LineWatch(source.counters) for source in sources]
        self._disk = DiskWatch(folder)
        self._sleep = SleepWatch()
        self._next_look = 0
        self._next_idle: dict[int, int] = {}  # when the next idle record of a gateway is logged in any case
        # Recordings that are not played at their own pace bring their own time with them.
        self._live = all(source.live for source in sources)
        station.timeline.wall_ahead = time.time_ns() - self.now()  # until a line tells

    def now(self) -> int:
        return time.monotonic_ns() if self._live else self._newest

    def set_policy(self, name: str, phi: int, tolerate: float | None = None, by: str = TERMINAL) -> None:
        """The log says when the policy was changed, so that a replay changes it there, and by whom."""
        change = PolicyChange(self.now(), time.time_ns(), name, phi, tolerate)
        self._change(change)
        if self._log is not None:
            try:
                self._log.append_policy(change, self.station.timeline.reached)
            except JournalError as error:
                self._complain(change, error)
        self.remark(f"{by}: policy {name}", shown=by != TERMINAL)

    def remark(self, text: str, shown: bool = True) -> None:
        if self._log is not None and not self.ended:
            now, wall = self.now(), time.time_ns()
            try:
                self._log.append_note(text, now, wall)
            except JournalError as error:
                self._complain(LineCount(0, now, wall), error)
        super().remark(text, shown)

    def stop(self) -> None:
        super().stop()
        if self._opening is not None:
            self._opening.cancel()  # a host that does not answer, a testbed that is being built
        if not self._lines.full():
            self._lines.put_nowait(None)  # wake up

    async def run(self, seconds: float | None = None) -> None:
        pumps: list[asyncio.Task[None]] = []
        try:
            if not await self._open():
                return
            pumps = [asyncio.create_task(self._pump(source)) for source in self._sources]
            self._running = len(pumps)
            await self._consume(None if seconds is None else time.monotonic_ns() + int(seconds * SECOND))
            for pump in pumps:
                if pump.done():
                    pump.result()
        finally:
            await self._close(pumps)

    async def _open(self) -> bool:
        """Open all sources; False if the run was stopped meanwhile."""
        for gateway, source in enumerate(self._sources):
            if self.stopped:
                return False
            self._opening = asyncio.create_task(source.open())
            try:
                await self._opening
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                return False  # stopped
            self.station.add_gateway(gateway, source.text, source.counters)
            self._take_count(self._count(gateway))
        self._opening = None
        return True

    async def _pump(self, source: Source) -> None:
        try:
            async for line in source.lines():
                await self._lines.put(line)
        finally:
            self._running -= 1
            if not self._lines.full():
                self._lines.put_nowait(None)

    async def _consume(self, end: int | None) -> None:
        taken = 0
        while not self.stopped and not (self._running == 0 and self._lines.empty()):
            now = time.monotonic_ns()
            if end is not None and now >= end:
                return
            line = await self._next(now, end)
            if line is not None:
                self._take(line)
            taken += 1
            if taken % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _next(self, now: int, end: int | None) -> Line | None:
        """The next line; None when it is time for something else."""
        if not self._lines.empty():
            if self._live and now >= self._next_look + BUSY_NS:
                self._next_look = now
                self._tell_disk(now)  # the lines are left out: what is queued came before
            return self._lines.get_nowait()
        if self._live and now >= self._next_look:
            self._look_around(now)
        due = self.station.next_due() if self._live else None
        if due is not None and due <= now:
            await self._look()
            if not self._lines.empty():
                return self._lines.get_nowait()
            self.tell(self.station.advance(now))
            due = self.station.next_due()
        times = [time for time in (due, end, self._next_look if self._live else None) if time is not None]
        return await self._rest(now, min(times, default=NEVER))

    async def _rest(self, now: int, until: int) -> Line | None:
        """The next line, or None at that time. Meanwhile this machine may sleep; lines that waited are taken later."""
        asleep = LineCount(0, now, time.time_ns())
        self._sleep.rest(until)
        try:
            async with asyncio.timeout(max(0, until - now) / SECOND):
                line = await self._lines.get()
        except TimeoutError:
            line = None
        if slept := self._sleep.slept():
            self._take_count(asleep._replace(slept_ns=slept, suspended_ns=self._sleep.suspended))
        return line

    async def _look(self) -> None:
        """Let sources hand over what has come by now; after a busy moment it is still on its way here."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def _look_around(self, now: int) -> None:
        """Pass to the station what is not in packets: bytes without a frame, a full disk."""
        self._next_look = now + LOOK_NS
        for gateway, watch in enumerate(self._watches):
            if unread := watch.unread(now):
                self._take_count(self._count(gateway, unread))
        self._tell_disk(now)

    def _tell_disk(self, now: int) -> None:
        self.tell(self.station.alarms.disk(self._disk.fault(now), now, time.time_ns()))

    def _count(self, gateway: int, unread: int = 0) -> LineCount:
        return LineCount(gateway, time.monotonic_ns(), time.time_ns(), unread)

    def _take_count(self, count: LineCount) -> None:
        if self._live:
            self._keep_counters(count)
            self.tell(self.station.take(count))

    def _take(self, line: Line) -> None:
        if isinstance(line, Arrival) and self.station.timeline.is_idle(line.packet):
            self._take_idle(line)
            return
        number = self._keep(line)
        if not self._live:
            self.tell(past_due(self.station, line.mono_ns))
        self._newest = max(self._newest, line.mono_ns)
        happenings = self.station.take(line)
        if number is not None and isinstance(line, Arrival):
            self._keep_decision(number, line)
        self.tell(happenings)

    def _take_idle(self, line: Arrival) -> None:
        """The log has an idle record where a replay needs it: where messages left by it. Of the others one in ten
        seconds shows that the gateway was there."""
        if not self._live:
            self.tell(past_due(self.station, line.mono_ns))
        self._newest = max(self._newest, line.mono_ns)
        happenings = self.station.take(line)
        if happenings or line.mono_ns >= self._next_idle.get(line.gateway, 0):
            self._next_idle[line.gateway] = line.mono_ns + IDLE_NS
            number = self._keep(line)
            if number is not None:
                self._keep_decision(number, line)
        self.tell(happenings)

    def _keep(self, line: Line) -> int | None:
        """A log that can't be written stops nothing, and is reported."""
        if self._log is None:
            return None
        try:
            return self._log.append(line)
        except UnsyncedError as error:
            self._complain(line, error)
            return error.number
        except JournalError as error:
            self._complain(line, error)
            return None

    def _keep_decision(self, number: int, line: Arrival) -> None:
        if self._log is None or self.station.decision is None:
            return
        try:
            self._log.append_decision(number, line, self.station.decision)
        except JournalError as error:
            self._complain(line, error)

    def _complain(self, line: Line | LineCount | PolicyChange, error: JournalError) -> None:
        self._disk.failed(str(error), line.mono_ns)
        if isinstance(error, UnsyncedError):
            self.unsynced = str(error)
        else:
            self.unlogged += 1
        if not self._complained:
            self._complained = True
            self._tell_disk(line.mono_ns)
            self.tell([Note(line.mono_ns, line.wall_ns, f"not everything is in the log: {error}")])

    async def _close(self, pumps: Sequence[asyncio.Task[None]]) -> None:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for source in self._sources:
            await source.close()
        for gateway in range(len(self._sources)):
            self._keep_counters(self._count(gateway))
        self.finish()

    def _keep_counters(self, count: LineCount) -> None:
        """The counters of a line. If it is live, a replay looks at them at the same time."""
        if self._log is None:
            return
        said = asdict(self._sources[count.gateway].counters)
        if self._live:
            slept = {"slept_ns": count.slept_ns, "suspended_ns": count.suspended_ns}
            said |= {"unread": count.unread} | (slept if count.slept_ns else {})
        try:
            self._log.append_counters(count.gateway, said, count.mono_ns, count.wall_ns)
        except JournalError as error:
            self._complain(count, error)


def _is_cancelled() -> bool:
    """Whether this task was cancelled, and not one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Player(Stage):
    """A log, played back with the clocks that it holds: `pace` times as fast as it was, or flat out (0).

    Changes of the policy are made again, unless they are left out of `lines`.
    """

    def __init__(
        self,
        station: Station,
        lines: Iterable[tuple[Line | LineCount | PolicyChange, Noted | None]],
        sinks: Iterable[Sink],
        pace: float = 0,
    ) -> None:
        super().__init__(station, sinks)
        self._lines: Iterator[tuple[Line | LineCount | PolicyChange, Noted | None]] = iter(lines)
        self._pace = pace
        self._newest = 0
        self._heard = 0  # the log's time of the last line
        self._began: tuple[int, int] | None = None  # the log's first time, and the host's then

    def now(self) -> int:
        if not self._pace or self._began is None or self.ended:
            return self._newest
        first, began = self._began
        return first + int((time.monotonic_ns() - began) * self._pace)

    async def run(self, seconds: float | None = None) -> None:
        """Until the log's end, or `seconds` of the log."""
        end = None
        try:
            for taken, (line, noted) in enumerate(self._lines):
                noted = noted or NOTHING_NOTED
                self._began = self._began or (line.mono_ns, time.monotonic_ns())
                if seconds is not None and end is None:
                    end = line.mono_ns + int(seconds * SECOND)
                if self.stopped or (end is not None and line.mono_ns > end):
                    break
                await self._wait_until(line.mono_ns)
                self._newest = max(self._newest, line.mono_ns)
                if isinstance(line, PolicyChange):
                    self._change(line, noted.clock)
                else:
                    self.tell(self.station.take(line, noted))
                if isinstance(line, Arrival | Gap):
                    self._heard = line.mono_ns
                if taken % AT_ONCE == 0:
                    await asyncio.sleep(0)
        finally:
            self.finish()

    def finish(self) -> None:
        """What stays to be seen is the run as it was when the last line came: the end of a log is not a dead mote."""
        super().finish()
        self._newest = self._heard or self._newest
        self.station.alarms.look_back(self._newest)

    async def _wait_until(self, mono_ns: int) -> None:
        """Deliver what is due before then, each at its time."""
        while not self.stopped:
            due = self.station.next_due()
            at = mono_ns if due is None or due >= mono_ns else due
            if self._pace and (wait := at - self.now()) > 0:
                await asyncio.sleep(min(wait / SECOND / self._pace, 0.5))
                continue
            if at == mono_ns:
                return
            self._newest = max(self._newest, at)
            self.tell(self.station.advance(at))


def past_due(station: Station, mono_ns: int) -> Iterator[Happening]:
    """What a punctual timer would have brought before this time."""
    while (due := station.next_due()) is not None and due < mono_ns:
        yield from station.advance(due)
