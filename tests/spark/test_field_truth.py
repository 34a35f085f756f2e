"""What a field log answers: the bounds hold the truth of the same run between them."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from basestation.journal.field_truth import FieldReader
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, generate
from basestation.traces.files import write_trace
from basestation.traces.schema import LATER
from packet_formats.keys import write_key
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.seal import Seal
from spark_jobs.run import run
from tests.journal.logs import arrivals_of, write
from tests.live.test_guard import KEY, honest_line, put, read
from tests.live.test_guard import deployment as guarded
from tests.spark.test_ingest_parts import with_graph
from tests.spark.test_sealed_ingest import logged

OPTIONS = WorldOptions(messages=900, motes=6, epsilon=3, delta=32, rate=0.0156, loss=0.05, seed=5)
FIGURES = ("pairs", "backward", "forward", "mean", "any", "related")


@pytest.fixture(scope="module")
def barrier():
    deployment = deployment_for(OPTIONS, build_named(OPTIONS, "barrier"), "cbd", 100)
    return trace_of(generate(OPTIONS), deployment)


@pytest.fixture(scope="module")
def tables(barrier, tmp_path_factory):
    """The tables of a log of that run: what its gateway heard, and nothing else."""
    place = tmp_path_factory.mktemp("field")
    write(place / "log", arrivals_of(barrier), barrier.deployment, run="field")
    assert run("ingest", [str(place / "log"), "--tables", str(place / "tables"), "--no-spark"]) == 0
    return place / "tables"


def printed(capsys, job, *words, code=0):
    capsys.readouterr()
    assert run(job, ["--json", "--no-spark", *map(str, words)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_tables_hold_what_surely_led_to_a_message_and_what_may_have(barrier, tables):
    messages = with_graph(tables)
    assert len(messages) == len(barrier.messages)
    assert messages["vector"].null_count == 0
    unsure = len(messages) - messages[LATER].null_count
    assert 0 < unsure < 0.3 * len(messages)


def test_the_named_causes_are_true_and_explain_the_vectors(barrier, tables):
    rows = with_graph(tables).to_pylist()
    truth = {(row["source"], row["number"]): numbers(row) for row in barrier.messages.to_pylist()}
    known = {(row["source"], row["number"]): numbers(row) for row in rows}
    explained = named = 0
    for row in rows:
        own = row["source"], row["number"]
        causes = [(cause["source"], cause["number"]) for cause in row["causes"]]
        assert all(source != own[0] and number <= truth[own][source] for source, number in causes)
        before = [*causes, *([(own[0], own[1] - 1)] if own[1] > 1 else [])]
        named += len(causes)
        if all(cause in known for cause in before):
            told = np.max([known[cause] for cause in before] or [[0] * OPTIONS.motes], axis=0)
            told[own[0]] = own[1]
            assert known[own] == told.tolist()
            explained += 1
    assert explained > 0.8 * len(rows)
    assert named > 0.8 * len(rows)


def numbers(row):
    return np.frombuffer(row["vector"], "<i4").tolist()


def test_causes_are_noted_before_they_leave_the_window(barrier):
    small, large = (FieldReader(barrier.deployment, window) for window in (150, 4096))
    for reader in (small, large):
        reader.read(barrier.messages)
        reader.finish()
    count = len(barrier.messages)
    assert [node.note for node in small.take(count)] == [node.note for node in large.take(count)]


def test_the_continuum_of_a_field_log_lies_around_the_truth(barrier, tables, tmp_path, capsys):
    words = ("--scheme", "shlc", "--policy", "none", "--policy", "cbd", "--phi", 100, "--phi", 40)
    (first, *_) = field = printed(capsys, "continuum", tables, *words)
    write_trace(barrier, tmp_path / "told")
    (true, *_) = printed(capsys, "continuum", tmp_path / "told", *words)
    assert first["policy"] == true["policy"] == "none"
    for figure in FIGURES:
        assert first[figure] <= true[figure] <= first[f"{figure}_most"]
        assert true[f"{figure}_most"] == true[figure]
    assert 0 < first["mean"] < first["mean_most"] < 2 * first["mean"]
    assert {row["answered"] for row in field} == {"graph"}
    assert 70 < first["complete"] < 100 == true["complete"]


def test_a_complete_message_lacks_only_causes_that_had_come_before_it_was_sent(barrier, tables, capsys):
    """The share of complete messages says so, and the number of related pairs has bounds."""
    rows = {(row["source"], row["number"]): row for row in with_graph(tables).to_pylist()}
    lacking = related = 0
    wrap = (1 << 32) >> barrier.deployment.clock.tick_log2  # the base station's clock begins there
    for true in barrier.messages.to_pylist():
        known = rows[true["source"], true["number"]]
        for mote, (told, all_of) in enumerate(zip(numbers(known), numbers(true), strict=True)):
            causes = [rows[mote, number] for number in range(1, all_of + 1) if (mote, number) in rows]
            related += len(causes)
            if known[LATER] is None:
                missing = [cause for cause in causes if cause["number"] > told]
                lacking += len(missing)
                assert all(cause["heard"] - wrap <= true["sent"] for cause in missing)
    related -= len(rows)  # no message is its own cause
    words = ("--scheme", "shlc", "--policy", "cbd", "--phi", 100)
    row = printed(capsys, "continuum", tables, *words)[0]
    assert row["related_pairs"] < related <= row["related_pairs_most"]
    assert lacking > 100
    assert run("continuum", [str(tables), "--no-spark", *map(str, words)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "except for causes that had come before the message was sent" in said


def test_a_recommendation_goes_by_the_upper_bound(tables, capsys):
    words = ("--scheme", "shlc", "--policy", "cbd", "--phi", 0)
    (advice, *_) = printed(capsys, "recommend", tables, "--tolerance", 20, *words)
    assert advice["violations"] <= advice["violations_most"] <= 20
    capsys.readouterr()
    assert run("recommend", [str(tables), "--no-spark", "--tolerance", "0.001", *map(str, words)]) == 1
    assert "the fewest violations are at least" in capsys.readouterr().out


FREE = ("run", "arrived", "out_of_sync", "unknown", "wire_bytes")  # what differs where more messages came


@pytest.mark.wide
def test_three_messages_without_causes_do_not_blind_a_log(tmp_path, capsys):
    """With a key a message out of sync has no number, so its causes are unknown. The others are judged."""
    network = guarded("barrier")
    layout, line, key = layout_of(network), honest_line(network, 1230), tmp_path / "site.key"
    write_key(KEY, key)
    first = [arrival for arrival in line[:20] if isinstance(read(arrival, network)[1], Data)][:3]
    strays = [
        put(
            Seal(KEY, layout).sealed_data(replace(data, sequence=255, in_sync=False, mic=b""), 3, 12345),
            arrival,
        )
        for arrival, data in ((arrival, read(arrival, network)[1]) for arrival in first)
    ]
    found = []
    for name, frames in (("alone", line), ("among", [*line[:20], *strays, *line[20:]])):
        logged(tmp_path / name / "logs", name, network, frames)
        words = [tmp_path / name / "logs", "--key", key, "--tables", tmp_path / name / "tables", "--no-spark"]
        assert run("ingest", list(map(str, words))) == 0
        found.append(printed(capsys, "continuum", tmp_path / name / "tables"))
    alone, among = found
    assert with_graph(tmp_path / "among" / "tables")["vector"].null_count == 3
    silent = [row["reason"] for row in among if row["answered"] == "no"]
    assert silent == [row["reason"] for row in alone if row["answered"] == "no"]
    assert len(silent) == 1 < len(among) == len(alone)  # delta-vector: a mote sent twice in a tick
    assert (among[0]["arrived"], among[0]["out_of_sync"], among[0]["unknown"]) == (
        alone[0]["arrived"] + 3,
        3,
        0,
    )
    assert [without(row, FREE) for row in among] == [without(row, FREE) for row in alone]
    (told,) = printed(capsys, "compare", tmp_path / "among" / "tables", "--scheme", "shlc")
    assert (told["arrived"], told["unknown"]) == (alone[0]["arrived"], 3)


def without(row, names):
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize("scheme", ["barrier", "kn"])
def test_messages_in_sync_without_causes_are_left_out_and_counted(tmp_path, capsys, scheme):
    """The figures are those of the trace without these messages."""
    deployment = deployment_for(OPTIONS, build_named(OPTIONS, scheme), "cbd", 100)
    trace = replace(trace_of(generate(OPTIONS), deployment), events=None)
    without_causes = np.zeros(len(trace.messages), np.bool_)
    without_causes[[3, 200, 201, 500]] = True
    schema, vectors = trace.messages.schema, trace.messages["vector"]
    nulls = pc.if_else(pa.array(without_causes), pa.scalar(None, vectors.type), vectors)
    lacking = trace.messages.set_column(schema.get_field_index("vector"), schema.field("vector"), nulls)
    write_trace(replace(trace, messages=lacking), tmp_path / "lacking")
    write_trace(
        replace(trace, messages=trace.messages.filter(pa.array(~without_causes))), tmp_path / "shorter"
    )
    lacking, shorter = (printed(capsys, "continuum", tmp_path / name) for name in ("lacking", "shorter"))
    answered = [row for row in lacking if row["answered"] != "no"]
    assert {(row["unknown"], row["out_of_sync"]) for row in answered} == {(4, 0)}
    assert [without(row, FREE) for row in lacking] == [without(row, FREE) for row in shorter]
    assert {row["complete"] for row in answered} == {100}
    assert run("continuum", ["--no-spark", "--phi", "100", str(tmp_path / "lacking")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 messages in no figure: their causes are unknown." in said
