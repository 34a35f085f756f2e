"""From a trace to a setting: the smallest that will do, and what it saves."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.advice.recommend import _sentence, energy, recommend, upper_bound
from spark_jobs.measuring.continuum import ContinuumRow
from spark_jobs.run import run

OPTIONS = WorldOptions(messages=2000, seed=2)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recommend") / "trace"
    kn = build_scheme(OPTIONS, "kn")
    write_trace(trace_of(generate(OPTIONS), deployment_for(OPTIONS, kn, "cbd", 100)), folder)
    return folder


def row(stamp_bytes: int, mean: float | None, hold: float, **changes) -> ContinuumRow:
    base = ContinuumRow(
        run="r",
        scheme="kn",
        entries=stamp_bytes,
        count="events",
        carry="pair",
        packing="bits",
        counter_bits=4,
        own=False,
        stamp_bits=8 * stamp_bytes,
        stamp_bytes=stamp_bytes,
        payload_bytes=7 + stamp_bytes,
        air_bytes=24 + stamp_bytes,
        fits=True,
        policy="cbd",
        phi=40,
        answered="recorded",
        reason=None,
        mean=mean,
        hold_mean=hold,
        hold_mean_ms=4 * hold,
        delivered=1000,
    )
    return replace(base, **changes)


def test_the_smallest_then_the_shortest():
    rows = [
        row(3, 0.0, 5.0),
        row(2, 0.4, 9.0),
        row(2, 0.5, 7.0),
        row(1, 2.0, 1.0),
        row(5, 0.0, 4.9),
        row(4, 0.0, 7.0),
    ]
    found = recommend(rows, "micaz", "mean", 0.5)
    assert [(one.stamp_bytes, one.hold_mean_ms, one.chosen) for one in found] == [
        (2, 28.0, True),
        (3, 20.0, False),
    ]


def test_what_is_not_known_or_does_not_fit_is_never_recommended():
    rows = [
        row(1, None, 1.0),
        row(1, 0.0, 1.0, fits=False),
        row(1, None, 1.0, answered="no"),
        row(1, 0.0, 0.0, policy="none"),
    ]
    assert recommend(rows, "micaz", "mean", 100.0) == []


def test_savings_are_against_the_stamp_that_the_trace_carries():
    own = row(7, 0.0, 9.0, own=True)
    (chosen, *_) = recommend([own, row(2, 0.0, 9.0)], "micaz", "mean", 0.0)
    assert chosen.bytes_saved == 5
    assert chosen.microjoules_saved == pytest.approx(5 * 0.032 * 17.4 * 3)
    assert energy(100, "mica2") == pytest.approx(100 * 8 / 19.2 * 10.4 * 3)


@pytest.mark.parametrize(("size", "said"), [(6, "saves 1 byte and"), (5, "saves 2 bytes and")])
def test_savings_are_said_in_words(size, said):
    own = row(7, 0.0, 9.0, own=True)
    assert said in _sentence(recommend([own, row(size, 0.0, 9.0)], "micaz", "mean", 0.0)[0])


def test_none_seen_is_not_none_ever():
    assert upper_bound(row(1, 0.0, 1.0), "mean") == 0.3
    assert upper_bound(row(1, 0.2, 1.0), "mean") == 0.2


def test_the_command(trace, tmp_path, capsys):
    assert run("recommend", [str(trace), "--no-spark", "--out", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["scheme"], first["stamp_bytes"], first["violations"]) == ("shlc", 1, 0.0)
    assert pq.read_table(tmp_path / "recommend.parquet")["chosen"].to_pylist()[0]
    assert "What to take" in (tmp_path / "report.html").read_text()


def test_the_ledger_is_offered_at_the_tolerance(trace, tmp_path, capsys):
    words = [str(trace), "--no-spark", "--scheme", "shlc", "--tolerance", "2", "--figure", "any"]
    assert run("recommend", [*words, "--out", str(tmp_path), "--json"]) == 0
    table = pq.read_table(tmp_path / "continuum.parquet").to_pylist()
    assert {row["tolerate"] for row in table if row["policy"] == "ledger"} == {2.0}
    assert all(row["any"] <= 2 for row in table if row["policy"] == "ledger")
    assert {row["tolerate"] for row in table if row["policy"] != "ledger"} == {None}
    capsys.readouterr()


def test_when_nothing_will_do_it_says_the_best_there_is(trace, capsys):
    arguments = [str(trace), "--no-spark", "--scheme", "dpc1", "--phi", "40"]
    assert run("recommend", arguments) == 1
    assert "nothing will do; the fewest violations are" in capsys.readouterr().out
    assert run("recommend", [*arguments, "--tolerance", "90"]) == 0
    assert "take dpc1" in capsys.readouterr().out
