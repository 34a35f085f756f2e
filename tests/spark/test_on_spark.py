"""By Spark as without it: the same rows, and a fault is one line all the same."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.engines import Spark
from spark_jobs.run import run
from spark_jobs.traces.trace_files import TraceFault

OPTIONS = WorldOptions(messages=3000, motes=5, epsilon=3, delta=4, loss=0.05, seed=9)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark-trace") / "trace"
    shlc = build_scheme(OPTIONS, "shlc")
    write_trace(trace_of(generate(OPTIONS), deployment_for(OPTIONS, shlc, "cbd", 100)), folder)
    return folder


def test_spark_gives_what_threads_give(spark, trace, capsys):
    def rows(how):
        stamps = ["--scheme", "kn", "--scheme", "shlc", "--entries", "1", "--packing", "bits", "--phi", "40"]
        assert run("continuum", [str(trace), how, *stamps, "--segment", "700", "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    by_spark = rows("--spark")
    assert by_spark == rows("--no-spark")
    assert {row["answered"] for row in by_spark} == {"recorded", "restamped"}


def test_results_come_in_the_order_of_the_tasks(spark):
    assert list(Spark(spark).each(abs, range(-7, 0))) == [7, 6, 5, 4, 3, 2, 1]
    assert list(Spark(spark).each(abs, [])) == []


def test_a_fault_in_a_worker_is_named(spark, trace, tmp_path, capsys):
    table = pq.read_table(trace / "messages.parquet")
    metadata = table.schema.metadata
    place = table.schema.get_field_index("source")
    sources = table["source"].to_pylist()
    sources[1234] = 5
    field = table.schema.field(place)
    broken = table.set_column(place, field, pa.array(sources, field.type)).replace_schema_metadata(metadata)
    pq.write_table(broken, tmp_path / "messages.parquet")
    assert run("continuum", [str(tmp_path), "--spark", "--segment", "700"]) == 1
    assert "row 1234: mote 5, but the deployment has 5 motes" in capsys.readouterr().err


def test_a_fault_raised_there_is_raised_here(spark):
    with pytest.raises(TraceFault, match="of no use"):
        Spark(spark).each(refuse, [1, 2])


def refuse(task):
    raise TraceFault("of no use")
