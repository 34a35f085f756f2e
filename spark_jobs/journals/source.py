"""The data source `causeway` of Spark: the records, frames or messages of journals, in batches or as they are written.

    register(spark)
    spark.read.format("causeway").load("logs")
    spark.readStream.format("causeway").option("table", "messages").load("logs")

A segment file is a partition, and needs nothing of the others. A stream reads on where it was, in the segment that is
being written too, and has each record once: an offset is, for each journal, the segment, the byte in it, and the number
of the last record before that. Frames and messages are read up to the last decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from basestation.journal.reader import segment_paths
from spark_jobs.engines import equip
from spark_jobs.journals.segment_files import (
    SCHEMAS,
    behind_decisions,
    described,
    intact,
    is_ended,
    journal_folders,
    projected_batches,
    record_batches,
)
from spark_jobs.session import JobError
from spark_jobs.storage import path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offset = dict[str, list[Any]]  # by folder: segment, byte, number of a record


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    equip(spark)
    spark.dataSource.register(CausewaySource)


@dataclass(frozen=True)
class Stretch(InputPartition):
    """The records of a segment file between two bytes, after the record with the number `last`."""

    path: str
    run: str
    site: str
    table: str
    begin: int = 0
    end: int | None = None
    last: int = -1

    def batches(self) -> Iterator[pa.RecordBatch]:
        records = intact(path_of(self.path), self.begin, self.end, self.last)[0]
        if self.table == "records":
            yield from record_batches(records, self.run, self.site, self.path)
        else:
            yield from projected_batches(records, path_of(self.path), self.run, self.site, self.table)


class CausewaySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "causeway"

    def schema(self) -> Any:
        return from_arrow_schema(SCHEMAS[self._table])

    def reader(self, schema: Any) -> JournalReader:
        return JournalReader(_paths(self.options), self._table)

    def streamReader(self, schema: Any) -> JournalStream:
        return JournalStream(_paths(self.options), self._table)

    @property
    def _table(self) -> str:
        table = str(self.options.get("table", "records"))
        if table not in SCHEMAS:
            raise JobError(f"table {table}: the data source has {', '.join(SCHEMAS)}")
        return table


def _paths(options: Any) -> list[str]:
    return [options["path"]] if "path" in options else list(json.loads(options.get("paths", "[]")))


class JournalReader(DataSourceReader):
    def __init__(self, paths: list[str], table: str) -> None:
        self._paths, self._table = paths, table

    def partitions(self) -> list[Stretch]:
        return [
            Stretch(str(path), *described(folder), self._table)
            for folder in journal_folders(self._paths)
            for path in segment_paths(folder)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return cast(Stretch, partition).batches()


class JournalStream(DataSourceStreamReader):
    def __init__(self, paths: list[str], table: str) -> None:
        self._paths, self._table = paths, table
        self._ends: Offset = {}

    def initialOffset(self) -> Offset:
        return {}

    def latestOffset(self, *given: Any) -> Offset:
        """The end of the complete records. Only new bytes of a journal's last segment are read."""
        for folder in journal_folders(self._paths):
            path = segment_paths(folder)[-1]
            name, begin, last = self._ends.get(str(folder), ["", 0, -1])
            begin, last = (begin, last) if name == path.name else (0, -1)
            records, end, newest = intact(path, begin, None, last)
            if self._table != "records" and not is_ended(path):
                end, newest = behind_decisions(records, begin, last)
            self._ends[str(folder)] = [path.name, end, newest]
        return dict(self._ends)

    def partitions(self, start: Offset, end: Offset) -> list[Stretch]:
        folders = ((path_of(folder), start.get(folder, ["", 0, -1]), end[folder]) for folder in end)
        return list(chain.from_iterable(self._stretches(*told) for told in folders))

    def _stretches(self, folder: Path, start: list[Any], end: list[Any]) -> Iterator[Stretch]:
        for path in segment_paths(folder):
            if start[0] <= path.name <= end[0]:
                begin, last = (start[1], start[2]) if path.name == start[0] else (0, -1)
                until = end[1] if path.name == end[0] else None
                if until is None or begin < until:
                    yield Stretch(str(path), *described(folder), self._table, begin, until, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return cast(Stretch, partition).batches()
