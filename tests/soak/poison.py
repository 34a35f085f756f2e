"""The jobs on poisoned input: tables and journals that are cut, changed, or somebody else's.

Each piece damages one file of a good run, beside another good run, and lets a job read both, in this process without
Spark. It must end with 0 or 1 within a minute and without a traceback. What `ingest` makes of it may lack rows, if it
says so, but has no row that the undamaged run has not.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq

from spark_jobs.run import run
from tests.journal.logs import simulated, write
from tests.soak.running import Piece, Search, draw_of
from tests.spark.test_bad_input import ON_TRACES, write_run

AIM = 20_000
SECONDS = 60  # for one job; more is a hang


@cache
def good() -> Path:
    """Two traces, two journals, and the tables of each pair."""
    place = Path(tempfile.mkdtemp(prefix="causeway-poison-"))
    trace, arrivals = simulated("kn", messages=200, seed=5)
    for seed, name in enumerate(("good", "bad")):
        write_run(place / "traces" / name, seed)
        write(place / "journals" / name, arrivals, trace.deployment, name, site=name, segment_bytes=9_000)
    for kind in ("traces", "journals"):
        _call("ingest", place / kind, "--tables", place / f"tables of {kind}")
    return place


def _call(job: str, *words: object) -> tuple[int, str]:
    """A job's exit code, and what it said to people."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        return run(job, [*map(str, words), "--no-spark"]), said.getvalue()


def damage(draw: random.Random, path: Path) -> str:
    """Damage a file; how, in a word."""
    raw = bytearray(path.read_bytes())
    how = draw.choice(("cut", "bits", "bits", "bits", "noise", "zeros", "doubled", "foreign"))
    place = draw.randrange(len(raw))
    if how == "cut":
        del raw[place:]
    elif how == "bits":
        for _ in range(draw.choice((1, 1, 3, 20))):
            raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    elif how == "noise":
        size = draw.randrange(1, 200)
        raw[place : place + size] = draw.randbytes(size)
    elif how == "zeros":
        raw[place : place + draw.randrange(1, 4000)] = bytes(1)
    elif how == "doubled":
        raw[place:place] = raw[max(0, place - draw.randrange(1, 4000)) : place]
    else:
        raw[:] = draw.randbytes(draw.randrange(0, 3000))
    path.write_bytes(raw)
    return how


@contextlib.contextmanager
def _no_longer_than(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"it hangs: no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# What a row must have from its input. In a journal the heard record of a frame may be what was damaged.
COLUMNS = {
    "journals": ["source", "sequence", "payload", "wall_ns"],
    "traces": ["source", "sequence", "payload", "heard_time", "sent", "vector"],
}


def _rows(tables: Path, kind: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in (tables / "messages").rglob("*.parquet"):
        table = pq.read_table(path, partitioning=None, columns=COLUMNS[kind])
        found.update(map(repr, table.to_pylist()))
    return found


@cache
def _true_rows(kind: str) -> Counter[str]:
    return _rows(good() / f"tables of {kind}", kind)


def poisoned(draw: random.Random, place: Path) -> tuple[str, list[str]]:
    """One file damaged, one job: which, and what was wrong with its answer."""
    job = draw.choice(["ingest", "ingest", "ingest", *ON_TRACES])
    kind = draw.choice(("traces", "journals")) if job == "ingest" else "traces"
    shutil.copytree(good() / kind, place / kind)
    victim = draw.choice(sorted(path for path in (place / kind / "bad").rglob("*") if path.is_file()))
    how = damage(draw, victim)
    name = f"{job}, {kind}"
    about = f"{name}, {victim.name}, {how}"
    more = ["--tables", place / "tables"] if job == "ingest" else ON_TRACES[job]
    try:
        with _no_longer_than(SECONDS):
            code, said = _call(job, place / kind / "bad", place / kind / "good", *more)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return name, [f"{about}: {error!r}"]
    faults = []
    if code not in (0, 1) or "Traceback" in said:
        faults.append(f"{about}: code {code}: {said[-300:]}")
    if code == 1 and not said.strip():
        faults.append(f"{about}: it failed without a word")
    if job == "ingest" and not faults:
        rows, true = _rows(place / "tables", kind), _true_rows(kind)
        if rows - true:
            faults.append(f"{about}: {(rows - true).total()} invented rows")
        if true - rows and not said.strip():
            faults.append(f"{about}: {(true - rows).total()} rows are missing, and nothing was said")
    return name, faults


def piece(number: int) -> Piece:
    with tempfile.TemporaryDirectory(prefix="causeway-poisoned-") as place:
        row, faults = poisoned(draw_of("poison", number), Path(place))
    return Piece(row, {"inputs": 1}, [f"piece {number}: {fault}" for fault in faults])


SEARCH = Search("poison", "inputs", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
