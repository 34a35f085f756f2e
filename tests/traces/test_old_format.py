"""Tables of format 1, as older versions wrote them, give the answers that those of today give."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, generate
from basestation.traces import schema
from basestation.traces.files import read_trace, write_trace
from packet_formats.layout import layout_of
from spark_jobs.run import run
from spark_jobs.tables.stored import manifest

OPTIONS = WorldOptions(messages=500, motes=4, epsilon=4, delta=6, rate=0.2, loss=0.1, seed=5)
NEW = ["number", "values", "causes"]
WORDS = pa.dictionary(pa.int8(), pa.string())
NARROW = {
    "source": pa.uint16(), "boot": pa.uint8(), "am_type": pa.uint8(), "heard_time": pa.uint32(), "mote": pa.uint16(),
    "gateway": pa.uint16(), "rssi": pa.int8(), "lqi": pa.uint8(), "r": pa.int64(), "c": pa.uint16(), "line": pa.uint8(),
    "hops": pa.uint8(), "epoch": pa.uint8(), "kind": WORDS, "fate": WORDS,
}  # fmt: skip


def old(table, deployment):
    """A table of messages, events or frames as format 1 had it."""
    columns = {name: table[name] for name in table.column_names}
    if "ends" in columns:
        del columns["number"]
    if "stamp" in columns:
        layout, vector = layout_of(deployment), pa.binary(4 * deployment.network.motes)
        stamps = columns["stamp"].to_pylist()
        flat = {name: pa.array([stamp[name] for stamp in stamps], NARROW[name]) for name in ("r", "c")}
        for i in range(layout.stamp.entries):
            flat[f"kn{i}"] = pa.array([stamp["kn"][i] for stamp in stamps], pa.uint16())
        places = [
            (name, flat if name == "stamp" else {name: columns[name]}) for name in columns if name not in NEW
        ]
        columns = {name: column for _, several in places for name, column in several.items()}
        columns |= {name: pa.array(columns[name].to_pylist(), vector) for name in ("vector", schema.LATER)}
        if not layout.stamp.is_variable:
            columns["payload"] = pa.array(columns["payload"].to_pylist(), pa.binary(layout.length))
    made = {name: column.cast(NARROW.get(name, column.type)) for name, column in columns.items()}
    return pa.table(made).replace_schema_metadata((table.schema.metadata or {}) | {b"causeway.format": b"1"})


def make_old(path, deployment):
    pq.write_table(old(pq.ParquetFile(path).read(), deployment), path)


@pytest.fixture(params=["kn", "dpc1", "shlc", "barrier"])
def traces(request, tmp_path):
    """The same run in both formats."""
    deployment = deployment_for(OPTIONS, build_named(OPTIONS, request.param), "cbd", 100)
    for name in ("new", "old"):
        write_trace(trace_of(generate(OPTIONS), deployment), tmp_path / name)
    for name in ("messages.parquet", "events.parquet"):
        make_old(tmp_path / "old" / name, deployment)
    assert pq.read_schema(tmp_path / "old/messages.parquet").field("source").type == pa.uint16()
    return tmp_path / "new", tmp_path / "old"


def test_an_old_trace_is_read_as_a_new_one(traces):
    new, before = map(read_trace, traces)
    assert before.messages.schema.equals(schema.messages_schema())
    assert before.messages.drop_columns(NEW) == new.messages.drop_columns(NEW)
    assert before.messages["number"].null_count == len(new.messages) > 300
    assert before.events.drop_columns(["number"]) == new.events.drop_columns(["number"])
    assert before.events["number"].null_count == len(new.events)


def answers(capsys, *words):
    capsys.readouterr()
    assert run(words[0], [*map(str, words[1:]), "--no-spark", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.few(1)
def test_continuum_answers_the_same(traces, capsys):
    asked = ("--scheme", "kn", "--scheme", "shlc", "--entries", "2", "--entries", "all", "--phi", "40")
    new, before = (answers(capsys, "continuum", trace, *asked) for trace in traces)
    assert before == new


def all_rows(stored, name, columns):
    return pa.concat_tables([rows for piece in stored.pieces(name) for rows in piece.batches(columns)])


def test_old_tables_of_ingest_are_read(traces, tmp_path):
    """And an old trace is taken in as a new one."""
    columns = {"messages": ["source", "number", "stamp.r", "stamp.c", "stamp.kn", "vector"]}
    columns["frames"] = ["journal", "kind", "line", "fate", "source", "gateway", "heard_time", "rssi"]
    found = []
    for trace in traces:
        tables = tmp_path / f"tables-{trace.name}"
        assert run("ingest", [str(trace), "--tables", str(tables), "--no-spark"]) == 0
        (stored,) = manifest(tables)
        found.append({name: all_rows(stored, name, columns[name]) for name in columns})
    new, before = found
    assert before["frames"] == new["frames"]
    assert before["messages"].drop_columns(["number"]) == new["messages"].drop_columns(["number"])
    for name in columns:
        (path,) = (tables / name).rglob("*.parquet")
        make_old(path, stored.deployment)
        assert all_rows(stored, name, columns[name]) == before[name]
        assert all_rows(stored, name, columns[name]).schema == new[name].schema
