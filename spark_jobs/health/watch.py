"""`watch`: follow a growing folder of logs with Structured Streaming, and keep the link health of each run up to date.

    LOGS/RUN/messages/000000.parquet ...     parts, as the base station rolls them
    OUT/health/RUN/000000000000.parquet ...  motes over time windows, from all parts of the run so far
    OUT/links/RUN/000000000000.parquet ...   links, the same; each file has the same `RANGE` windows for good
    OUT/continuum/RUN.parquet                with --continuum: the result of each stamp and policy so far
    OUT/batches/000000.json                  which parts came in which batch, what came late, what could not be read
    OUT/state/RUN/000000.parquet             what the next batch has to know of the run: the rows of its open windows
    OUT/checkpoint/                          Spark's own

Spark carries the names of new parts. A batch's parts are in its checkpoint before it starts. A batch reads its parts
and the state that the batch before it left, and writes the windows that are open; older ones are final. Each file
appears completely, a state is kept until the batch after it is done, and a repeated batch writes the same. So each part
counts once, whenever the job is killed, and a batch costs the same however long the run is.

A part that comes after a later one is told, and the run is counted again from its first part.
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

from basestation.analysis.choices import Choice
from basestation.analysis.columns import column
from basestation.analysis.links import LINKS, MOTES, WINDOW_S, summary, with_delivery
from basestation.analysis.rows import table_of
from basestation.analysis.windows import ALL, NEVER, ROWS, State, Tables, added, advance, between, opened
from basestation.journal.decision import MICS_UNCHECKED
from basestation.journal.parquet_parts import PARTS, mics_in
from basestation.journal.recovery import write_whole
from basestation.traces import schema
from basestation.traces.files import open_table
from basestation.traces.present import present, wrong_column
from packet_formats import deployment as deployments
from packet_formats.deployment import DeploymentError
from packet_formats.phrases import many
from spark_jobs.engine import EngineOptions, Spark, Spread, chosen
from spark_jobs.health.links import check_motes
from spark_jobs.measuring.continuum import continuum
from spark_jobs.session import JobError, note, one_line, prepare
from spark_jobs.traces.files import open_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = f"*/{PARTS}/[0-9]*.parquet"
COLUMNS = ("source", "boot", "sequence", "heard", "gateway", "rssi", "lqi", "wall_ns")
FILES = "path string, modificationTime timestamp, length long, content binary"
RANGE = 64  # windows of a file
AT_ONCE = 256  # parts of a batch at most, so that a long log is taken in bounded memory
META_STATE = b"causeway.watch"


# ---- One run ----


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a run, in order, where its state is that they go on from, and the window of its tables."""

    run: str
    paths: tuple[str, ...]
    window_s: float
    state: str = ""


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """What is new of a run: the rows of all windows from `since` on, the parts that could not be read, with the reason,
    and what came late."""

    run: str
    motes: pa.Table
    links: pa.Table
    faults: dict[str, str]
    late: dict[str, str]
    since: int
    state: State
    total: dict[str, Any]  # of all windows of the run


def health_of(parts: Parts) -> LinkHealth:
    """Go on from the state with these parts, one after another."""
    state = _load(parts.state) if parts.state else State()
    since, window_s = state.open, parts.window_s
    faults: dict[str, str] = {}
    late: dict[str, str] = {}
    closed: list[Tables] = []
    now = opened(state, window_s)
    for path in parts.paths:
        state = replace(state, part=max(state.part, _number(path)))
        try:
            table, run = _read(Path(path))
            if state.run and run != state.run:
                raise JobError(f"a part of another run, {run}")
        except JobError as error:
            faults[path] = str(error)
            continue
        first, (state, found, told) = state.open, advance(replace(state, run=run), table, window_s)
        late |= {path: told} if told else {}
        closed.append(tuple(between(each, first, state.open, window_s) for each in found))
        now = tuple(between(each, state.open, NEVER, window_s) for each in found)
    motes, links = (pa.concat_tables(each) for each in zip(*closed, now, strict=True))
    total = with_delivery(added(state.totals, summary(now[0])))
    return LinkHealth(parts.run, motes, links, faults, late, since, state, total)


