"""A queue of received bytes, with the time at which they came."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple, Protocol


class LineLost(Exception):
    """The line is gone; the message says why."""


class TimedBytes(NamedTuple):
    mono_ns: int
    wall_ns: int
    data: bytes


class Moment(NamedTuple):
    mono_ns: int
    wall_ns: int


def now() -> Moment:
    return Moment(time.monotonic_ns(), time.time_ns())


def stamped(data: bytes, since: Moment | None = None) -> TimedBytes:
    """A chunk of bytes that came just now or, after a while without reading, some time after `since`.

    In that case it gets the earliest possible time: the observer may then wait too long, but never too short.
    """
    return TimedBytes(*(since or now()), data)


class Link(Protocol):
    """A line that is connected."""

    async def receive(self) -> TimedBytes:
        """Wait for the next bytes; `LineLost` if there are no more."""

    async def send(self, data: bytes) -> None:
        """Send all of it within a second or so, or raise `LineLost`."""

    async def close(self) -> None:
        """Close the line. A waiting `receive` raises `LineLost`."""


class Inbox:
    """A queue of chunks with an end. The producer looks at `size` and holds back."""

    def __init__(self) -> None:
        self.size = 0  # bytes
        self.most = 0  # that there ever were
        self._chunks: deque[TimedBytes] = deque()
        self._ready = asyncio.Event()
        self._end: str | None = None

    def put(self, chunk: TimedBytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk.data)
        self.most = max(self.most, self.size)
        self._ready.set()

    def put_back(self, chunk: TimedBytes) -> None:
        """Put back bytes that a reader took and did not need."""
        self._chunks.appendleft(chunk)
        self.size += len(chunk.data)
        self._ready.set()

    def end(self, reason: str) -> None:
        """End the queue. If it is ended twice, the first reason counts."""
        if self._end is None:
            self._end = reason
        self._ready.set()

    async def get(self) -> TimedBytes:
        while not self._chunks:
            if self._end is not None:
                raise LineLost(self._end)
            self._ready.clear()
            await self._ready.wait()
        chunk = self._chunks.popleft()
        self.size -= len(chunk.data)
        return chunk
