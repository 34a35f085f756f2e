"""The continuum of a trace equals what `basestation simulate` measures, whatever stamp the trace carries; what it can't
tell, it says."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from basestation.analysis.choices import Choice, candidates, missing_in, refused
from basestation.analysis.outcome import ContinuumRow
from basestation.causality.policy_choice import PolicyChoice
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import (
    MemoryFault,
    build_named,
    build_scheme,
    generate,
    measure,
    measure_rule,
)
from basestation.traces.files import Trace, write_trace
from packet_formats.deployment import load
from packet_formats.schemes import ordered
from spark_jobs.engines import Cores
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.run import run
from spark_jobs.traces.trace_files import open_trace

OPTIONS = WorldOptions(messages=1500, motes=6, epsilon=4, delta=6, rate=0.2, loss=0.1, seed=5)
CHOICE = Choice(counts=("events", "sends"), phis=(0, 40, 100), tolerates=(0.0, 3.0))
SMALL = Choice(
    schemes=("dpc1", "kn"), entries=(2, "all"), packings=("bits",), policies=("none", "cbd"), phis=(40,)
)


@pytest.fixture(scope="module")
def simulated():
    return generate(OPTIONS)


def written(place: Path, run_, name="kn", entries="all", **changes) -> Path:
    scheme = build_scheme(OPTIONS, name, entries=entries)
    trace = trace_of(run_, deployment_for(OPTIONS, scheme, "cbd", 100))
    write_trace(replace(trace, **changes), place)
    return place


def rows_of(folder: Path, choice: Choice, scratch: Path, segment: int = 400) -> list[ContinuumRow]:
    scratch.mkdir()
    return continuum(open_trace(folder), choice, Cores(2).each, scratch, rows=segment)


def figures(row: ContinuumRow) -> dict:
    names = ("pairs", "backward", "forward", "mean", "any", "related")
    return {
        name: getattr(row, name) for name in (*names, "hold_mean", "hold_p50", "hold_p95", "hold_p99", "late")
    }


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("kn", 2),
        *(pytest.param(name, "all", marks=pytest.mark.wide) for name in ("shlc", "kn", "dpc1")),
    ],
)
def test_every_configuration_equals_the_simulation(tmp_path, simulated, name, entries):
    folder = written(tmp_path / "trace", simulated, name, entries)
    rows = rows_of(folder, CHOICE, tmp_path / "scratch")
    assert {row.answered for row in rows if not row.has_own_rule} <= {"recorded", "restamped"}
    own = deployment_for(OPTIONS, build_scheme(OPTIONS, name, entries=entries), "cbd", 100)
    for stamp in candidates(own, replace(CHOICE, schemes=ordered())):
        mine = [
            row
            for row in rows
            if (row.scheme, row.entries, row.count, row.packing, row.carry, row.counter_bits)
            == (
                stamp.layout.scheme,
                stamp.layout.entries,
                stamp.layout.count,
                stamp.layout.packing,
                stamp.layout.carry,
                stamp.layout.entry_bits,
            )
        ]
        deliveries = [PolicyChoice(row.policy, row.phi, row.tolerate) for row in mine]
        assert len(deliveries) == 10
        for row, want in zip(mine, measure(simulated, stamp.scheme, deliveries), strict=True):
            expected = want.violations.percent() | {
                name: getattr(want, name)
                for name in ("hold_mean", "hold_p50", "hold_p95", "hold_p99", "late")
            }
            assert figures(row) == expected, (row.stamp, row.policy, row.phi)
            assert (row.delivered, row.arrived) == (want.delivered, simulated.stream.arrivals)
            assert row.violated_pairs == want.violations.pairs
            assert row.stamp_bytes == stamp.layout.size
            if row.answered == "restamped":
                assert (row.sent, row.bounded, row.wrong_unwraps) == (
                    want.messages,
                    want.bounded,
                    want.wrong_unwraps,
                )


def test_stamps_with_their_own_rule_equal_the_simulation(tmp_path, simulated):
    folder = written(tmp_path / "trace", simulated)
    choice = replace(CHOICE, schemes=("kn", "barrier", "vector", "delta-vector"), entries=("all",))
    rows = [row for row in rows_of(folder, choice, tmp_path / "scratch") if row.has_own_rule]
    for name, tolerances in (("barrier", (None, 0.0, 3.0)), ("vector", (None,))):
        mine = [row for row in rows if row.scheme == name]
        asked = [PolicyChoice(name if one is None else "ledger", 100, one) for one in tolerances]
        found = list(measure_rule(simulated, build_named(OPTIONS, name), asked))
        assert [(row.policy, row.tolerate) for row in mine] == [
            (one.delivery.policy, one.delivery.tolerate) for one in found
        ]
        for row, want in zip(mine, found, strict=True):
            assert row.answered == "played"
            assert row.violated_pairs == want.violations.pairs
            assert {
                name: getattr(row, name) for name in want.violations.percent()
            } == want.violations.percent()
            assert (row.hold_mean, row.hold_p99, row.late) == (want.hold_mean, want.hold_p99, want.late)
    (barrier, *_) = [row for row in rows if row.scheme == "barrier"]
    assert 2 < barrier.mean_bytes < barrier.stamp_bytes
    assert next(row for row in rows if row.scheme == "delta-vector").is_answered


@pytest.mark.parametrize(
    ("scheme", "changes", "why"),
    [
        ("delta-vector", {"delta": 20}, "discards messages that come too late"),
        ("delta-vector", {"sends": "any"}, "a mote sent twice in a tick"),
    ],
)
def test_a_rule_that_can_not_be_played_says_why(tmp_path, scheme, changes, why):
    options = replace(OPTIONS, messages=400, **changes)
    promised = replace(options, delta=6)
    own = deployment_for(promised, build_scheme(promised, "kn"), "cbd", 100)
    write_trace(trace_of(generate(options), own), tmp_path / "trace")
    (row,) = rows_of(tmp_path / "trace", Choice(schemes=(scheme,)), tmp_path / "scratch")
    assert (row.answered, why in row.reason) == ("no", True)


def test_a_long_trace_says_why_rules_are_not_played(tmp_path, simulated, monkeypatch):
    monkeypatch.setattr("spark_jobs.measuring.named.MOST_PLAYED", 1000)
    folder = written(tmp_path / "trace", simulated)
    rows = rows_of(folder, Choice(schemes=("barrier",)), tmp_path / "scratch")
    assert [row.is_answered for row in rows] == [False]
    assert "on 1000 messages at most" in rows[0].reason


def test_all_widths_that_make_a_difference_are_tried(simulated):
    example = load(Path(__file__).parents[2] / "examples" / "micaz.toml")
    found = [stamp.layout for stamp in candidates(example, Choice())]
    widths = {name: [one.entry_bits for one in found if one.scheme == name] for name in ("hlc", "shlc")}
    assert widths == {"hlc": [2, 3, 4, 5], "shlc": [2, 3, 4, 5, 7]}  # 7: as deployed
    assert min(one.size for one in found if one.scheme == "shlc") == 1


def test_a_width_that_was_asked_for_is_tried_or_refused_in_words():
    example = load(Path(__file__).parents[2] / "examples" / "micaz.toml")
    choice = Choice(schemes=("hlc", "kn"), entries=(2,), counter_bits=(3, 9, 1))
    found = [
        (one.layout.scheme, one.layout.packing, one.layout.entry_bits) for one in candidates(example, choice)
    ]
    assert {bits for _, _, bits in found} == {3, 9}
    assert len(found) == 2 + 2 * (2 + 1)  # kn counts events and sends; bytes have no room for 9 bits
    said = refused(example, choice)
    assert any("hlc" in one and "counter_bits = 1" in one for one in said)
    assert any("kn" in one and "2..8 in bytes packing" in one for one in said)


def test_a_trace_of_few_entries_without_events_says_what_it_lacks(tmp_path, simulated):
    folder = written(tmp_path / "trace", simulated, "kn", 2, events=None)
    rows = rows_of(folder, replace(CHOICE, counts=("events",)), tmp_path / "scratch")
    told = {row.stamp: row.reason for row in rows if not row.is_answered}
    assert "carries 2 entries, this needs 4" in told["kn 4 events"]
    assert "no events to make these stamps from" in told["hlc 4 bits"]
    assert {row.stamp for row in rows if row.answered == "recorded"} >= {
        "dpc1",
        "dpc2",
        "kn 1 events",
        "kn 2 events",
    }
    unanswered = next(row for row in rows if not row.is_answered)
    assert unanswered.mean is None
    assert unanswered.hold_mean is None
    assert unanswered.stamp_bytes > 0  # what it would take on the wire is known all the same


def test_without_the_truth_violations_lie_between_bounds_and_holds_are_known(tmp_path, simulated):
    trace = trace_of(simulated, deployment_for(OPTIONS, build_scheme(OPTIONS, "kn"), "cbd", 100))
    place = trace.messages.schema.get_field_index("vector")
    without_causes = trace.messages.set_column(
        place, trace.messages.schema.field(place), pa.nulls(len(trace.messages), pa.binary())
    )
    write_trace(replace(trace, messages=without_causes, events=None), tmp_path / "trace")
    rows = rows_of(tmp_path / "trace", SMALL, tmp_path / "scratch")
    told = rows_of(written(tmp_path / "told", simulated), SMALL, tmp_path / "scratch2")
    want = {(row.stamp, row.policy): row for row in told}
    for row in rows:
        true = want[row.stamp, row.policy]
        assert row.hold_mean == true.hold_mean
        assert row.complete < 10  # the stamps of kn name nothing
        assert true.complete == 100
        for figure in ("pairs", "backward", "forward", "mean", "any", "related"):
            low, high = getattr(row, figure), getattr(row, f"{figure}_most")
            assert low <= getattr(true, figure) <= high, figure
            assert getattr(true, f"{figure}_most") == getattr(true, figure)
    assert max(row.mean for row in told) > 0
    assert any(row.mean < row.mean_most < 100 for row in rows)


def test_a_fault_in_memory_is_noticed_and_the_evidence_goes_first(tmp_path):
    """Events know nothing of a mote whose memory was overwritten: what they give is then not what was sent."""
    faulty = generate(OPTIONS, MemoryFault(tuple(range(OPTIONS.motes)), 700))
    folder = written(tmp_path / "trace", faulty)
    choice = replace(SMALL, schemes=("kn", "shlc"))
    rows = rows_of(folder, choice, tmp_path / "scratch")
    own = next(row for row in rows if row.own and row.policy == "cbd")
    want = next(measure(faulty, build_scheme(OPTIONS, "kn"), [PolicyChoice("cbd", 40)]))
    assert own.violated_pairs == want.violations.pairs
    refused = next(row for row in rows if row.scheme == "shlc")
    assert "recorded stamps don't come out of the events" in refused.reason


def test_what_follows_from_which_stamp():
    def scheme(name, **settings):
        return build_scheme(OPTIONS, name, **settings)

    full = scheme("kn")
    assert missing_in(full, scheme("kn", entries=1)) is None
    assert missing_in(full, scheme("dpc2")) is None
    assert missing_in(scheme("shlc"), scheme("dpc1")) == "the trace carries r + c in one number, not r"
    assert missing_in(scheme("hlc"), scheme("dpc1")) is None
    assert "count" in missing_in(full, scheme("kn", count="sends"))
    assert "end at" in missing_in(full, scheme("kn", counter_bits=8))
    assert missing_in(full, scheme("kn", counter_bits=2)) is None
    assert "carries kn stamps" in missing_in(full, scheme("hlc"))
    assert "clock field" in missing_in(full, scheme("kn", modulus=64))


def test_a_narrower_field_is_the_wider_one_cut(tmp_path, simulated):
    """Two bits saturate often here: read from the wide trace, and stamped afresh, they must agree."""
    narrow = replace(SMALL, schemes=("kn",), counter_bits=(2,))
    wide = rows_of(written(tmp_path / "trace", simulated), narrow, tmp_path / "scratch")
    assert {row.answered for row in wide} == {"recorded"}
    assert any(row.saturated for row in wide)
    for row in wide:
        scheme = build_scheme(OPTIONS, "kn", entries=row.entries, counter_bits=2)
        (want,) = measure(simulated, scheme, [PolicyChoice(row.policy, row.phi)])
        assert row.violated_pairs == want.violations.pairs


def test_the_command_writes_tables_and_a_page_that_needs_nothing(tmp_path, simulated, capsys):
    folder = written(tmp_path / "trace", simulated)
    out = tmp_path / "out"
    words = [str(folder), "--no-spark", "--scheme", "kn", "--scheme", "barrier", "--phi", "40"]
    assert run("continuum", [*words, "--out", str(out), "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    table = pq.read_table(out / "continuum.parquet")
    assert table.num_rows == len(printed)
    assert table.column("mean").to_pylist() == [row["mean"] for row in printed]
    csv = pa_csv.read_csv(out / "continuum.csv")
    assert np.allclose(csv["hold_mean"].to_numpy(), table["hold_mean"].to_numpy())
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 5  # the front, and two for each policy
    assert "http://" not in page.replace("http://www.w3.org", "")  # names of XML, never fetched
    assert "src=" not in page
    assert page.count("<script>") == 1
    assert "fetch" not in page


def cut_in_the_middle(folder: Path, trace: Trace) -> None:
    path = folder / "messages.parquet"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 4 : len(raw) // 2] = bytes(len(raw) // 2 - len(raw) // 4)
    path.write_bytes(raw)


def foreign_type(folder: Path, trace: Trace) -> None:
    place = trace.messages.schema.get_field_index("heard")
    metadata = pq.read_schema(folder / "messages.parquet").metadata
    other = trace.messages.set_column(
        place, "heard", pa.array(trace.messages["heard"].to_numpy().astype(float))
    )
    pq.write_table(other.replace_schema_metadata(metadata), folder / "messages.parquet")


def mixed_parts(folder: Path, trace: Trace) -> None:
    metadata = pq.read_schema(folder / "messages.parquet").metadata
    (folder / "messages").mkdir()
    (folder / "messages.parquet").rename(folder / "messages" / "000000.parquet")
    other = trace.messages.replace_schema_metadata(metadata | {b"causeway.run": b"another"})
    pq.write_table(other, folder / "messages" / "000001.parquet")


def newer(folder: Path, trace: Trace) -> None:
    metadata = pq.read_schema(folder / "messages.parquet").metadata | {b"causeway.format": b"9"}
    pq.write_table(trace.messages.replace_schema_metadata(metadata), folder / "messages.parquet")


def no_rows(folder: Path, trace: Trace) -> None:
    metadata = pq.read_schema(folder / "messages.parquet").metadata
    pq.write_table(trace.messages.slice(0, 0).replace_schema_metadata(metadata), folder / "messages.parquet")


def changed(folder: Path, trace: Trace, name: str, at: int, value) -> None:
    metadata = pq.read_schema(folder / "messages.parquet").metadata
    place = trace.messages.schema.get_field_index(name)
    values = trace.messages[name].to_pylist()
    values[at] = value
    field = trace.messages.schema.field(place)
    table = trace.messages.set_column(place, field, pa.array(values, field.type))
    pq.write_table(table.replace_schema_metadata(metadata), folder / "messages.parquet")


def clock_back(folder: Path, trace: Trace) -> None:
    changed(folder, trace, "heard", 900, 0)


def batch_back(folder: Path, trace: Trace) -> None:
    changed(folder, trace, "batch", 900, 0)


def twice(folder: Path, trace: Trace) -> None:
    metadata = pq.read_schema(folder / "messages.parquet").metadata
    table = trace.messages.take(pa.array([0, *range(len(trace.messages))]))
    pq.write_table(table.replace_schema_metadata(metadata), folder / "messages.parquet")


def no_self(folder: Path, trace: Trace) -> None:
    changed(folder, trace, "vector", 3, bytes(4 * OPTIONS.motes))


def short_vector(folder, trace):
    changed(folder, trace, "vector", 3, bytes(8))


def short_stamp(folder, trace):
    changed(folder, trace, "stamp", 700, {"r": 1, "c": 0, "kn": [0] * 4})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_in_the_middle, "messages.parquet can't be read, it is damaged"),
        (foreign_type, "a foreign schema: heard is double, not int64"),
        (mixed_parts, "mixed runs"),
        (newer, "format 9, this version reads format 2"),
        (no_rows, "no message of this run has the network's time"),
        (clock_back, "row 900: the observer's clock runs backwards"),
        (batch_back, "row 900: batches are not in order"),
        (twice, "some messages are there twice"),
        (no_self, "row 3: its vector clock does not count the message itself"),
        (short_vector, "row 3: bytes of its vector clock: 8 instead of 24"),
        (short_stamp, "row 700: entries of its stamp: 4 instead of 5"),
    ],
)
def test_bad_input_is_named(tmp_path, simulated, capsys, damage, words):
    folder = written(tmp_path / "trace", simulated)
    damage(folder, trace_of(simulated, deployment_for(OPTIONS, build_scheme(OPTIONS, "kn"), "cbd", 100)))
    arguments = [str(folder), "--no-spark", "--scheme", "kn", "--segment", "500"]
    assert run("continuum", arguments) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_parts_in_order_are_one_trace(tmp_path, simulated):
    folder = written(tmp_path / "trace", simulated)
    want = rows_of(folder, SMALL, tmp_path / "scratch")
    metadata = pq.read_schema(folder / "messages.parquet").metadata
    table = pq.read_table(folder / "messages.parquet")
    parted = tmp_path / "parted"
    (parted / "messages").mkdir(parents=True)
    for number, start in enumerate(range(0, len(table), 300)):
        part = table.slice(start, 300).replace_schema_metadata(metadata)
        pq.write_table(part, parted / "messages" / f"{number:06}.parquet", row_group_size=128)
    assert rows_of(parted, SMALL, tmp_path / "scratch2") == want


def test_events_that_do_not_number_their_sends_are_refused(tmp_path, simulated):
    trace = trace_of(simulated, deployment_for(OPTIONS, build_scheme(OPTIONS, "kn"), "cbd", 100))
    named = list(zip(trace.events["kind"].to_pylist(), trace.events["sequence"].to_pylist(), strict=True))
    second = named.index(("send", 1))
    events = pa.concat_tables([trace.events.slice(0, second), trace.events.slice(second + 1)])
    write_trace(replace(trace, events=events), tmp_path / "trace")
    rows = rows_of(tmp_path / "trace", replace(SMALL, schemes=("hlc", "dpc1")), tmp_path / "scratch")
    assert {row.scheme for row in rows if row.is_answered} == {"dpc1"}
    assert all("are not numbered one after the other" in row.reason for row in rows if row.scheme == "hlc")


@pytest.mark.parametrize("batch", [97, 1000])
def test_events_in_any_batches_give_the_same_stamps(tmp_path, simulated, monkeypatch, batch):
    """A receive event that brings several messages is cut by some border, and the motes go on where they were."""
    folder = written(tmp_path / "trace", simulated, "dpc1")
    choice = replace(SMALL, schemes=("kn", "dpc2", "hlc", "shlc"), counter_bits=(3,))
    want = rows_of(folder, choice, tmp_path / "scratch")
    assert {row.answered for row in want} == {"restamped"}
    monkeypatch.setattr("spark_jobs.measuring.restamping.BATCH", batch)
    assert rows_of(folder, choice, tmp_path / "scratch2") == want
    assert not list((tmp_path / "scratch2").glob("tmp*"))  # the stamps of all that was sent are gone


def test_the_tables_of_ingest_are_traces_too(tmp_path, simulated, capsys):
    folder = written(tmp_path / "trace", simulated)
    assert run("ingest", [str(folder), "--tables", str(tmp_path / "tables"), "--no-spark"]) == 0
    capsys.readouterr()

    def printed(place):
        assert run("continuum", [str(place), "--no-spark", "--phi", "40", "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert printed(tmp_path / "tables") == printed(folder)
