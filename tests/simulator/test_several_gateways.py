"""Several gateways in the simulator: each has a clock, a hearing and a line of its own, and the order stays exact."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow.compute as pc
import pytest

from basestation.causality.schemes.barrier_rule import BarrierRule
from basestation.comparing.catalogue import Terms, build
from basestation.simulator import simulation
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.scheme_run import play
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, generate, world_for
from tests.simulator.test_windows import NET

NETWORK = PRESETS["network"] | {"delay": "each"}
WORLDS = [
    WorldOptions(
        **NETWORK,
        epsilon=epsilon,
        delta=delta,
        rate=rate,
        loss=0.3,
        messages=1000,
        seed=seed,
        gateways=gateways,
    )
    for seed, (gateways, (epsilon, delta), rate) in enumerate(
        product((2, 3), ((10, 10), (3, 32), (3, 12)), (0.02, 0.1))
    )
]
EXACT = ("barrier", "delta-vector", "delta-causal", "vector", "shlc", "kn", "hlc")


def broken_pairs(options: WorldOptions, name: str, tolerate: float | None = None) -> int:
    run = generate(options)
    scheme = build(name, options, Terms())
    played = play(run.stream, scheme if tolerate is None else scheme.tolerating(tolerate))
    assert len(played.order) == run.stream.arrivals
    return simulation.engine.violations(run.stream, run.vectors, played.order).pairs


@pytest.mark.few(2)
@pytest.mark.parametrize("name", EXACT)
def test_exact_schemes_stay_exact(name):
    assert sum(broken_pairs(options, name) for options in WORLDS) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("name", EXACT)
def test_exact_schemes_stay_exact_in_windows(name):
    assert broken_pairs(world_for(replace(NET, loss=0.05, gateways=3), name), name) == 0


def test_a_ledger_that_tolerates_nothing_is_exact():
    assert sum(broken_pairs(options, "barrier", tolerate=0.0) for options in WORLDS) == 0


def test_without_rule_0_such_networks_break_the_order(monkeypatch):
    monkeypatch.setattr(BarrierRule, "_floor", lambda rule, message: rule._clock)
    assert sum(broken_pairs(replace(options, gateways=1), "barrier") for options in WORLDS) == 0
    assert sum(broken_pairs(options, "barrier") for options in WORLDS) > 0


@pytest.mark.parametrize("options", [*WORLDS, replace(NET, loss=0.3, gateways=3)])
def test_all_that_was_heard_before_the_observers_clock_is_in(options):
    stream = generate(options).stream
    now, heard = stream.arrival_clock, stream.arrival_heard
    earliest_to_come = np.minimum.accumulate(heard[::-1])[::-1]
    assert (np.diff(now) >= 0).all()
    assert (now <= earliest_to_come).all()
    assert (now >= heard - options.line - options.epsilon).all()
    assert (heard - now).max() > options.line / 2
    assert len(set(stream.arrival_message.tolist())) == stream.arrivals


@pytest.mark.parametrize("options", WORLDS)
def test_each_line_keeps_its_order_and_lines_overtake_each_other(options):
    stream = generate(options).stream
    for gateway in range(options.gateways):
        mine = stream.arrival_heard[stream.arrival_gateway == gateway]
        assert len(mine) > 100
        assert (np.diff(mine) >= 0).all()
    assert (np.diff(stream.arrival_heard) < -options.epsilon).any()


def test_each_gateway_loses_copies_of_its_own():
    one = WorldOptions(messages=4000, loss=0.3, delay_law="quarter")
    for gateways in (1, 2, 3):
        came = generate(replace(one, gateways=gateways)).stream.arrivals / one.messages
        assert came == pytest.approx(1 - 0.3**gateways, abs=0.03)


@pytest.mark.parametrize("name", ["shlc", "barrier"])
def test_a_trace_keeps_the_tick_of_reception_and_the_observers_clock_apart(name):
    options = WORLDS[-1]
    run, scheme = generate(options), build(name, options, Terms())
    trace = trace_of(run, deployment_for(options, scheme, "cbd" if name == "shlc" else name, 100))
    table = trace.messages
    np.testing.assert_array_equal(table["heard"], run.stream.arrival_heard)
    np.testing.assert_array_equal(table["clock"], run.stream.arrival_clock)
    assert set(table["gateway"].to_pylist()) == {options.motes + gateway for gateway in range(3)}
    assert trace.deployment.network.gateways == 3
    l_read = pc.struct_field(
        table["stamp"], "r"
    ).to_numpy()  # read at the observer's clock, some were a round too old
    assert (l_read >= table["sent"].to_numpy()).all()


def test_a_trace_of_one_gateway_has_no_clock_beside_the_tick_of_reception():
    options = WorldOptions(messages=100)
    trace = trace_of(
        generate(options), deployment_for(options, build_named(options, "barrier"), "barrier", 100)
    )
    assert trace.messages["clock"].null_count == len(trace.messages)
    assert set(trace.messages["gateway"].to_pylist()) == {options.motes}
