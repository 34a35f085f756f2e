"""The tables of runs with different stamps and sizes are one table to every reader of Parquet, whole."""

import os
import struct
from importlib import import_module

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, generate
from basestation.traces.files import write_trace
from spark_jobs.run import run
from tests.journal.logs import arrivals_of, write

# Scheme, motes, and whether only a log of the run is there: its causes then come from its causal graph.
RUNS = [("kn", 10, False), ("shlc", 3, False), ("barrier", 6, True)]


def required(name):
    """A library for tests alone. Where it is missing the test is skipped; in CI it fails."""
    if os.environ.get("CI") == "true":
        return import_module(name)
    return pytest.importorskip(name)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    place = tmp_path_factory.mktemp("one-table")
    for scheme, motes, is_field in RUNS:
        options = WorldOptions(messages=200, motes=motes, epsilon=10, delta=32, rate=0.05, loss=0.05, seed=7)
        trace = trace_of(generate(options), deployment_for(options, build_named(options, scheme), "cbd", 100))
        if is_field:
            write(place / "in" / scheme, arrivals_of(trace), trace.deployment, run=scheme)
        else:
            write_trace(trace, place / "in" / scheme)
    assert run("ingest", [str(place / "in"), "--tables", str(place / "tables"), "--no-spark"]) == 0
    return place / "tables"


def by_spark(folder, request):
    return request.getfixturevalue("spark").read.parquet(str(folder)).toArrow().to_pylist()


def by_duckdb(folder, _):
    found = required("duckdb").sql(
        f"select * from read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    )
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def by_pandas(folder, _):
    frame = pd.read_parquet(folder, dtype_backend="pyarrow")  # its own types have no integer that is unknown
    return pa.Table.from_pandas(frame, preserve_index=False).to_pylist()


def by_polars(folder, _):
    found = required("polars").read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True)
    return found.to_dicts()


def ordered(rows, names):
    """The rows by their values, each with the columns that its file has."""
    return sorted(([(name, row[name]) for name in names] for row in rows), key=repr)


@pytest.mark.parametrize("read", [by_spark, by_duckdb, by_pandas, by_polars])
@pytest.mark.parametrize("name", ["messages", "frames", "events"])
def test_every_reader_sees_one_table(tables, request, read, name):
    files = [pq.ParquetFile(path) for path in sorted((tables / name).rglob("*.parquet"))]
    assert len(files) == len(RUNS) - (name == "events")  # a log tells nothing of the motes' events
    rows = [row for file in files for row in file.read().to_pylist()]
    names = files[0].schema_arrow.names
    assert ordered(read(tables / name, request), names) == ordered(rows, names)
    assert len(rows) > 400


def test_one_table_holds_all_stamps_sizes_and_causes(tables):
    """So that the test above has read them."""
    whole = pq.read_table(tables / "messages").to_pylist()
    assert {len(row["stamp"]["kn"]) for row in whole} == {1, 11, 12}
    assert {len(row["vector"]) for row in whole} == {4 * motes for _, motes, _ in RUNS}
    assert all(
        struct.unpack_from("<i", row["vector"], 4 * row["source"]) == (row["number"],) for row in whole
    )
    causes = [row["causes"] for row in whole]
    assert None in causes
    assert [] in causes
    assert max(len(told or ()) for told in causes) > 1
    assert {row["vector_most"] is None for row in whole} == {True, False}
