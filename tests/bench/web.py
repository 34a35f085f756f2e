"""Whether the live page delays deliveries: how late they are without it, with one viewer, with a hundred.

`python -m tests.bench.web` alone prints the table. Viewers are in a process of their own, as they are in the field.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import NamedTuple

from basestation.cli.live_options import short_collections
from basestation.cli.web_page import WebPage, choose
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for
from basestation.simulator.simulation import build_scheme
from basestation.sources import SourceOptions, open_source

from .station import MOTES, Overdue, quantile

SECONDS, ROUNDS = 30.0, 3
RATE = 100  # messages a second
REQUEST = b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"


class PagePunctuality(NamedTuple):
    """How much later than its deadline a message left, in ms, and what viewers read meanwhile."""

    page: str
    deliveries: int
    p50: float
    p99: float
    worst: float
    ratio: float  # of p99, against no page
    megabytes: float  # that viewers read


CASES = {
    "none": None,
    "nobody looks": (0, 0),
    "1 viewer": (1, 0),
    "100 viewers": (100, 0),
    "100 viewers and one that reads nothing": (100, 1),
}


def bench(seconds: float = SECONDS) -> list[PagePunctuality]:
    """The same run without a page and with one, in turn, some times round: other programs disturb them all alike."""
    asyncio.run(_run(None, 1.0))  # imports and compiles
    late: dict[str, list[float]] = {name: [] for name in CASES}
    read = dict.fromkeys(CASES, 0)
    for name in [*CASES] * ROUNDS:
        with short_collections():
            found, got = asyncio.run(_run(CASES[name], seconds / ROUNDS))
        late[name] += found
        read[name] += got
    return [_told(name, sorted(late[name]), sorted(late["none"]), read[name]) for name in CASES]


def _told(name: str, late: list[float], without: list[float], read: int) -> PagePunctuality:
    p50, p99 = quantile(late, 0.5), quantile(late, 0.99)
    return PagePunctuality(
        name, len(late), p50, p99, late[-1], p99 / max(quantile(without, 0.99), 0.001), read / 1e6
    )


async def _run(viewers: tuple[int, int] | None, seconds: float) -> tuple[list[float], int]:
    """How late each delivery was, and how many bytes viewers read."""
    options = WorldOptions(motes=MOTES)
    deployment = deployment_for(options, build_scheme(options, "shlc"), "cbd", 100)
    each = RATE / MOTES * deployment.clock.tick_seconds
    text = f"simulate@?messages={int(2 * RATE * seconds)}&rate={each:.6f}&pace=1"
    source = open_source(text, 0, SourceOptions(deployment=deployment))
    station, overdue = Station(deployment), Overdue()
    if viewers is None:
        await Runner(station, [source], [overdue]).run(seconds)
        return overdue.ms, 0
    chosen = choose("127.0.0.1:0", control=False)
    page = WebPage(chosen, station, [source])
    runner = Runner(station, [source], [overdue, *page.sinks], page.keep(None))
    read = 0

    async def work() -> None:
        nonlocal read
        port = chosen.listening.getsockname()[1]
        words = [sys.executable, "-m", "tests.bench.web", "view", str(port), *map(str, viewers)]
        watching = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert watching.stdout is not None
        await asyncio.to_thread(watching.stdout.readline)  # all have connected
        await runner.run(seconds)
        read = int(await asyncio.to_thread(lambda: watching.communicate(b"")[0]))

    await page.run(runner, work, stay=False)
    return overdue.ms, read


async def _view(port: int, viewers: int, deaf: int) -> None:
    """Look at the page until standard input ends; print how many bytes came."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(viewers)]
    unread = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(deaf)]
    for _, writer in (*opened, *unread):
        writer.write(REQUEST)
    print("connected", flush=True)
    got = 0

    async def read(reader: asyncio.StreamReader) -> None:
        nonlocal got
        while data := await reader.read(65536):
            got += len(data)

    reading = [asyncio.create_task(read(reader)) for reader, _ in opened]
    await asyncio.to_thread(sys.stdin.buffer.read)
    for task in reading:
        task.cancel()
    print(got, flush=True)


def main() -> None:
    if sys.argv[1:2] == ["view"]:
        asyncio.run(_view(*map(int, sys.argv[2:])))
        return
    for row in bench():
        print(
            f"{row.page:>40}: {row.deliveries} deliveries, late by {row.p50:.2f} ms (p50), {row.p99:.2f} (p99), "
            f"{row.worst:.2f} (worst); p99 {row.ratio:.2f} times; viewers read {row.megabytes:.1f} MB"
        )


if __name__ == "__main__":
    main()
