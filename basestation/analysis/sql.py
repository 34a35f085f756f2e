"""SQL over tables of Arrow's, in this process: the text that Spark takes, read by DuckDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from basestation.analysis.errors import JobError

UTC = pa.timestamp("us", "UTC")  # as times of Spark's are
LIKE_SPARK = "CREATE MACRO timestamp_micros(micros) AS make_timestamp(micros)"


def query(text: str, /, **given: Any) -> pa.Table:
    """The rows of a query. A name in braces is a table, or rows that come batch by batch, or a number."""
    import duckdb  # not before it is needed: the commands' help is quick without it

    numbers, tables = split(given)
    with duckdb.connect() as database:
        database.execute(LIKE_SPARK)
        for name, table in tables.items():
            database.register(name, table)
        try:
            found = database.sql(text.format(**{name: name for name in tables} | numbers)).to_arrow_table()
        except duckdb.OutOfRangeException as error:
            raise JobError(f"values beyond their range: {error}") from None
    utc = [item.with_type(UTC) if pa.types.is_timestamp(item.type) else item for item in found.schema]
    return found.cast(pa.schema(utc))


def split(given: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Numbers as doubles in SQL, where a plain 0.5 is a decimal; and tables."""
    numbers = {
        name: f"CAST('{one}' AS DOUBLE)" for name, one in given.items() if isinstance(one, int | float)
    }
    return numbers, {name: one for name, one in given.items() if name not in numbers}
