"""Behind a gateway that reports no time of reception: beacons that are late break no order, up to the allowance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Line
from basestation.live.clock import line_allowance_ns
from basestation.live.happenings import Delivered
from basestation.live.station import Station
from basestation.planning.budget import GUESS_MS, PlannedNetwork, make_budget
from basestation.planning.candidates import candidates, named_candidates
from packet_formats.deployment import CRYSTAL_HZ
from tests.live.world import MS, TICK, Motes, arrival, beacon, deployment, mono_at, play

SETUP = deployment(policy="cbd", phi=100)
START = 100 * CRYSTAL_HZ
EPSILON, DELTA = SETUP.clock.epsilon, SETUP.clock.delta


def lines_of(delays: list[int], late: list[int], every: int = 20) -> tuple[list[Line], list[int]]:
    """Each message as late as G2 allows, in ticks; a beacon before every `every` messages, late by some cycles; and
    the ticks at which the messages were sent."""
    motes, frames, sent = Motes(SETUP, START), [], []
    for number, delay in enumerate(delays):
        at = START + 200 * TICK + number * 3 * TICK
        if number % every == 0:
            behind = late[number // every % len(late)]
            frames.append((mono_at(at - 150 * TICK + behind), 0, beacon(at - 150 * TICK)))
        data = motes.send(number % 4, at, (0, 1, 2, 3))
        frames.append((mono_at(at + delay * TICK), 1, data))
        sent.append(at // TICK)
    frames.sort(key=lambda frame: frame[:2])
    return [arrival(message, at + 4 * MS + n) for n, (at, _, message) in enumerate(frames)], sent


@given(
    st.lists(st.integers(0, DELTA), min_size=1, max_size=80),
    st.lists(st.integers(0, SETUP.late_guess * TICK), min_size=1, max_size=4),
)
def test_no_delay_of_beacons_up_to_the_allowance_breaks_the_order(delays, late):
    station = Station(SETUP)
    lines, _ = lines_of(delays, late)
    found = play(station, lines) + station.finish()
    delivered = [item for item in found if isinstance(item, Delivered)]
    assert [item.in_sync for item in delivered] == [True] * len(delays)
    assert station.snapshot(0).delivery.overtaken == 0
    assert station.snapshot(0).delivery.messages == len(delays)


def test_a_late_first_beacon_breaks_no_order_where_it_did():
    """30 ms and more let stamps be read 32 ticks too old."""
    lines, _ = lines_of([7 * n % (DELTA + 1) for n in range(1000)], [int(0.038 * CRYSTAL_HZ)], every=1000)
    station = Station(SETUP)
    play(station, lines)
    station.finish()
    assert station.snapshot(0).arrival.overtaken > 100
    assert station.snapshot(0).delivery.overtaken == 0


def test_plan_makes_room_for_late_beacons_and_a_full_queue():
    plain, foreign = (
        make_budget(PlannedNetwork(motes=10, board="micaz", rate=0.5, foreign_gateway=told))
        for told in (False, True)
    )
    clock = foreign.clock
    for stamp in candidates(foreign) + named_candidates(foreign):
        layout, lead = stamp.layout, max(stamp.scheme.setting.lead, clock.epsilon)
        spare = layout.modulus - 1 - clock.delta - clock.epsilon - lead
        assert spare * clock.tick_ms >= GUESS_MS >= 2 * line_allowance_ns() / MS
    assert {c.layout.clock_bits for c in candidates(plain)} != {
        c.layout.clock_bits for c in candidates(foreign)
    }
