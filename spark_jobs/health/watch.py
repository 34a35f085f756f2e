"""`watch`: follow a growing folder of logs with Structured Streaming, and keep the link health of each run up to date.

    LOGS/RUN/messages/000000.parquet ...     parts, as the base station rolls them
    OUT/health/RUN.parquet                   motes over time windows, from all parts of the run so far
    OUT/links/RUN.parquet                    links, the same
    OUT/continuum/RUN.parquet                with --continuum: the result of each stamp and policy so far
    OUT/batches/000000.json                  which parts came in which batch, and what could not be read
    OUT/checkpoint/                          Spark's own

Spark carries the names of new parts. A batch's parts are in its checkpoint before it starts. The results are made from
the parts alone, each file appears completely, and a repeated batch writes the same. So each part counts once, whenever
the job is killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.journal.parquet_parts import PARTS
from basestation.journal.recovery import write_whole
from basestation.traces import schema
from basestation.traces.present import present
from packet_formats import deployment as deployments
from packet_formats.deployment import DeploymentError
from spark_jobs.advice.report import table_of
from spark_jobs.engine import EngineOptions, Spark, Spread, chosen
from spark_jobs.health.links import LINKS, MOTES, WINDOW_S, Seen, check_motes, health
from spark_jobs.measuring.choices import Choice
from spark_jobs.measuring.continuum import continuum
from spark_jobs.session import JobError, note, one_line, prepare
from spark_jobs.traces.files import open_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = f"*/{PARTS}/[0-9]*.parquet"
NEVER = 1 << 63  # no batch has this number
COLUMNS = ("source", "boot", "sequence", "heard", "gateway", "rssi", "lqi", "wall_ns")
FILES = "path string, modificationTime timestamp, length long, content binary"
Ints = NDArray[np.int64]


# ---- One run ----


@dataclass(frozen=True, slots=True)
class Parts:
    """A run's parts so far, in order, and the window of its tables."""

    run: str
    paths: tuple[str, ...]
    window_s: float


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """The link health of a run, and the parts that could not be read, with the reason."""

    run: str
    motes: pa.Table
    links: pa.Table
    faults: dict[str, str]


def health_of(parts: Parts) -> LinkHealth:
    """The link health from all parts. They are read again each time: that is cheap, and needs no state."""
    tables, faults = [], {}
    runs: set[str] = set()
    for path in parts.paths:
        try:
            table, run = _read(Path(path))
        except JobError as error:
            faults[path] = str(error)
            continue
        if runs and run not in runs:
            faults[path] = f"a part of another run, {run}"
            continue
        runs.add(run)
        tables.append(table)
    if not tables:
        return LinkHealth(parts.run, MOTES.empty_table(), LINKS.empty_table(), faults)
    motes, links = health(_seen(pa.concat_tables(tables)), parts.window_s)
    return LinkHealth(parts.run, motes, links, faults)


def _read(path: Path) -> tuple[pa.Table, str]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            said = file.schema_arrow.metadata or {}
            if schema.wrong_format(said) or schema.META_RUN not in said:
                raise JobError("no part of Causeway's")
            table = present(file.read(columns=list(COLUMNS)), COLUMNS, schema.messages_schema())
            text = said.get(schema.META_DEPLOYMENT, b"").decode(errors="replace")
            check_motes(table["source"].to_numpy(), deployments.parse(text), "can't be taken")
            return table, said[schema.META_RUN].decode(errors="replace")
    except DeploymentError as error:
        raise JobError(f"its deployment can't be read: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise JobError(f"can't be read, it may have been cut off: {one_line(error)}") from None


def _seen(messages: pa.Table) -> Seen:
    """The messages of the parts. Each is there once: parts hold neither copies nor lines."""

    def column(name: str, kind: Any, absent: float) -> NDArray[Any]:
        values: NDArray[Any] = (
            messages[name].cast(pa.from_numpy_dtype(kind), safe=False).fill_null(absent).to_numpy()
        )
        return values

    mote, boot = column("source", np.int64, -1), column("boot", np.int64, 0)
    return Seen(
        at=column("wall_ns", np.float64, np.nan) / 1e9,
        first=np.ones(len(messages), np.bool_),
        mote=mote,
        life=_lives(mote, boot),
        sequence=column("sequence", np.int64, 0),
        gateway=column("gateway", np.int64, -1),
        line=np.full(len(messages), -1, np.int64),
        rssi=column("rssi", np.float64, np.nan),
        lqi=column("lqi", np.float64, np.nan),
    )


def _lives(mote: Ints, boot: Ints) -> Ints:
    """Unwrap the boot counts (modulo 8) of each mote: up to four more is a later boot, else it is a straggler."""
    lives = np.zeros(len(mote), np.int64)
    order = np.argsort(mote, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(mote[order])) + 1):
        if len(rows):
            steps = (np.diff(boot[rows], prepend=boot[rows][0]) + 3) % 8 - 3
            lives[rows] = boot[rows][0] + np.cumsum(steps)
    return lives


