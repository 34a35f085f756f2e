"""A change for the worse is distinguished from chance."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from basestation.analysis.differences import THRESHOLDS, changes, of_row
from basestation.analysis.facts import Fact
from basestation.analysis.tally import IN_BLOCK
from basestation.analysis.uncertainty import Uncertain
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.advice.compared_runs import facts_in
from spark_jobs.engines import Cores
from spark_jobs.run import run
from spark_jobs.traces.trace_files import open_trace
from tests.spark.test_recommend import row as a_row

OPTIONS = WorldOptions(motes=6, epsilon=3, delta=10, rate=0.1, messages=4000, **PRESETS["network"])


def facts(folder, **options):
    world = replace(OPTIONS, **options)
    own = deployment_for(world, build_scheme(world, "shlc"), "cbd", 100)
    write_trace(trace_of(generate(world), own), folder / "trace")
    (folder / "scratch").mkdir()
    return facts_in(open_trace(folder / "trace"), Cores(1).each, folder / "scratch")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("changes")
    return {
        name: facts(place / name, **options)
        for name, options in {
            "one": {"seed": 1},
            "two": {"seed": 2},
            "lossy": {"seed": 3, "loss": 0.2},
        }.items()
    }


def test_another_seed_is_not_a_change(runs):
    found = changes([runs["one"]], [runs["two"]])
    assert {one.figure for one in found} >= {
        "rate",
        "loss",
        "out_of_order",
        "delay",
        "late",
        "hold",
        "violations",
    }
    assert not any(one.regression for one in found)


def test_more_loss_is_a_regression(runs):
    found = {one.figure: one for one in changes([runs["one"]], [runs["lossy"]])}
    loss = found["loss"]
    assert (loss.verdict, loss.regression) == ("worse", True)
    assert 15 < loss.low < loss.difference < loss.high < 25
    assert not found["rate"].regression
    back = {one.figure: one for one in changes([runs["lossy"]], [runs["one"]])}
    assert (back["loss"].verdict, back["loss"].regression) == ("better", False)
    loose = changes([runs["one"]], [runs["lossy"]], THRESHOLDS | {"loss": 50.0})
    assert not any(one.regression for one in loose if one.figure == "loss")


def test_several_runs_are_taken_together(runs):
    (loss,) = [one for one in changes([runs["one"], runs["lossy"]], [runs["lossy"]]) if one.figure == "loss"]
    assert 5 < loss.before < 15
    assert loss.regression


def test_a_run_that_is_too_short_has_no_interval():
    short = {"loss": Fact(np.array([1.0]), np.array([10.0]), 100.0)}
    (one,) = changes([short], [{"loss": Fact(np.array([5.0]), np.array([10.0]), 100.0)}])
    assert (one.low, one.high, one.difference, one.regression) == (None, None, 40.0, True)


def test_only_what_surely_was_in_wrong_order_counts():
    """What may have been depends on other losses, too."""
    sure = np.zeros((6, len(IN_BLOCK)), np.int64)
    sure[:, [IN_BLOCK.index("delivered"), IN_BLOCK.index("backward"), IN_BLOCK.index("forward")]] = 100, 2, 4
    doubtful = sure * 1
    doubtful[:, IN_BLOCK.index("forward")] = 50
    row = replace(a_row(1, 3.0, 1.0), uncertain=Uncertain(sure, doubtful, {}))
    assert of_row(row, 1.0)["violations"].value == 3.0  # per cent
    assert "violations" not in of_row(replace(row, mean=None), 1.0)


def written(folder, **options):
    world = replace(OPTIONS, **options)
    own = deployment_for(world, build_scheme(world, "shlc"), "cbd", 100)
    write_trace(trace_of(generate(world), own), folder)
    return str(folder)


def test_the_command_has_an_exit_code_for_regression_tests(tmp_path, capsys):
    before, after = written(tmp_path / "a"), written(tmp_path / "b", seed=3, loss=0.2)
    assert run("changes", [before, before, "--no-spark"]) == 0
    assert "same" in capsys.readouterr().out
    assert run("changes", [before, after, "--no-spark", "--json"]) == 1
    told = {row["figure"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert told["loss"]["regression"]
    assert run("changes", [before, after, "--no-spark", "--threshold", "loss=40"]) == 0
    assert run("changes", [before, after, "--no-spark", "--threshold", "weather=1"]) == 2
    assert run("changes", [before, str(tmp_path / "none"), "--no-spark"]) == 1


@pytest.mark.parametrize("job", ["changes", "fit"])
@pytest.mark.parametrize("synced", [True, False])
def test_a_run_without_messages_is_named(tmp_path, capsys, job, synced):
    world = replace(OPTIONS, messages=20)
    trace = trace_of(generate(world), deployment_for(world, build_scheme(world, "shlc"), "cbd", 100))
    rows, at = trace.messages, trace.messages.column_names.index("in_sync")
    rows = rows[:0] if synced else rows.set_column(at, rows.schema.field(at), pa.array([False] * len(rows)))
    write_trace(replace(trace, messages=rows), tmp_path / "empty")
    places = [str(tmp_path / "empty")] * (2 if job == "changes" else 1)
    assert run(job, [*places, "--no-spark"]) == 1
    told = capsys.readouterr()
    assert "no message" in told.err
    assert "arrived" in told.err
    assert not told.out
