"""What `links` and `clocks` share: the rows that pieces of a run tell, each with the names of its site and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from basestation.analysis.columns import filled
from spark_jobs.engine import PIECE
from spark_jobs.session import JobError, note
from spark_jobs.tables.stored import Piece, names_of

NAMED = (("site", pa.string()), ("run", pa.string()))
FAULT = "fault"  # why a run can't be read; in a row of its own, so that other runs go on
NOBODY = -1  # the mote of a fault: groups need a key


def schema_of(columns: Iterable[Any]) -> pa.Schema:
    return pa.schema([*NAMED, *columns, (FAULT, pa.string())])


def named(names: Mapping[str, Any], table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A table's rows, with the names of their run; columns that it does not have are null."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    yield from filled({**columns, **names}, schema, len(table)).to_batches()


def by_run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[dict[str, str], pa.Table]]:
    """Rows of several runs, many at a time, each run's by themselves."""
    for table in gathered(pa.Table.from_batches([batch]) for batch in batches):
        for pair in table.select(["site", "run"]).group_by(["site", "run"]).aggregate([]).to_pylist():
            yield pair, table.filter(pc.and_(*(pc.equal(table[name], text) for name, text in pair.items())))


def gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of some size."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= PIECE:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def of_piece(
    piece: Piece, schema: pa.Schema, tell: Callable[[Piece], Iterator[pa.Table]]
) -> Iterator[pa.RecordBatch]:
    """What a piece of a run tells, or its fault."""
    names = names_of(piece.run)
    try:
        for table in tell(piece):
            yield from named(names, table, schema)
    except JobError as error:
        yield from fault(names, str(error), schema)


def fault(names: Mapping[str, Any], why: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield from filled({**names, FAULT: why, "mote": NOBODY}, schema, 1).to_batches()


def fault_in(table: pa.Table) -> str | None:
    """The first fault among these rows."""
    told: list[str] = table[FAULT].drop_null().to_pylist()
    return told[0] if told else None


def note_all(faults: Mapping[str, str]) -> None:
    for why in faults.values():
        note(why)
