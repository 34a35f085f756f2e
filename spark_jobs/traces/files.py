"""The Parquet files of one trace, checked before anything is computed. A fault names its file.

Only footers are read here. A trace is `messages.parquet`, or its parts in the order of their names: in `messages/`, as
the journal writes them, or in the folder itself, as `ingest` does. `events.parquet` says what the motes did, where
known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from shlex import quote

import pyarrow as pa
import pyarrow.parquet as pq

from basestation.journal.reader import find_journals
from basestation.traces import schema
from basestation.traces.files import Trace, TraceError
from basestation.traces.present import present, stored_columns, wrong_column
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment, DeploymentError
from packet_formats.layout import DataLayout, layout_of
from packet_formats.schemes import LayoutError
from spark_jobs.session import JobError, one_line
from spark_jobs.storage import Place, listed, path_of, reading

MESSAGES, EVENTS = "messages.parquet", "events.parquet"


class TraceFault(JobError):
    """A trace that can't be analysed; the others still can."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file, and the number of rows in each of its row groups."""

    path: Place
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TraceFiles:
    """One run with all its files. Rows are numbered over all parts, in order of arrival."""

    folder: Place
    run: str
    origin: str
    deployment: Deployment
    parts: tuple[PartFile, ...]
    untold: int  # rows whose causes nobody knows
    events: Place | None
    unsure: int = 0  # rows of which not all causes are known: their vectors count those that surely are
    most: bool = False  # count instead with those that may be
    is_field: bool = False  # its vectors, if any, are those of its causal graph

    @property
    def has_truth(self) -> bool:
        return self.rows > 0 and self.untold == 0

    @property
    def truth_columns(self) -> list[str]:
        """The columns that `View.vectors` needs."""
        if not self.has_truth:
            return []
        return ["vector", schema.LATER] if self.most else ["vector"]

    @property
    def layout(self) -> DataLayout:
        return layout_of(self.deployment)

    @property
    def motes(self) -> int:
        return self.deployment.network.motes

    @property
    def rows(self) -> int:
        return sum(sum(part.groups) for part in self.parts)

    def groups(self) -> list[tuple[int, int, int]]:
        """The (first row, part, row group) of each row group."""
        places = [(p, g) for p, part in enumerate(self.parts) for g in range(len(part.groups))]
        sizes = [size for part in self.parts for size in part.groups]
        return [(first, *place) for first, place in zip(accumulate([0, *sizes]), places, strict=False)]


