"""A network with a schedule: everything happens in windows, and the order is as exact as ever."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.stream import SEND
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.simulation import build_named, generate, measure, measure_rule, world_for
from basestation.simulator.topology import in_groups
from tests.simulator.worlds import exact_schemes, relayed_network

NET = WorldOptions(
    epsilon=2, delta=148, period=2048, window=148, rate=0.0008, messages=2000, topology=in_groups(10, 3)
)


def test_all_happens_in_windows_and_in_its_own() -> None:
    stream = generate(NET).stream
    assert (stream.messages, stream.arrivals) == (2000, 2000)
    late = NET.epsilon  # a clock may be this far ahead
    assert (stream.sent_at % 2048 <= 148 / 4 + late).all()
    assert (stream.arrival_clock % 2048 <= 148 + late).all()
    waited = stream.arrival_clock - stream.sent_at[stream.arrival_message]
    assert waited.min() >= -late
    assert waited.max() <= 148 + late


def test_the_farthest_send_first_and_are_heard_by_those_beside_them() -> None:
    stream = generate(NET).stream
    phase, hops = NET.phase, np.array(NET.network.hops)
    begins = (3 - hops[stream.sent_by]) * phase
    within = stream.sent_at % 2048 - begins
    assert (within > -1 - NET.epsilon).all()
    assert (within < phase + NET.epsilon).all()
    heard = stream.event_kind != SEND
    apart = hops[stream.event_mote[heard]] - hops[stream.sent_by[stream.event_message[heard]]]
    assert set(apart.tolist()) == {-1, 0, 1}


def test_clocks_never_go_back_and_keep_g1_and_g2() -> None:
    options = replace(NET, epsilon=5, loss=0.2, messages=3000)
    stream = generate(options).stream
    for mote in range(options.motes):
        assert (np.diff(stream.event_clock[stream.event_mote == mote]) >= 0).all()
    heard = stream.event_kind != SEND
    apart = stream.event_clock[heard] - stream.sent_at[stream.event_message[heard]]
    assert abs(apart).max() <= options.epsilon  # it is heard when it is sent
    assert 0 < stream.messages - stream.arrivals < 0.2 * stream.messages


def test_lost_messages_arrive_in_a_later_round() -> None:
    delays = [
        run.stream.arrival_clock - run.stream.sent_at[run.stream.arrival_message]
        for run in (generate(NET), generate(replace(NET, loss=0.2)))
    ]
    assert np.percentile(delays[1], 90) > 2 * np.percentile(delays[0], 90)


@pytest.mark.few(2)
@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize(
    "topology", [in_groups(6, 3), relayed_network(), None], ids=["groups", "lossy", "one hop"]
)
def test_the_whole_wait_leaves_no_violation(topology, loss) -> None:
    for epsilon, rate, gateways in product((1, 5), (0.005, 0.05), (1, 3)):
        options = WorldOptions(
            motes=6,
            epsilon=epsilon,
            delta=60,
            period=300,
            window=60,
            rate=rate,
            messages=800,
            loss=loss,
            gateways=gateways,
            topology=topology,
        )
        run = generate(options)
        wrong = 0
        for scheme, policy in product(exact_schemes(options).values(), ("causal", "cbd")):
            arrival, exact = measure(run, scheme, [PolicyChoice("none", 0), PolicyChoice(policy, 100)])
            assert exact.delivered == run.stream.arrivals > 0
            assert exact.violations.pairs == exact.wrong_unwraps == exact.bounded == 0
            wrong += arrival.violations.pairs
        assert wrong > 0 or topology is None


def test_the_barrier_is_exact_and_hardly_waits() -> None:
    run = generate(world_for(replace(NET, loss=0.05), "barrier"))
    barrier = build_named(run.options, "barrier")
    (named,) = measure_rule(run, barrier, [PolicyChoice("barrier", 100)])
    assert named.violations.pairs == 0
    assert named.delivered == run.stream.arrivals
    clocked = exact_schemes(run.options)["shlc-sum"]
    (by_time,) = measure(run, clocked, [PolicyChoice("cbd", 100)])
    assert by_time.violations.pairs == 0
    assert named.hold_mean < by_time.hold_mean / 4


def test_a_mote_that_may_send_once_a_tick_waits_within_its_phase() -> None:
    busy = replace(NET, rate=0.01, messages=3000, second_send="waits")
    stream = generate(busy).stream
    for mote in range(busy.motes):
        assert (np.diff(stream.sent_at[stream.sent_by == mote]) > 0).all()
    assert (np.diff(generate(replace(busy, second_send="goes")).stream.sent_at) >= -busy.epsilon).all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"window": 0}, "give both"),
        ({"period": 0}, "give both"),
        ({"delta": 147}, "from 1 to delta, 147"),
        ({"period": 150}, "more than window and epsilon, 150"),
        ({"recipients": "one"}, "broadcasts only"),
    ],
)
def test_impossible_windows_are_refused(changes, reason) -> None:
    with pytest.raises(OptionError, match=reason):
        replace(NET, **changes)
