"""The tables of a trace, the same for the simulator and for a live log. `docs/formats.md` explains the columns.

A trace is a folder of one run:

    messages.parquet   one row for each arrival at the observer, in order of arrival
    events.parquet     one row for each send or receive on the motes, in true order (where known)

The run's id and its deployment are in the metadata of each file. The raw payload is the evidence; the columns beside
it hold what was read from it, and can be read again. A value that is not known is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout

FORMAT = "1"
META_FORMAT, META_RUN, META_DEPLOYMENT, META_ORIGIN = (
    b"causeway.format",
    b"causeway.run",
    b"causeway.deployment",
    b"causeway.origin",
)
KINDS = ("send", "receive")
LATER = "vector_most"  # the one column that older traces do not have; there it is null


def metadata(run: str, deployment: Deployment, origin: str) -> dict[bytes, str]:
    return {
        META_FORMAT: FORMAT,
        META_RUN: run,
        META_DEPLOYMENT: deployment.to_toml(),
        META_ORIGIN: origin,
    }


def messages_schema(layout: DataLayout, motes: int) -> pa.Schema:
    return pa.schema(
        [
            pa.field("source", pa.uint16(), False),
            pa.field("boot", pa.uint8(), False),
            pa.field("sequence", pa.int64(), False),
            pa.field("am_type", pa.uint8(), False),
            pa.field("payload", pa.binary(-1 if layout.stamp.is_variable else layout.length), False),
            pa.field("heard_time", pa.uint32()),
            pa.field("heard", pa.int64(), False),
            pa.field("clock", pa.int64()),
            pa.field("batch", pa.int64(), False),
            pa.field("fresh", pa.bool_(), False),
            pa.field("gateway", pa.uint16()),
            pa.field("rssi", pa.int8()),
            pa.field("lqi", pa.uint8()),
            pa.field("mono_ns", pa.int64()),
            pa.field("wall_ns", pa.int64()),
            pa.field("in_sync", pa.bool_(), False),
            pa.field("saturated", pa.bool_(), False),
            pa.field("r", pa.int64(), False),
            pa.field("c", pa.uint16(), False),
            *(pa.field(f"kn{i}", pa.uint16(), False) for i in range(layout.stamp.entries)),
            pa.field("sent", pa.int64()),
            pa.field("vector", pa.binary(4 * motes)),
            pa.field(LATER, pa.binary(4 * motes)),
        ]
    )


def with_later(messages: pa.Table) -> pa.Table:
    """A table of messages, with the column that older ones do not have; any other table as it is."""
    if LATER in messages.column_names or "vector" not in messages.column_names:
        return messages
    field = messages.schema.field("vector").with_name(LATER)
    return messages.append_column(field, pa.nulls(len(messages), field.type))


def messages_table(columns: Mapping[str, Any], layout: DataLayout, motes: int, count: int) -> pa.Table:
    """Make a table of messages from the columns that are known; the others are null."""
    schema = messages_schema(layout, motes)
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def binary_column(rows: NDArray[np.uint8]) -> pa.Array:
    """A column of byte strings of one length."""
    count, width = rows.shape
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), count, [None, pa.py_buffer(np.ascontiguousarray(rows))]
    )


def payload_column(rows: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """A column of payloads, each with its own length."""
    if (lengths == rows.shape[1]).all():
        return binary_column(rows)
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows[inside]))]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def events_schema() -> pa.Schema:
    return pa.schema(
        [
            pa.field("kind", pa.dictionary(pa.int8(), pa.string()), False),
            pa.field("ends", pa.bool_(), False),
            pa.field("mote", pa.uint16(), False),
            pa.field("clock", pa.int64(), False),
            pa.field("source", pa.uint16(), False),
            pa.field("sequence", pa.int64(), False),
        ]
    )
