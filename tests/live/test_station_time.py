"""The station: its clock, foreign gateways, policies that change, alarms, floods."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Line, LineCount
from basestation.live import delivering, overtakings
from basestation.live.guard import OTHERS
from basestation.live.happenings import (
    Alarm,
    Arrived,
    ClockChanged,
    Delivered,
    LineChanged,
    Note,
    PolicyChanged,
)
from basestation.live.station import Station
from basestation.views.lines import row_of
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.messages import Data
from tests.live.station_runs import BEFORE, SECOND, SETUP, START, drain, of, two_causes
from tests.live.world import (
    MS,
    TICK,
    WALL,
    Gateway,
    Motes,
    arrival,
    beacon,
    deployment,
    gap,
    health,
    mono_at,
    names,
    play,
)

# ---- Time ----


def test_each_message_leaves_at_its_time_not_when_the_next_frame_comes():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP, "causal")
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    assert not names(found)
    due = station.next_due()
    assert due is not None
    assert not station.advance(due - 1)
    (delivered,) = of(Delivered, station.advance(due))
    assert delivered.overdue_ms < 0.1
    # r + delta + epsilon, its tick over, and the allowance for the line
    waited = (3 + 12 + 1) * TICK * 1000 / CRYSTAL_HZ + 172 + 4
    assert (due - mono_at(START)) / MS == pytest.approx(waited, abs=8)


def test_a_new_epoch_delivers_what_is_held_and_starts_the_clock_anew():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    assert not names(found)
    fresh = Motes(SETUP, 50)
    fresh.sequences[1] = 9
    gateway.epoch = 1
    record = gateway.heard(data := fresh.send(1, 50), 50 + TICK)
    later = gateway.last_ns + 20 * MS
    found = station.take(arrival(record, later)) + station.take(arrival(data, later + 1))
    assert [item.what for item in of(ClockChanged, found)] == ["epoch"]
    assert names(found) == ["0#0"]
    (arrived,) = of(Arrived, found)
    assert arrived.cycles is not None
    assert arrived.cycles % 2**32 == 50 + TICK
    assert station.snapshot(later).epoch == 1
    assert names(drain(station)) == ["1#9"]
    ticks = [item.left for item in of(Delivered, found)]
    assert ticks == sorted(ticks)


@pytest.mark.parametrize("from_epoch", [True, False])
def test_a_copy_across_a_new_time_is_a_copy(from_epoch):
    """A message is heard, then time starts afresh, then a relay's copy of the message comes."""
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    sent = [motes.send(0, START + i * TICK) for i in range(3)]
    for i, data in enumerate(sent):
        play(station, gateway.hear(data, START + (i + 1) * TICK))
    gateway.epoch += from_epoch
    later = gateway.last_ns + 20 * MS
    for i, data in enumerate([Motes(SETUP, 50).send(1, 50), *sent]):
        record = gateway.heard(data, 50 + (i + 1) * TICK)
        station.take(arrival(record, later + 2 * i))
        station.take(arrival(data, later + 2 * i + 1))
    counts = station.snapshot(later).motes[0]
    assert (counts.received, counts.duplicates) == (3, 3)


def test_a_straggler_of_the_old_epoch_passes_without_a_time():
    motes, gateways = Motes(SETUP, START), (Gateway(SETUP, 0, epoch=1), Gateway(SETUP, 1, epoch=0))
    station = Station(SETUP)
    play(station, gateways[0].hear(motes.send(0, START), START + TICK))
    found = play(station, gateways[1].hear(motes.send(1, START), START + TICK))
    assert not of(ClockChanged, found)
    assert names(found) == ["1#0"]
    assert station.snapshot(0).motes[1].untimed == 1
    assert station.snapshot(0).epoch == 1


def test_an_epoch_that_only_looks_old_is_believed_when_the_present_one_is_gone():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP, epoch=9), Station(SETUP)
    play(station, gateway.hear(motes.send(0, START), START + TICK))
    gateway.epoch = 2
    found = play(
        station, gateway.hear(motes.send(0, START + 20 * CRYSTAL_HZ), START + 20 * CRYSTAL_HZ + TICK)
    )
    assert [item.what for item in of(ClockChanged, found)] == ["epoch"]
    assert station.snapshot(0).epoch == 2


