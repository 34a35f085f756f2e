"""How fast and in how much memory a long journal is taken in and looked at: `ingest`, `links`, `clocks` and `watch`.

    python -m tests.bench.pipeline --millions 5 --millions 50 --cores 1 --cores 2

Each figure is that of a process of its own, held to the cores that are said: Java, too. `start_seconds` go by until
its engine is ready, most of them Java's; rates and ratios are of the time after that. Memory is the most that one of
its Python processes ever had; on Spark that is a worker. Where other work shares the machine, look at the processors'
seconds: `cpu_seconds` of Python, `java_seconds` of Java.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from basestation.analysis.link_health import WINDOW_S
from basestation.journal.parquet_parts import make_parts
from basestation.simulator.options import WorldOptions
from spark_jobs.engines import Cores
from spark_jobs.health.growing_logs import take_batch
from spark_jobs.session import JobError
from tests.bench.big_journal import play_of, write_big_journal

MILLION = 1_000_000
JOBS = ("ingest", "links", "clocks")
WAYS = {"without Spark": ["--no-spark"], "Spark": ["--spark"]}
EARLY, LATE, AROUND = 10, 500, 5  # parts; batches
LOOK_S = 0.1
READY = re.compile("cores of this machine|tasks at a time")  # what `engine.chosen` notes


@dataclass(frozen=True)
class Cost:
    """`peak_mb`: of the Python process that took most."""

    seconds: float
    start_seconds: float
    peak_mb: int
    cpu_seconds: float
    java_seconds: float


@dataclass(frozen=True)
class Pace(Cost):
    """`rate`: million records in a second, once the engine is ready."""

    job: str
    way: str
    cores: int
    records: int
    rate: float


@dataclass(frozen=True)
class BatchCost:
    """The processor's milliseconds for a batch that counts a run of this many parts, the median of some batches."""

    parts: int
    ms: float


def bench(
    millions: Sequence[float] = (1,),
    cores: Sequence[int] = (1, 2),
    ways: Sequence[str] = tuple(WAYS),
    place: Path = Path(),
    runs: int = 1,
) -> Iterator[Pace]:
    """Each job on journals of these sizes, `runs` journals of each."""
    with TemporaryDirectory(dir=place, prefix=".bench-") as scratch:
        play = play_of()
        for size in millions:
            logs = Path(scratch) / f"logs{size}"
            records = sum(
                write_big_journal(logs / f"run{number}", int(size * MILLION), play) for number in range(runs)
            )
            for way in ways:
                for count in cores:
                    tables = Path(scratch) / f"tables{size}-{way.replace(' ', '-')}-{count}"
                    words = {"ingest": [str(logs), "--tables"]}
                    for job in JOBS:
                        command = [job, *words.get(job, []), str(tables), *WAYS[way]]
                        cost = measured([*command, *_on(way, count)], count)
                        rate = records / (cost.seconds - cost.start_seconds) / MILLION
                        yield Pace(**asdict(cost), job=job, way=way, cores=count, records=records, rate=rate)
                    subprocess.run(["rm", "-r", str(tables)], check=True)
            subprocess.run(["rm", "-r", str(logs)], check=True)


def _on(way: str, cores: int) -> list[str]:
    workers = ["--workers", str(cores)]
    return [*workers, "--master", f"local[{cores}]"] if way == "Spark" else workers


def measured(words: Sequence[str], cores: int) -> Cost:
    """Run a job on this many cores."""
    begun, peak, ready = time.perf_counter(), 0, 0.0
    used: dict[int, tuple[bool, float]] = {}
    with TemporaryDirectory() as place:
        told = Path(place) / "told"
        with told.open("wb") as output:
            job = subprocess.Popen(
                [sys.executable, "-m", "spark_jobs.run", *words], stdout=output, stderr=output
            )
            os.sched_setaffinity(job.pid, sorted(os.sched_getaffinity(0))[:cores])
            while job.poll() is None:
                if not ready and READY.search(told.read_text()):
                    ready = time.perf_counter() - begun
                for pid in descendants(job.pid):
                    peak = max(peak, _peak_mb(pid))
                    used |= {pid: cpu} if (cpu := _cpu_of(pid)) else {}
                time.sleep(LOOK_S)
        if job.returncode:
            raise JobError(f"{words[0]}: {told.read_text()[-500:]}")
    seconds = time.perf_counter() - begun
    python, java = (sum(cpu for is_java, cpu in used.values() if is_java == which) for which in (False, True))
    return Cost(seconds, ready, peak, python, java)


