"""`basestation compare`: lines, sweeps, traces, pictures, refusals."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli.compare import command
from basestation.cli.listen import command as listen
from basestation.cli.simulate import command as simulate
from basestation.comparing.catalogue import NAMES

ROOT = Path(__file__).resolve().parents[2]
QUICK = ["--messages", "200"]
ALONE = ["--workers", "1"]


def run(*args):
    return CliRunner().invoke(command, [*args, *ALONE])


def rows(*args):
    result = run("--json", *args)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_scheme_on_every_network_of_a_sweep():
    found = rows(*QUICK, "--motes", "4", "--motes", "6", "--loss", "0", "--loss", "0.2")
    places = [(4, 0), (4, 0.2), (6, 0), (6, 0.2)]
    assert [(r["motes"], r["loss"], r["scheme"]) for r in found] == [
        (*p, name) for p in places for name in NAMES
    ]
    assert set(found[0]["violations"]) == {"pairs", "backward", "forward", "mean", "any", "related"}
    assert {"hold", "gave_up", "discarded", "stuck", "stamp_bytes", "fits", "microseconds"} <= set(found[0])


def test_the_table_says_what_does_not_fit():
    result = run(*QUICK, "--scheme", "matrix", "--scheme", "shlc")
    assert result.exit_code == 0, result.output
    assert "10 motes, epsilon 10, delta 10, rate 0.1, loss 0%: 200 messages sent" in result.stdout
    assert "100!" in result.stdout
    assert "1!" not in result.stdout


def test_a_recorded_run_gives_what_the_simulation_gave(tmp_path):
    network = ["--motes", "5", "--seed", "3", "--loss", "0.1", *QUICK]
    made = CliRunner().invoke(simulate, [*network, "--scheme", "shlc", "--trace", str(tmp_path / "run")])
    assert made.exit_code == 0, made.output
    measured = ("violations", "hold", "gave_up", "arrived", "stamp_bits", "concurrent")
    simulated, recorded = (
        [{name: row[name] for name in measured} for row in rows(*args)]
        for args in (network, [str(tmp_path / "run")])
    )
    assert recorded == simulated


def test_a_recorded_network_is_not_described_twice(tmp_path):
    result = run(str(tmp_path), "--motes", "5")
    assert result.exit_code == 2
    assert "motes" in result.output


def test_a_log_is_compared_as_it_is(tmp_path, monkeypatch):
    """Its events are made from the causal graph."""
    monkeypatch.chdir(tmp_path)
    deployment = str(ROOT / "examples" / "barrier.toml")
    source = "simulate@?messages=100&pace=0"
    done = CliRunner().invoke(listen, [source, "-d", deployment, "--log", "logs", "--view", "none"])
    assert done.exit_code == 0, done.output
    (log,) = (tmp_path / "logs").iterdir()
    found = {row["scheme"]: row for row in rows(str(log), "--scheme", "barrier", "--scheme", "none")}
    assert found["barrier"]["violations"]["pairs"] == 0 < found["none"]["violations"]["pairs"]


def test_a_folder_without_a_trace_is_a_fault(tmp_path):
    result = run(str(tmp_path))
    assert result.exit_code == 1
    assert "messages.parquet" in result.output


def test_never_giving_up_and_a_time_of_ones_own():
    asked = ["--scheme", "vector", "--loss", "0.2", *QUICK]
    (never,) = rows(*asked, "--give-up", "never")
    (soon,) = rows(*asked, "--give-up", "0")
    (late,) = rows(*asked, "--give-up", "30")
    assert never["stuck"] > 0 == soon["stuck"] == late["stuck"]
    assert soon["hold"]["mean"] < late["hold"]["mean"]
    assert soon["violations"]["pairs"] > 0 == late["violations"]["pairs"]


@pytest.mark.parametrize(
    "wrong", [["--give-up", "soon"], ["--give-up", "-1"], ["--plot", "x.txt"], ["--loss", "2"]]
)
def test_nonsense_is_refused(wrong):
    assert run(*QUICK, *wrong).exit_code == 2


def test_a_picture(tmp_path):
    path = tmp_path / "sweep.png"
    result = run(
        *QUICK,
        "--scheme",
        "none",
        "--scheme",
        "vector",
        "--rate",
        "0.1",
        "--rate",
        "0.3",
        "--plot",
        str(path),
    )
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")
