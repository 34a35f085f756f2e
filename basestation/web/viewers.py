"""The viewers of the page: the ring of events that all of them read, each at its own pace, and limits on connections.

Clients must not use up the station's open files.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

VIEWERS = 256
RING_BYTES = 16 << 20
RING_EVENTS = 600  # a minute of rows
CONNECTIONS = 400  # viewers, and their other requests
BACKLOG = 64  # accepted at once
REQUEST_SECONDS = 15.0  # for a whole request


@dataclass(eq=False)
class Viewer:
    """A reader of the stream. `place` is its next event; `whole`: it needs the curves."""

    client: tuple[str, int] | None
    place: int
    picture: int = 0
    whole: bool = True
    gone: bool = False
    number: int = 0  # which viewer of the run


@dataclass
class Ring:
    """The newest events by number, and the newest picture, for all viewers."""

    first: int = 0
    picture: int = 0  # number of the newest picture
    light: bytes = b""  # without the curves
    whole: bytes = b""
    dropped: int = 0
    joined: int = 0
    closed: bool = False
    viewers: set[Viewer] = field(default_factory=set)
    fresh: asyncio.Event = field(default_factory=asyncio.Event)
    _events: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0

    def join(self, client: tuple[str, int] | None) -> Viewer:
        self.joined += 1
        viewer = Viewer(client, self.first + len(self._events), number=self.joined)
        self.viewers.add(viewer)
        return viewer

    def put(self, data: bytes) -> list[Viewer]:
        """Add an event; drop and return the viewers whose next event is overwritten."""
        self._events.append(data)
        self._bytes += len(data)
        while len(self._events) > RING_EVENTS or self._bytes > RING_BYTES:
            self._bytes -= len(self._events.popleft())
            self.first += 1
        self.wake()
        behind = [viewer for viewer in self.viewers if viewer.place < self.first]
        for viewer in behind:
            viewer.gone = True
            self.dropped += 1
            self.viewers.discard(viewer)
        return behind

    def show(self, light: bytes, whole: bytes) -> None:
        self.picture += 1
        self.light, self.whole = light, whole
        self.wake()

    def wake(self) -> None:
        woken, self.fresh = self.fresh, asyncio.Event()
        woken.set()

    def next_for(self, viewer: Viewer) -> bytes:
        """The events and the picture that this viewer does not have yet."""
        data = b"".join(self._events[place] for place in range(viewer.place - self.first, len(self._events)))
        viewer.place = self.first + len(self._events)
        if viewer.picture != self.picture:
            viewer.picture = self.picture
            data += self.whole if viewer.whole and self.whole else self.light
            viewer.whole = viewer.whole and not self.whole
        return data


class Connection(H11Protocol):
    """A connection that ends if no request comes. With too many connections, the one idle for longest ends."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._look: asyncio.TimerHandle | None = None
        if len(self.connections) > CONNECTIONS:
            idle = [one for one in self.connections if isinstance(one, Connection) and one.is_idle]
            min(idle, key=lambda one: one._idle_since, default=self).transport.abort()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._look is not None:
            self._look.cancel()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: Any = self.cycle
        return not self.transport.is_closing() and (cycle is None or bool(cycle.response_complete))

    def _look_later(self) -> None:
        self._look = self.loop.call_later(REQUEST_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self.is_idle and self.loop.time() - self._idle_since >= REQUEST_SECONDS:
            self.transport.abort()
        else:
            self._look_later()
