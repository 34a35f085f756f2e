"""Reads and writes the files of a trace. They are written beside their folder and renamed when complete."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment

from . import present, schema

ROW_GROUP = 1 << 17  # so that a segment's halo is a row group or two
# Columns whose values rise in small steps.
COUNTED = (
    "sequence",
    "heard_time",
    "heard",
    "batch",
    "stamp.r",
    "sent",
    "clock",
    "mono_ns",
    "wall_ns",
    "number",
)
FEW = (
    "kind",
    "journal",
    "fate",
    "source",
    "stamp.c",
    "stamp.kn.list.element",
    "values.key_value.key",
    "values.key_value.value",
)  # columns with few different values


class TraceError(ValueError):
    """A trace cannot be read, or something is not a trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One run with its deployment and its tables. `events` is None if only the observer was recorded."""

    run: str
    deployment: Deployment
    origin: str
    messages: pa.Table
    events: pa.Table | None


def write_trace(trace: Trace, folder: Path) -> None:
    """Write a run's tables into `folder`, which must be empty or missing. It appears complete or not at all."""
    check_new(folder)
    metadata = schema.metadata(trace.run, trace.deployment, trace.origin)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        partial = Path(place) / "trace"
        partial.mkdir()
        if trace.events is not None:
            write_table(trace.events.replace_schema_metadata(metadata), partial / "events.parquet")
        write_table(trace.messages.replace_schema_metadata(metadata), partial / "messages.parquet")
        try:
            partial.rename(folder)
        except OSError:
            check_new(folder)  # someone else was first
            raise


def check_new(folder: Path) -> None:
    """Refuse a folder that holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TraceError(f"{folder} exists and is not empty; a trace is never overwritten")


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table in the format of all trace files, and wait until it is on the disk."""
    with path.open("wb") as file:  # Arrow itself opens only UTF-8 paths
        pq.write_table(table, file, row_group_size=ROW_GROUP, **encodings(table.schema))
        file.flush()
        os.fsync(file.fileno())


def encodings(columns: pa.Schema) -> dict[str, Any]:
    """How the columns of all our tables are written."""
    return {
        "compression": "zstd",
        "use_dictionary": [name for name in FEW if name.partition(".")[0] in columns.names],
        "column_encoding": {
            name: "DELTA_BINARY_PACKED" for name in COUNTED if name.partition(".")[0] in columns.names
        },
        "write_page_checksum": True,  # so that a byte changed later is found and not counted
    }


def read_trace(folder: Path) -> Trace:
    """Read a run. `TraceError` says what is missing or unknown."""
    messages = _read(folder / "messages.parquet", schema.messages_schema())
    run = _run_of(messages)
    path = folder / "events.parquet"
    events = _read(path, schema.events_schema()) if path.exists() else None
    if events is not None and _run_of(events) != run:
        raise TraceError(f"{folder}: its tables are of two runs, {run} and {_run_of(events)}")
    metadata = messages.schema.metadata
    return Trace(
        run=run,
        deployment=deployments.parse(metadata[schema.META_DEPLOYMENT].decode()),
        origin=metadata[schema.META_ORIGIN].decode(),
        messages=messages,
        events=events,
    )


def _run_of(table: pa.Table) -> str:
    return str(table.schema.metadata[schema.META_RUN].decode())


def open_table(source: Any) -> pq.ParquetFile:
    """Open a Parquet file. Reads check its sums. A footer with names that are not text counts as damaged."""
    try:
        return pq.ParquetFile(source, page_checksum_verification=True)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"a column's name is no text: {error}") from None


def _read(path: Path, wanted: pa.Schema) -> pa.Table:
    try:
        with path.open("rb") as file:
            table = open_table(file).read()
            if said := schema.wrong_format(table.schema.metadata):
                raise TraceError(f"{path}: {said}")
            return present.present(table, wanted.names, wanted)
    except FileNotFoundError:
        raise TraceError(f"{path} does not exist: a trace is a folder with messages.parquet in it") from None
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"{path}: {error}") from None
