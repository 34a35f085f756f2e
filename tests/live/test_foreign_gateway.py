"""Gateways that send no heard records: order is kept where the clock field has room for guesses, else not promised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.live.clock import line_allowance_ns
from basestation.live.happenings import Note
from basestation.views.lines import summary

from .several import Several, order, overtaken, run
from .world import MS

EXACT = ["barrier", "delta-vector", "shlc", "kn"]
LEVEL = Several(seconds=25, hears=(0.9,), lines_ms=(2.0,), foreign=(0,))
ALLOWANCE_MS = line_allowance_ns() / MS
UNPROMISED = "no order is promised"


def with_room(options: Several) -> Several:
    """With a clock field that allows for a full queue and a beacon as late."""
    bits = options.deployment.clock.clock_bits
    wider = (replace(options, clock_bits=more) for more in range(bits, bits + 8))
    return next(one for one in wider if room_ms(one) >= options.allowance_ms)


def room_ms(options: Several) -> float:
    """What a beacon, and a frame on the line, may each be late."""
    setup = options.deployment
    return setup.late_guess * setup.clock.tick_seconds * 1000 / 2


@pytest.mark.few(3)
@pytest.mark.parametrize("ticks", [(3, 32), (1, 8), (8, 4)])
@pytest.mark.parametrize("scheme", EXACT)
def test_on_a_level_line_the_fewest_bits_with_any_room_keep_order(scheme, ticks):
    options = replace(LEVEL, scheme=scheme, ticks=ticks)
    _, network, found = run(replace(options, slow_ms=min(6.0, room_ms(options))), 1)
    sends = order(network, found)
    assert len(sends) > 200
    assert overtaken(sends) == 0


@pytest.mark.few(3)
@pytest.mark.parametrize("foreign", [(True,), (True, True), (True, False)])
@pytest.mark.parametrize("scheme", EXACT)
def test_with_room_a_full_queue_and_late_beacons_break_no_order(scheme, foreign):
    slow = replace(LEVEL, scheme=scheme, slow_ms=ALLOWANCE_MS, beacon_ms=ALLOWANCE_MS)
    count, which = len(foreign), tuple(number for number, one in enumerate(foreign) if one)
    options = with_room(replace(slow, hears=(0.8,) * count, lines_ms=(2.0,) * count, foreign=which))
    station, network, found = run(options, 2)
    assert overtaken(order(network, found)) == 0
    notes = [one.text for one in found if isinstance(one, Note)]
    assert len(notes) == len(which)
    assert all("Order is kept if no beacon is more than" in note for note in notes)
    assert UNPROMISED not in "\n".join(summary(station.snapshot(0)))


@given(
    st.sampled_from(EXACT),
    st.sampled_from([(3, 32), (2, 27), (10, 10), (2, 64)]),
    st.sampled_from([0.5, 2.0, 8.0]),
    st.sampled_from([6.0, 86.0, 170.0]),
    st.sampled_from([0.0, 50.0, 170.0]),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_with_room_no_line_and_no_beacon_within_it_breaks_order(
    scheme, ticks, rate, slow_ms, beacon_ms, timers, seed
):
    world = Several(scheme, ticks, 4, rate, 16 / rate, 0.3, slow_ms=slow_ms, timers=timers)
    options = replace(world, hears=(0.9,), lines_ms=(2.0,), foreign=(0,), beacon_ms=beacon_ms)
    _, network, found = run(with_room(options), seed)
    assert overtaken(order(network, found)) == 0


@pytest.mark.parametrize("scheme", ["shlc", "kn", "delta-vector"])
def test_without_room_order_breaks_and_none_is_promised(scheme):
    """A guess that is one tick late lets an old stamp be read B ticks too new."""
    station, network, found = run(replace(LEVEL, scheme=scheme, ticks=(2, 27)), 1)
    assert overtaken(order(network, found)) > 0
    (note,) = [one.text for one in found if isinstance(one, Note)]
    assert "No order is promised: a frame may take 172 ms longer than the quickest on the line" in note
    said = "\n".join(summary(station.snapshot(0)))
    assert f"{UNPROMISED}: the times of reception at gateway 0 are guesses" in said


def test_a_stamp_without_a_clock_promises_no_order():
    station, _, found = run(replace(LEVEL, scheme="vector", seconds=5), 1)
    (note,) = [one.text for one in found if isinstance(one, Note)]
    assert "No order is promised: how long to wait for a message goes by a guess" in note
    assert UNPROMISED in "\n".join(summary(station.snapshot(0)))


def test_our_own_gateways_need_no_room():
    station, _, _ = run(replace(LEVEL, foreign=(), seconds=5), 1)
    assert UNPROMISED not in "\n".join(summary(station.snapshot(0)))
