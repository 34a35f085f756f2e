"""The Parquet files of one trace, checked before anything is computed. A fault names its file.

Only footers are read here. A trace is `messages.parquet`, or its parts in the order of their names: in `messages/`, as
the journal writes them, or in the folder itself, as `ingest` does. `events.parquet` says what the motes did, where
known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from shlex import quote

import pyarrow as pa

from basestation.journal.reader import find_journals
from basestation.traces import schema
from basestation.traces.files import Trace, TraceError
from basestation.traces.footers import Footer
from basestation.traces.present import present, stored_columns
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.phrases import many
from spark_jobs.session import JobError
from spark_jobs.storage import Place, listed, parquet, path_of
from spark_jobs.tables.stored import CAUSES, MANIFEST, StoredRun, manifest

MESSAGES, EVENTS = "messages.parquet", "events.parquet"
GRAPH = ("causes", "vector", schema.LATER)  # the columns of the causal graph


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
    without_causes: int  # rows without known causes
    events: Place | None
    unsure: int = 0  # rows with possible causes besides the sure ones, which their vectors count
    most: bool = False  # count with the possible causes
    refused: int = 0  # records that `ingest` put aside
    kept: Place | None = None  # where the tables of `ingest` keep its causal graph
    causes: PartFile | None = None  # the columns of its causal graph, a row group for each of the messages'
    is_field: bool = False  # its vectors, if any, are those of its causal graph

    @property
    def has_truth(self) -> bool:
        """Whether the causes of some messages are known. The others are left out, and counted."""
        return self.without_causes < self.rows

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

    @property
    def why_empty(self) -> str | None:
        """Why nothing can be analysed; None if something can. Messages without a time can't be ordered."""
        if self.rows:
            return None
        why = "none arrived, or all were sent before their motes had the time"
        if self.refused:
            why = f"ingest refused {many(self.refused, 'record')}, such as those sent before their motes had the time"
        return f"run {self.run}: no message of this run has the network's time, so none can be ordered: {why}"

    def groups(self) -> list[tuple[int, int, int]]:
        """The (first row, part, row group) of each row group."""
        places = [(p, g) for p, part in enumerate(self.parts) for g in range(len(part.groups))]
        sizes = [size for part in self.parts for size in part.groups]
        return [(first, *place) for first, place in zip(accumulate([0, *sizes]), places, strict=False)]

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """These columns of all rows, a row group at a time."""
        for group in self.groups():
            yield read_rows(self, [group], columns)


def open_traces(folders: Sequence[Place]) -> tuple[list[TraceFiles], list[TraceFault]]:
    """Open the traces that can be analysed, and list the faults of the others."""
    traces: dict[str, TraceFiles] = {}
    faults = []
    for folder, stored in _places(folders):
        try:
            if stored is not None and not stored.group.inputs[0].deployment:
                raise TraceFault(
                    f"run {stored.name}: its deployment is not known; ingest it with --deployment"
                )
            trace = open_trace(folder, stored.files("events")[0] if stored else None)
            if stored is not None:
                _check_stored(trace, stored)
                trace = replace(trace, refused=stored.counts.get("quarantine", 0), kept=stored.folder(CAUSES))
            if trace.run in traces:
                raise TraceFault(f"{folder}: run {trace.run}, which {traces[trace.run].folder} is already")
            traces[trace.run] = trace
        except TraceFault as fault:
            faults.append(fault)
    return list(traces.values()), faults


def _places(folders: Sequence[Place]) -> Iterator[tuple[Place, StoredRun | None]]:
    """The place of the messages: of a trace, or of every run in the tables of `ingest`. A place comes once."""
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        if (folder / MANIFEST).is_dir():
            yield from ((run.folder("messages"), run) for run in manifest(folder))
        else:
            yield folder, None


def _check_stored(trace: TraceFiles, stored: StoredRun) -> None:
    """Check that these are the files that `ingest` wrote for this run, and all of them."""
    if trace.run != stored.name:
        raise TraceFault(
            f"{trace.folder}: mixed runs: it is of run {trace.run}, in the place of {stored.name}"
        )
    if trace.rows != (wrote := stored.counts.get("messages", trace.rows)):
        raise TraceFault(
            f"{trace.folder}: {trace.rows} rows, and ingest wrote {wrote}: a part is missing; "
            "ingest --again brings it back"
        )
    if trace.events is None and stored.counts.get("events"):
        raise TraceFault(f"{stored.files('events')[0]} is gone; ingest --again brings it back")


