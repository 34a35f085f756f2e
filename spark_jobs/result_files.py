"""Writes the results of a job: Parquet and CSV tables, and a report. Each file appears completely or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from basestation.analysis.dataclass_tables import table_of
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.page import page
from basestation.analysis.report import TraceFacts, continuum_parts
from spark_jobs.storage import Place, write_whole


def write_rows(out: Place, name: str, rows: Sequence[Any]) -> None:
    """Write rows of a dataclass."""
    write_tables(out, {name: table_of(rows)})


def write_tables(out: Place, tables: dict[str, pa.Table]) -> None:
    """Write each table as Parquet, and as CSV for people."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        parquet, csv = BytesIO(), BytesIO()
        pq.write_table(table, parquet, compression="zstd")
        pa_csv.write_csv(_flat(table), csv)
        write_whole(out / f"{name}.parquet", parquet.getvalue())
        write_whole(out / f"{name}.csv", csv.getvalue())


def _flat(table: pa.Table) -> pa.Table:
    """The table with lists as text: their values with blanks between."""
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            words = [" ".join(map(str, value)) for value in table[field.name].to_pylist()]
            table = table.set_column(place, field.name, pa.array(words))
    return table


def write_page(out: Place, title: str, parts: Iterable[str]) -> None:
    """Write `report.html`."""
    write_whole(out / "report.html", page(title, parts).encode())


def write_continuum(out: Place, traces: Sequence[TraceFacts], rows: Sequence[ContinuumRow]) -> None:
    """Write the table of a continuum, and its report."""
    write_rows(out, "continuum", rows)
    each = [(trace, [row for row in rows if row.run == trace.run]) for trace in traces]
    parts = [part for trace, mine in each for part in continuum_parts(trace, mine)]
    write_page(out, "The continuum of timestamp widths", parts)
