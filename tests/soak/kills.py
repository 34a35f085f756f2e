"""kill -9 of the whole program while it works: `listen` at full line rate, `analyse ingest` and `analyse watch`.

After each kill the program is started again, and what it then has must be what an undisturbed one has. Of twelve pieces
ten kill `listen`. How it is done is in the tests of each: tests/cli/test_killed.py, tests/spark/test_watch.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.cli.test_killed import SYNCS, survives
from tests.journal.logs import simulated, write
from tests.soak.running import ROOT, Piece, Search, draw_of
from tests.spark.test_ingest import content
from tests.spark.test_watch import killed_and_gone_on as watch_killed
from tests.spark.test_watch import write_logs
from tests.waiting import wait_until

AIM = 1_200
TURN = 12  # pieces, of which the last two are of ingest and watch
RUNS = 6
LONGEST = 1.5  # seconds from its first folder until ingest is killed


@cache
def network() -> tuple[object, list[bytes]]:
    trace, arrivals = simulated(messages=4000)
    return trace.deployment, [arrival.packet for arrival in arrivals]


def listen_killed(place: Path, number: int, draw: random.Random) -> int:
    """A base station is killed and started again: how many frames it had told of."""
    return survives(place, network(), SYNCS[number % 3], number)


def ingest_killed(place: Path, number: int, draw: random.Random) -> int:
    """An ingest is killed, and done again: its tables are those of one that was not disturbed."""
    trace, arrivals = simulated("kn", messages=500, seed=5)
    for run in range(RUNS):
        write(
            place / "logs" / f"r{run}",
            arrivals,
            trace.deployment,
            f"r{run}",
            site=f"s{run}",
            segment_bytes=9_000,
        )

    def words(tables: str) -> list[str]:
        job = [sys.executable, "-m", "spark_jobs.run", "ingest", str(place / "logs"), "--no-spark"]
        return [*job, "--tables", str(place / tables)]

    with subprocess.Popen(
        words("tables"), cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True
    ) as job:
        try:
            wait_until(
                lambda: (place / "tables").exists() or job.poll() is not None, "it begins", seconds=300
            )
            time.sleep(draw.uniform(0, LONGEST))
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    before = len(list((place / "tables").rglob("*.parquet")))
    for tables in ("tables", "whole"):
        subprocess.run(words(tables), cwd=ROOT, capture_output=True, check=True, timeout=300)
    assert content(place / "tables") == content(place / "whole")
    return before


def watch_kill(place: Path, number: int, draw: random.Random) -> int:
    write_logs(place / "folder")
    return watch_killed(place, place / "folder", ROOT, 1, draw)


def piece(number: int) -> Piece:
    kinds: dict[int, tuple[str, Callable[[Path, int, random.Random], int]]] = {
        TURN - 2: ("ingest", ingest_killed),
        TURN - 1: ("watch", watch_kill),
    }
    name, kill = kinds.get(number % TURN, ("listen", listen_killed))
    with tempfile.TemporaryDirectory(prefix="causeway-kill-") as place:
        try:
            before = kill(Path(place), number, draw_of("kills", number))
        except Exception:
            lines = traceback.format_exc().splitlines()
            return Piece(name, {"kills": 1, "done_before": 0}, [f"piece {number}: {' '.join(lines[-4:])}"])
    return Piece(name, {"kills": 1, "done_before": before})


SEARCH = Search("kills", "kills", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
