"""The live page of `listen` and `replay`: its address, and how long it is served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from basestation import how_to_install
from basestation.cli import common, network_options
from basestation.live.happenings import Note
from basestation.sources.base import Source
from basestation.sources.tcp import is_loopback

if TYPE_CHECKING:
    from basestation.live.happenings import Sink
    from basestation.live.runner import LineLog, Stage
    from basestation.live.station import Station
    from basestation.web.access import Access
    from basestation.web.server import PageServer

PORT = 8080
LINGER_SECONDS = 0.1  # between two checks for the end


@dataclass(frozen=True)
class WebChoice:
    """The options of the page, with its socket bound."""

    listening: socket.socket
    host: str
    access: Access

    @property
    def url(self) -> str:
        address, port = self.listening.getsockname()[:2]
        host = _reachable(address) if address in ("0.0.0.0", "::") else self.host
        name = f"[{host}]" if ":" in host else host
        token = f"?token={self.access.token}" if self.access.token else ""
        return f"http://{name}:{port}/{token}"


def choose(where: str, control: bool) -> WebChoice:
    """Bind the address of `--web`. Any address but loopback needs a token; with CAUSEWAY_WEB_TOKEN loopback, too."""
    _need_the_extra()
    from basestation.web.access import Access, new_token, own_names

    host, port = network_options.served_at("--web", where)
    listening = _bind(host, port)
    address, bound = listening.getsockname()[:2]
    network_options.warn_if_everywhere("--web", address)
    token = _given_token() or (None if is_loopback(address) else new_token())
    return WebChoice(listening, host, Access(own_names(host), token, control, f"causeway_{bound}"))


def _need_the_extra() -> None:
    try:
        for name in ("starlette", "uvicorn"):
            import_module(name)
    except ImportError:
        common.fail(f"--web needs the extra `web`: {how_to_install('web')}")


def _given_token() -> str | None:
    from basestation.web.access import LEAST_TOKEN

    token = os.environ.get("CAUSEWAY_WEB_TOKEN")
    if token is not None and (len(token) < LEAST_TOKEN or not token.isascii() or not token.isalnum()):
        common.fail(
            f"CAUSEWAY_WEB_TOKEN: a token has at least {LEAST_TOKEN} characters, only letters and digits"
        )
    return token


def _bind(host: str, port: int | None) -> socket.socket:
    """A socket on this port; without a port, on 8080 or, if that is taken, on a free one."""
    try:
        if port is not None:
            return _bound(host, port)
        with contextlib.suppress(OSError):
            return _bound(host, PORT)
        return _bound(host, 0)
    except OSError as error:
        reason = "no such host" if isinstance(error, socket.gaierror) else error.strerror
        common.fail(f"--web: can't serve on {host}{'' if port is None else f', port {port}'}: {reason}")
    except UnicodeError:
        common.fail(f"--web: {host!r} is not a host")


def _bound(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = min(found, key=lambda one: one[0])  # IPv4 first
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except BaseException:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def _reachable(address: str) -> str:
    """An address of this machine that others can use. No packet is sent to find it."""
    family, far = (socket.AF_INET6, "2001:db8::1") if address == "::" else (socket.AF_INET, "192.0.2.1")
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()


class WebPage:
    """The page of one run: its sinks, the recent lines for trials, and its server."""

    def __init__(
        self, chosen: WebChoice, station: Station, sources: Sequence[Source] = (), on_screen: bool = False
    ) -> None:
        """`on_screen`: the full screen hides printed text, so messages go to it as notes."""
        from basestation.live.downlink import Orders
        from basestation.web.feed import Feed
        from basestation.web.trial import RecentLines

        self._chosen, self._station = chosen, station
        self._feed = Feed(station)
        self._orders = Orders(sources, station.deployment, station.timeline.network_time) if sources else None
        self._patient = not all(source.live for source in sources) or not sources
        self.recent = RecentLines()
        self._server: PageServer | None = None
        self._on_screen = on_screen
        common.note(f"the page is at {chosen.url}")

    @property
    def sinks(self) -> list[Sink]:
        return [self._feed, *([self._orders] if self._orders else [])]

    def keep(self, log: LineLog | None) -> LineLog:
        """A log before this one that keeps the lines that the page needs."""
        from basestation.web.trial import RecentLines

        self.recent = RecentLines(log, self._pause)
        return self.recent

    def _pause(self) -> None:
        if self._patient and self._server is not None:
            self._server.hold_up()

    async def run(
        self,
        stage: Stage,
        work: Callable[[], Awaitable[None]],
        *,
        stay: bool,
        run: str | None = None,
        began_ms: float | None = None,
        folder_at: Callable[[float], Path] | None = None,
    ) -> None:
        """Serve during the run and, if `stay`, after its end until it is stopped."""
        from basestation.web.server import PageServer

        self._server = PageServer(
            stage,
            self._feed,
            self._chosen.access,
            run=run or secrets.token_hex(6),
            began_ms=time.time() * 1000 if began_ms is None else began_ms,
            live=self._orders is not None,
            recent=self.recent,
            folder_at=folder_at,
            command=self._orders.send if self._orders else None,
        )
        try:
            self._server.start([self._chosen.listening])
            if self._on_screen:
                stage.tell([Note(stage.now(), time.time_ns(), f"the page is at {self._chosen.url}")])
            await work()
            if stay and not stage.stopped:
                if not self._on_screen:
                    common.note("the run is over; the page stays until Ctrl-C")
                while not stage.stopped:
                    await asyncio.sleep(LINGER_SECONDS)
        finally:
            await self._server.stop()
            self._chosen.listening.close()
            if self._server.fault is not None:
                common.note(f"the page's server failed: {self._server.fault!r}", style="yellow")
