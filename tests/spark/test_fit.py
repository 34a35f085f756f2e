"""A network is read from its log, and what the simulated one predicts is held against what is known."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from basestation.analysis.choices import Choice, candidates
from basestation.analysis.facts import Arrivals, arrivals_of, facts_of, values
from basestation.analysis.fitted_network import Off, checks, fitted, over_seeds, predict, world
from basestation.analysis.sensitivity import sensitivity
from basestation.causality.policy_choice import PolicyChoice
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import TraceError, write_trace
from spark_jobs.engines import Cores
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.run import run
from spark_jobs.traces.segments import arrivals_in
from spark_jobs.traces.trace_files import open_trace

OPTIONS = WorldOptions(
    motes=6,
    epsilon=3,
    delta=16,
    rate=0.1,
    messages=6000,
    loss=0.05,
    seed=3,
    delay_law="quarter",
    **PRESETS["network"],
)
SHLC = Choice(schemes=("shlc",), counter_bits=(4,), policies=("none", "cbd"), phis=(0, 100))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log without causes, and the trace that has them."""
    place = tmp_path_factory.mktemp("fit")
    run = generate(OPTIONS)
    own = deployment_for(OPTIONS, build_scheme(OPTIONS, "dpc1"), "cbd", 100)
    write_trace(trace_of(run, own), place / "trace")
    return open_trace(place / "trace"), run


def test_facts_are_what_the_arrivals_show():
    source, life = np.array([0, 0, 1, 0, 1, 0]), np.array([0, 0, 0, 0, 0, 1])
    sequence = np.array([0, 3, 5, 2, 6, 0])
    seen = Arrivals(2, source, life, sequence, np.array([0, 10, 20, 30, 40, 49]), np.full(6, 4))
    found = values(facts_of(seen, 1000, 10.0, late_after=3))
    assert found["loss"] == pytest.approx(100 / 7)  # number 1 of mote 0
    assert found["out_of_order"] == pytest.approx(100 / 6)  # number 2 after number 3; a new boot begins anew
    assert found["rate"] == pytest.approx(7 / 2 / 0.5)
    assert (found["delay"], found["late"]) == (40.0, 100.0)


def test_the_network_is_read_from_the_log(log):
    trace, run = log
    fit = fitted(arrivals_in(trace), trace.deployment)
    assert fit.rate == pytest.approx(0.1, rel=0.05)
    assert np.mean(fit.losses) == pytest.approx(0.05, abs=0.02)
    assert [len(own) for own in fit.delays] == np.bincount(arrivals_of(run.stream).source).tolist()
    made = world(fit, seed=1)
    assert (made.motes, made.epsilon, made.delta) == (6, 3, 16)
    double = world(fit, 1, off=Off(rate=2.0, epsilon=2.0))
    assert (double.rate, double.epsilon) == (pytest.approx(2 * made.rate), 6)


def test_the_prediction_meets_what_the_log_shows_and_what_really_happened(log, tmp_path):
    trace, _ = log
    seen = arrivals_in(trace)
    fit = fitted(seen, trace.deployment)
    rows, results = predict(fit, SHLC, "mean", Cores(2).each, seeds=4)
    facts = facts_of(seen, fit.horizon, fit.tick_ms)
    told = {check.fact: check for check in checks(facts, results)}
    assert told.keys() == facts.keys()
    for name in ("rate", "loss", "delay"):
        assert abs(told[name].off) < 15, told[name]
    true = {(row.policy, row.phi): row for row in continuum(trace, SHLC, Cores(2).each, tmp_path)}
    for row in rows:
        want = true[row.policy, row.phi]
        assert row.low <= row.violations <= row.high
        assert row.violations == pytest.approx(want.mean, abs=max(2.0, 0.35 * want.mean)), row
        assert row.hold_ms == pytest.approx(want.hold_mean_ms, rel=0.1, abs=1.0)
    assert max(row.violations for row in rows) > 1


def test_a_log_without_times_can_not_be_fitted(log):
    trace, _ = log
    with pytest.raises(TraceError, match="the stamps have no clock"):
        fitted(replace(arrivals_in(trace), delay=None), trace.deployment)


def test_one_network_has_no_interval_over_seeds():
    assert over_seeds([3.0]) == (3.0, 3.0)
    low, high = over_seeds([1.0, 2.0, 3.0])
    assert (low, high) == (0.0, pytest.approx(2 + 4.303 / 3**0.5))


def test_clocks_and_delays_break_a_wait_that_more_loss_does_not_break(log):
    trace, _ = log
    far = replace(trace.deployment, network=replace(trace.deployment.network, hops=3))
    fit = fitted(arrivals_in(trace), far)
    (stamp,) = candidates(trace.deployment, SHLC)
    rows, limits = sensitivity(
        fit,
        stamp.scheme,
        PolicyChoice("cbd", 100),
        0.2,
        "mean",
        Cores(2).each,
        factors=(0.5, 1.0, 4.0),
        seeds=2,
    )
    assert len(rows) == 4 * 3
    found = {limit.assumption: limit for limit in limits}
    assert {limit.assumption for limit in limits[:2]} == {"delta", "epsilon"}
    assert (found["delta"].breaks_at, found["epsilon"].breaks_at) == (4.0, 4.0)
    assert found["loss"].breaks_at is None
    assert next(row for row in rows if (row.assumption, row.factor) == ("delta", 1.0)).violations < 0.2


def test_the_command_predicts_and_checks(log, tmp_path, capsys):
    trace, _ = log
    words = [
        str(trace.folder),
        "--no-spark",
        "--scheme",
        "shlc",
        "--policy",
        "cbd",
        "--phi",
        "100",
        "--seeds",
        "2",
    ]
    assert run("fit", [*words, "--json", "--out", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    known = {row["fact"] for row in rows if "fact" in row}
    assert known == {"rate", "loss", "out_of_order", "delay", "hold", "violations"}
    assert {row["scheme"] for row in rows if "scheme" in row} == {"shlc"}
    assert pq.read_table(tmp_path / "fit.parquet").num_rows == sum("scheme" in row for row in rows)
    assert pq.read_table(tmp_path / "checks.parquet").num_rows == len(known)
    assert run("fit", words) == 0
    assert "what is known" in capsys.readouterr().out


@pytest.mark.wide
def test_the_command_says_which_assumption_breaks_first(log, tmp_path, capsys):
    trace, _ = log
    words = [
        "--no-spark",
        "--scheme",
        "shlc",
        "--counter-bits",
        "4",
        "--policy",
        "cbd",
        "--phi",
        "100",
        "--sensitivity",
    ]
    assert run("recommend", [str(trace.folder), *words, "--tolerance", "1", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    sentence = (
        r"epsilon: if it were [\d.]+ times what this log shows, [\d.]+% would be violated; that is too many"
    )
    assert re.search(sentence, told.out)
    assert "loss: even if it were 4 times what this log shows" in told.out
    assert "120 simulated networks tell which assumption breaks first" in told.err
    assert pq.read_table(tmp_path / "sensitivity.parquet").num_rows == 4 * 6
    details = pq.read_table(tmp_path / "details.parquet")
    assert set(details["by"].to_pylist()) == {"mote", "link", "hour"}
    page = (tmp_path / "report.html").read_text()
    assert "Which assumption breaks first" in page
    assert "When and who" in page
