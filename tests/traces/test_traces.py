"""A run survives its trace: the same stream, truth and payloads come back, and wrong folders are refused in words."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from basestation.deployed import timed_scheme_of
from basestation.simulator import engine
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.simulated_trace import deployment_for, stream_of, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import TraceError, read_trace, write_trace
from basestation.traces.present import ADDED
from basestation.traces.schema import age_columns
from packet_formats import bulk
from packet_formats.deployment import load
from packet_formats.layout import layout_of

OPTIONS = WorldOptions(messages=3000, loss=0.1, seed=3)
SCHEMES = [("kn", "all"), ("kn", 2), ("dpc1", "all"), ("dpc2", "all"), ("hlc", "all"), ("shlc", "all")]


@pytest.fixture(scope="module")
def run():
    return generate(OPTIONS)


@pytest.mark.parametrize(("name", "entries"), SCHEMES)
def test_a_trace_comes_back_whole(tmp_path, run, name, entries):
    scheme = build_scheme(OPTIONS, name, entries=entries)
    deployment = deployment_for(OPTIONS, scheme, "cbd", 40)
    assert timed_scheme_of(deployment) == scheme
    written = trace_of(run, deployment)
    write_trace(written, tmp_path / "trace")
    back = read_trace(tmp_path / "trace")
    assert (back.run, back.deployment, back.origin) == (written.run, deployment, written.origin)
    assert back.messages.equals(written.messages)
    assert back.events.equals(written.events)
    stream, vectors = stream_of(back)
    for field in fields(stream):
        assert np.array_equal(getattr(stream, field.name), getattr(run.stream, field.name)), field.name
    assert np.array_equal(vectors, run.vectors)


def test_columns_that_older_tables_lack_are_null(tmp_path, run):
    written = trace_of(run, deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 40))
    write_trace(written, tmp_path)
    for name in ("messages", "events"):
        path = tmp_path / f"{name}.parquet"
        table = pq.read_table(path)
        pq.write_table(table.drop_columns([one for one in ADDED if one in table.column_names]), path)
    back = read_trace(tmp_path)
    for found, table in ((back.messages, written.messages), (back.events, written.events)):
        added = [one for one in ADDED if one in table.column_names]
        assert found.drop_columns(added) == table.drop_columns(added)
        assert all(found[one].null_count == len(table) for one in added)


@pytest.mark.parametrize(("name", "entries"), SCHEMES)
def test_the_columns_are_what_the_payload_says(run, name, entries):
    deployment = deployment_for(OPTIONS, build_scheme(OPTIONS, name, entries=entries), "cbd", 100)
    messages = trace_of(run, deployment).messages
    scheme, layout = timed_scheme_of(deployment), layout_of(deployment)
    raw = np.frombuffer(b"".join(messages["payload"].to_pylist()), np.uint8).reshape(len(messages), -1)
    rows, reasons = bulk.decode_data(bulk.Frames.of_payloads(raw, layout), layout)
    assert not reasons.any()
    for i in range(0, len(messages), 97):
        values = [int(rows["clock"][i]), *([int(rows["c"][i])] if scheme.carries_c else [])]
        read = scheme.decode([*values, *rows["entries"][i].tolist()], messages["heard"][i].as_py())
        stamp = scheme.observe(read, messages["heard"][i].as_py())
        assert {"r": stamp.r, "c": stamp.c, "kn": list(stamp.kn)} == messages["stamp"][i].as_py()
        assert rows["sequence"][i] == messages["sequence"][i].as_py() % 256
        assert messages["heard_time"][i].as_py() >> deployment.clock.tick_log2 == messages["heard"][i].as_py()


def test_the_vector_column_is_the_truth(run):
    deployment = deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100)
    messages = trace_of(run, deployment).messages
    raw = np.frombuffer(b"".join(messages["vector"].to_pylist()), "<i4").reshape(len(messages), -1)
    assert np.array_equal(raw, engine.vector_clocks(run.stream)[run.stream.arrival_message])


def test_the_run_id_tells_runs_apart(run):
    deployment = deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100)
    other = generate(WorldOptions(messages=3000, loss=0.1, seed=4))
    assert trace_of(run, deployment).run == trace_of(generate(OPTIONS), deployment).run
    assert trace_of(run, deployment).run != trace_of(other, deployment).run


def test_a_trace_is_never_overwritten(tmp_path, run):
    trace = trace_of(run, deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100))
    write_trace(trace, tmp_path)
    with pytest.raises(TraceError, match="never overwritten"):
        write_trace(trace, tmp_path)


def test_of_many_writers_at_once_one_wins_and_its_trace_is_whole(tmp_path):
    runs = [generate(WorldOptions(messages=300, seed=seed)) for seed in range(4)]
    traces = [
        trace_of(run, deployment_for(run.options, build_scheme(run.options, "shlc"), "cbd", 100))
        for run in runs
    ]
    barrier = threading.Barrier(len(traces))

    def write(trace):
        barrier.wait()
        try:
            write_trace(trace, tmp_path / "trace")
        except TraceError:
            return None
        return trace.run

    with ThreadPoolExecutor(len(traces)) as pool:
        won = [run for run in pool.map(write, traces) if run is not None]
    assert len(won) == 1
    assert read_trace(tmp_path / "trace").run == won[0]
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_tables_of_two_runs_never_mix(tmp_path):
    for seed, name in ((1, "a"), (2, "b")):
        run = generate(WorldOptions(messages=300, seed=seed))
        deployment = deployment_for(run.options, build_scheme(run.options, "shlc"), "cbd", 100)
        write_trace(trace_of(run, deployment), tmp_path / name)
    (tmp_path / "a" / "events.parquet").replace(tmp_path / "b" / "events.parquet")
    with pytest.raises(TraceError, match="two runs"):
        read_trace(tmp_path / "b")


def test_a_run_of_which_nothing_arrived_is_a_trace_too(tmp_path):
    options = WorldOptions(messages=50, loss=1.0)
    deployment = deployment_for(options, build_scheme(options, "shlc"), "cbd", 100)
    write_trace(trace_of(generate(options), deployment), tmp_path / "trace")
    assert len(read_trace(tmp_path / "trace").messages) == 0


def test_a_modulus_that_no_wire_has_is_refused():
    with pytest.raises(OptionError, match="power of two"):
        deployment_for(OPTIONS, build_scheme(OPTIONS, "kn", modulus=31), "cbd", 100)


def test_what_is_no_trace_is_refused_in_words(tmp_path, run):
    with pytest.raises(TraceError, match="does not exist"):
        read_trace(tmp_path)
    (tmp_path / "messages.parquet").write_bytes(b"PAR1 but cut off")
    with pytest.raises(TraceError, match=r"messages\.parquet"):
        read_trace(tmp_path)
    trace = trace_of(run, deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100))
    pq.write_table(trace.messages, tmp_path / "messages.parquet")
    with pytest.raises(TraceError, match="format none"):
        read_trace(tmp_path)


def test_a_trace_without_events_says_so(tmp_path, run):
    trace = trace_of(run, deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100))
    write_trace(trace, tmp_path)
    (tmp_path / "events.parquet").unlink()
    with pytest.raises(TraceError, match="no events"):
        stream_of(read_trace(tmp_path))


def moved(table, name, rows, value):
    values = table[name].to_pylist()
    for row in rows:
        values[row] = value
    place = table.schema.get_field_index(name)
    return table.set_column(
        place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
    )


def test_events_that_can_not_have_happened_are_refused(run):
    """Each of these would else have been taken for another message, and counted as if nothing were wrong."""
    trace = trace_of(run, deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100))
    events, messages = trace.events, trace.messages
    kinds = events["kind"].to_pylist()
    send, receipt = kinds.index("send"), kinds.index("receive")
    last = max(events.filter(pc.equal(events["mote"], 0))["number"].to_pylist())
    beyond = moved(moved(messages, "source", [5], 0), "number", [5], last + 5)
    for changed, words in [
        ({"messages": beyond}, "nobody sent"),
        ({"messages": moved(messages, "number", [5], -1)}, "nobody sent"),
        ({"messages": moved(messages, "source", [5], OPTIONS.motes)}, "but the deployment has"),
        ({"events": moved(events, "mote", [receipt], OPTIONS.motes)}, "but the deployment has"),
        (
            {"events": moved(events, "source", [send], (events["mote"][send].as_py() + 1) % 2)},
            "in the name of",
        ),
        (
            {"events": events.take(pa.array([receipt, *(i for i in range(len(events)) if i != receipt)]))},
            "before",
        ),
    ]:
        with pytest.raises(TraceError, match=words):
            stream_of(replace(trace, **changed))


def test_the_columns_of_an_events_age(root):
    layout = layout_of(load(root / "examples/micaz_months.toml"))
    rows = np.array([(8,), (191,), (193,), (255,)], [("event_age", np.uint8)])
    columns = {name: column.tolist() for name, column in age_columns(rows, layout).items()}
    assert columns == {
        "age_ms": [1000, 23875, 1000, 63000],
        "age_or_more": [False, True, False, True],
        "again": [False, False, True, True],
    }