def _read(path: Path) -> tuple[pa.Table, str]:
    try:
        with path.open("rb") as raw, open_table(raw) as file:
            said = file.schema_arrow.metadata or {}
            if schema.wrong_format(said) or schema.META_RUN not in said:
                raise JobError("no part of Causeway's")
            for name in COLUMNS:
                if fault := wrong_column(file.schema_arrow, name, schema.messages_schema()):
                    raise JobError(f"no part of Causeway's: {fault}")
            table = present(file.read(columns=list(COLUMNS)), COLUMNS, schema.messages_schema())
            text = said.get(schema.META_DEPLOYMENT, b"").decode(errors="replace")
            described = deployments.parse(text)
            check_motes(column(table, "source"), described, "can't be taken")
            if described.security.mic:  # strays tell of no losses and no reboots
                table = table.filter(file.read(columns=["in_sync"])["in_sync"])
            return table, said[schema.META_RUN].decode(errors="replace")
    except DeploymentError as error:
        raise JobError(f"its deployment can't be read: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise JobError(f"can't be read, it may have been cut off: {one_line(error)}") from None


def _is_numbered(path: str | Path) -> bool:
    return Path(path).stem.isdecimal()


def _number(path: str) -> int:
    return int(Path(path).stem)


def _load(path: str) -> State:
    try:
        with Path(path).open("rb") as raw, open_table(raw) as file:
            told = json.loads(file.schema_arrow.metadata[META_STATE])
            table = file.read(columns=ROWS.names).cast(ROWS)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise JobError(f"{path}: no state of watch's: {one_line(error)}; another --out begins anew") from None
    return State(table.replace_schema_metadata(), **told)


def _state_table(state: State) -> pa.Table:
    told = {name: getattr(state, name) for name in ("run", "part", "open", "totals")}
    return state.rows.replace_schema_metadata({META_STATE: json.dumps(told)})


# ---- Batches ----


@dataclass(frozen=True, slots=True)
class Book:
    """The results, the states, and the record of all batches so far."""

    out: Path

    def _path(self, number: int) -> Path:
        return self.out / "batches" / f"{number:06d}.json"

    def before(self, number: int) -> dict[str, list[str]]:
        """The parts of each run that came in earlier batches. It reads the record of each."""
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

    def write(self, number: int, parts: dict[str, list[str]], **told: dict[str, str]) -> None:
        write_whole(
            self._path(number), json.dumps({"batch": number, "parts": parts} | told, indent=1).encode()
        )

    def states(self, run: str, number: int) -> list[Path]:
        """The states of a run that batches before this one left, in order."""
        found = sorted((self.out / "state" / run).glob("[0-9]*.parquet"))
        return [path for path in found if int(path.stem) < number]

    def put(self, number: int, result: LinkHealth, window_s: float) -> None:
        """Write the windows that changed, then the state."""
        for name, table in (("health", result.motes), ("links", result.links)):
            folder = self.out / name / result.run
            folder.mkdir(parents=True, exist_ok=True)
            window = np.rint(table["start"].to_numpy() / window_s).astype(np.int64) // RANGE
            files = {
                folder / f"{at:012d}.parquet": pa.array(window == at) for at in np.unique(window).tolist()
            }
            for path, rows in files.items():
                _put(path, pa.concat_tables([_older(path, result, window_s), table.filter(rows)]))
            for stale in set(folder.glob("[0-9-]*.parquet")) - files.keys() if result.since == ALL else ():
                stale.unlink()
        folder = self.out / "state" / result.run
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / f"{number:06d}.parquet", _state_table(result.state))


