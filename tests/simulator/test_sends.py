"""Sends at any time: what a stream of them is, and which schemes need a second send in a tick to wait."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from basestation.causality.stream import SEND, Stream
from basestation.comparing.catalogue import Terms
from basestation.comparing.comparison import measure, place_of, simulated
from basestation.comparing.spread import measure_network
from basestation.simulator import engine
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulation import world_for
from packet_formats.schemes import descriptor, names
from tests.simulator.test_engines import assert_same
from tests.simulator.worlds import DELAY_CLOCKS, RECEPTIONS, every_option

NAMED_BY_TICK = ["delta-causal", "delta-vector", "two-hop"]
ANY_TIME = WorldOptions(messages=3000, sends="any")


def most_in_a_tick(stream: Stream) -> int:
    """The largest number of sends of one mote in one tick."""
    mote_and_tick = np.stack([stream.sent_by, stream.sent_at])
    return int(np.unique(mote_and_tick, axis=1, return_counts=True)[1].max())


def wrong(options: WorldOptions, scheme: str) -> float:
    """The messages in a violation, in per cent."""
    row = measure(place_of(options), [simulated(options)], scheme, Terms())
    return row.violations.percent()["any"]


@pytest.mark.parametrize(("delay_clock", "reception"), list(product(DELAY_CLOCKS, RECEPTIONS)))
def test_a_second_send_in_a_tick_waits_if_it_should(delay_clock, reception):
    for sends, second in (("any", "goes"), ("any", "waits"), ("tick", "waits")):
        fixed = {"delay_clock": delay_clock, "reception": reception, "sends": sends, "second_send": second}
        for options in every_option(50, ["paper", "enforce"], **fixed)[::7]:
            stream = engine.generate(options)
            assert second == "goes" or most_in_a_tick(stream) == 1


def test_a_mote_sends_several_times_in_a_tick_and_receives_in_between():
    stream = engine.generate(replace(ANY_TIME, rate=0.5, reception="immediate"))
    assert most_in_a_tick(stream) > 3
    between = 0
    for mote in range(stream.motes):
        here = stream.event_mote == mote
        events = list(zip(stream.event_kind[here].tolist(), stream.event_clock[here].tolist(), strict=True))
        sends = [i for i, (kind, _) in enumerate(events) if kind == SEND]
        between += sum(a + 1 < b and events[a][1] == events[b][1] for a, b in pairwise(sends))
    assert between > 100


@pytest.mark.parametrize("second_send", ["goes", "waits"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_mean_rate_is_the_one_asked_for(rate, second_send):
    options = replace(ANY_TIME, messages=20_000, rate=rate, second_send=second_send)
    stream = engine.generate(options)
    assert stream.messages / (stream.motes * stream.sent_at.max()) == pytest.approx(rate, rel=0.05)


def test_one_send_a_tick_is_never_delayed():
    options = WorldOptions(messages=2000, rate=0.5)
    assert world_for(options, "delta-vector") == options
    waiting = replace(options, second_send="waits")
    assert_same(engine.generate(options), engine.generate(waiting))


def test_schemes_that_name_a_send_by_its_tick_say_so():
    assert [name for name in names() if descriptor(name).one_send_a_tick] == NAMED_BY_TICK
    for name in ("none", *names()):
        waits = world_for(ANY_TIME, name).second_send == "waits"
        assert waits == (name in NAMED_BY_TICK)
        assert world_for(replace(ANY_TIME, second_send="goes"), name).second_send == "goes"


@pytest.mark.few(2)
@pytest.mark.parametrize("scheme", NAMED_BY_TICK)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_two_sends_in_a_tick_have_one_name(rate, scheme):
    """Without the wait the order breaks. With it the exact schemes are exact, and two-hop is better."""
    options = replace(ANY_TIME, rate=rate)
    without = wrong(replace(options, second_send="goes"), scheme)
    cured = wrong(world_for(options, scheme), scheme)
    assert without > (0.5 if rate == 0.1 else 5)
    assert cured < without / 10 if scheme == "two-hop" else cured == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_delta_vector_is_exact_at_any_time_of_sending(preset, loss):
    for seed, turns, gateways in ((1, 1, 1), (2, 3, 1), (1, 1, 3), (2, 3, 3)):
        readings = PRESETS[preset] | {"sends": "any"}
        readings |= {"gateways": gateways, "events_per_tick": turns}
        options = WorldOptions(messages=1500, rate=0.3, loss=loss, seed=seed, **readings)
        assert wrong(world_for(options, "delta-vector"), "delta-vector") == 0


def test_several_turns_in_a_tick_have_the_same_cure():
    options = WorldOptions(messages=2000, rate=0.3, events_per_tick=3)
    assert wrong(options, "delta-vector") > 5
    assert wrong(world_for(options, "delta-vector"), "delta-vector") == 0


def test_a_comparison_delays_sends_only_for_schemes_that_need_it():
    options = replace(ANY_TIME, messages=1000, rate=0.5, epsilon=5)  # B leaves shlc room to carry
    rows = {
        row.scheme: row
        for row in measure_network(options, ["none", "shlc", "vector", "delta-vector"], Terms(), 1)
    }
    assert rows["none"].violations.related_pairs == rows["vector"].violations.related_pairs
    assert rows["none"].violations.related_pairs != rows["delta-vector"].violations.related_pairs
    assert [rows[name].violations.pairs for name in ("shlc", "vector", "delta-vector")] == [0, 0, 0]
