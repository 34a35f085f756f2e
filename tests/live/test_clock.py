"""The observer's clock: it lags, it never leads, and it forecasts when it will be at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.live.clock import BEHIND, WRAP, ObserverClock, cycles_in, line_allowance_ns, time_for
from packet_formats.deployment import CRYSTAL_HZ
from tests.live.world import MS

SECOND = 10**9
ALLOWANCE = 150 * MS
SPEEDS = st.integers(-199, 199)  # ppm by which the network's crystal is off against the host's


def network_time(mono_ns: int, ppm: int, start: int = 1000) -> int:
    return start + mono_ns * CRYSTAL_HZ * (10**6 + ppm) // 10**15


GAPS = st.lists(
    st.tuples(st.integers(0, 20 * SECOND), st.integers(0, 3 * SECOND), st.integers(0, 1)),
    min_size=1,
    max_size=25,
)


@given(GAPS, SPEEDS, st.integers(0, 5 * SECOND))
def test_never_leads_whatever_the_lines_delays(gaps, ppm, after):
    """Two lines, any delays, crystals up to 200 ppm off: the clock is never ahead of the network."""
    clock = ObserverClock(ALLOWANCE)
    at, arrivals, free = 0, [], [0, 0]
    for gap, delay, line in gaps:
        at += gap
        free[line] = max(free[line] + 1, at + delay)  # a line keeps the order
        arrivals.append((free[line], line, network_time(at, ppm)))
    for mono_ns, line, time in sorted(arrivals):
        reading = clock.hear(line, time % WRAP, mono_ns)
        assert reading.cycles % WRAP == time % WRAP
        for later in (mono_ns, mono_ns + after):
            reached = clock.at(later)
            assert reached is not None
            assert reached - WRAP <= network_time(later, ppm)


@given(
    st.lists(st.tuples(st.integers(0, 10 * SECOND), st.integers(0, ALLOWANCE - 1)), min_size=1, max_size=30),
    SPEEDS,
)
def test_within_the_allowance_no_frame_is_overtaken(gaps, ppm):
    """While a line's delay varies by less than the allowance, the clock never falls and no record shows a lead."""
    clock, at, last, free = ObserverClock(ALLOWANCE), 0, 0, 0
    for gap, delay in gaps:
        at += gap
        free = max(free + 1, at + delay)
        if free - at >= ALLOWANCE:
            continue
        before = clock.at(free)
        reading = clock.hear(0, network_time(at, ppm) % WRAP, free)
        assert reading.led == 0
        assert before is None or reading.cycles >= before
        now = clock.at(free)
        assert now is not None
        assert now >= last
        last = now


@given(GAPS, st.integers(-CRYSTAL_HZ, 3 * CRYSTAL_HZ))
def test_when_is_the_first_moment(gaps, ahead):
    clock, at, free = ObserverClock(ALLOWANCE), 0, 0
    for gap, delay, _ in gaps:
        at += gap
        free = max(free + 1, at + delay)
        clock.hear(0, network_time(at, 0) % WRAP, free)
    now = clock.at(free)
    assert now is not None
    when = clock.when(now + ahead)
    assert when is not None
    if ahead <= 0:
        assert when <= free
    else:
        assert clock.at(when) >= now + ahead
        assert clock.at(when - 1) < now + ahead


@given(GAPS, st.integers(1, 3 * CRYSTAL_HZ), st.integers(0, 10 * SECOND))
def test_over_two_lines_what_is_promised_is_kept(gaps, ahead, later):
    """However far apart the lines are: the clock gets there when it said, and does not fall on the way."""
    clock, at, free = ObserverClock(ALLOWANCE), 0, [0, 0]
    for gap, delay, line in gaps:
        at += gap
        free[line] = max(free[line] + 1, at + delay)
        clock.hear(line, network_time(at, 0) % WRAP, free[line])
    now = max(free)
    reached = clock.at(now)
    assert reached is not None
    when = clock.when(reached + ahead)
    assert when is not None
    assert when > now
    assert clock.at(when) >= reached + ahead
    assert clock.at(when + later) >= clock.at(when)


