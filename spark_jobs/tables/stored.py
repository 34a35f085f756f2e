"""Reads the tables of `ingest` for other jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from basestation.journal.frame_table import FRAMES
from basestation.traces.present import present, stored_columns, wrong_column
from basestation.traces.schema import META_RUN, messages_schema
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment, DeploymentError
from spark_jobs.engines import Engine, EngineOptions, chosen
from spark_jobs.session import JobError, prepare
from spark_jobs.storage import Place, listed, parquet, place
from spark_jobs.tables.inputs import Group, Input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST = "manifest"
NAMED = (("site", pa.string()), ("run", pa.string()))  # the columns of results that name a run
CAUSES = "causes"  # the table of causal graphs, keyed by run and frame, made on demand
ENTRY, UNFINISHED = (
    ".json",
    ".unfinished",
)  # suffixes of a run's entry, and of a run that is being put in place
ROWS = 1 << 17  # at a time
SMALL = 4_000_000  # frames up to which Spark is not worth its start


def part_name(place: int) -> str:
    """The name of a part of a run's table."""
    return f"{place:06d}.parquet"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run of the tables, and the places of its files."""

    tables: str
    group: Group
    counts: dict[str, int]
    mics: str = ""  # whether they were checked

    @property
    def name(self) -> str:
        return self.group.run

    @property
    def deployment(self) -> Deployment:
        text = self.group.inputs[0].deployment
        if not text:
            raise JobError(f"run {self.name}: its deployment is not known; ingest it with --deployment")
        try:
            return deployments.parse(text)
        except DeploymentError as error:
            raise JobError(f"run {self.name}: its deployment can't be read: {error}") from None

    def folder(self, table: str) -> Place:
        return place(self.tables) / table / self.group.place

    def files(self, table: str) -> list[Place]:
        """The parts of a table, in order. Older versions wrote one file."""
        parts = listed(self.folder(table), "[0-9]*.parquet")
        return parts or [self.folder(table) / f"{table}.parquet"]

    def opened(self, path: Place) -> AbstractContextManager[pq.ParquetFile]:
        if not path.exists():
            raise JobError(f"{path} is gone; ingest --again brings it back")
        return parquet(path)

    def check(self, path: Place, found: pa.Schema, wanted: pa.Schema, columns: Sequence[str]) -> None:
        """Check that `ingest` wrote this file for this run."""
        for name in columns:
            if fault := wrong_column(found, name, wanted):
                raise JobError(f"{path}: {fault}; ingest has not written this file")
        said = (found.metadata or {}).get(META_RUN, self.name.encode()).decode(errors="replace")
        if said != self.name:
            raise JobError(f"{path}: mixed runs: it is of run {said}, in the place of {self.name}")

    def pieces(self, table: str) -> list[Piece]:
        """The parts of a table, in order, checked."""
        rows = 0
        for path in self.files(table):
            with self.opened(path) as file:
                self.check(path, file.schema_arrow, schema_of(table), ["mono_ns"])
                rows += file.metadata.num_rows
        if rows != (wrote := self.counts.get(table, rows)):
            raise JobError(
                f"{self.folder(table)}: {rows} rows, and ingest wrote {wrote}: a part is missing; "
                "ingest --again brings it back"
            )
        return [Piece(self, table, path) for path in self.files(table)]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run's table: what one task reads."""

    run: StoredRun
    table: str
    path: Place

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Its rows, in batches. `JobError` says what is wrong with the file."""
        with self.run.opened(self.path) as file:
            wanted = schema_of(self.table)
            self.run.check(self.path, file.schema_arrow, wanted, columns)
            stored = stored_columns(file.schema_arrow.names, columns)
            for batch in file.iter_batches(ROWS, columns=stored):
                yield present(pa.Table.from_batches([batch]), columns, wanted)


def pieces(runs: Sequence[StoredRun], *tables: str) -> tuple[list[Piece], dict[str, str]]:
    """The pieces of these tables of all runs, and the faults of runs that can't be read."""
    found, faults = [], {}
    for run in runs:
        try:
            found += [piece for table in tables for piece in run.pieces(table)]
        except JobError as error:
            faults[run.name] = str(error)
    return found, faults


def schema_of(table: str) -> pa.Schema:
    return FRAMES if table == "frames" else messages_schema()


def read(spark: SparkSession, runs: Sequence[StoredRun], table: str) -> DataFrame:
    """A table of these runs, read by Spark itself: it prunes runs and columns, and pushes conditions down."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = schema_of(table)
    named = pa.schema([*columns, *((name, pa.string()) for name in ("site", "date", "run"))])
    reader = spark.read.schema(from_arrow_schema(named)).option(
        "parquet.page.verify-checksum.enabled", "true"
    )
    found = []
    for tables in dict.fromkeys(run.tables for run in runs):  # a base path each
        folders = [_for_spark(str(run.folder(table))) for run in runs if run.tables == tables]
        found.append(reader.option("basePath", _hadoop(f"{tables}/{table}")).parquet(*folders))
    if not found:
        return spark.createDataFrame([], from_arrow_schema(named)).select("run", "site", *columns.names)
    return reduce(lambda one, other: one.union(other), found).select("run", "site", *columns.names)


def _for_spark(path: str) -> str:
    """A path to read: brackets in it are not a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", _hadoop(path))


def _hadoop(path: str) -> str:
    return re.sub("^s3:", "s3a:", path)


def manifest(tables: Place, suffix: str = ENTRY) -> list[StoredRun]:
    """All runs of the tables, by their names."""
    runs = []
    for path in listed(tables / MANIFEST, f"*{suffix}"):
        try:
            plain = json.loads(path.read_text())
            group = Group(tuple(Input.from_plain(item) for item in plain["inputs"]))
            if not group.inputs:
                raise ValueError("made from nothing")
            runs.append(StoredRun(str(tables.resolve()), group, plain["counts"], plain.get("mics", "")))
        except (ValueError, KeyError, TypeError) as error:
            raise JobError(f"{path}: no entry of ingest's: {error}") from None
    return runs


def select_runs(
    tables: Place, runs: Sequence[str] = (), sites: Sequence[str] = (), out: Place | None = None
) -> list[StoredRun]:
    """The runs with these names and of these sites, or all; `JobError` when there is none.

    `out` is the folder of results, which must be writable.
    """
    if not tables.is_dir():
        raise JobError(f"{tables}: there is no such folder")
    if out is not None:
        prepare(out)
    held = manifest(tables)
    if not held:
        raise JobError(f"{tables}: no tables in it; ingest makes them")
    for name in runs:
        if name not in [run.name for run in held]:
            raise JobError(f"{tables}: no run {name}; there are {', '.join(run.name for run in held)}")
    wanted = [
        run for run in held if (not runs or run.name in runs) and (not sites or run.group.site in sites)
    ]
    if not wanted:
        raise JobError(f"{tables}: no run of site {', '.join(sites)}")
    return wanted


def names_of(run: StoredRun) -> dict[str, str]:
    """The columns of a row of results that name its run."""
    return {"site": run.group.site, "run": run.name}


@contextmanager
def engine_for(job: str, options: EngineOptions, runs: Sequence[StoredRun]) -> Iterator[Engine]:
    """The engine for work on all frames of these runs."""
    with chosen(job, options, large=sum(run.counts.get("frames", 0) for run in runs) > SMALL) as engine:
        yield engine
