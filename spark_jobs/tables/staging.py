"""Writes the tables of runs into a staging folder, in tasks that an engine spreads.

A run that one base station logged is many tasks, each within a segment of its journal:

    sketches       one for each segment: what those after it depend on (`journals.passes`)
    begun          one task for each run: what every segment begins with
    parts          one for each segment: its frames, what was refused, and its messages without their causes
    causal graph   one for each part, or several small ones: the messages' causes, as far as the part tells
    messages       the same: the vectors are joined over the parts (`basestation.journal.field_parts`), and written

Journals to be merged, traces and testbed logs are one task each.
"""

from __future__ import annotations

import io
import uuid
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.journal.field_parts import (
    WARM_UP,
    NewestVectors,
    Past,
    Tails,
    local_truth,
    newer_of,
    tails_of,
    with_past,
)
from basestation.journal.message_table import Sketch
from basestation.journal.record_format import JournalError
from basestation.traces.files import ROW_GROUP, encodings
from basestation.traces.schema import messages_schema, metadata
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment
from spark_jobs.engine import Engine
from spark_jobs.journals.passes import Segment, Sketched, begun, read_part, segments, sketched
from spark_jobs.session import one_line
from spark_jobs.storage import arrow_file, is_local, path_of
from spark_jobs.tables.inputs import Group, Input, InputError
from spark_jobs.tables.run_tables import quarantine, tables_of

FAULTS = (InputError, JournalError, OSError, pa.ArrowException)
# Folders of a run's stage: sketches of segments, messages without their causes, with what a part tells of them, what
# goes between parts, and files that are being written.
SKETCH, RAW, GRAPH, NEWEST, PAST, PARTIAL = "sketch", "raw", "graph", "newest", "past", "partial"
BATCH = 1 << 13  # rows of messages read at a time
# numpy reads an array's header with `ast`, which fails before Python 3.11.9 when threads take turns in it.
_ONE_PARSER = Lock()
TOGETHER = 1 << 16  # rows of messages, at least, of which one task makes the graph
GROUP_BYTES = 1 << 26  # of a row group: with very many motes vectors are long


@dataclass(frozen=True, slots=True)
class Done:
    """The tables of a run that were staged, or why they could not be."""

    group: Group
    stage: str
    fault: str
    counts: dict[str, int]


def staged(groups: Sequence[Group], stage: Path, engine: Engine) -> Iterator[Done]:
    """Write the tables of these runs, each into a folder of its own. Faults of a run are returned, not raised."""
    alone = [group for group in groups if len(group.inputs) == 1 and group.inputs[0].kind == "journal"]
    others = [group for group in groups if group not in alone]
    yield from engine.each(partial(_stage_whole, stage=str(stage)), others)
    yield from _stage_parts(alone, stage, engine)


def part_name(place: int) -> str:
    return f"{place:06d}.parquet"


# ---- Runs that are one task ----


def _stage_whole(group: Group, stage: str) -> Done:
    own = path_of(stage) / uuid.uuid4().hex
    counts: Counter[str] = Counter()
    writers: dict[str, _Writer] = {}
    said = _metadata(group)
    try:
        for table, rows in tables_of(group):
            if table not in writers:
                writers[table] = _Writer(own / table / part_name(0), rows.schema.with_metadata(said))
            writers[table].write(rows)
            counts[table] += len(rows)
    except FAULTS as error:
        return Done(group, str(own), one_line(error), {})
    finally:
        for writer in writers.values():
            writer.close()
    return Done(group, str(own), "", dict(counts))


def _metadata(group: Group) -> dict[bytes, str]:
    text = group.inputs[0].deployment
    origin = f"{group.inputs[0].kind}, site {group.site or 'unknown'}"
    return metadata(group.run, deployments.parse(text), origin) if text else {}


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
    """A run on its way through the passes. `rows` are the messages of each part, `tails` the newest before each."""

    group: Group
    folder: Path
    segments: list[Segment] = field(default_factory=list)
    fault: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    rows: list[int] = field(default_factory=list)
    tails: list[Tails] = field(default_factory=lambda: [{}])

    @property
    def item(self) -> Input:
        return self.group.inputs[0]


