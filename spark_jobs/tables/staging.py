"""Writes the tables of runs into a staging folder, in tasks that an engine spreads.

A run whose log is decided is a task for each segment. A run that has to be decided first, journals to be merged,
traces and testbed logs are one task each.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from basestation.journal.decision import DECIDER, MICS_CHECKED, Decider, mics_of
from basestation.journal.parquet_parts import marks_of, mics_in
from basestation.journal.record_format import JournalError
from basestation.traces.files import ROW_GROUP, encodings
from basestation.traces.schema import metadata
from packet_formats import deployment as deployments
from spark_jobs.engines import Engine
from spark_jobs.journals.parts import Batch, Segment, logged_decider, read_part, segments
from spark_jobs.session import one_line
from spark_jobs.storage import arrow_file, is_local, path_of
from spark_jobs.tables.inputs import Group, InputError, part_files
from spark_jobs.tables.run_tables import tables_of
from spark_jobs.tables.stored import part_name

FAULTS = (InputError, JournalError, OSError, pa.ArrowException)
PARTIAL = "partial"  # a folder of a run's stage, for files that are being written
GROUP_BYTES = 1 << 26  # most of a row group: with many motes vectors are long


@dataclass(slots=True)
class Done:
    """The staged tables of a run, or its fault."""

    group: Group
    stage: str
    decider: Decider
    segments: list[Segment] | None = None  # None: the run is one task
    fault: str = ""
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Task:
    """A segment of a run, or the whole run."""

    group: Group
    stage: str
    decider: Decider
    segment: Segment | None

    @property
    def rows(self) -> Iterator[Batch]:
        return tables_of(self.group) if self.segment is None else read_part(self.segment)

    @property
    def place(self) -> int:
        return self.segment.place if self.segment else 0


def staged(groups: Sequence[Group], stage: Path, engine: Engine) -> list[Done]:
    """Write the tables of these runs, each into a folder of its own. Faults of a run are returned, not raised."""
    runs = [Done(group, str(stage / uuid.uuid4().hex), Decider(0, "")) for group in groups]
    for run in runs:
        run.fault = _attempted(_look, run)
    tasks = [
        (run, segment)
        for run in runs
        if not run.fault
        for segment in ([None] if run.segments is None else run.segments)
    ]
    results = engine.each(
        _stage, [_Task(run.group, run.stage, run.decider, segment) for run, segment in tasks]
    )
    for (run, _), (fault, counts) in zip(tasks, results, strict=True):
        run.fault = run.fault or fault
        run.counts.update(counts)
    return runs


def _look(run: Done) -> None:
    """Find how a run is cut into tasks, and the decider of its frames."""
    item, *others = run.group.inputs
    found = segments(item) if item.kind == "journal" and not others else None
    decider = None if found is None else logged_decider(item, found)
    run.decider = decider or _decided_here(run.group)
    run.segments = found if decider else None


def _decided_here(group: Group) -> Decider:
    item = group.inputs[0]
    if item.kind != "trace":
        return Decider(DECIDER, mics_of(item.deployed if item.deployment else None))
    mics = {mics_in(part) for part in part_files(path_of(item.path))}
    return Decider(0, MICS_CHECKED if mics == {MICS_CHECKED} else mics_of(replace(item, key=None).deployed))


def _attempted(function: Callable[..., None], *given: Any) -> str:
    """The fault of an input, if there is one."""
    try:
        function(*given)
    except FAULTS as error:
        return one_line(error)
    return ""


def _stage(task: _Task) -> tuple[str, Counter[str]]:
    """Write the rows of a task; its fault, and how many rows there are."""
    counts: Counter[str] = Counter()
    return _attempted(_write, task, counts), counts


def _write(task: _Task, counts: Counter[str]) -> None:
    writers: dict[str, _Writer] = {}
    try:
        for table, rows in task.rows:
            if table not in writers and (len(rows) or not task.place):
                schema = rows.schema.with_metadata(_metadata(task.group, task.decider))
                writers[table] = _Writer(path_of(task.stage) / table / part_name(task.place), schema)
            if table in writers:
                writers[table].write(rows)
            counts[table] += len(rows)
    finally:
        for writer in writers.values():
            writer.close()


def _metadata(group: Group, decider: Decider) -> dict[bytes, str]:
    text = group.inputs[0].deployment
    origin = f"{group.inputs[0].kind}, site {group.site or 'unknown'}"
    return metadata(group.run, deployments.parse(text), origin) | marks_of(decider) if text else {}


class _Writer:
    """A Parquet file, whose row groups are written when they are large enough. It appears when it is whole."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._partial = path, _partial(path)
        self._sink = arrow_file(self._partial, "wb")
        self._file = pq.ParquetWriter(self._sink, schema, **encodings(schema))
        self._schema, self._waiting = schema, list[pa.Table]()

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        rows, size = sum(map(len, self._waiting)), sum(table.nbytes for table in self._waiting)
        if rows >= ROW_GROUP or size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        rows = pa.concat_tables([self._schema.empty_table(), *(t.cast(self._schema) for t in self._waiting)])
        self._file.write_table(rows, ROW_GROUP)
        self._waiting.clear()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._file.close()
        self._sink.close()
        _settle(self._partial, self._path)


def _partial(path: Path) -> Path:
    """A place for a file that is being written. A task may be done twice, and only one of the files stays.

    On an object store a file is not there before it is whole.
    """
    if not is_local(path):
        return path
    folder = path.parents[1] / PARTIAL
    for place in (path.parent, folder):
        place.mkdir(parents=True, exist_ok=True)
    return folder / uuid.uuid4().hex


def _settle(partial: Path, path: Path) -> None:
    if partial != path:
        partial.replace(path)
