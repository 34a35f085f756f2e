"""A run with its page, in a thread, and a client that reads it over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from basestation.cli.web_page import WebPage, choose
from basestation.journal.writer import JournalWriter
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.sources import SourceOptions, open_source
from basestation.views.ndjson import JsonView
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from tests.waiting import PATIENCE, wait_until


@dataclass
class ServedRun:
    """`begin` lets the source play; `told` is the output of the JSON view."""

    page: WebPage
    port: int
    token: str | None
    runner: Runner
    told: list[dict[str, Any]] = field(default_factory=list)
    begin: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def server(self):
        return self.page._server

    def ended(self) -> None:
        self.begin.set()
        assert self.over.wait(PATIENCE)
        wait_until(lambda: not self.page._feed.changes, "the server has taken all rows")

    def deliveries(self) -> list[tuple[Any, ...]]:
        return [
            (one["number"], one["place"], round(one["held_ms"], 3), one["late"], one["moved"])
            for one in self.told
            if one["event"] == "delivered"
        ]

    def ask(
        self, path: str, method: str = "GET", body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            said = {name.replace("_", "-"): value for name, value in headers.items()}
            if method == "POST":
                origin = f"http://127.0.0.1:{self.port}"
                said = {"Origin": origin, "Content-Type": "application/json"} | said
            raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, raw, said)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def json(self, path: str, **more: Any) -> tuple[int, Any]:
        status, _, body = self.ask(path, **more)
        return status, json.loads(body)

    @contextlib.contextmanager
    def stream(self, path: str = "/stream") -> Iterator[Iterator[tuple[str, Any]]]:
        """The events of the stream, as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"
            yield _events(answer)


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind, end = "", time.monotonic() + PATIENCE
    while line := answer.readline().decode().rstrip("\n"):
        assert time.monotonic() < end, "the stream goes on, but what was waited for did not come"
        if line.startswith("retry"):
            answer.readline()
        elif line.startswith("event: "):
            kind = line.removeprefix("event: ")
        else:
            yield kind, json.loads(line.removeprefix("data: "))
            answer.readline()


def merged(rows: dict[Any, dict[str, Any]], changes: list[dict[str, Any]]) -> None:
    """As the page does it."""
    for change in changes:
        rows.setdefault(change["key"], {}).update(change)


def delivered(rows: dict[Any, dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The deliveries in rows, in their order."""
    found = [row for row in rows.values() if row["kind"] == "message" and row["state"] == "final"]
    return [
        (row["key"], row["place"], row["held_ms"], row["late"], row["moved"])
        for row in sorted(found, key=lambda row: row["place"])
    ]


@contextlib.contextmanager
def serve(
    deployment: Deployment,
    source: str,
    where: str = "127.0.0.1:0",
    control: bool = False,
    log: Path | None = None,
) -> Iterator[ServedRun]:
    """Serve a run until the block is left."""
    station = Station(deployment)
    opened = open_source(source, 0, SourceOptions(deployment=deployment))
    chosen = choose(where, control)
    page = WebPage(chosen, station, [opened])
    told: list[dict[str, Any]] = []
    journal = (
        JournalWriter(log, deployment, "served", policy=station.policy, phi=station.phi) if log else None
    )
    sinks = [JsonView(told.append, layout_of(deployment)), *page.sinks]
    runner = Runner(station, [opened], sinks, page.keep(journal))
    run = ServedRun(page, chosen.listening.getsockname()[1], chosen.access.token, runner, told)
    faults: list[BaseException] = []

    async def work() -> None:
        while not run.begin.is_set() and not runner.stopped:
            await asyncio.sleep(0.01)
        await runner.run()
        if journal is not None:
            journal.close()
        run.over.set()

    def in_thread() -> None:
        try:
            asyncio.run(
                page.run(runner, work, stay=True, run="served", folder_at=journal and journal.folder_at)
            )
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    wait_until(lambda: (page._server and page._server._uvicorn.started) or faults, "the page is served")
    try:
        yield run
    finally:
        runner.stopped = True  # `stop` is for the runner's own thread
        run.begin.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not faults, faults
