"""What each stamp is worth: no violation at the whole wait for the exact ones, and the continuum below that."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from basestation.causality.schemes import TimedScheme
from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from tests.simulator.worlds import dpc, hlc, kn, one_byte, outcome

LOSSES = [0.0, 0.01, 0.1, 0.5]
GATEWAYS = [1, 3]
WIDE_ENOUGH = {"kn": 63, "hlc": 127, "shlc": 127}  # top codes of 6 and 7 bits


def exact(name: str, options: WorldOptions) -> TimedScheme:
    top = WIDE_ENOUGH[name]
    return kn(options, entry_max=top) if name == "kn" else hlc(options, name, entry_max=top)


def assert_no_violation(options: WorldOptions, policies: list[str]) -> None:
    stream = engine.generate(options)
    vectors = engine.vector_clocks(stream)
    for name, policy in product(WIDE_ENOUGH, policies):
        scheme = exact(name, options)
        result = outcome(stream, scheme, policy, vectors=vectors)
        assert result.violations.delivered == stream.arrivals > 0
        assert result.violations.related_pairs > stream.arrivals
        assert result.violations.pairs == 0, (name, policy)
        assert (result.wrong_unwraps, result.stamped.bounded, result.observed.bounded) == (0, 0, 0)
        assert not (result.stamped.kn == scheme.entry_max).any()


@pytest.mark.few(5)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("motes", [10, 50])
@pytest.mark.parametrize("gateways", GATEWAYS)
def test_the_whole_wait_leaves_no_violation(gateways, motes, loss):
    options = WorldOptions(motes=motes, messages=4000, loss=loss, g2="enforce", seed=motes, gateways=gateways)
    assert_no_violation(options, ["causal", "dapw", "cbd"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("motes", [10, 50])
@pytest.mark.parametrize("gateways", GATEWAYS)
def test_the_whole_wait_leaves_no_violation_in_a_long_run(gateways, motes, loss, seed):
    messages = 200_000 if motes == 10 else 100_000
    options = WorldOptions(
        motes=motes, messages=messages, loss=loss, g2="enforce", seed=seed, gateways=gateways
    )
    assert_no_violation(options, ["causal", "cbd"])


@pytest.mark.parametrize(
    ("delay", "recipients", "law"), list(product(["shared", "each"], ["all", "one"], ["half", "quarter"]))
)
@pytest.mark.parametrize("gateways", GATEWAYS)
def test_the_whole_wait_leaves_no_violation_in_other_readings(gateways, delay, recipients, law):
    for delay_clock, reception in product(["sender", "global"], ["message", "immediate"]):
        options = WorldOptions(
            messages=1500,
            g2="enforce",
            delay=delay,
            recipients=recipients,
            delay_law=law,
            delay_clock=delay_clock,
            reception=reception,
            gateways=gateways,
        )
        assert_no_violation(options, ["causal", "cbd"])


def assert_flagged_or_in_order(options: WorldOptions) -> int:
    """Deliver by the one-byte stamp; how many stamps were full. Only those may leave before a cause."""
    scheme = one_byte(options)
    result = outcome(engine.generate(options), scheme)
    full = int((result.stamped.kn == scheme.entry_max).sum())
    assert scheme.bits == 8
    assert (result.wrong_unwraps, result.stamped.bounded, result.observed.bounded) == (0, 0, 0)
    assert result.violations.forward <= full
    return full


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("motes", "most"), [(10, 0.001), (50, 0.01)])
def test_one_byte_is_seldom_full_at_rate_a_tenth(motes, most, seed):
    """B = 32 leaves a full counter one tick to carry."""
    for g2 in ("paper", "enforce"):
        options = WorldOptions(motes=motes, messages=10_000, seed=seed, g2=g2)
        assert assert_flagged_or_in_order(options) <= most * options.messages


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("motes", [10, 50])
def test_a_bit_more_of_clock_is_enough_at_rate_a_tenth(motes, seed):
    """B = 64 leaves a full counter all of epsilon to carry."""
    options = WorldOptions(motes=motes, messages=10_000, seed=seed)
    scheme = hlc(options, "shlc", modulus=64, entry_max=7, carry="sum")
    result = outcome(engine.generate(options), scheme)
    assert (scheme.bits, result.violations.pairs, result.wrong_unwraps) == (9, 0, 0)
    assert not (result.stamped.kn == scheme.entry_max).any()


def mean(options: WorldOptions, scheme: TimedScheme, policy: str, phi: int) -> float:
    stream = engine.generate(options)
    return outcome(stream, scheme, policy, phi).violations.percent()["mean"]


@pytest.mark.parametrize(("epsilon", "delta"), [(5, 10), (10, 10), (10, 20), (10, 30)])
@pytest.mark.parametrize("law", ["half", "quarter"])
def test_cbd_is_below_dapw_at_40_percent(epsilon, delta, law):
    options = WorldOptions(epsilon=epsilon, delta=delta, messages=8000, delay_law=law)
    cbd, dapw = (mean(options, kn(options), policy, 40) for policy in ("cbd", "dapw"))
    assert cbd < dapw
    assert dapw > 1


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("policy", ["causal", "cbd"])
def test_more_entries_mean_fewer_violations(policy, seed):
    """DPC1 and DPC2 > k = 2 > full = 0, and k = 6 is next to full."""
    options = WorldOptions(messages=20_000, seed=seed)
    stream = engine.generate(options)
    vectors = engine.vector_clocks(stream)
    ladder = {
        "dpc1": dpc(options, 1),
        "dpc2": dpc(options, 2),
        "k=2": kn(options, 2),
        "k=6": kn(options, 6),
        "full": kn(options),
    }
    figures = {
        name: outcome(stream, scheme, policy, vectors=vectors).violations.percent()["mean"]
        for name, scheme in ladder.items()
    }
    assert figures["full"] == 0
    assert figures["full"] <= figures["k=6"] < 2
    assert figures["k=6"] < figures["k=2"] < figures["dpc2"] <= figures["dpc1"]
    assert figures["dpc2"] > 10


def test_waiting_longer_delays_more_and_arrival_order_not_at_all():
    options = WorldOptions(messages=5000)
    stream = engine.generate(options)
    holds = []
    for phi in (0, 20, 40, 60, 80, 100):
        delivered = outcome(stream, kn(options), "dapw", phi).delivered
        hold = delivered.left - stream.arrival_clock[delivered.order]
        assert (hold >= 0).all()
        holds.append(hold.mean())
    assert holds == sorted(holds)
    none = outcome(stream, kn(options), "none")
    np.testing.assert_array_equal(none.delivered.left, stream.arrival_clock)
    assert none.violations.pairs > 0


def test_without_the_sequence_number_ties_cost_order():
    """One mote's two messages with the same stamp: the paper's key leaves them to chance."""
    options = WorldOptions(messages=20_000, delay="each", events_per_tick=3, rate=0.3)
    stream = engine.generate(options)
    scheme = dpc(options, 1)
    by_sequence = outcome(stream, scheme, ties="sequence").violations
    by_arrival = outcome(stream, scheme, ties="arrival").violations
    assert by_sequence.pairs < by_arrival.pairs
