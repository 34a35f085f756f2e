"""Journals as tables, without the tables of `ingest`: their runs, raw records, frames and messages.

All take an engine and give its rows: a table of Arrow's, or a DataFrame of Spark's. A segment is a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from basestation.journal.reader import segment_paths
from spark_jobs.engines import Engine, Frame
from spark_jobs.journals.parts import Segment, logged_decider, read_part, segments
from spark_jobs.journals.segment_files import (
    FRAME_ROWS,
    MESSAGE_ROWS,
    RECORDS,
    WHERE,
    described,
    intact,
    journal_folders,
    placed,
    record_batches,
    undecided,
)
from spark_jobs.session import JobError
from spark_jobs.storage import path_of
from spark_jobs.tables.inputs import Input, find

Paths = Sequence[str | Path]
KINDS = {"trace": "a trace", "testbed": "a log of the testbed"}
RUNS = pa.schema(
    [
        *WHERE,
        ("path", pa.string()),
        ("deployment", pa.string()),
        ("first_wall_ns", pa.int64()),
        ("last_wall_ns", pa.int64()),
        ("files", pa.int32()),
        ("bytes", pa.int64()),
    ]
)


def runs(paths: Paths, deployment: str = "") -> pa.Table:
    """The runs in these folders, with their times and sizes."""
    return runs_of(_inputs(paths, deployment))


def runs_of(inputs: Iterable[Input]) -> pa.Table:
    rows = [
        (
            item.run,
            item.site,
            item.path,
            item.deployment,
            *(item.span or (None, None)),
            len(item.files),
            item.size,
        )
        for item in inputs
    ]
    return pa.Table.from_pylist([dict(zip(RUNS.names, row, strict=True)) for row in rows], RUNS)


def records(engine: Engine, paths: Paths) -> Frame:
    """Every record as it was written."""
    folders = journal_folders(paths)
    if not folders:
        raise JobError(f"{', '.join(map(str, paths))}: there is no log")
    tasks = [(str(path), *described(folder)) for folder in folders for path in segment_paths(folder)]
    return engine.rows(_records_of, tasks, RECORDS)


def frames(engine: Engine, paths: Paths, deployment: str = "") -> Frame:
    """Every record with its fate: the table `frames` of `ingest`."""
    return _rows_of(engine, "frames", paths, deployment, FRAME_ROWS)


def messages(engine: Engine, paths: Paths, deployment: str = "") -> Frame:
    """The data messages, each once: the table `messages` of `ingest`, without the causal graph."""
    return _rows_of(engine, "messages", paths, deployment, MESSAGE_ROWS)


def _inputs(paths: Paths, deployment: str) -> list[Input]:
    found = find(map(path_of, paths), deployment)
    for path, why in found.refused.items():
        raise JobError(f"{path}: {why}")
    return found.inputs


def _rows_of(engine: Engine, table: str, paths: Paths, deployment: str, schema: pa.Schema) -> Frame:
    inputs = _inputs(paths, deployment)
    if other := next((item for item in inputs if item.kind != "journal"), None):
        raise JobError(
            f"{other.path}: {KINDS[other.kind]}, not a log: `ingest` puts it into tables; read those"
        )
    tasks: list[Segment] = []
    for item in inputs:
        found = segments(item)
        if logged_decider(item, found) is None:
            raise JobError(f"{item.path}: {undecided(item.path)}")
        tasks += found
    return engine.rows(partial(_part, table, schema), tasks, schema)


def _part(table: str, schema: pa.Schema, segment: Segment) -> Iterator[pa.RecordBatch]:
    for name, rows in read_part(segment):
        if name == table:
            yield from placed(rows, segment.item.run, segment.item.site, schema)


def _records_of(task: tuple[str, str, str]) -> Iterator[pa.RecordBatch]:
    path, run, site = task
    yield from record_batches(intact(path_of(path))[0], run, site, path)
