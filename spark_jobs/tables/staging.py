"""Writes the tables of runs into a staging folder, in tasks that an engine spreads.

A run whose log is decided is a task for each segment. A run that has to be decided first, journals to be merged,
traces and testbed logs are one task each.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
from spark_jobs.journals.parts import Segment, logged_decider, read_part, segments
from spark_jobs.session import one_line
from spark_jobs.storage import arrow_file, is_local, path_of
from spark_jobs.tables.inputs import Group, InputError, part_files
from spark_jobs.tables.run_tables import quarantine, tables_of
from spark_jobs.tables.stored import part_name

FAULTS = (InputError, JournalError, OSError, pa.ArrowException)
PARTIAL = "partial"  # a folder of a run's stage, for files that are being written
GROUP_BYTES = 1 << 26  # of a row group: with very many motes vectors are long


@dataclass(frozen=True, slots=True)
class Done:
    """The tables of a run that were staged, or why they could not be."""

    group: Group
    stage: str
    fault: str
    counts: dict[str, int]
    decider: Decider


def staged(groups: Sequence[Group], stage: Path, engine: Engine) -> Iterator[Done]:
    """Write the tables of these runs, each into a folder of its own. Faults of a run are returned, not raised."""
    deciders = [_logged_decider(group) for group in groups]
    found = list(zip(groups, deciders, strict=True))
    others = [group for group, decider in found if decider is None]
    yield from engine.each(partial(_stage_whole, stage=str(stage)), others)
    yield from _stage_parts([(group, by) for group, by in found if by is not None], stage, engine)


def _logged_decider(group: Group) -> Decider | None:
    (item, *more) = group.inputs
    if more or item.kind != "journal":
        return None
    fault, decider = _attempted(logged_decider, item)
    return (
        Decider(0, "") if fault else decider
    )  # it is found again, and returned, where the segments are read


def _decided_here(group: Group) -> Decider:
    item = group.inputs[0]
    if item.kind != "trace":
        return Decider(DECIDER, mics_of(item.deployed if item.deployment else None))
    mics = {mics_in(part) for part in part_files(path_of(item.path))}
    return Decider(0, MICS_CHECKED if mics == {MICS_CHECKED} else mics_of(replace(item, key=None).deployed))


# ---- Runs that are one task ----


def _stage_whole(group: Group, stage: str) -> Done:
    own = path_of(stage) / uuid.uuid4().hex
    counts: Counter[str] = Counter()
    writers: dict[str, _Writer] = {}
    decider = _decided_here(group)
    said = _metadata(group, decider)
    try:
        for table, rows in tables_of(group):
            if table not in writers:
                writers[table] = _Writer(own / table / part_name(0), rows.schema.with_metadata(said))
            writers[table].write(rows)
            counts[table] += len(rows)
    except FAULTS as error:
        return Done(group, str(own), one_line(error), {}, decider)
    finally:
        for writer in writers.values():
            writer.close()
    return Done(group, str(own), "", dict(counts), decider)


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


# ---- Runs in parts ----


@dataclass(slots=True)
class _Run:
    """A run whose segments are staged."""

    group: Group
    decider: Decider
    folder: Path
    segments: list[Segment] = field(default_factory=list)
    fault: str = ""
    counts: Counter[str] = field(default_factory=Counter)


def _stage_parts(groups: Sequence[tuple[Group, Decider]], stage: Path, engine: Engine) -> Iterator[Done]:
    runs = [_Run(group, decider, stage / uuid.uuid4().hex) for group, decider in groups]
    for run in runs:
        run.fault, found = _attempted(segments, run.group.inputs[0])
        run.segments = found or []
    tasks = [(run, segment) for run in runs for segment in run.segments]
    results = engine.each(_stage_part, [(segment, run.decider, str(run.folder)) for run, segment in tasks])
    for (run, _), (fault, counts) in zip(tasks, results, strict=True):
        run.fault = run.fault or fault
        run.counts.update(counts or {})
    for run in runs:
        yield Done(run.group, str(run.folder), run.fault, dict(run.counts), run.decider)


def _attempted(function: Callable[[Any], Any], task: Any) -> tuple[str, Any]:
    """A fault of the input, and the result if there is none."""
    try:
        return "", function(task)
    except FAULTS as error:
        return one_line(error), None


def _stage_part(task: tuple[Segment, Decider, str]) -> tuple[str, dict[str, int] | None]:
    return _attempted(_write_part, task)


def _write_part(task: tuple[Segment, Decider, str]) -> dict[str, int]:
    """Write the rows of a segment; how many there are."""
    segment, decider, place = task
    rows = read_part(segment)
    found = dict([quarantine(rows.quarantine)]) | {"frames": rows.frames, "messages": rows.messages}
    tables = {name: table for name, table in found.items() if table is not None}
    said = _metadata(Group((segment.item,)), decider)
    for name, table in tables.items():
        if len(table) or segment.place == 0:
            writer = _Writer(
                path_of(place) / name / part_name(segment.place), table.schema.with_metadata(said)
            )
            writer.write(table)
            writer.close()
    return {name: len(table) for name, table in tables.items()}
