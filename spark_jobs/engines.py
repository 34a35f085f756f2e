"""Where the work is done: on this machine's cores or on Spark. The functions and the numbers are the same.

Spark takes ten seconds to start, so small work is done on this machine. Only `chosen` decides this, and prints it.
Workers read the files themselves, which is fast, and give Spark the rows.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyarrow as pa

from basestation.analysis.sql import query, split
from spark_jobs import session
from spark_jobs.session import JobError, note

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""How a function is applied to many tasks (`Engine.each`)."""
Frame = Any
"""Rows: a table of Arrow's on this machine, a DataFrame on Spark."""


class Cores:
    """This machine's cores: threads for numpy and Arrow, which release Python's lock, processes for Python."""

    def __init__(self, workers: int | None = None, processes: bool = False) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._processes = processes

        self._kept: Executor | None = None

    @contextmanager
    def _pool(self, workers: int) -> Iterator[Executor]:
        """Threads for one call; or processes for all calls, since each process takes seconds to start."""
        if not self._processes:
            with ThreadPoolExecutor(workers) as threads:
                yield threads
            return
        if self._kept is None:  # spawned: a fork would take other threads' locks with it
            context = multiprocessing.get_context("spawn")
            self._kept = ProcessPoolExecutor(self.workers, context, _begin_worker)
        yield self._kept

    def close(self) -> None:
        """End its processes; the next call begins new ones."""
        if self._kept is not None:
            self._kept.shutdown(cancel_futures=True)
            self._kept = None

    def each(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """The small results of a function, in the tasks' order. A `JobError` of a task is raised here."""
        at_once, many = min(self.workers, len(tasks)), len(tasks)
        if at_once < 2:
            yield from map(function, tasks)
            return
        with self._pool(at_once) as pool:
            waiting = deque([pool.submit(function, task) for task in tasks])
            try:
                while waiting:
                    result = waiting.popleft().result()
                    _show(_name(function), many - len(waiting), many)
                    yield result
            finally:
                for future in waiting:
                    future.cancel()

    def rows(
        self, function: Callable[[Any], Iterable[pa.RecordBatch]], tasks: Sequence[Any], schema: pa.Schema
    ) -> pa.Table:
        """All rows that a function makes of its tasks."""
        found = self.each(partial(_listed, function), tasks)
        return pa.Table.from_batches([batch for batches in found for batch in batches], schema)

    def sql(self, text: str, **given: Any) -> pa.Table:
        """The rows of a query. A name in braces is a table, or a number."""
        return query(text, **given)

    def kept(self, frame: pa.Table) -> pa.Table:
        """The same rows, made once however often they are used."""
        return frame

    def collect(self, frame: pa.Table) -> pa.Table:
        """The rows in this process."""
        return frame


def _begin_worker() -> None:
    """An interrupt ends a worker silently: its parent reports it. A worker ends with its parent, which may have been
    killed: all workers hold both ends of their queue, so none would see the queue's end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _listed(function: Callable[[Any], Iterable[pa.RecordBatch]], task: Any) -> list[pa.RecordBatch]:
    return list(function(task))


class Spark:
    """Spark, with the same methods. Each task is one task of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        equip(spark)
        self.workers = _slots(spark)

    def each(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        def work(task: Any) -> Iterator[pa.RecordBatch]:
            number, own = task
            result = pickle.dumps(_told(function, own))
            yield pa.record_batch([pa.array([number]), pa.array([result], pa.binary())], _RESULT)

        numbered = list(enumerate(tasks))
        if not numbered:
            return []
        with described(self.spark, f"{_name(function)}: {len(numbered)} tasks"):
            rows = self.rows(work, numbered, _RESULT).collect()
        found = {row.number: pickle.loads(row.result) for row in rows}
        return [_raised(found[number]) for number, _ in numbered]

    def rows(
        self, function: Callable[[Any], Iterable[pa.RecordBatch]], tasks: Sequence[Any], schema: pa.Schema
    ) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        carried = [pickle.dumps(task) for task in tasks]

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from function(pickle.loads(carried[number]))

        numbers = self.spark.range(0, len(tasks), 1, max(len(tasks), 1))
        return numbers.mapInArrow(work, from_arrow_schema(schema))

    def sql(self, text: str, **given: Any) -> DataFrame:
        numbers, frames = split(given)
        return self.spark.sql(text.format(**{name: f"{{{name}}}" for name in frames} | numbers), **frames)

    def kept(self, frame: DataFrame) -> DataFrame:
        return frame.cache()

    def collect(self, frame: DataFrame) -> pa.Table:
        try:
            return frame.toArrow()
        except Exception as error:  # of one class here, and of another over Spark Connect
            if (file := re.search(r"FAILED_READ_FILE.* file (?:file://)?(\S+?)\.?\s", str(error))) is None:
                raise
            raise JobError(f"{file[1]} can't be read, it may have been cut off") from None


Engine = Cores | Spark
DESCRIPTION = "spark.job.description"
_EQUIPPED: WeakSet[Any] = WeakSet()  # sessions of Spark Connect that have our code
_RESULT = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect: Java is elsewhere, and there is no `sparkContext`."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Spark's UI says what the jobs of this block do. Over Spark Connect the server names them."""
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, what)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None takes it away


def _slots(spark: SparkSession) -> int:
    """The number of tasks that run at a time. Over Spark Connect, the number of partitions that Spark makes."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    from pyspark.sql.functions import spark_partition_id

    return int(spark.range(1 << 12).select(spark_partition_id()).distinct().count())


def equip(spark: SparkSession) -> None:
    """Over Spark Connect, give our packages to the server's workers, once in a session. Our data source can be
    registered only after this."""
    from spark_jobs.package import ZIP, write_zip

    if not is_connect(spark) or spark in _EQUIPPED:
        return
    with TemporaryDirectory() as place:
        write_zip(session.ROOT, Path(place) / ZIP)
        spark.addArtifacts(str(Path(place) / ZIP), pyfile=True)
    _EQUIPPED.add(spark)


def _told(function: Callable[[Any], Any], task: Any) -> Any:
    """Return a fault of the input as a result: an exception in a worker would become a page from Java."""
    try:
        return function(task)
    except JobError as fault:
        return fault


def _raised(result: Any) -> Any:
    if isinstance(result, JobError):
        raise result
    return result


def _name(function: Callable[[Any], Any]) -> str:
    """The name of a function, also of a partial one."""
    inner = getattr(function, "args", ()) or [getattr(function, "func", function)]
    return str(getattr(inner[0], "__name__", "tasks")).strip("_").replace("<lambda>", "tasks")


def _show(what: str, done: int, of: int) -> None:
    if sys.stderr.isatty() and of > 1:
        end = "\n" if done == of else ""
        print(f"\r{what}: {done} of {of}", end=end, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The user's choice. `spark` is None if the size of the work decides."""

    spark: bool | None = None
    master: str | None = None
    conf: tuple[str, ...] = ()
    workers: int | None = None
    engine: Engine | None = None  # given by a program that has started it


@contextmanager
def chosen(
    job: str, options: EngineOptions, *, large: bool = False, processes: bool = False
) -> Iterator[Engine]:
    """Open Spark if it is asked for, if a master is named, or for large inputs; else this machine's cores."""
    if options.engine is not None:
        yield options.engine
        return
    wanted = large or options.master is not None or session.is_submitted()
    if not (wanted if options.spark is None else options.spark):
        engine = Cores(options.workers, processes)
        note(f"{job}: without Spark, on {engine.workers} cores of this machine")
        with closing(engine):
            yield engine
        return
    with session.started(f"causeway {job}", options.master, session.settings_of(list(options.conf))) as spark:
        found = Spark(spark)
        found.workers = options.workers or found.workers
        note(f"{job}: on Spark {spark.version}, {found.workers} tasks at a time")
        with described(spark, job):
            yield found
