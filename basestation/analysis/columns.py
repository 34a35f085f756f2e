"""Columns of Arrow tables as numpy arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Rows = dict[str, NDArray[Any]]
"""Columns of a table, by their names."""


def column(
    rows: pa.RecordBatch | pa.Table, name: str, kind: Any = np.int64, absent: float = -1
) -> NDArray[Any]:
    """A column as numbers of this kind; unknown values are `absent`, or NaN."""
    arrow = pa.from_numpy_dtype(kind)
    if np.issubdtype(kind, np.floating):
        absent = np.nan
    values = rows.column(name).cast(arrow, safe=False).fill_null(pa.scalar(absent, arrow))
    found: NDArray[Any] = values.to_numpy() if isinstance(rows, pa.Table) else values.to_numpy(False)
    return found


def where(rows: Rows, which: NDArray[Any], *names: str) -> Rows:
    """Some rows, by a mask or in an order, of these columns or of all."""
    return {name: rows[name][which] for name in names or rows}


def changes(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a row differs from the one before it in a key; the first one does."""
    new = np.ones(len(keys[0]), np.bool_)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return new


def filled(columns: Mapping[str, Any], schema: pa.Schema, count: int) -> pa.Table:
    """A table of this schema. A column that is one value is the same in all rows, and one that is not given is null."""
    arrays = []
    for item in schema:
        value = columns.get(item.name)
        if value is None:
            arrays.append(pa.nulls(count, item.type))
        elif isinstance(value, pa.Array | pa.ChunkedArray):
            arrays.append(value.cast(item.type, safe=not pa.types.is_floating(item.type)))
        elif isinstance(value, np.ndarray):
            arrays.append(pa.array(value, item.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, item.type), count))
    return pa.Table.from_arrays(arrays, schema=schema)