def test_time_that_steps_back_without_an_epoch_is_a_restart():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    record = gateway.heard(data := Motes(SETUP, 50).send(1, 50), 50 + TICK)
    found += station.take(arrival(record, gateway.last_ns + MS)) + station.take(
        arrival(data, gateway.last_ns + MS)
    )
    assert [item.what for item in of(ClockChanged, found)] == ["restart"]
    assert names(found) == ["0#0"]
    assert names(drain(station)) == ["1#0"]


def test_a_gateway_without_the_time_gives_messages_without_one():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP, flags=0), Station(SETUP)
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    assert names(found) == ["0#0"]
    snapshot = station.snapshot(gateway.last_ns)
    assert snapshot.motes[0].untimed == 1
    assert snapshot.tick is None


# ---- Foreign gateways ----


def foreign_lines(count: int = 30) -> tuple[list[Line], list[str]]:
    """A BaseStation: frames only. A beacon now and then gives the time."""
    motes, lines, heard = Motes(SETUP, START), [], []
    order = []
    for number in range(count):
        at = START + number * 10 * TICK
        data = motes.send(number % 3, at, (0, 1, 2))
        order.append(f"{number % 3}#{number // 3}")
        heard.append((at + (9 if number % 2 else 1) * TICK, data))
        if number % 10 == 0:
            heard.append((at, beacon(at)))
    for place, (cycles, message) in enumerate(sorted(heard, key=lambda item: item[0])):
        lines.append(arrival(message, mono_at(cycles) + 4 * MS + place))
    return lines, order


def test_behind_a_foreign_gateway_beacons_give_the_time_and_it_says_so_once():
    lines, order = foreign_lines()
    station = Station(SETUP, "cbd", 100)
    station.add_gateway(0, "sf@localhost:9002")
    found = play(station, lines)
    found += drain(station)
    notes = of(Note, found)
    assert len(notes) == 1
    assert "sf@localhost:9002 sends no heard records" in notes[0].text
    assert names(found) == order
    (gateway,) = station.snapshot(0).gateways
    assert gateway.foreign
    assert station.snapshot(0).delivery.overtaken == 0


def test_before_any_time_is_known_messages_pass_without_one():
    lines, _ = foreign_lines(4)
    station = Station(SETUP, "cbd", 100)
    found = play(station, [line for line in lines if b"\x70" not in line.packet[3:4]])
    assert len(names(found)) == 4
    assert sum(mote.untimed for mote in station.snapshot(0).motes) == 4


def test_who_speaks_as_ever_new_gateways_does_not_fill_the_memory():
    """Reports without a record are taken for those of our own gateways."""
    station = Station(SETUP)
    motes = SETUP.network.motes
    play(station, [arrival(health(1, 0, SETUP), 1)])
    play(station, [arrival(health(source, 0, SETUP), source * 10**9) for source in range(motes, 500)])
    assert 1 in station._reports._boots
    assert len(station._reports._boots) == len(station._reports._reported_ns) == 1 + OTHERS
    assert max(station._reports._boots) == 499


def test_memory_is_bounded_while_no_time_is_known(monkeypatch):
    monkeypatch.setattr(overtakings, "MOST_WINDOW", overtakings.LEAST_WINDOW)
    count = 3 * overtakings.LEAST_WINDOW
    lines, _ = foreign_lines(count)
    station = Station(SETUP, "none")
    found = play(station, [line for line in lines if b"\x70" not in line.packet[3:4]])
    assert len(names(found)) == count
    assert len(station.violations.graph._unsettled) <= overtakings.LEAST_WINDOW


# ---- Policies while running ----


@pytest.mark.parametrize("policy", [("none", 100), ("causal", 100), ("dapw", 30), ("cbd", 50), ("cbd", 0)])
def test_what_is_held_moves_over_to_the_new_policy(policy):
    lines, _ = two_causes()
    station = Station(SETUP, "cbd", 100)
    found = play(station, lines)
    assert names(found) == BEFORE
    changed = station.set_policy(*policy)
    (change,) = of(PolicyChanged, changed)
    assert (change.policy, change.phi, change.held) == (*policy, 3)
    found = changed + drain(station)
    assert sorted(names(found)) == ["0#1", "1#1", "2#1"]
    assert station.snapshot(0).policy == policy[0]
    assert station.snapshot(0).earlier == (("cbd", 100, None),)
    assert not any(item.late for item in of(Delivered, found))
    if policy[0] != "none":
        assert names(found) == ["0#1", "1#1", "2#1"]
    else:
        assert names(changed) == ["2#1", "0#1", "1#1"]


