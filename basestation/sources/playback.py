"""Sources that play a recording or a simulation."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar, cast

from basestation.arrivals import Arrival, Line
from basestation.sources.base import SourceError, Spec
from packet_formats.framing import FrameCounters

PLAYED = ("replay@", "simulate@")  # no gateway could take what is sent
BREATH = 64  # lines between two turns of everybody else

T = TypeVar("T")
Play = Callable[[FrameCounters], Iterator[Line]]


def pace_of(spec: Spec) -> float:
    """The setting `pace`: recorded seconds per real second; 0 is as fast as possible."""
    return spec.number("pace", 1.0, 0.0, 1e6)


class PlayedSource:
    """A source that plays lines with recorded times.

    At a pace, each line comes when it is due and carries the host's time, as from a live line. At pace 0 each carries
    its recorded time, so results do not depend on the speed of this machine.
    """

    acknowledges = False  # no gateway could take what is sent

    def __init__(self, text: str, pace: float, play: Play) -> None:
        self.text = text
        self.live = pace > 0
        self.counters = FrameCounters()
        self._pace = pace
        self._play = play
        self._lines: Iterator[Line] | None = None
        self._closed = asyncio.Event()

    async def open(self) -> None:
        if self._lines is None:
            self._lines = iter(())
            first = await aside(self._begin)
            self._lines = first

    async def lines(self) -> AsyncIterator[Line]:
        await self.open()
        assert self._lines is not None
        begin, first = time.monotonic_ns(), None
        for number, line in enumerate(self._lines):
            first = line.mono_ns if first is None else first
            if self.live:
                await self._until(begin + int((line.mono_ns - first) / self._pace))
                line = line._replace(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())
            elif number % BREATH == 0:
                await asyncio.sleep(0)
            if self._closed.is_set():
                return
            yield line

    async def send(self, packet: bytes) -> None:
        what = "the simulator" if self.text.startswith("simulate@") else "a recording"
        raise SourceError(f"{self.text}: {what} hears nothing that is sent; the motes of testbed@ do")

    async def close(self) -> None:
        self._closed.set()

    def _begin(self) -> Iterator[Line]:
        """Play up to the first line, so that a fault shows at once."""
        lines = self._play(self.counters)
        head = [line for line in (next(lines, None),) if line is not None]
        return _chained(head, lines)

    async def _until(self, mono_ns: int) -> None:
        left = (mono_ns - time.monotonic_ns()) / 1e9
        if left <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), left)


async def aside(work: Callable[[], T]) -> T:
    """Run `work` in a daemon thread and return its result. A read that blocks for ever can't keep the program alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast(T, result))

    def run() -> None:
        result, trouble = None, None
        try:
            result = work()
        except Exception as error:
            trouble = error
        with contextlib.suppress(RuntimeError):  # the loop has ended before us
            loop.call_soon_threadsafe(tell, result, trouble)

    threading.Thread(target=run, name="reads ahead", daemon=True).start()
    return await done


def _chained(head: list[Line], rest: Iterator[Line]) -> Iterator[Line]:
    yield from head
    yield from rest


def arrivals(
    packets: Iterator[tuple[int, bytes]], gateway: int, mono_ns: int, wall_ns: int
) -> Iterator[Arrival]:
    """Arrivals for packets that are given with their time since the beginning, in ns."""
    for after, packet in packets:
        yield Arrival(gateway, mono_ns + after, wall_ns + after, packet)
