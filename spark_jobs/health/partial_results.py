"""What pieces of a run tell `clocks`, with the names of its site and run.

A piece tells many small rows. They go to the task that puts them together as one value, an Arrow stream, since Spark
would turn each row from Arrow into its own form, sort it and turn it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from basestation.analysis.columns import filled
from spark_jobs.engines import PIECE
from spark_jobs.session import JobError, note
from spark_jobs.tables.stored import Piece, names_of

NAMED = (("site", pa.string()), ("run", pa.string()))
FAULT = "fault"  # why a run can't be read; in a row of its own, so that other runs go on
PACKED = pa.schema([*NAMED, ("stream", pa.binary()), (FAULT, pa.string())])


def schema_of(columns: Iterable[Any]) -> pa.Schema:
    return pa.schema([*NAMED, *columns, (FAULT, pa.string())])


def packed(names: Mapping[str, Any], table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A table as one row of `PACKED`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    yield from filled({**names, "stream": sink.getvalue().to_pybytes()}, PACKED, 1).to_batches()


def unpacked(rows: pa.Table) -> pa.Table:
    """All that rows of `PACKED` hold."""
    return pa.concat_tables(pa.ipc.open_stream(stream.as_buffer()).read_all() for stream in rows["stream"])


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


def of_piece(piece: Piece, tell: Callable[[Piece], Iterator[pa.Table]]) -> Iterator[pa.RecordBatch]:
    """What a piece of a run tells, or its fault."""
    names = names_of(piece.run)
    try:
        if tables := list(tell(piece)):
            yield from packed(names, pa.concat_tables(tables))
    except JobError as error:
        yield from fault(names, str(error))


def fault(names: Mapping[str, Any], why: str) -> Iterator[pa.RecordBatch]:
    yield from filled({**names, FAULT: why}, PACKED, 1).to_batches()


def fault_in(table: pa.Table) -> str | None:
    """The first fault among these rows."""
    told: list[str] = table[FAULT].drop_null().to_pylist()
    return told[0] if told else None


def note_all(faults: Mapping[str, str]) -> None:
    for why in faults.values():
        note(why)
