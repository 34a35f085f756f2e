"""The tables of runs with different stamps, sizes and values are one table to every reader of Parquet, whole."""

import os
import struct
from importlib import import_module

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.analysis.report import details_of
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, generate
from basestation.traces.files import write_trace
from spark_jobs.run import run
from spark_jobs.traces.field import with_causes
from spark_jobs.traces.trace_files import open_trace, open_traces
from tests.journal.logs import VALUES, arrivals_of, with_values, write

# Scheme, motes, whether only a log of the run is there (its causes then come from its causal graph), and values.
RUNS = [("kn", 10, False, VALUES), ("shlc", 3, False, []), ("barrier", 6, True, [VALUES[0], VALUES[2]])]


def required(name):
    """A library only for tests. Where it is missing the test is skipped; in CI it fails."""
    if os.environ.get("CI") == "true":
        return import_module(name)
    return pytest.importorskip(name)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    place = tmp_path_factory.mktemp("one-table")
    for scheme, motes, is_field, values in RUNS:
        options = WorldOptions(messages=200, motes=motes, epsilon=10, delta=32, rate=0.05, loss=0.05, seed=7)
        deployment = deployment_for(options, build_named(options, scheme), "cbd", 100)
        trace = trace_of(generate(options), with_values(deployment, values))
        if is_field:
            write(place / "in" / scheme, arrivals_of(trace), trace.deployment, run=scheme)
        else:
            write_trace(trace, place / "in" / scheme)
    assert run("ingest", [str(place / "in"), "--tables", str(place / "tables"), "--no-spark"]) == 0
    for trace in open_traces([place / "tables"])[0]:
        with_causes(trace, place)
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
    """The rows by their content, each with the columns that its file has. A map may be a list of pairs."""
    told = ({**row, "values": row.get("values") and dict(row["values"])} for row in rows)
    return sorted(([(name, row[name]) for name in names] for row in told), key=repr)


@pytest.mark.few(5)
@pytest.mark.parametrize("read", [by_spark, by_duckdb, by_pandas, by_polars])
@pytest.mark.parametrize("name", ["messages", "frames", "events", "causes"])
def test_every_reader_sees_one_table(tables, request, read, name):
    files = [pq.ParquetFile(path) for path in sorted((tables / name).rglob("*.parquet"))]
    # A log has no events of motes, and its causes have a table of their own.
    assert len(files) == {"events": 2, "causes": 1}.get(name, 3)
    rows = [row for file in files for row in file.read().to_pylist()]
    names = files[0].schema_arrow.names
    assert ordered(read(tables / name, request), names) == ordered(rows, names)
    assert len(rows) > 150


def test_one_table_holds_all_stamps_sizes_and_causes(tables):
    """So that the test above has read them."""
    whole = pq.read_table(tables / "messages").to_pylist()
    assert {len(row["stamp"]["kn"]) for row in whole} == {1, 11, 12}
    graph = {(row["run"], row["batch"]): row for row in pq.read_table(tables / "causes").to_pylist()}
    told = [row | graph.get((row["run"], row["batch"]), {}) for row in whole]
    assert {len(row["vector"]) for row in told} == {4 * motes for _, motes, *_ in RUNS}
    assert all(struct.unpack_from("<i", row["vector"], 4 * row["source"]) == (row["number"],) for row in told)
    causes = [row["causes"] for row in told]
    assert None in causes
    assert [] in causes
    assert max(len(named or ()) for named in causes) > 1
    assert {row["vector_most"] is None for row in told} == {True, False}
    told = {tuple(name for name, _ in row["values"] or ()) for row in whole}
    assert told == {("light", "count", "t"), (), ("light", "t")}


def test_a_report_has_the_values(tables):
    runs = [
        open_trace(folder)
        for folder in sorted({path.parent for path in (tables / "messages").rglob("*.parquet")})
    ]
    (kn,) = (run for run in runs if run.deployment.stamp.scheme == "kn")
    assert "<td>light [lx]</td><td>0.0</td>" in "".join(details_of(kn, []))
    (plain,) = (run for run in runs if not run.deployment.data)
    assert "Values" not in "".join(details_of(plain, []))


def test_a_value_is_asked_for_by_its_name(tables, request):
    """The same words in SQL, in DuckDB and in Spark."""
    place = f"'{tables}/messages/**/*.parquet', hive_partitioning = true"
    by_duckdb = required("duckdb").sql(
        f"select values.light from read_parquet({place}) where values.light > 9"
    )
    spark = request.getfixturevalue("spark")
    by_spark = spark.read.parquet(str(tables / "messages")).selectExpr("values.light").where("light > 9")
    rows = pq.read_table(tables / "messages", columns=["values"]).to_pylist()
    light = sorted(value for row in rows if (value := dict(row["values"] or ()).get("light", 0)) > 9)
    assert len(light) > 100
    assert sorted(value for (value,) in by_duckdb.fetchall()) == light
    assert sorted(row.light for row in by_spark.collect()) == light
