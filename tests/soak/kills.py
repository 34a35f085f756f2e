"""kill -9 of the whole program while it works: `listen` at full line rate, `analyse ingest` and `analyse watch`.

After each kill the program is started again, and what it then has must be what an undisturbed one has. A piece kills
several times; of twelve pieces ten kill `listen`, so that its aim of 1,000 is reached when those of the others are, 100
each. `listen` and `ingest` begin as forks of a process that has imported them (zygote.py). An `ingest` is killed at any
of the changes that it makes to its tables, or at any moment. A `watch` dies with its Spark, and the next one starts
another: most of the time of this search goes there. How it is done is in the tests of each: tests/cli/test_killed.py,
tests/spark/test_watch.py.
"""

from __future__ import annotations

import random
import select
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.cli.test_killed import SYNCS, survives
from tests.journal.logs import simulated, write
from tests.soak.running import ROOT, Piece, Search, draw_of, kept_folder
from tests.soak.zygote import Started, Zygote
from tests.spark.test_ingest import content
from tests.spark.test_watch import killed_and_gone_on as watch_killed
from tests.spark.test_watch import write_logs

AIM = 1_500  # so that each has its own: some pieces of ingest are killed less often than KILLS
TURN = 12  # pieces, of which the last two are of ingest and watch
KILLS = 5  # of a piece
RUNS = 6
LATE = 0.9  # of an ingest's changes: the rest put its tables into their places
PATIENCE = 300  # seconds for an ingest that is not killed

Kill = Callable[
    [Path, int, random.Random], Iterator[tuple[int, int]]
]  # how many kills, what was done before them


@cache
def zygote() -> Zygote:
    return Zygote()


# ---- listen ----


@cache
def network() -> tuple[object, list[bytes]]:
    trace, arrivals = simulated(messages=4000)
    return trace.deployment, [arrival.packet for arrival in arrivals]


def listen_killed(place: Path, number: int, draw: random.Random) -> Iterator[tuple[int, int]]:
    """Base stations are killed, and others go on in their folder: how many frames they had reported."""
    syncs = [SYNCS[(number + kill) % 3] for kill in range(KILLS)]
    yield KILLS, survives(place, network(), syncs, number * KILLS, zygote().start)


# ---- ingest ----


@cache
def logs() -> Path:
    place = kept_folder("causeway-kill-logs-")
    trace, arrivals = simulated("kn", messages=500, seed=5)
    for run in range(RUNS):
        name = f"r{run}"
        write(place / name, arrivals, trace.deployment, name, site=f"s{run}", segment_bytes=9_000)
    return place


def ingest(tables: Path, dies_at: int = 0) -> Started:
    words = ["analyse", "ingest", logs(), "--no-spark", "--tables", tables]
    return zygote().start(words, dies_at, within=tables)


def ended(job: Started, seconds: float = PATIENCE) -> int:
    """How often an ingest changed its tables if it ended well within this time, else 0."""
    said, until = b"", time.monotonic() + seconds
    while select.select([job.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
        some = job.stdout.read(1 << 16)
        if not some:
            break
        said += some
    _, good, changes = said.rpartition(b"\nexit 0 ")
    return int(changes) if good else 0


@cache
def whole() -> tuple[dict[str, bytes], int, float]:
    """What an undisturbed ingest makes, how often it changes its folder, and how long it takes."""
    with tempfile.TemporaryDirectory(prefix="causeway-kill-") as place:
        began = time.monotonic()
        changes = ended(ingest(Path(place)))
        assert changes > 100
        return content(Path(place)), changes, time.monotonic() - began


def ingest_killed(place: Path, number: int, draw: random.Random) -> Iterator[tuple[int, int]]:
    """Ingests are killed, and done again: the tables are those of one that was not disturbed."""
    right, most, seconds = whole()
    for kill in range(KILLS):
        tables = place / str(kill)
        if draw.random() < 0.7:
            first = draw.choice((1, int(LATE * most)))
            job = ingest(tables, dies_at=draw.randrange(first, most))
            done = ended(job)
        else:
            job = ingest(tables)
            done = ended(job, draw.uniform(0, seconds))
            job.kill()
            job.wait()
        before = len(list(tables.glob("manifest/*.json")))
        if not done:
            assert ended(ingest(tables)), "the one that goes on fails"
        assert content(tables) == right
        yield int(not done), before


# ---- watch ----


def watch_kill(place: Path, number: int, draw: random.Random) -> Iterator[tuple[int, int]]:
    write_logs(place / "folder")
    yield KILLS, watch_killed(place, place / "folder", ROOT, KILLS, draw)


def piece(number: int) -> Piece:
    kinds: dict[int, tuple[str, Kill]] = {
        TURN - 2: ("ingest", ingest_killed),
        TURN - 1: ("watch", watch_kill),
    }
    name, kill = kinds.get(number % TURN, ("listen", listen_killed))
    kills = before = 0
    faults = []
    with tempfile.TemporaryDirectory(prefix="causeway-kill-") as place:
        try:
            for count, done in kill(Path(place), number, draw_of("kills", number)):
                kills, before = kills + count, before + done
        except Exception:
            lines = traceback.format_exc().splitlines()
            kills, faults = kills + 1, [f"piece {number}: {' '.join(lines[-4:])}"]
    return Piece(name, {"kills": kills, "done_before": before}, faults)


SEARCH = Search("kills", "kills", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
