"""The tables of a trace, the same for the simulator and for a live log. `docs/reference/formats.md` explains the
columns.

A trace is a folder of one run:

    messages.parquet   one row for each arrival at the observer, in order of arrival
    events.parquet     one row for each send or receive on the motes, in true order (where known)

The run's id and its deployment are in the metadata of each file. The raw payload is the evidence; the columns beside
it hold what was read from it, and can be read again. A value that is not known is null.

All runs have the same columns, whatever their stamps and however many motes they have, in types that every reader of
Parquet knows. `present` reads the tables of older versions as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from packet_formats.ages import is_again, is_or_more
from packet_formats.bulk import decode_values
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout

FORMAT = "2"
META_FORMAT, META_RUN, META_DEPLOYMENT, META_ORIGIN = (
    b"causeway.format",
    b"causeway.run",
    b"causeway.deployment",
    b"causeway.origin",
)
KINDS = ("send", "receive")
LATER = "vector_most"
MOST_BYTES = 1 << 30  # of one array of byte strings, whose places are 32-bit numbers


def metadata(run: str, deployment: Deployment, origin: str) -> dict[bytes, str]:
    return {
        META_FORMAT: FORMAT,
        META_RUN: run,
        META_DEPLOYMENT: deployment.to_toml(),
        META_ORIGIN: origin,
    }


def wrong_format(said: Mapping[bytes, bytes] | None) -> str | None:
    """Why a file with this metadata can't be read, by its format."""
    found = (said or {}).get(META_FORMAT, b"none")
    if found == FORMAT.encode():
        return None
    return f"format {found.decode(errors='replace')}, this version reads format {FORMAT}"


_KN = pa.list_(pa.field("element", pa.int32(), False))
STAMP = pa.struct(
    [pa.field("r", pa.int64(), False), pa.field("c", pa.int32(), False), pa.field("kn", _KN, False)]
)
CAUSES = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("source", pa.int32(), False), pa.field("number", pa.int64(), False)]),
        False,
    )
)


# A map, since runs differ in their values: as columns or as fields of a struct, readers of several runs would drop
# some of them or fail (docs/reference/formats.md).
VALUES = pa.map_(pa.string(), pa.float64())


def messages_schema() -> pa.Schema:
    return pa.schema(
        [
            pa.field("source", pa.int32(), False),
            pa.field("boot", pa.int32(), False),
            pa.field("sequence", pa.int64(), False),
            pa.field("number", pa.int64()),
            pa.field("am_type", pa.int32(), False),
            pa.field("payload", pa.binary(), False),
            pa.field("heard_time", pa.int64()),
            pa.field("heard", pa.int64(), False),
            pa.field("clock", pa.int64()),
            pa.field("batch", pa.int64(), False),
            pa.field("fresh", pa.bool_(), False),
            pa.field("gateway", pa.int32()),
            pa.field("rssi", pa.int32()),
            pa.field("lqi", pa.int32()),
            pa.field("mono_ns", pa.int64()),
            pa.field("wall_ns", pa.int64()),
            pa.field("in_sync", pa.bool_(), False),
            pa.field("saturated", pa.bool_(), False),
            pa.field("values", VALUES),
            pa.field("age_ms", pa.int32()),
            pa.field("age_or_more", pa.bool_()),
            pa.field("again", pa.bool_()),
            pa.field("stamp", STAMP, False),
            pa.field("causes", CAUSES),
            pa.field("sent", pa.int64()),
            pa.field("vector", pa.binary()),
            pa.field(LATER, pa.binary()),
        ]
    )


