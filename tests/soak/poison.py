"""The jobs on poisoned input: tables, parts and journals of both formats that are cut, changed, or made by an enemy.

A piece poisons one run, beside another good run, and lets a job read both: without Spark, every eighth time with it.
The job must end with 0 or 1 within a minute, without a traceback, and say something where it ends with 1. What it
answers about the good run is what it answers without the poisoned one. What it answers about a run that was damaged by
chance is what was true before, or less, and then it says so; an enemy who makes a sound file of false content is
believed.

The jobs run in a process of their own with little memory, so that a crash and a file that asks for terabytes are
noticed.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from basestation.journal.parquet_parts import make_parts
from spark_jobs.run import run
from tests.journal.logs import simulated, write
from tests.soak.running import Piece, Search, draw_of, kept_folder
from tests.soak.venom import CHANCE, JOURNALS, TABLES
from tests.spark.test_bad_input import ON_TRACES, write_run

AIM = 2_000
SECONDS = 60  # for one job; more is a hang
PATIENCE = 3 * SECONDS  # for the process that runs it: Spark has to start
MEMORY = 8 << 30  # bytes of address space for the process, and for the Java that it starts
WITH_SPARK = 8  # one piece in eight

GOOD, BAD = "good", "bad"
LINES = {"links": ["--json"], "clocks": ["--json"], **ON_TRACES}
JOBS = {  # by kind of input
    "traces": ["ingest", *ON_TRACES],
    "journals": ["ingest"],
    "tables": ["links", "clocks"],
    "parts": ["watch"],  # Spark's alone
}
# What a row must have from its input. In a journal the heard record of a frame may be what was damaged.
COLUMNS = {"traces": ["source", "sequence", "payload", "heard_time", "sent", "vector"]}
# What a job says of good input, too.
USUAL = re.compile(
    r"^\w+: (without Spark|on Spark)|runs to take in|^ +\S+: [\d,]+ records, [\d,]+ messages|^WARNING|^$"
)
OF_JOURNALS = ["source", "sequence", "payload", "wall_ns"]


# ---- What is good ----


@cache
def good() -> Path:
    """Two runs of each kind: in a folder each but for tables."""
    place = kept_folder("causeway-poison-")
    trace, arrivals = simulated("kn", messages=200, seed=5)
    deployment = trace.deployment
    for seed, name in enumerate((GOOD, BAD)):
        write_run(place / "traces" / name, seed)
        write(place / "journals" / name, arrivals, deployment, name, site=name, segment_bytes=9_000)
        shutil.copytree(place / "journals" / name, place / "parts" / name)
        make_parts(place / "parts" / name, lambda fault: None)
    _call("ingest", [place / "journals", "--tables", place / "tables"])
    return place


def inputs(kind: str, place: Path) -> list[Path]:
    """What a job is given, the poisoned one first."""
    return [place] if kind in ("tables", "parts") else [place / BAD, place / GOOD]


def files(kind: str, place: Path) -> list[Path]:
    """The files of the bad run."""
    found = [path for path in sorted(place.rglob("*")) if path.is_file() and path.name != "lock"]
    if kind == "tables":
        return [path for path in found if f"run={BAD}" in path.parts or path.name == f"{BAD}.json"]
    inside = [path for path in found if BAD in path.parts]
    return [path for path in inside if path.suffix == ".parquet"] if kind == "parts" else inside


# ---- A job, and what it answers ----

Answer = dict[str, Counter[str]]  # by run


def _call(job: str, words: list[object], spark: bool = False) -> tuple[int, str, str]:
    """A job's exit code, what it printed, and what it said to people."""
    printed, said = io.StringIO(), io.StringIO()
    engine = [] if job == "watch" else ["--spark" if spark else "--no-spark"]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = run(job, [*map(str, words), *engine])
    return code, printed.getvalue(), said.getvalue()


def asked(job: str, kind: str, place: Path, out: Path, spark: bool) -> tuple[int, Answer, str]:
    """A job on a place of a kind: its exit code, what it answers, and what it said beyond the usual."""
    match job:
        case "ingest":
            more: list[object] = ["--tables", out]
        case "watch":
            more = ["--out", out, "--once", "--window", "1"]
        case _:
            more = [*LINES[job]]
    code, printed, said = _call(job, [*inputs(kind, place), *more], spark)
    answer = _rows(out, kind) if job == "ingest" else _lines(printed)
    return code, answer, "\n".join(line for line in said.splitlines() if not USUAL.search(line))


def _rows(tables: Path, kind: str) -> Answer:
    found: Answer = {}
    for path in (tables / "messages").rglob("*.parquet"):
        table = pq.read_table(path, partitioning=None, columns=COLUMNS.get(kind, OF_JOURNALS))
        name = path.parent.name.removeprefix("run=")
        found.setdefault(name, Counter()).update(map(repr, table.to_pylist()))
    return found


