"""Rows of a dataclass as an Arrow table."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def table_of(rows: Sequence[Any], kind: type | None = None) -> pa.Table:
    """A table from rows of one dataclass, with a column for each field. `kind` is that class, where no row may be."""
    kind = kind or type(rows[0])
    hints = typing.get_type_hints(kind)
    schema = pa.schema([pa.field(name, _arrow(hints[name])) for name in columns_of(kind)])
    return pa.Table.from_pylist([plain(row) for row in rows], schema=schema)


def plain(row: Any) -> dict[str, Any]:
    """The fields of a row for tables and JSON, without those that are kept inside."""
    return {name: getattr(row, name) for name in columns_of(type(row))}


def columns_of(kind: type) -> list[str]:
    """The fields of a class of rows that tables and JSON have."""
    return [field.name for field in fields(kind) if not field.metadata.get("inside")]


def _arrow(hint: Any) -> pa.DataType:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        return pa.list_(ARROW[typing.get_args(hint)[0]])
    return ARROW[hint]
