"""Applies a function to many tasks: on this machine's cores, or by Spark, which carries only tasks and results.

Workers read the files themselves; that is what makes it fast.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.segments import Spread
from spark_jobs.segments_files import TraceFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_threads(workers: int | None = None) -> Spread:
    """Run on threads. Kernels and Parquet readers run in parallel, since they release Python's lock."""
    workers = workers or os.cpu_count() or 1

    def spread(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        with ThreadPoolExecutor(workers) as pool:
            for done, result in enumerate(pool.map(function, tasks), start=1):
                _show(function.__name__, done, len(tasks))
                yield result

    return spread


def on_processes(workers: int | None = None) -> Spread:
    """Run on processes, for work in Python, which holds its lock."""
    workers = workers or os.cpu_count() or 1

    def spread(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        at_once = min(workers, len(tasks))
        if at_once < 2:
            yield from map(function, tasks)
            return
        context = multiprocessing.get_context("spawn")  # a fork would take other threads' locks with it
        with ProcessPoolExecutor(at_once, context) as pool:
            for done, result in enumerate(pool.map(function, tasks), start=1):
                _show(function.__name__, done, len(tasks))
                yield result

    return spread


def on_spark(spark: SparkSession) -> Spread:
    """Run on Spark, one Spark task for each of ours."""

    def spread(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        if not tasks:
            return []
        carried = [pickle.dumps(task) for task in tasks]

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = pickle.dumps(_named(function, pickle.loads(carried[number])))
                    yield pa.record_batch(
                        [pa.array([number]), pa.array([result], pa.binary())], names=["number", "result"]
                    )

        frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, "number long, result binary")
        found = {row.number: pickle.loads(row.result) for row in frame.collect()}
        return [_unnamed(found[number]) for number in range(len(tasks))]

    return spread


def slots(spark: SparkSession) -> int:
    """The number of tasks that run at a time. Over Spark Connect it is not known."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except AttributeError:
        return 1


def _named(function: Callable[[Any], Any], task: Any) -> Any:
    """Return a fault of the trace as a result: an exception in a worker would become a page of Java's."""
    try:
        return function(task)
    except TraceFault as fault:
        return fault


def _unnamed(result: Any) -> Any:
    if isinstance(result, TraceFault):
        raise result
    return result


def _show(what: str, done: int, of: int) -> None:
    if sys.stderr.isatty() and of > 1:
        end = "\n" if done == of else ""
        print(f"\r{what}: {done} of {of}", end=end, file=sys.stderr, flush=True)