def messages_table(columns: Mapping[str, Any], count: int) -> pa.Table:
    """Make a table of messages from the columns that are known; the others are null."""
    schema = messages_schema()
    arrays = [
        column_of(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def column_of(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column of this type, of numpy's values or Arrow's."""
    return values.cast(kind) if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)


def stamp_column(r: NDArray[Any], c: NDArray[Any], kn: NDArray[Any]) -> pa.StructArray:
    """A column of stamps; `kn` has a row for each."""
    columns = [pa.array(r, pa.int64()), pa.array(c, pa.int32()), list_column(kn)]
    return pa.StructArray.from_arrays(columns, fields=list(STAMP))


def values_column(data: NDArray[np.uint8], layout: DataLayout) -> pa.Array:
    """A column with the values in each row of data; null if the deployment names none."""
    count = len(data)
    if not layout.values:
        return pa.nulls(count, VALUES)
    columns = decode_values(data, layout)
    ends = np.arange(count + 1, dtype=np.int32) * len(columns)
    names = pa.array(list(columns)).take(pa.array(np.tile(np.arange(len(columns)), count)))
    numbers = np.column_stack(list(columns.values())).reshape(-1)
    return pa.MapArray.from_arrays(ends, names, pa.array(numbers, from_pandas=True))  # NaN is null


def age_columns(rows: NDArray[np.void], layout: DataLayout) -> dict[str, Any]:
    """The columns of the ages of events, of rows of `bulk.data_dtype`; none where messages have no age."""
    if not layout.has_age:
        return {}
    ages, codes = np.array([layout.age_ms(code) for code in range(256)], np.int32), rows["event_age"]
    return {"age_ms": ages[codes], "age_or_more": is_or_more(codes), "again": is_again(codes)}


def value_of(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """One value of each row, null where a row has none, from a column of values."""
    return pc.map_lookup(column, name, "first")


def list_column(kn: NDArray[Any]) -> pa.ListArray:
    """A column of lists, one for each row."""
    count, entries = kn.shape
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * entries)
    return pa.ListArray.from_arrays(ends, pa.array(np.asarray(kn, np.int32).reshape(-1)), type=_KN)


def binary_column(rows: NDArray[Any]) -> pa.ChunkedArray:
    """A column of byte strings of one length: those of each row of numbers."""
    count, width = len(rows), rows.shape[1] * rows.itemsize
    together = max(MOST_BYTES // max(width, 1), 1)
    parts = [rows[at : at + together] for at in range(0, count, together)]
    return pa.chunked_array([bytes_array(part, np.full(len(part), width)) for part in parts], pa.binary())


def payload_column(rows: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.ChunkedArray:
    """A column of payloads, each with its own length."""
    if (lengths == rows.shape[1]).all():
        return binary_column(rows)
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    return pa.chunked_array([bytes_array(rows[inside], lengths)])


def bytes_array(content: NDArray[Any], lengths: NDArray[np.int64]) -> pa.BinaryArray:
    """Byte strings that stand one after the other in `content`."""
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers)


class UnevenRow(ValueError):
    """A row that is longer or shorter than all rows must be."""

    def __init__(self, row: int, found: int, wanted: int) -> None:
        super().__init__(f"{found} instead of {wanted}")
        self.row = row


def matrix_of(column: pa.ChunkedArray, width: int) -> NDArray[np.int32]:
    """A column of byte strings or lists, which each hold `width` 32-bit integers, without copying if it can. Null is
    zeros. `UnevenRow` names a row of another length."""
    size = width if pa.types.is_list(column.type) else 4 * width
    found, first = [], 0
    for chunk in column.chunks:
        found.append(_matrix(chunk, first, width, size))
        first += len(chunk)
    return found[0] if len(found) == 1 else np.concatenate([np.zeros((0, width), np.int32), *found])


def _matrix(chunk: pa.Array, first: int, width: int, size: int) -> NDArray[np.int32]:
    if chunk.null_count:
        told = chunk.is_valid().to_numpy(zero_copy_only=False)
        whole = np.zeros((len(chunk), width), np.int32)
        try:
            whole[told] = _matrix(chunk.drop_null(), 0, width, size)
        except UnevenRow as fault:
            fault.row = first + int(np.flatnonzero(told)[fault.row])
            raise
        return whole
    ends = np.frombuffer(chunk.buffers()[1] or bytes(4), np.int32)[
        chunk.offset : chunk.offset + len(chunk) + 1
    ]
    lengths = np.diff(ends)
    uneven = np.flatnonzero(lengths != size)
    if len(uneven):
        raise UnevenRow(first + int(uneven[0]), int(lengths[uneven[0]]), size)
    if pa.types.is_list(chunk.type):
        values: NDArray[np.int32] = chunk.flatten().to_numpy()
    else:
        values = np.frombuffer(chunk.buffers()[2] or b"", "<i4", len(chunk) * width, int(ends[0]))
    return values.reshape(len(chunk), width)


def events_schema() -> pa.Schema:
    return pa.schema(
        [
            pa.field("kind", pa.string(), False),
            pa.field("ends", pa.bool_(), False),
            pa.field("mote", pa.int32(), False),
            pa.field("clock", pa.int64(), False),
            pa.field("source", pa.int32(), False),
            pa.field("sequence", pa.int64(), False),
            pa.field("number", pa.int64()),
        ]
    )
