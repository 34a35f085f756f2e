"""Reads the tables of older versions as those of the present one.

Tables that were written before a deployment could name its data have no `values`; before messages held the age of their
event, no `age_ms` and `again`; and `age_or_more` came last. The events of older tables have no `number`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from . import schema

ADDED = (
    "number",
    "values",
    "age_ms",
    "age_or_more",
    "again",
    "causes",
    schema.LATER,
)  # columns that older tables do not have


def stored_columns(found: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The `wanted` columns (`stamp.r`: a part of a column) that a file with the columns `found` has."""
    return [name for name in wanted if name.partition(".")[0] in found]


def present(table: pa.Table, wanted: Sequence[str], of: pa.Schema) -> pa.Table:
    """The wanted columns in the types of the present schema `of`. What an older table does not have is null."""
    columns = [_column(table, name, of) for name in wanted]
    fields = [pa.field(name, column.type) for name, column in zip(wanted, columns, strict=True)]
    if list(wanted) == of.names:
        fields = list(of)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def _column(table: pa.Table, name: str, of: pa.Schema) -> pa.ChunkedArray:
    head, _, part = name.partition(".")
    kind = of.field(head).type
    if head in table.column_names:
        column = table[head]
        if not part:
            return column if column.type == kind else column.cast(kind)
        return pc.struct_field(column, part).cast(kind.field(part).type)
    return pa.chunked_array([pa.nulls(len(table), kind)])


def wrong_column(found: pa.Schema, wanted: str, of: pa.Schema) -> str | None:
    """Why a wanted column can't be read from a file with the columns `found`: it is missing, or holds other values, or
    it is ambiguous."""
    twice = [name for name in dict.fromkeys(found.names) if found.names.count(name) > 1]
    if twice:
        return f"the column {twice[0]} is there twice"
    field = of.field(wanted.partition(".")[0])
    if field.name in found.names:
        other = found.field(field.name).type
        return None if _sort(other) == _sort(field.type) else f"{field.name} is {other}, not {field.type}"
    return None if field.name in ADDED else f"the column {field.name} is missing"


def _sort(kind: pa.DataType) -> str:
    """What values a type holds, however wide or encoded."""
    if pa.types.is_dictionary(kind):
        return _sort(kind.value_type)
    if pa.types.is_struct(kind):
        return str({field.name: _sort(field.type) for field in kind})
    if pa.types.is_map(kind):
        return f"map of {_sort(kind.key_type)} to {_sort(kind.item_type)}"
    if pa.types.is_list(kind):
        return f"list of {_sort(kind.value_type)}"
    if pa.types.is_integer(kind):
        return "integer"
    return "binary" if pa.types.is_fixed_size_binary(kind) else str(kind)