def open_trace(folder: Place, events: Place | None = None) -> TraceFiles:
    """Find the files of a run and check that they belong together. `events` is their place, if not in the folder."""
    parts = _parts_of(folder)
    footers = [_footer(path) for path in parts]
    heads = [_head(path, footer) for path, footer in zip(parts, footers, strict=True)]
    for path, head in zip(parts, heads, strict=True):
        if head.run != heads[0].run:
            raise TraceFault(
                f"{folder}: mixed runs: {parts[0].name} is of run {heads[0].run}, {path.name} of {head.run}"
            )
        if head.deployment != heads[0].deployment:
            raise TraceFault(f"{path}: another deployment than {parts[0].name}, though the run is the same")
    deployment = _deployment(parts[0], heads[0].deployment)
    for path, footer in zip(parts, footers, strict=True):
        _check_columns(path, footer, schema.messages_schema())
        _check_entries(path, footer, layout_of(deployment).stamp.entries)
    return TraceFiles(
        folder=folder,
        run=heads[0].run,
        origin=heads[0].origin,
        deployment=deployment,
        parts=tuple(
            PartFile(path, tuple(footer.row_group(g).num_rows for g in range(footer.num_row_groups)))
            for path, footer in zip(parts, footers, strict=True)
        ),
        untold=sum(_nulls(path, footer, "vector") for path, footer in zip(parts, footers, strict=True)),
        events=_events(events or folder / EVENTS, heads[0].run),
        is_field=heads[0].origin.startswith("journal"),
        unsure=sum(_told(path, footer, schema.LATER) for path, footer in zip(parts, footers, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _Head:
    run: str
    origin: str
    deployment: str


def _parts_of(folder: Place) -> list[Place]:
    if not folder.exists():
        raise TraceFault(f"{folder} does not exist")
    if not folder.is_dir():
        raise TraceFault(f"{folder} is a file: a trace is a folder with {MESSAGES} in it")
    whole = folder / MESSAGES
    parts = [whole] if whole.exists() else listed(folder / "messages", "[!.]*.parquet")
    parts = parts or listed(folder, "[0-9]*.parquet")  # a run in the tables of ingest
    if not parts:
        raise TraceFault(
            f"{folder} holds neither {MESSAGES} nor parts of it in messages/: it is no trace{_way_on(folder)}"
        )
    return parts


def _way_on(folder: Place) -> str:
    """A hint on what in the folder can be analysed instead."""
    if (folder / "trace" / MESSAGES).exists():
        return f", but {folder / 'trace'} is one"
    if find_journals(path_of(folder)):
        made = f"basestation analyse ingest {quote(str(folder))} --tables tables"
        return f", but a log: `{made}` makes tables of it, and those can be analysed"
    return ""


def _footer(path: Place) -> pq.FileMetaData:
    try:
        return pq.read_metadata(reading(path))
    except (OSError, pa.ArrowException) as error:
        raise TraceFault(f"{path} can't be read, it may have been cut off: {one_line(error)}") from None


def _head(path: Place, footer: pq.FileMetaData) -> _Head:
    metadata = footer.metadata or {}
    if schema.META_FORMAT not in metadata:
        raise TraceFault(f"{path}: a foreign schema, no file of a trace: it says nothing of a run")
    if said := schema.wrong_format(metadata):
        raise TraceFault(f"{path}: {said}")
    keys = (schema.META_RUN, schema.META_ORIGIN, schema.META_DEPLOYMENT)
    return _Head(*(metadata.get(key, b"").decode(errors="replace") for key in keys))


def _deployment(path: Place, text: str) -> Deployment:
    try:
        deployment = deployments.parse(text)
        layout_of(deployment)
    except (DeploymentError, LayoutError) as error:
        raise TraceFault(f"{path}: its deployment can't be read: {error}") from None
    return deployment


def _check_columns(path: Place, footer: pq.FileMetaData, wanted: pa.Schema) -> None:
    found = footer.schema.to_arrow_schema()
    for field in wanted:
        if fault := wrong_column(found, field.name, wanted):
            raise TraceFault(f"{path}: a foreign schema: {fault}")
        for leaf in _leaves(found, field):
            if empty := _nulls(path, footer, leaf):
                raise TraceFault(f"{path}: {empty} rows have no {leaf}")


def _leaves(found: pa.Schema, field: pa.Field) -> list[str]:
    """The columns of a file that have a value in each row, if this one must."""
    if field.nullable:
        return []
    if not pa.types.is_struct(field.type):
        return [field.name]
    return stored_columns(found.names, ["stamp.r", "stamp.c"])


def _check_entries(path: Place, footer: pq.FileMetaData, entries: int) -> None:
    """An older table has a column for each entry of its stamps."""
    names = footer.schema.to_arrow_schema().names
    absent = [f"kn{i}" for i in range(entries) if f"kn{i}" not in names]
    if "stamp" not in names and absent:
        raise TraceFault(f"{path}: a foreign schema: the column {absent[0]} is missing")


def _nulls(path: Place, footer: pq.FileMetaData, column: str) -> int:
    place = [footer.schema.column(i).path for i in range(len(footer.schema))].index(column)
    told = [footer.row_group(g).column(place).statistics for g in range(footer.num_row_groups)]
    if all(one is not None and one.has_null_count for one in told):
        return sum(one.null_count for one in told)
    with pq.ParquetFile(reading(path)) as file:
        return int(file.read(columns=[column]).flatten()[column].null_count)


def _told(path: Place, footer: pq.FileMetaData, column: str) -> int:
    """The rows that have a value; none of a column that is not there."""
    if column not in footer.schema.to_arrow_schema().names:
        return 0
    return int(footer.num_rows) - _nulls(path, footer, column)


def _events(path: Place, run: str) -> Place | None:
    if not path.exists() and not path.is_symlink():  # a link that leads nowhere is a fault
        return None
    footer = _footer(path)
    if not footer.num_rows:
        return None
    if (other := _head(path, footer).run) != run:
        raise TraceFault(f"{path}: mixed runs: the messages are of run {run}, the events of {other}")
    _check_columns(path, footer, schema.events_schema())
    return path


def read_rows(trace: TraceFiles, groups: Sequence[tuple[int, int, int]], columns: list[str]) -> pa.Table:
    """The rows of these neighbouring row groups."""
    return pa.concat_tables(_tables(trace, groups, columns))


def _tables(
    trace: TraceFiles, groups: Sequence[tuple[int, int, int]], columns: list[str]
) -> Iterator[pa.Table]:
    for number in dict.fromkeys(part for _, part, _ in groups):
        path = trace.parts[number].path
        chosen = [group for _, part, group in groups if part == number]
        with undamaged(path), pq.ParquetFile(reading(path), page_checksum_verification=True) as file:
            stored = stored_columns(file.schema_arrow.names, columns)
            table = file.read_row_groups(chosen, columns=stored, use_threads=False)
            yield present(table, columns, schema.messages_schema())


def read_whole(trace: TraceFiles, columns: list[str]) -> Trace:
    """These columns of all messages, and all events."""
    messages = read_rows(trace, trace.groups(), columns)
    events = None
    if trace.events is not None:
        with undamaged(trace.events):
            events = pq.read_table(reading(trace.events), page_checksum_verification=True)
            events = present(events, schema.events_schema().names, schema.events_schema())
    return Trace(trace.run, trace.deployment, trace.origin, messages, events)


@contextmanager
def told_of(place: Place) -> Iterator[None]:
    """What this block finds wrong in a trace is told with its place."""
    try:
        yield
    except TraceError as error:
        raise TraceFault(f"{place}: {error}") from None


@contextmanager
def undamaged(path: Place) -> Iterator[None]:
    """Reads in this block tell a damaged file by its name."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise TraceFault(f"{path}: damaged: {one_line(error)}") from None
