"""Motes whose memory is overwritten: violations end, and it is said how soon."""

from __future__ import annotations

import numpy as np
import pytest

from basestation.causality.stream import CORRUPT, Stream
from basestation.simulator import engine
from basestation.simulator.corruption import FAR, Corruption, corrupt_stream, draw_corruption
from basestation.simulator.options import WorldOptions
from tests.simulator.worlds import hlc, kn, outcome

MOTES, EPSILON, DELTA, AFTER = 10, 10, 10, 1000
SOON = 40  # ticks, at this epsilon and delta, to the last send in a violation; most seen here: 17
SCHEMES = {
    "kn": lambda options: kn(options, entry_max=31),
    "hlc": lambda options: hlc(options, entry_max=31),
    "shlc": lambda options: hlc(options, "shlc", entry_max=31),
    "shlc that carries": lambda options: hlc(options, "shlc", entry_max=7, modulus=64, carry="sum"),
}


def options_of(seed: int, messages: int = 4000, rate: float = 0.1) -> WorldOptions:
    return WorldOptions(
        motes=MOTES, epsilon=EPSILON, delta=DELTA, messages=messages, seed=seed, rate=rate, g2="enforce"
    )


FULL = np.full((MOTES, EPSILON + 1), 255, np.int64)


def far_ahead(name: str) -> Corruption:
    """Every mote's l is a quarter of the clock's range ahead, its counters full."""
    return Corruption(AFTER, np.full(MOTES, FAR), np.full(MOTES, EPSILON), FULL)


def at_the_bound(name: str) -> Corruption:
    """The worst that the bound lets pass: l as far ahead as a sound one could be, counters full."""
    lead = SCHEMES[name](options_of(0)).lead
    return Corruption(AFTER, np.zeros(MOTES, np.int64), np.full(MOTES, lead), FULL)


def recovery(stream: Stream, scheme, corruption: Corruption, motes: list[int]) -> tuple[int, int, int]:
    """Ticks from the fault to the last send that is in a violation; violations; messages sent after that."""
    corrupted, fault_clock = corrupt_stream(stream, corruption, motes)
    result = outcome(corrupted, scheme, corruption=corruption)
    if not result.in_violation.any():
        return 0, 0, stream.messages - AFTER - 1
    last = int(np.flatnonzero(result.in_violation).max())
    assert np.flatnonzero(result.in_violation).min() > AFTER - 300
    ticks = int(stream.sent_at[result.in_violation].max()) - fault_clock
    return ticks, result.violations.any, stream.messages - last - 1


def check(name: str, seed: int, motes: list[int], corruption: Corruption, rate: float = 0.1) -> int:
    options = options_of(seed, rate=rate)
    stream = engine.generate(options)
    scheme = SCHEMES[name](options)
    assert outcome(stream, scheme).violations.pairs == 0
    ticks, violating, after = recovery(stream, scheme, corruption, motes)
    assert ticks <= SOON
    assert after >= 1000
    return violating


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_one_corrupted_mote(name, rate):
    for seed in range(12):
        corruption = draw_corruption(MOTES, EPSILON, AFTER, seed)
        check(name, seed, [seed % MOTES], corruption, rate)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_all_motes_corrupted(name, rate):
    for seed in range(6):
        corruption = draw_corruption(MOTES, EPSILON, AFTER, seed)
        check(name, seed, list(range(MOTES)), corruption, rate)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("motes", [[3], list(range(MOTES))], ids=["one", "all"])
@pytest.mark.parametrize("state", [far_ahead, at_the_bound])
def test_l_far_ahead_and_l_at_the_bound(name, motes, state):
    for seed in range(3):
        check(name, seed, motes, state(name))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("motes", [1, MOTES])
def test_a_fault_does_harm_before_it_is_gone(name, motes):
    """Else the tests above would show nothing."""
    harm = [
        check(name, seed, list(range(motes)), corruption, rate=0.5)
        for seed in range(8)
        for corruption in (draw_corruption(MOTES, EPSILON, AFTER, seed), at_the_bound(name))
    ]
    assert sum(harm) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("motes", [1, MOTES])
def test_recovery_over_many_seeds(name, motes):
    worst = 0
    for seed in range(100, 300):
        options = options_of(seed, 2600)
        stream = engine.generate(options)
        corruption = draw_corruption(MOTES, EPSILON, AFTER, seed)
        chosen = [seed % MOTES] if motes == 1 else list(range(MOTES))
        ticks, _, after = recovery(stream, SCHEMES[name](options), corruption, chosen)
        worst = max(worst, ticks)
        assert after >= 1000
    assert worst <= SOON


def test_the_network_goes_on_as_it_did():
    """A fault changes only stamps: sends, receptions and truth stay the same."""
    stream = engine.generate(options_of(1))
    corrupted, clock = corrupt_stream(stream, draw_corruption(MOTES, EPSILON, AFTER, 1), [2, 5])
    faults = corrupted.event_kind == CORRUPT
    assert corrupted.event_mote[faults].tolist() == [2, 5]
    np.testing.assert_array_equal(corrupted.event_message[~faults], stream.event_message)
    np.testing.assert_array_equal(engine.vector_clocks(corrupted), engine.vector_clocks(stream))
    assert abs(clock - stream.sent_at[AFTER]) <= EPSILON


def test_drawn_states_are_of_every_kind():
    offsets = draw_corruption(30, EPSILON, AFTER, 1).offset
    assert (offsets >= FAR // 2).sum() >= 10
    assert (abs(offsets) <= EPSILON).sum() >= 10
    assert (offsets < -1000).any()
