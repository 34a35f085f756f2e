"""Bytes as they come, with the time at which they came."""

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
    """Bytes that have come just now; or, where nobody read for a while, some time after `since`.

    Then they get the earliest time that may be theirs: whoever goes by it may wait too long, but not too short.
    """
    return TimedBytes(*(since or now()), data)


class Link(Protocol):
    """A line that is up."""

    async def receive(self) -> TimedBytes:
        """The next bytes; `LineLost` when there are no more."""

    async def send(self, data: bytes) -> None:
        """All of it or `LineLost`, within a second or so."""

    async def close(self) -> None:
        """Whoever waits in `receive` gets `LineLost`."""


class Inbox:
    """A queue of chunks with an end. Whoever fills it looks at `size` and holds back."""

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
        """For a reader that took more than it wanted."""
        self._chunks.appendleft(chunk)
        self.size += len(chunk.data)
        self._ready.set()

    def end(self, reason: str) -> None:
        """No more will come; the first reason is the one that counts."""
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