def test_a_wrong_policy_changes_nothing():
    station = Station(SETUP, "cbd", 100)
    for wrong in (("fifo", 100), ("cbd", 101)):
        with pytest.raises(ValueError, match=r"policy|phi"):
            station.set_policy(*wrong)
    assert (station.policy, station.phi) == ("cbd", 100)


def test_the_queue_says_what_is_held_until_when_and_why():
    lines, gateway = two_causes()
    station = Station(SETUP, "cbd", 100)
    play(station, lines)
    queue = station.snapshot(gateway.last_ns).queue
    assert [row.name for row in queue] == ["0#1", "1#1", "2#1"]
    assert all(row.due_ms is not None and row.due_ms > 0 for row in queue)
    assert all(row.why.startswith("until tick") for row in queue)
    station.set_policy("cbd", 1)
    motes = Motes(SETUP, START)
    for mote, at, heard in ((0, 0, 20), (1, 12, 21)):
        data = motes.send(mote, START + at * TICK)
        play(station, gateway.hear(data, START + heard * TICK))
    assert station.snapshot(gateway.last_ns).held == len(station.snapshot(gateway.last_ns).queue)


def test_cbd_says_which_message_another_waits_for():
    """A due message waits while the queue holds a lesser one: hlc's c lets a lesser one be due later."""
    setup = deployment()
    station = Station(setup, "cbd", 50)
    gateway, motes = Gateway(setup), Motes(setup, START)
    early = motes.send(0, START)
    play(station, gateway.hear(early, START + TICK))
    (row,) = station.snapshot(gateway.last_ns).queue
    assert row.why == f"until tick {((START >> 7) + 9 + (1 << 25))} is over"


# ---- Alarms ----


def test_a_silent_mote_raises_an_alarm_and_clears_it():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    found = []
    for number in range(40):
        at = START + number * CRYSTAL_HZ
        if not 10 <= number < 20:
            found += play(station, gateway.hear(motes.send(0, at), at + TICK))
        found += play(station, gateway.hear(motes.send(1, at + TICK), at + 2 * TICK))
    alarms = [(item.what, item.subject, item.raised) for item in of(Alarm, found)]
    assert alarms == [("mote", 0, True), ("mote", 0, False)]
    raised = of(Alarm, found)[0]
    assert "mote 0 has been silent for 5.0 s; it sent every 1.0 s" in raised.text
    assert station.snapshot(gateway.last_ns).alarms == ()


def test_a_silent_gateway_raises_an_alarm_and_its_motes_are_not_blamed():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    station.add_gateway(0, "serial@/dev/ttyUSB1")
    for number in range(8):
        at = START + number * 10 * CRYSTAL_HZ
        play(station, gateway.hear(motes.send(0, at), at + TICK))
    found = []
    while (due := station.next_due()) is not None:
        found += station.advance(due)
    alarms = [item for item in of(Alarm, found) if item.what != "missing"]
    assert [(item.what, item.raised) for item in alarms] == [("gateway", True)]
    assert "serial@/dev/ttyUSB1 has been silent for 30 s" in alarms[0].text
    assert alarms[0].text in station.snapshot(0).alarms


def test_a_gateway_that_never_says_anything_raises_one_too():
    station = Station(SETUP)
    station.add_gateway(0, "x")
    station.take(LineCount(0, SECOND, WALL + SECOND))
    assert station.next_due() == 31 * SECOND
    (alarm,) = of(Alarm, station.advance(31 * SECOND))
    assert alarm.raised
    assert alarm.wall_ns == WALL + 31 * SECOND, "the time of day, though no frame has told it"
    assert station.next_due() is None


def test_a_lost_line_is_an_alarm_until_it_is_back():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    found += station.take(gap(gateway.last_ns + 1, back=False))
    assert station.snapshot(0).alarms == ("the line of gateway 0 is lost: unplugged",)
    assert not station.snapshot(0).gateways[0].live
    assert names(drain(station)) == ["0#0"]
    found += station.take(gap(gateway.last_ns + SECOND, back=True))
    assert station.snapshot(0).alarms == ()
    assert [item.back for item in of(LineChanged, found)] == [False, True]
    assert station.snapshot(0).gateways[0].gaps == 1