@given(st.integers(0, 10**15))
def test_cycles_and_times_are_inverse(cycles):
    assert cycles_in(time_for(cycles)) >= cycles
    assert not cycles or cycles_in(time_for(cycles) - 1) < cycles


def test_no_time_is_known_before_the_first_record():
    clock = ObserverClock()
    assert clock.at(0) is None
    assert clock.when(5) is None
    assert clock.guess(0, 0) is None


def test_a_record_is_reached_at_once_and_extrapolation_stays_an_allowance_behind():
    clock = ObserverClock(ALLOWANCE)
    reading = clock.hear(0, 5000, SECOND)
    assert clock.at(SECOND) == reading.cycles
    assert clock.at(SECOND + ALLOWANCE) == reading.cycles
    a_second_on = clock.at(2 * SECOND + ALLOWANCE)
    assert a_second_on is not None
    assert CRYSTAL_HZ * 0.999 < a_second_on - reading.cycles < CRYSTAL_HZ


def test_the_32_bits_wrap_unseen():
    clock = ObserverClock(ALLOWANCE)
    first = clock.hear(0, WRAP - 10, 0)
    second = clock.hear(0, 5, MS)
    assert second.cycles == first.cycles + 15
    assert not second.restarted


def test_a_line_that_stalled_sets_the_clock_back_and_says_by_how_much():
    clock = ObserverClock(ALLOWANCE)
    first = clock.hear(0, 0, 0).cycles
    led = clock.at(60 * SECOND)
    stalled = clock.hear(0, 100, 60 * SECOND)
    assert led is not None
    assert stalled.led == led - (first + 100)
    assert clock.at(60 * SECOND) == first + 100
    assert clock.hear(0, 200, 60 * SECOND + 1).led == 0


def test_time_that_steps_back_on_a_line_started_afresh():
    clock = ObserverClock(ALLOWANCE)
    before = clock.hear(0, 10 * CRYSTAL_HZ, 0).cycles
    reading = clock.hear(0, 5, SECOND)
    assert reading.restarted
    assert reading.cycles > before
    assert reading.cycles % WRAP == 5
    assert clock.at(SECOND) == reading.cycles


def test_the_slowest_line_counts_but_not_one_that_is_far_behind_or_gone():
    clock = ObserverClock(ALLOWANCE)
    clock.hear("quick", 100_000, SECOND)
    slow = clock.hear("slow", 100_000 - CRYSTAL_HZ, SECOND).cycles
    assert clock.at(SECOND) == slow
    clock.lose("slow")
    assert clock.at(SECOND) == slow + CRYSTAL_HZ
    clock.hear("slow", 100_000 - CRYSTAL_HZ, SECOND)
    assert clock.at(SECOND) == slow
    clock.hear("quick", 100_000 + BEHIND, SECOND)
    assert clock.at(SECOND) == slow + CRYSTAL_HZ + BEHIND


def test_when_all_lines_are_gone_time_goes_on():
    clock = ObserverClock(ALLOWANCE)
    heard = clock.hear(0, 5, 0).cycles
    clock.lose(0)
    later = clock.at(10 * SECOND)
    assert later is not None
    assert later > heard


@pytest.mark.parametrize(("baud", "ms"), [(57600, 172), (115200, 94), (19200, 484)])
def test_the_allowance_is_a_full_queue_on_the_line(baud, ms):
    assert line_allowance_ns(baud) // MS == ms


def test_times_that_were_sent_only_set_the_clock_forward():
    clock = ObserverClock(ALLOWANCE)
    clock.suggest(0, 10_000, SECOND)
    before = clock.at(SECOND)
    clock.suggest(0, 2_000, SECOND + 1)  # a health message that took its time
    assert clock.at(SECOND + 1) == before
    assert clock.guess(0, SECOND) == WRAP + 10_000
