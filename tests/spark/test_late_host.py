"""A host that does not read its line for a while: delays of the network and of this host are counted separately."""

import json
from dataclasses import replace

import pytest

from basestation.live.station import Station
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, generate
from spark_jobs.run import run
from tests.journal.logs import arrivals_of
from tests.spark.test_sealed_ingest import logged

OPTIONS = WorldOptions(messages=900, motes=6, epsilon=3, delta=32, rate=0.0156, loss=0.05, seed=5)
S = 1_000_000_000


def line_of(deployment, held_up):
    """What a gateway sent; a host that is held up reads nothing in the first of any five seconds."""
    for arrival in arrivals_of(trace_of(generate(OPTIONS), deployment)):
        rest = arrival.mono_ns % (5 * S)
        yield arrival._replace(mono_ns=arrival.mono_ns - rest + S) if held_up and rest < S else arrival


def measured(folder, capsys, deployment, line, *words):
    """The late messages that the live station counted, and the continuum of its log."""
    line, station = list(line), Station(deployment)
    for arrival in line:
        station.take(arrival)
    late = sum(mote.late for mote in station.snapshot(line[-1].mono_ns).motes)
    logged(folder / "logs", "r", deployment, line)
    assert run("ingest", [str(folder / "logs"), "--tables", str(folder / "tables"), "--no-spark"]) == 0
    capsys.readouterr()
    assert run("continuum", [str(folder / "tables"), "--no-spark", "--json", *words]) == 0
    return late, [json.loads(row) for row in capsys.readouterr().out.splitlines()]


@pytest.mark.few(1)
@pytest.mark.parametrize("held_up", [False, True])
@pytest.mark.parametrize("delta", [32, 8])
def test_listen_and_continuum_count_the_same_late_messages(tmp_path, capsys, held_up, delta):
    """With delta 32 the network is in time; with 8 it is not, whatever the host does."""
    deployment = deployment_for(OPTIONS, build_named(OPTIONS, "shlc"), "cbd", 100)
    deployment = replace(deployment, clock=replace(deployment.clock, delta=delta))
    line = line_of(deployment, held_up)
    late, rows = measured(tmp_path, capsys, deployment, line, "--policy", "cbd", "--phi", "100")
    (own,) = (row for row in rows if row["own"])
    assert (late > 0) == (delta == 8)
    assert own["late"] == own["network_late"] == late
    assert (own["host_late"] > 50) == held_up


def test_stamps_made_from_the_graph_are_read_when_they_were_heard(tmp_path, capsys):
    """A proven stamp has no violations, however late the host was."""
    deployment = deployment_for(OPTIONS, build_named(OPTIONS, "barrier"), "barrier", 100)
    words = "--scheme", "shlc", "--policy", "cbd", "--phi", "100"
    _, rows = measured(tmp_path, capsys, deployment, line_of(deployment, True), *words)
    assert {(row["answered"], row["mean_most"], row["network_late"]) for row in rows} == {("graph", 0.0, 0)}
    assert min(row["host_late"] for row in rows) > 50
