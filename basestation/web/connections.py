"""Limits on connections: clients must not use up the station's open files."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 400  # viewers, and their other requests
BACKLOG = 64  # accepted at once
REQUEST_SECONDS = 15.0  # for a whole request


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
