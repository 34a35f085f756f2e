"""Reading and writing the files of a trace. A file is written beside its name and renamed into place when whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment

from . import schema

ROW_GROUP = 1 << 17  # so that a segment's halo is a row group or two
COUNTED = (
    "sequence",
    "heard_time",
    "heard",
    "batch",
    "r",
    "sent",
    "clock",
    "mono_ns",
    "wall_ns",
)  # small steps


class TraceError(ValueError):
    """A trace can't be read, or is no trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One run: whose it is, and its tables. `events` is absent where only the observer was watching."""

    run: str
    deployment: Deployment
    origin: str
    messages: pa.Table
    events: pa.Table | None


def write_trace(trace: Trace, folder: Path) -> None:
    """Write a run's tables into `folder`, which must not hold a trace yet."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = [path.name for path in folder.glob("*.parquet")]
    if taken:
        raise TraceError(f"{folder} already holds {', '.join(sorted(taken))}; a trace is never overwritten")
    metadata = {
        schema.META_FORMAT: schema.FORMAT,
        schema.META_RUN: trace.run,
        schema.META_DEPLOYMENT: trace.deployment.to_toml(),
        schema.META_ORIGIN: trace.origin,
    }
    if trace.events is not None:
        _write(trace.events.replace_schema_metadata(metadata), folder / "events.parquet")
    _write(trace.messages.replace_schema_metadata(metadata), folder / "messages.parquet")


def _write(table: pa.Table, path: Path) -> None:
    partial = path.with_name(f".{path.name}.partial")
    counted = [name for name in table.column_names if name in COUNTED]
    pq.write_table(
        table,
        partial,
        compression="zstd",
        row_group_size=ROW_GROUP,
        use_dictionary=[name for name in table.column_names if name == "kind"],
        column_encoding=dict.fromkeys(counted, "DELTA_BINARY_PACKED"),
    )
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.rename(path)


def read_trace(folder: Path) -> Trace:
    """Read a run. `TraceError` says what is missing or foreign."""
    messages = _read(folder / "messages.parquet")
    metadata = messages.schema.metadata or {}
    if metadata.get(schema.META_FORMAT) != schema.FORMAT.encode():
        found = metadata.get(schema.META_FORMAT, b"none").decode(errors="replace")
        raise TraceError(f"{folder}: format {found}, this version reads format {schema.FORMAT}")
    events = folder / "events.parquet"
    return Trace(
        run=metadata[schema.META_RUN].decode(),
        deployment=deployments.parse(metadata[schema.META_DEPLOYMENT].decode()),
        origin=metadata[schema.META_ORIGIN].decode(),
        messages=messages,
        events=_read(events) if events.exists() else None,
    )


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise TraceError(f"{path} does not exist: a trace is a folder with messages.parquet in it") from None
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"{path}: {error}") from None
