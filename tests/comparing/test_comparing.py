"""The comparison: ours come out as in the simulator, sizes are exact, and the figures say what the schemes are."""

from __future__ import annotations

import numpy as np
import pytest

from basestation.causality.order import Message
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.rules import NEVER
from basestation.causality.stream import MERGE, RECEIVE
from basestation.comparing.catalogue import NAMES, Terms, build
from basestation.comparing.comparison import (
    ComparisonRow,
    KnownStream,
    SweepPoint,
    measure,
    most_motes,
    sweep,
)
from basestation.comparing.spread import measure_network
from basestation.simulator import simulation as simulator
from basestation.simulator.options import WorldOptions
from basestation.simulator.scheme_run import play
from basestation.simulator.simulation import build_scheme, generate
from packet_formats.schemes import ordered

SMALL = WorldOptions(motes=6, epsilon=5, delta=8, messages=600, rate=0.2)


@pytest.mark.parametrize("delivery", [("none", 0), ("causal", 100), ("dapw", 40), ("cbd", 0), ("cbd", 100)])
@pytest.mark.parametrize("name", ordered())
def test_ours_deliver_as_in_the_simulator(name, delivery):
    policy, phi = delivery
    run = generate(WorldOptions(messages=500, loss=0.05, reception="message", delay="each"))
    played = play(run.stream, build(name, run.options, Terms(policy, phi)))
    (expected,) = simulator.measure(run, build_scheme(run.options, name), [PolicyChoice(policy, phi)])
    assert simulator.engine.violations(run.stream, run.vectors, played.order) == expected.violations
    assert (played.hold.mean(), played.late) == (pytest.approx(expected.hold_mean), expected.late)
    assert set(played.bits.tolist()) == {expected.scheme.bits}


def rows(options: WorldOptions, terms: Terms | None = None) -> dict[str, ComparisonRow]:
    return {row.scheme: row for row in measure_network(options, NAMES, terms or Terms(), seeds=1)}


EXACT = ("history", "vector", "matrix", "kn", "hlc", "shlc")


@pytest.mark.few(2)
@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("gateways", [1, 3])
def test_which_schemes_are_exact(gateways, loss):
    found = rows(WorldOptions(motes=8, messages=1000, loss=loss, delay="each", gateways=gateways))
    assert {name for name in EXACT if found[name].violations.pairs} == set()
    for name in ("none", "dpc1", "sequence", "scalar", "last-sender", "dpc2"):
        assert found[name].violations.pairs > 0, name
    two_hop, none = (found[name].violations.percent()["mean"] for name in ("two-hop", "none"))
    assert two_hop < none
    assert two_hop > 0 or gateways > 1  # by the slowest line's clock it waits longer
    assert len({row.arrived for row in found.values()}) == 1
    assert all(row.violations.delivered + row.discarded == row.arrived for row in found.values())
    assert found["vector"].hold_mean < found["shlc"].hold_mean
    assert found["scalar"].concurrent
    assert found["vector"].concurrent


def test_rules_that_never_give_up_get_stuck():
    found = rows(WorldOptions(motes=8, messages=400, loss=0.1), Terms(give_up=NEVER))
    for name in ("sequence", "scalar", "history", "vector", "matrix"):
        assert found[name].stuck > found[name].arrived / 2, name
    for name in ("none", "dpc1", "delta-causal", "two-hop", "shlc"):
        assert found[name].stuck == 0, name


def test_sizes_and_where_they_end():
    options = WorldOptions()
    sizes = {name: build(name, options, Terms()).most_bits for name in NAMES}
    assert sizes == {
        "none": 0, "dpc1": 5, "sequence": 0, "scalar": 8, "last-sender": 4 + 8, "history": 16,
        "vector": 9 * 8, "matrix": 100 * 8, "delta-causal": 5 + 100 * 6, "delta-vector": 5 + 10 * 6,
        "two-hop": 5 + 20 * 6,
        "dpc2": 9, "kn": 53, "hlc": 13, "shlc": 8, "barrier": 6 + 3 + 7 + 6 * 8,
    }  # fmt: skip
    limits = {name: most_motes(name, options, Terms(), 0) for name in NAMES}
    square = ("matrix", "delta-causal")
    assert {name: limits[name] for name in ("vector", *square, "delta-vector", "two-hop", "history")} == {
        "vector": 27, "matrix": 5, "delta-causal": 5, "delta-vector": 33, "two-hop": 16, "history": 0,
    }  # fmt: skip
    assert most_motes("matrix", options, Terms(), 4) == 4
    assert limits["shlc"] == limits["sequence"] == 239


@pytest.mark.parametrize("name", ["scalar", "last-sender", "vector", "matrix"])
def test_eight_bits_of_a_counter_are_enough_to_read_it_by_the_nearest(name):
    """At every receive, each counter is less than half of 256 away from what the receiver knows."""
    run = generate(WorldOptions(motes=8, messages=1500, loss=0.2, delay="each", rate=0.5))
    stream = run.stream
    method = build(name, run.options, Terms())
    programs = [method.start(mote) for mote in range(stream.motes)]
    known = [dict[int, int]() for _ in range(stream.motes)]
    sent, farthest = [], 0
    columns = (stream.event_kind, stream.event_mote, stream.event_clock, stream.event_message)
    for kind, mote, clock, message in zip(*(c.tolist() for c in columns), strict=True):
        if kind in (RECEIVE, MERGE):
            source, index, stamp = sent[message]
            kn = dict([stamp.kn]) if name == "last-sender" and stamp.kn else dict(enumerate(stamp.kn))
            for place, counter in kn.items():
                farthest = max(farthest, abs(counter - known[mote].get(place, 0)))
                known[mote][place] = max(known[mote].get(place, 0), counter)
            programs[mote].on_receive(clock, [Message(source, index, stamp)])
        else:
            index = int(stream.sent_index[message])
            sent.append((mote, index, programs[mote].on_send(clock, index)))
    assert 0 < farthest < 128


def test_a_sweep_takes_all_combinations():
    found = sweep(WorldOptions(), {"motes": [5, 10], "loss": [0.0, 0.1]})
    assert [(o.motes, o.loss) for o in found] == [(5, 0.0), (5, 0.1), (10, 0.0), (10, 0.1)]


def test_seeds_are_summed_up():
    one, other = (generate(WorldOptions(messages=300, seed=seed)) for seed in (1, 2))
    place = SweepPoint(10, 10, 10, 0.1, 0.0)
    both = [KnownStream(run.stream, run.vectors, run.options) for run in (one, other)]
    apart = [measure(place, [recorded], "vector", Terms()) for recorded in both]
    together = measure(place, both, "vector", Terms())
    assert together.arrived == sum(row.arrived for row in apart)
    assert together.violations.related_pairs == sum(row.violations.related_pairs for row in apart)
    weights = [row.violations.delivered for row in apart]
    assert together.hold_mean == pytest.approx(np.average([row.hold_mean for row in apart], weights=weights))


@pytest.mark.parametrize("gateways", [1, 3])
@pytest.mark.parametrize("name", ["delta-causal", "delta-vector"])
def test_delta_causal_keeps_the_order_though_clocks_differ_and_messages_are_lost(name, gateways):
    """Of two that become free in one tick, both past their deadlines, the cause may have the later time of sending."""
    options = WorldOptions(motes=10, epsilon=10, delta=10, loss=0.1, messages=1000, seed=2, gateways=gateways)
    run = generate(options)
    played = play(run.stream, build(name, run.options, Terms()))
    assert simulator.engine.violations(run.stream, run.vectors, played.order).pairs == 0
