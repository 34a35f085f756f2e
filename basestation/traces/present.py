"""Reads the tables of any format as those of the present one.

Format 1 had the stamp in columns of its own, `r`, `c`, `kn0`, ..., as many as the deployment's stamp had entries; types
as narrow as their fields; and neither `number` nor `causes` nor, at first, `vector_most`. Tables of format 2 that were
written before a deployment could name its data have no `values`; before messages told the age of their event, no
`age_ms` and `again`; and `age_or_more` came last. The events of older tables have no `number`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import schema

STAMP = "stamp"
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
    """What to read of a file with the columns `found`, to get the `wanted` ones (`stamp.r`: a part of a column)."""
    return [*dict.fromkeys(name for one in wanted for name in _stored(found, one))]


def _stored(found: Sequence[str], wanted: str) -> Iterator[str]:
    head, _, part = wanted.partition(".")
    if head in found:
        yield wanted
    elif head == STAMP:
        yield from (name for name in ("r", "c") if part in ("", name) and name in found)
        if part in ("", "kn"):
            yield "r"  # it says how many rows there are, where stamps have no entries
            yield from (f"kn{i}" for i in range(_entries(found)))


def _entries(found: Sequence[str]) -> int:
    """How many entries of kn a table of format 1 has."""
    return next(i for i in range(len(found) + 1) if f"kn{i}" not in found)


def names_in(found: Sequence[str], entries: int) -> list[str]:
    """The columns of a table of messages in the format that `found` seems to have; its stamps have `entries`."""
    names: list[str] = schema.messages_schema().names
    if "r" in found:
        at = names.index(STAMP)
        names[at : at + 1] = ["r", "c", *(f"kn{i}" for i in range(entries))]
    return [name for name in names if name in found or name not in ADDED]


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
    if head == STAMP:
        return _old_stamp(table, part)
    return pa.chunked_array([pa.nulls(len(table), kind)])


def _old_stamp(table: pa.Table, part: str) -> pa.ChunkedArray:
    if part in ("r", "c"):
        return table[part].cast(schema.STAMP.field(part).type)
    kn = np.zeros((len(table), _entries(table.column_names)), np.int32)
    for i in range(kn.shape[1]):
        kn[:, i] = table[f"kn{i}"].to_numpy()
    if part:
        return pa.chunked_array([schema.list_column(kn)])
    return pa.chunked_array([schema.stamp_column(table["r"].to_numpy(), table["c"].to_numpy(), kn)])


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
    if field.name in ADDED:
        return None
    flat = field.name == STAMP and "r" in found.names
    absent = [name for name in (("r", "c") if flat else (field.name,)) if name not in found.names]
    return f"the column {absent[0]} is missing" if absent else None


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