def _lines(printed: str) -> Answer:
    found: Answer = {}
    for line in printed.splitlines():
        row = json.loads(line)
        for name in ("batch", "microseconds"):  # how its parts fell, and how long it took
            row.pop(name, None)
        if row.get("run") != "all runs":
            found.setdefault(str(row.get("run")), Counter()).update([json.dumps(row, sort_keys=True)])
    return found


@cache
def truth(job: str, kind: str) -> tuple[str, Answer]:
    """The name of the good run, and what is right about both."""
    spark = job == "watch"
    if spark:
        session()
    with tempfile.TemporaryDirectory(prefix="causeway-good-") as out:
        _, answer, _ = asked(job, kind, good() / kind, Path(out) / "out", spark)
    names = {GOOD} if kind != "traces" else set(answer) & {_run_of(good() / kind / GOOD)}
    (name,) = names
    assert len(answer) == 2
    return name, answer


def _run_of(folder: Path) -> str:
    said: dict[bytes, bytes] = pq.read_schema(folder / "messages.parquet").metadata
    return said[b"causeway.run"].decode()


@cache
def session() -> Any:
    from spark_jobs.session import start

    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
    return start("poison", "local[2]", settings)


# ---- One input ----


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


def poisoned(draw: random.Random, place: Path, spark: bool) -> tuple[str, list[str]]:
    """One file poisoned, one job: which, and what was wrong with its answer."""
    kind = draw.choice([kind for kind in JOBS if spark or kind != "parts"])
    job = draw.choice(JOBS[kind])
    name = f"{job}, {kind}" + (", Spark" if spark else "")
    right = truth(job, kind)
    shutil.copytree(good() / kind, place / kind)
    victim = draw.choice(files(kind, place / kind))
    venoms: dict[str, Callable[[random.Random, Path], None]] = {".parquet": TABLES, ".cwj": JOURNALS}.get(
        victim.suffix, {}
    )
    by_chance = not venoms or draw.random() < 0.4
    how, poison = draw.choice(list((CHANCE if by_chance else venoms).items()))
    poison(draw, victim)
    about = f"{name}, {victim.name}, {how}"
    try:
        with _no_longer_than(SECONDS):
            answer = asked(job, kind, place / kind, place / "out", spark)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return name, [f"{about}: {error!r}"]
    if victim.suffix == ".json" and answer[0] == 1 and not answer[1] and victim.name in answer[2]:
        return name, []  # without its list the tables tell nothing
    found = wrong(answer, right, by_chance, job == "watch")
    return name, [f"{about}: {fault}" for fault in found]


def wrong(
    found: tuple[int, Answer, str], right: tuple[str, Answer], by_chance: bool, sums: bool = False
) -> Iterator[str]:
    """What is wrong with a job's answer. `sums`: its rows are sums of what can be read, which is less if it says so."""
    code, answer, said = found
    name, true = right
    if code not in (0, 1) or "Traceback" in said:
        yield f"code {code}: {said[-300:]}"
    if code == 1 and not said.strip():
        yield "it failed without a word"
    if answer.get(name) != true[name]:
        yield f"the good run's answer is another one; it said: {said[-300:]}"
    if by_chance:
        bad = next(one for one in true if one != name)
        others = Counter[str]()
        for run_name, rows in answer.items():
            others += rows if run_name != name else Counter()
        more = others - true[bad]
        if more and not (sums and said):
            yield f"{more.total()} invented rows, such as {next(iter(more))}; it said: {said[-300:]}"
        if true[bad] - others and not said.strip():
            yield f"{(true[bad] - others).total()} rows are missing, and nothing was said"


def here(number: int) -> Piece:
    """A piece in this process."""
    spark = number % WITH_SPARK == WITH_SPARK - 1
    if spark:
        session()
    with tempfile.TemporaryDirectory(prefix="causeway-poisoned-") as place:
        row, faults = poisoned(draw_of("poison", number), Path(place), spark)
    return Piece(row, {"inputs": 1}, [f"piece {number}: {fault}" for fault in faults])


# ---- In a process of its own ----


def _work(line: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while True:
        line.send(here(line.recv()))


class Worker:
    """A process that does pieces until one is too much for it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, there = context.Pipe()
        self.process = context.Process(target=_work, args=(there,), daemon=True)
        self.process.start()
        there.close()

    def do(self, number: int) -> Piece:
        try:
            self.line.send(number)
            if self.line.poll(PATIENCE):
                found: Piece = self.line.recv()
                return found
        except (EOFError, OSError):
            self.process.join()
            raise ChildProcessError(f"it crashed with code {self.process.exitcode}") from None
        self.process.kill()
        raise ChildProcessError("it hangs, and can't be interrupted")


_WORKERS: list[Worker] = []


def piece(number: int) -> Piece:
    if not _WORKERS:
        _WORKERS.append(Worker())
    try:
        return _WORKERS[0].do(number)
    except ChildProcessError as error:
        _WORKERS.clear()
        return Piece("crashed", {"inputs": 1}, [f"piece {number}: {error}"])


SEARCH = Search("poison", "inputs", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