# ---- Batches ----


@dataclass(frozen=True, slots=True)
class Book:
    """The record of all batches so far, kept in the folder of results."""

    out: Path

    def _path(self, number: int) -> Path:
        return self.out / "batches" / f"{number:06d}.json"

    def before(self, number: int) -> dict[str, list[str]]:
        """The parts of each run that came in earlier batches."""
        known: dict[str, list[str]] = {}
        for path in sorted((self.out / "batches").glob("[0-9]*.json")):
            if int(path.stem) < number:
                for run, parts in self._entry(path).items():
                    known.setdefault(run, []).extend(parts)
        return known

    def _entry(self, path: Path) -> dict[str, list[str]]:
        try:
            parts: dict[str, list[str]] = dict(json.loads(path.read_bytes())["parts"])
        except (ValueError, KeyError, TypeError) as error:
            raise JobError(f"{path}: no entry of watch's: {error}; another --out begins anew") from None
        return parts

    def faults(self, number: int) -> dict[str, str]:
        found: dict[str, str] = json.loads(self._path(number).read_bytes())["faults"]
        return found

    def write(self, number: int, parts: dict[str, list[str]], faults: dict[str, str]) -> None:
        told = {"batch": number, "parts": parts, "faults": faults}
        write_whole(self._path(number), json.dumps(told, indent=1).encode())


Tell = Callable[[int, Sequence[LinkHealth]], None]
"""Called after each batch, with its number and the runs that changed."""


def take_batch(
    number: int,
    paths: Sequence[str],
    book: Book,
    window_s: float,
    over: Callable[[list[Parts]], list[LinkHealth]],
    measure: Callable[[Parts], pa.Table] | None = None,
) -> list[LinkHealth]:
    """Update the results with this batch. Doing it twice gives the same."""
    new: dict[str, list[str]] = {}
    for path in sorted(paths):
        new.setdefault(Path(path).parent.parent.name, []).append(path)
    before = book.before(number)
    tasks = [
        Parts(run, tuple(sorted({*before.get(run, []), *parts})), window_s)
        for run, parts in sorted(new.items())
    ]
    found = over(tasks)
    for result in found:
        _put(book.out / "health" / f"{result.run}.parquet", result.motes)
        _put(book.out / "links" / f"{result.run}.parquet", result.links)
    faults = {path: why for result in found for path, why in result.faults.items()}
    for task in tasks if measure else ():
        sound = tuple(path for path in task.paths if path not in faults)
        try:
            if sound and measure:
                _put(book.out / "continuum" / f"{task.run}.parquet", measure(replace(task, paths=sound)))
        except JobError as error:
            faults[task.run] = str(error)
            note(f"continuum: {error}")
    book.write(number, new, faults)
    return found