def _older(path: Path, result: LinkHealth, window_s: float) -> pa.Table:
    """The rows of a file that are final."""
    if result.since == ALL or not path.exists():
        return (MOTES if path.parent.parent.name == "health" else LINKS).empty_table()
    with path.open("rb") as raw:
        return between(pq.read_table(raw), ALL, result.since, window_s)


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
    for path in sorted(paths, key=_number):
        new.setdefault(Path(path).parent.parent.name, []).append(path)
    states = {run: book.states(run, number) for run in sorted(new)}
    late = {run: told for run in states if (told := _late(new[run], states[run]))}
    before = book.before(number) if late or measure else {}
    whole = {run: tuple(sorted({*before.get(run, ()), *parts}, key=_number)) for run, parts in new.items()}
    tasks = [
        Parts(run, whole[run], window_s)
        if run in late
        else Parts(run, tuple(new[run]), window_s, str(held[-1]) if held else "")
        for run, held in states.items()
    ]
    found = over(tasks)
    for result in found:
        book.put(number, result, window_s)
        late |= result.late
    faults = {path: why for result in found for path, why in result.faults.items()}
    for task in tasks if measure else ():
        sound = tuple(path for path in whole[task.run] if path not in faults)
        try:
            if sound and measure:
                _put(book.out / "continuum" / f"{task.run}.parquet", measure(replace(task, paths=sound)))
        except JobError as error:
            faults[task.run] = str(error)
            note(f"continuum: {error}")
    book.write(number, new, faults=faults, late=late)
    for held in states.values():
        for old in held[:-1]:  # the last one is needed if this batch is done again
            old.unlink()
    return [replace(result, late=_of(result, late)) for result in found]


def _of(result: LinkHealth, late: dict[str, str]) -> dict[str, str]:
    return result.late | ({result.run: late[result.run]} if result.run in late else {})


def _late(paths: Sequence[str], states: Sequence[Path]) -> str:
    """Say it if a part comes after one with a higher number."""
    if not states:
        return ""
    part = _load(str(states[-1])).part
    behind = [Path(path).name for path in paths if _number(path) <= part]
    if not behind:
        return ""
    return f"{', '.join(behind)} came after part {part}: the run is counted again from its first part"


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
    if "start" in table.column_names:
        keys = [name for name in ("mote", "start", "gateway") if name in table.column_names]
        table = table.sort_by([(name, "ascending") for name in keys])
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
    for folder in ("batches", "health", "links", "continuum", "state"):
        prepare(out / folder)
    if every_s is None and not any(logs.glob(NAMED)):
        raise JobError(f"{logs}: no part of a log in it, which would be called {NAMED}")
    _same(out, logs, window_s)
    if unchecked := sum(mics_in(path) == MICS_UNCHECKED for path in logs.glob(NAMED) if path.is_file()):
        note(
            f"{logs}: nobody checked the MICs in {many(unchecked, 'part')}; `basestation log parts --key FILE` makes "
            "them anew"
        )
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
    """The files that are named like parts, and that Spark or we skip silently."""
    found = {}
    for path in sorted(logs.glob(NAMED)):
        if not path.is_file():
            found[str(path)] = "no file, or a link to none"
        elif not path.stat().st_size:
            found[str(path)] = "empty, it may have been cut off"
        elif not _is_numbered(path):
            found[str(path)] = "its name is no number, so it is no part"
    return found


def _same(out: Path, logs: Path, window_s: float) -> None:
    """Check that the states and the checkpoint belong to this folder of logs and to this window."""
    if any((out / "health").glob("*.parquet")):
        raise JobError(f"{out} was written by an older version, which kept no state; take another --out")
    for name, here in (("logs", os.fsencode(logs.resolve())), ("window", f"{window_s:g} s".encode())):
        noted = out / name
        if noted.exists() and (watched := noted.read_bytes()) != here:
            was = f"{out} holds what was watched with {name} {watched.decode(errors='replace')}"
            raise JobError(f"{was}; another {'folder' if name == 'logs' else name} needs another --out")
        write_whole(noted, here)


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
        named = [_local(row.path) for row in frame.select("path").collect()]
        paths = [path for path in named if _is_numbered(path)]  # `_unseen` tells of the others
        try:
            found = take_batch(number, paths, book, window_s, over, measure if with_continuum else None)
        except (JobError, OSError) as error:
            broken.append(error)  # on its way through Java it would become a page
            raise
        faults.update(book.faults(number))
        tell(number, found)
        for path, why in (item for result in found for item in (result.faults | result.late).items()):
            note(f"{path}: {why}")

    pattern = f"{logs.resolve()}/{NAMED}"
    reader = spark.readStream.format("binaryFile").schema(FILES).option("maxFilesPerTrigger", AT_ONCE)
    parts = reader.load(pattern).select("path")
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
