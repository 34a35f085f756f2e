"""What the analysis says of a trace, against a recount by hand (`recount.py`), to the last digit."""

import pytest

from basestation.analysis.choices import Choice
from basestation.comparing.catalogue import Terms
from basestation.comparing.spread import compare
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.comparing import trace_spots
from spark_jobs.engines import Cores
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.traces.trace_files import open_trace
from tests.spark import recount

FIGURES = ("pairs", "backward", "forward", "mean", "any", "related", "hold_mean")
SCHEMES = ("dpc1", "dpc2", "kn", "hlc", "shlc", "barrier")
NETWORKS = {
    "the paper's": WorldOptions(messages=350, seed=11),
    "few motes, slow clocks": WorldOptions(messages=300, motes=3, epsilon=2, delta=25, rate=0.3, seed=12),
    "many motes, losses": WorldOptions(messages=400, motes=25, epsilon=4, delta=16, rate=0.05, loss=0.1, seed=13),
    "received at once": WorldOptions(
        messages=350, motes=6, epsilon=3, delta=32, rate=0.0156, loss=0.05, seed=14,
        delay="each", delay_clock="global", reception="immediate",
    ),
    "far apart": WorldOptions(messages=300, motes=8, epsilon=20, delta=5, rate=0.2, seed=15),
    "several gateways": WorldOptions(
        messages=350, motes=6, epsilon=3, delta=12, rate=0.05, loss=0.3, seed=16, delay="each", gateways=3
    ),
}  # fmt: skip


FAST = ("many motes, losses", "received at once", "several gateways")


@pytest.fixture(
    scope="module",
    params=[name if name in FAST else pytest.param(name, marks=pytest.mark.wide) for name in NETWORKS],
)
def network(request, tmp_path_factory):
    """A simulated network, its trace as files, and the same read by hand."""
    world = NETWORKS[request.param]
    folder = tmp_path_factory.mktemp("recount") / "run"
    write_trace(
        trace_of(generate(world), deployment_for(world, build_scheme(world, "kn"), "cbd", 100)), folder
    )
    return world, open_trace(folder), recount.Recorded.read(folder, world.motes)


def by_hand(run, world, row, made):
    """The figures of one row of the continuum."""
    if row.scheme == "barrier":
        return run.count(recount.barrier(run, world.epsilon, world.delta))
    full = 2**row.counter_bits - 1
    start = {
        "kn": lambda: recount.Figure1(world.epsilon, row.count == "events"),
        "hlc": recount.Hlc,
        "shlc": recount.Shlc,
    }
    name = row.scheme if row.scheme in start else "kn"
    if (name, row.count) not in made:
        made[name, row.count] = recount.stamped(run, start[name])
    stamps = recount.cut(made[name, row.count], row.entries, full, row.scheme != "dpc1")
    return run.count(recount.deliver(run, stamps, row.policy, row.phi, world.epsilon, world.delta))


@pytest.mark.few(1)
def test_the_continuum(network, tmp_path):
    world, trace, run = network
    choice = Choice(
        schemes=SCHEMES, entries=(1, "all"), packings=("bits",), phis=(0, 30, 100), counter_bits=(8,)
    )
    rows = continuum(trace, choice, Cores(1).each, tmp_path, rows=97)
    made = {}
    for row in rows:
        assert row.is_answered, row.reason
        found = by_hand(run, world, row, made)
        said = {name: getattr(row, name) for name in FIGURES}
        assert said == found, (row.scheme, row.entries, row.policy, row.phi)
    assert {row.scheme for row in rows} == set(SCHEMES)
    assert max(row.any for row in rows) > 1 < max(row.hold_mean for row in rows)


def test_the_barrier(network):
    world, trace, run = network
    spots, faults = trace_spots([trace.folder])
    assert not faults
    ((row,),) = (found.rows for found in compare(spots, ["barrier"], Terms()))
    assert row.violations.percent() | {"hold_mean": row.hold_mean} == run.count(
        recount.barrier(run, world.epsilon, world.delta)
    )