def _stage_parts(groups: Sequence[Group], stage: Path, engine: Engine) -> Iterator[Done]:
    runs = [_Run(group, stage / uuid.uuid4().hex) for group in groups]
    for run in runs:
        run.fault, found = _told(segments, run.item)
        run.segments = found or []
    many = [run for run in runs if len(run.segments) > 1]
    _over(engine, _stage_sketch, [(run, _at(run, one)) for run in many for one in run.segments[:-1]])
    for run, _, found in _over(engine, _stage_begun, [(run, _at(run, run.segments)) for run in many]):
        run.segments = found
    parts = [(run, _at(run, segment)) for run in runs for segment in run.segments]
    for run, _, (counts, tails) in _over(engine, _stage_part, parts):
        first = sum(run.rows)
        moved = {mote: tail._replace(row=tail.row + first) for mote, tail in tails.items()}
        run.counts.update(counts)
        run.rows.append(counts.get("messages", 0))
        run.tails.append(newer_of(run.tails[-1], moved))
    graphs = [(run, graph) for run in runs if run.item.deployment for graph in _graphs(run)]
    joined = list(_joined(_over(engine, _stage_graph, graphs)))
    _over(engine, _stage_messages, joined)
    yield from (Done(run.group, str(run.folder), run.fault, dict(run.counts)) for run in runs)


def _at(run: _Run, what: Any) -> tuple[Any, str]:
    return what, str(run.folder)


def _over(
    engine: Engine, function: Callable[[Any], Any], tasks: Iterable[tuple[_Run, Any]]
) -> list[tuple[_Run, Any, Any]]:
    """Apply a function to the tasks of runs without a fault: the runs, the tasks and the results."""
    given = [(run, task) for run, task in tasks if not run.fault]
    results = engine.each(partial(_told, function), [task for _, task in given])
    found = []
    for (run, task), (fault, result) in zip(given, results, strict=True):
        run.fault = run.fault or fault
        found.append((run, task, result))
    return [row for row in found if not row[0].fault]


def _told(function: Callable[[Any], Any], task: Any) -> tuple[str, Any]:
    """A fault of the input, and the result if there is none."""
    try:
        return "", function(task)
    except FAULTS as error:
        return one_line(error), None


def _stage_sketch(task: tuple[Segment, str]) -> None:
    segment, place = task
    told = sketched(segment)
    _write_arrays(
        _file(place, SKETCH, segment.place),
        told.sketch.rows,
        told.sketch.told,
        told.sketch.lines,
        np.array(told.last),
    )


def _stage_begun(task: tuple[list[Segment], str]) -> list[Segment]:
    found, place = task
    sketches = (_read_arrays(_file(place, SKETCH, segment.place)) for segment in found[:-1])
    return begun(found, (Sketched(Sketch(*arrays), int(last)) for *arrays, last in sketches))


def _file(folder: str, what: str, place: int) -> Path:
    return path_of(folder) / what / f"{place:06d}"


def _stage_part(task: tuple[Segment, str]) -> tuple[dict[str, int], Tails]:
    """Write the frames, the quarantine and the raw messages of a segment; how many, and the newest of each mote."""
    segment, place = task
    folder, rows = path_of(place), read_part(segment)
    said = _metadata(Group((segment.item,)))
    tables = dict([quarantine(rows.quarantine)])
    if rows.frames is not None:
        tables["frames"] = rows.frames
    for name, table in tables.items():
        if len(table) or segment.place == 0:
            writer = _Writer(folder / name / part_name(segment.place), table.schema.with_metadata(said))
            writer.write(table)
            writer.close()
    counts = {name: len(table) for name, table in tables.items()}
    if rows.messages is None:
        return counts, {}
    _write_rows(_file(place, RAW, segment.place), [rows.messages])
    return counts | {"messages": len(rows.messages)}, tails_of(rows.messages, 0)


# ---- The causal graph ----


@dataclass(frozen=True, slots=True)
class _Graph:
    """The parts of a run from `first` to before `last`, of which one task makes the graph.

    Its warm-up begins with row `start`, that of the next one with row `cut`. `edges` are the first rows of all parts.
    `before`: a part up to that of `start`, and the newest message of each mote before it; None for a whole run.
    """

    item: Input
    folder: str
    first: int
    last: int
    edges: tuple[int, ...]
    start: int
    cut: int
    before: tuple[int, Tails] | None

    @property
    def deployment(self) -> Deployment:
        return self.item.deployed

    def file(self, what: str, place: int) -> Path:
        return _file(self.folder, what, place)

    def rows(self, what: str, begin: int, end: int) -> Iterator[pa.Table]:
        """These rows of the run, a batch at a time, none of them of two parts."""
        for place, (first, last) in enumerate(pairwise(self.edges)):
            if max(first, begin) < min(last, end):
                yield from _read_rows(self.file(what, place), begin - first, end - first)

    def tails(self) -> Tails | None:
        if self.before is None:
            return None
        part, tails = self.before
        at = self.edges[part]
        for table in self.rows(RAW, at, self.start):
            tails = newer_of(tails, tails_of(table, at))
            at += len(table)
        return tails