def continuum_of(parts: Parts, spread_over: Spread, choice: Choice | None = None) -> pa.Table:
    """The continuum of these parts only: links to them make a run of their own."""
    with TemporaryDirectory() as place:
        run = Path(place) / parts.run
        (run / PARTS).mkdir(parents=True)
        for path in parts.paths:
            (run / PARTS / Path(path).name).symlink_to(path)
        rows = continuum(open_trace(run), choice or Choice(), spread_over, Path(place))
    return table_of(rows)


def _put(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


# ---- The job ----


def watch(
    logs: Path,
    out: Path,
    options: EngineOptions,
    tell: Tell,
    *,
    window_s: float = WINDOW_S,
    every_s: float | None = None,
    with_continuum: bool = False,
) -> dict[str, str]:
    """Check the folders, and `follow` on Spark. Return what could not be read."""
    if not logs.is_dir():
        raise JobError(f"{logs}: there is no such folder")
    for folder in ("batches", "health", "links", "continuum"):
        prepare(out / folder)
    if every_s is None and not any(logs.glob(NAMED)):
        raise JobError(f"{logs}: no part of a log in it, which would be called {NAMED}")
    _same_logs(out, logs)
    Book(out).before(NEVER)  # whether all of it can be read
    with chosen("watch", options) as engine:
        if not isinstance(engine, Spark):
            raise JobError("it needs Spark, which streams")
        faults = follow(engine.spark, logs, out, window_s, every_s, with_continuum, tell)
    unseen = _unseen(logs)
    for path, why in unseen.items():
        note(f"{path}: {why}")
    return faults | unseen


def _unseen(logs: Path) -> dict[str, str]:
    """The files that are named like parts and that Spark skips silently."""
    found = {}
    for path in sorted(logs.glob(NAMED)):
        if not path.is_file():
            found[str(path)] = "no file, or a link to none"
        elif not path.stat().st_size:
            found[str(path)] = "empty, it may have been cut off"
    return found


def _same_logs(out: Path, logs: Path) -> None:
    """Check that the checkpoint belongs to this folder of logs."""
    note_of = out / "logs"
    here = os.fsencode(logs.resolve())
    if note_of.exists() and (watched := note_of.read_bytes()) != here:
        where = watched.decode(errors="replace")
        raise JobError(f"{out} holds what was watched in {where}; another folder needs another --out")
    write_whole(note_of, here)


def follow(
    spark: SparkSession,
    logs: Path,
    out: Path,
    window_s: float,
    every_s: float | None,
    with_continuum: bool = False,
    tell: Tell = lambda number, found: None,
) -> dict[str, str]:
    """Watch until interrupted; if `every_s` is None, take what is there and return. Return what could not be read."""
    book = Book(out)
    faults: dict[str, str] = {}
    broken: list[Exception] = []

    def over(tasks: list[Parts]) -> list[LinkHealth]:
        return list(Spark(spark).each(health_of, tasks))

    def measure(parts: Parts) -> pa.Table:
        return continuum_of(parts, Spark(spark).each)

    def batch(frame: DataFrame, number: int) -> None:
        paths = [_local(row.path) for row in frame.select("path").collect()]
        try:
            found = take_batch(number, paths, book, window_s, over, measure if with_continuum else None)
        except (JobError, OSError) as error:
            broken.append(error)  # on its way through Java it would become a page
            raise
        faults.update(book.faults(number))
        tell(number, found)
        for path, why in (item for result in found for item in result.faults.items()):
            note(f"{path}: {why}")

    pattern = f"{logs.resolve()}/{NAMED}"
    parts = spark.readStream.format("binaryFile").schema(FILES).load(pattern).select("path")
    writer = parts.writeStream.foreachBatch(batch).option("checkpointLocation", str(out / "checkpoint"))
    writer = (
        writer.trigger(availableNow=True)
        if every_s is None
        else writer.trigger(processingTime=f"{every_s} seconds")
    )
    query = writer.start()
    try:
        query.awaitTermination()
    except Exception as error:
        raise (broken or [error])[0] from None
    finally:
        query.stop()
    return faults


def _local(uri: str) -> str:
    return unquote(urlparse(uri).path) if ":" in uri else uri