def open_trace(folder: Place, events: Place | None = None) -> TraceFiles:
    """Find the files of a run and check that they belong together. `events` is their place, if not in the folder."""
    parts = {path: _footer(path) for path in _parts_of(folder)}
    for path, footer in parts.items():
        with located(path):
            footer.check_format()
    (first, head), *_ = parts.items()
    for path, footer in parts.items():
        if footer.run != head.run:
            raise TraceFault(
                f"{folder}: mixed runs: {first.name} is of run {head.run}, {path.name} of {footer.run}"
            )
        if footer.description != head.description:
            raise TraceFault(f"{path}: another deployment than {first.name}, though the run is the same")
    with located(first):
        deployment = head.deployment()
    for path, footer in parts.items():
        with located(path):
            footer.check(schema.messages_schema())
    return TraceFiles(
        folder=folder,
        run=head.run,
        origin=head.origin,
        deployment=deployment,
        parts=tuple(PartFile(path, footer.groups) for path, footer in parts.items()),
        without_causes=sum(footer.nulls("vector") for footer in parts.values()),
        events=_events(events or folder / EVENTS, head.run),
        is_field=head.origin.startswith("journal"),
        unsure=sum(footer.told(schema.LATER) for footer in parts.values()),
    )


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
    """A hint on a trace or log in the folder that can be analysed instead."""
    if (folder / "trace" / MESSAGES).exists():
        return f", but {folder / 'trace'} is one"
    if find_journals(path_of(folder)):
        made = f"basestation analyse ingest {quote(str(folder))} --tables tables"
        return f", but a log: `{made}` makes tables of it, and those can be analysed"
    return ""


def _footer(path: Place) -> Footer:
    with parquet(path, TraceFault) as file:
        found = file.metadata
    return Footer(found, partial(_nulls, path))


def _nulls(path: Place, column: str) -> int:
    with parquet(path, TraceFault) as file:
        return int(file.read(columns=[column]).flatten()[column].null_count)


def _events(path: Place, run: str) -> Place | None:
    if not path.exists() and not path.is_symlink():  # a link that leads nowhere is a fault
        return None
    footer = _footer(path)
    if not footer.said.num_rows:
        return None
    with located(path):
        footer.check_format()
    if footer.run != run:
        raise TraceFault(f"{path}: mixed runs: the messages are of run {run}, the events of {footer.run}")
    with located(path):
        footer.check(schema.events_schema())
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
        with parquet(path, TraceFault) as file:
            stored = stored_columns(file.schema_arrow.names, columns)
            table = file.read_row_groups(chosen, columns=stored, use_threads=False)
        if trace.causes is not None and (wanted := [name for name in columns if name in GRAPH]):
            before = sum(len(part.groups) for part in trace.parts[:number])
            table = _with_graph(table, trace.causes.path, [before + group for group in chosen], wanted)
        yield present(table, columns, schema.messages_schema())


def _with_graph(table: pa.Table, path: Place, groups: list[int], columns: list[str]) -> pa.Table:
    """Rows with these columns of the causal graph in place of their own."""
    with parquet(path, TraceFault) as file:
        graph = file.read_row_groups(groups, columns=columns, use_threads=False)
    kept = table.drop_columns([name for name in columns if name in table.column_names])
    for name in columns:
        kept = kept.append_column(name, graph[name])
    return kept


def read_whole(trace: TraceFiles, columns: list[str]) -> Trace:
    """These columns of all messages, and all events."""
    messages = read_rows(trace, trace.groups(), columns)
    events = None
    if trace.events is not None:
        with parquet(trace.events, TraceFault) as file:
            events = file.read()
            events = present(events, schema.events_schema().names, schema.events_schema())
    return Trace(trace.run, trace.deployment, trace.origin, messages, events)


@contextmanager
def located(place: Place) -> Iterator[None]:
    """A fault that this block finds in a trace names its place."""
    try:
        yield
    except TraceError as error:
        raise TraceFault(f"{place}: {error}") from None