def test_a_health_report_that_was_relayed_too_is_one_report():
    station = Station(SETUP)
    first = health(2, START, SETUP)
    relayed = replace(first, flags=first.flags | 0x40)
    later = health(2, START + TICK, SETUP)
    found = [
        item
        for at, report in enumerate((first, relayed, first, later))
        for item in station.take(arrival(report, SECOND + at))
    ]
    copies = [item.copy for item in found if isinstance(item, Arrived)]
    assert copies == [False, True, True, False]
    rows = [row_of(item) for item in found]
    assert [row.kind for row in rows if row].count("health") == 2


def test_a_mote_built_for_another_layout_is_told_by_its_health():
    station = Station(SETUP)
    found = station.take(arrival(health(2, START, SETUP, layout=1), SECOND))
    assert [(item.what, item.subject, item.raised) for item in of(Alarm, found)] == [("layout", 2, True)]
    assert station.snapshot(0).motes[0].wrong_layout
    found = station.take(arrival(health(2, START, SETUP), 2 * SECOND))
    assert [item.raised for item in of(Alarm, found)] == [False]


# ---- Floods ----


def test_a_flood_of_anything_leaves_memory_bounded(monkeypatch):
    """Thousands of frames at one instant, from few motes, in any order, between random bytes."""
    monkeypatch.setattr(delivering, "MOST_HELD", 200)
    chance = random.Random(3)
    station, gateway = Station(SETUP, "cbd", 100), Gateway(SETUP)
    delivered = received = 0
    for number in range(1500):
        data = Data(
            source=chance.randrange(4),
            sequence=chance.randrange(256),
            stamp=(chance.randrange(32), chance.randrange(8)),
            boot=chance.randrange(8) if number % 50 == 0 else 0,
            receipts=((5, chance.randrange(256)), (6, 254)),
            data=bytes(4),
        )
        found = play(station, gateway.hear(data, START))
        garbage = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 20)))
        found += station.take(arrival(garbage, gateway.last_ns))
        delivered += len(of(Delivered, found))
        received += len([item for item in of(Arrived, found) if item.number])
        assert station.leaving.held <= 200
    snapshot = station.snapshot(gateway.last_ns)
    assert snapshot.forced > 0
    assert snapshot.delivered == delivered
    assert snapshot.received == received == delivered + snapshot.held
    graph = station.violations.graph
    assert len(graph) <= 4096
    assert sum(map(len, graph._chains)) <= len(graph) + 4  # of a silent mote the newest stays
    assert len(snapshot.queue) <= 200


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=60))
def test_nothing_that_comes_breaks_it(packets):
    station = Station(SETUP)
    for number, raw in enumerate(packets):
        for item in station.take(arrival(raw, number * MS)):
            assert item.wall_ns - item.mono_ns == WALL
    assert station.snapshot(0).gateways == () or station.snapshot(0).gateways[0].frames == len(packets)


def test_deliveries_never_go_back_in_the_hosts_time():
    lines, _ = two_causes()
    station = Station(SETUP)
    found = play(station, lines) + drain(station)
    assert all(a.mono_ns <= b.mono_ns for a, b in pairwise(found))


def test_what_a_record_makes_due_is_not_overdue():
    """A record may set the clock far forward: no delivery was possible before it came."""
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP, "causal")
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    found += play(station, gateway.hear(motes.send(1, START + 25 * TICK), START + 26 * TICK))
    (delivered,) = of(Delivered, found)
    assert delivered.held_ms > 90
    assert delivered.overdue_ms < 0.1


def test_a_copy_that_brings_the_time_is_no_later_message():
    """Who joins midway may miss the record of the first frame: the next copy of it brings the first time known."""
    data = Motes(SETUP, START).send(3, START, sequence=22)
    gateway = Gateway(SETUP)
    first, copy = gateway.hear(data, START), gateway.hear(data, START + TICK)
    station = Station(SETUP)
    found = play(station, [first[1], *copy]) + station.finish()
    assert names(found) == ["3#22"]
    assert station.motes[3].duplicates == 1