def _graphs(run: _Run) -> Iterator[_Graph]:
    """The tasks of a run: parts that follow each other, until there are enough rows."""
    edges = tuple(accumulate(run.rows, initial=0))
    cuts = [0]
    for part, edge in enumerate(edges[:-1]):
        if edge - edges[cuts[-1]] >= TOGETHER:
            cuts.append(part)
    starts = [0, *(max(edges[cut] - WARM_UP, edges[before]) for before, cut in pairwise(cuts)), edges[-1]]
    for number, (first, last) in enumerate(pairwise([*cuts, len(run.rows)])):
        start, part = starts[number], bisect_right(edges, starts[number]) - 1
        before = (part, run.tails[part]) if len(cuts) > 1 else None
        yield _Graph(run.item, str(run.folder), first, last, edges, start, starts[number + 1], before)


def _stage_graph(graph: _Graph) -> tuple[Tails, int]:
    """Write the messages with what this part tells of their causes, and the vectors of the newest ones before the next
    begins. The newest messages before this one, and the tick of its first row."""
    begin, end, tails = graph.edges[graph.first], graph.edges[graph.last], graph.tails()
    made = local_truth(
        graph.deployment,
        None if tails is None else tails.values(),
        graph.rows(RAW, graph.start, begin),
        graph.rows(RAW, begin, end),
        graph.rows(RAW, end, graph.edges[-1]),
    )
    newest, at, heard = NewestVectors(graph.deployment.network.motes), begin, 0

    def until(edge: int) -> Iterator[pa.Table]:
        nonlocal at, heard
        while at < edge:
            table = next(made)
            heard = table["heard"][0].as_py() if at == begin else heard
            newest.add(table[: max(graph.cut - at, 0)])
            at += len(table)
            yield table

    for part in range(graph.first, graph.last):
        _write_rows(graph.file(GRAPH, part), until(graph.edges[part + 1]))
    _write_arrays(graph.file(NEWEST, graph.first), *newest.rows())
    return tails or {}, heard


def _joined(found: Iterable[tuple[_Run, _Graph, tuple[Tails, int]]]) -> Iterator[tuple[_Run, _Graph]]:
    """Go over the parts in order, and write what was known before each."""
    for _, graphs in groupby(found, key=lambda row: id(row[0])):
        past: Past | None = None
        for run, graph, (tails, heard) in graphs:
            past = past or Past.nothing(graph.deployment.network.motes)
            doubt = past.doubt(tails.values(), graph.start, heard, graph.deployment)
            _write_arrays(graph.file(PAST, graph.first), past.newest, past.vectors, doubt)
            past = past.after(*_read_arrays(graph.file(NEWEST, graph.first)))
            yield run, graph


def _stage_messages(graph: _Graph) -> None:
    """Write the parts of the messages, with what was known before them."""
    newest, vectors, doubt = _read_arrays(graph.file(PAST, graph.first))
    past, said = Past(newest, vectors), _metadata(Group((graph.item,)))
    for part in range(graph.first, graph.last):
        begin, end = graph.edges[part : part + 2]
        if begin < end or part == 0:
            schema = messages_schema().with_metadata(said)
            writer = _Writer(path_of(graph.folder) / "messages" / part_name(part), schema)
            for table in graph.rows(GRAPH, begin, end):
                writer.write(with_past(table, past, doubt))
            writer.close()


# ---- Files between two passes ----


def _write_rows(path: Path, tables: Iterable[pa.Table]) -> None:
    partial, schema = _partial(path), messages_schema()
    options = ipc.IpcWriteOptions(compression="zstd")
    with arrow_file(partial, "wb") as file, ipc.new_file(file, schema, options=options) as writer:
        for table in tables:
            writer.write_table(table.cast(schema), BATCH)
    _settle(partial, path)


def _read_rows(path: Path, begin: int, end: int) -> Iterator[pa.Table]:
    """The rows of a file from one place to before another, a batch at a time."""
    with arrow_file(path) as file, ipc.open_file(file) as reader:
        at = 0
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            first, last = max(begin - at, 0), min(end - at, len(batch))
            at += len(batch)
            if first < last:
                yield pa.Table.from_batches([batch[first:last]])
            if at >= end:
                return


def _write_arrays(path: Path, *arrays: NDArray[Any]) -> None:
    partial, kept = _partial(path), io.BytesIO()
    np.savez(kept, *arrays)
    partial.write_bytes(kept.getvalue())
    _settle(partial, path)


def _read_arrays(path: Path) -> list[NDArray[Any]]:
    kept = io.BytesIO(path.read_bytes())
    with _ONE_PARSER, np.load(kept) as found:
        return [found[name] for name in found.files]