def _cpu_of(pid: int) -> tuple[bool, float] | None:
    """Whether a process is Java, and the processors' seconds that it took; None if it has ended."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    return name == "java", sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """A process and all that came of it."""
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            found += [one for child in children for one in descendants(int(child))]
    except OSError:
        pass  # it has ended
    return found


def _peak_mb(pid: int) -> int:
    """The most memory that a process ever had; 0 for Java, whose heap is set by its options."""
    try:
        said = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return 0
    return 0 if said["Name"].strip() == "java" else int(said.get("VmHWM", "0 kB").split()[0]) // 1024


def watching(place: Path = Path(), batches: int = LATE) -> list[BatchCost]:
    """What a batch costs that counts a run of few parts, and of many."""
    with TemporaryDirectory(dir=place, prefix=".bench-") as scratch:
        run = Path(scratch) / "logs/run"
        play = play_of(WorldOptions(messages=5000, rate=0.004, loss=0.02))
        write_big_journal(run, batches * 4000, play, segment_bytes=4000 * 58)
        parts, found = make_parts(run, _refuse), []
        for count in (len(parts), EARLY):
            for part in parts[count:]:
                part.unlink(missing_ok=True)
            took = []
            for _ in range(AROUND):
                begun = time.process_time()
                take_batch([run], Path(scratch) / "health", WINDOW_S, Cores(1))
                took.append(1000 * (time.process_time() - begun))
            found.append(BatchCost(count, _median(took)))
    return found


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _refuse(fault: object) -> None:
    raise AssertionError(str(fault))


def ratios(paces: Sequence[Pace]) -> Iterator[dict[str, object]]:
    """What a second core brings, and how the time grows with the records: 1 is linear."""
    for pace in paces:
        same = [other for other in paces if (other.job, other.way) == (pace.job, pace.way)]
        for other in same:
            told = {"job": pace.job, "way": pace.way}
            if (other.records, other.cores) == (pace.records, 1) and pace.cores == 2:
                yield told | {
                    "what": f"two cores against one, {pace.records:,}",
                    "ratio": pace.rate / other.rate,
                }
            if other.cores == pace.cores and other.records > pace.records:
                what = f"{other.records:,} records against {pace.records:,}, {pace.cores} cores"
                yield told | {"what": what, "ratio": pace.rate / other.rate}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pipeline", description=__doc__)
    parser.add_argument("--millions", type=float, action="append", help="records, in millions (1)")
    parser.add_argument("--runs", type=int, default=1, help="journals of that size (1)")
    parser.add_argument("--cores", type=int, action="append", help="(1 and 2)")
    parser.add_argument("--way", choices=WAYS, action="append", help="(both)")
    parser.add_argument("--place", type=Path, default=Path(), help="a folder for the journals")
    parser.add_argument("--no-watch", action="store_true")
    asked = parser.parse_args()
    paces = []
    ways = asked.way or tuple(WAYS)
    for pace in bench(asked.millions or (1,), asked.cores or (1, 2), ways, asked.place, asked.runs):
        paces.append(pace)
        print(json.dumps(asdict(pace)), flush=True)
    for row in ratios(paces):
        print(json.dumps(row), flush=True)
    for cost in () if asked.no_watch else watching(asked.place):
        print(json.dumps(asdict(cost)), flush=True)


if __name__ == "__main__":
    main()
