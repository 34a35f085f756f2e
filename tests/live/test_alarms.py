"""When alarms are raised, and when they are over: once each, at their own time, and not for chance."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from basestation.arrivals import Line, LineCount
from basestation.live.alarms import (
    GATEWAY_SILENCE_NS,
    KINDS,
    OVER_NS,
    REBOOTS_NS,
    SYNC_NS,
    Alarms,
)
from basestation.live.counters import GatewayCounts, MoteCounts
from basestation.live.evidence import FEW, LEAST_NS, PERIODS, SECOND, WINDOW, Drain, Losses, Pauses
from basestation.live.happenings import Alarm, Happening, Restarted
from basestation.live.station import Station
from basestation.outputs.plain_forms import plain_mote
from packet_formats.deployment import CRYSTAL_HZ, Deployment, MoteDetails, RadioSettings, load
from packet_formats.records import duty_code
from tests.live.world import TICK, WALL, Gateway, Motes, arrival, deployment, gap, health, mono_at, play

SETUP = deployment(policy="none")
START = 100 * CRYSTAL_HZ
QUIET = ("missing", "mote", "gateway")
Seen = list[tuple[str, int, bool]]


def alarms_in(found: list[Happening], but: tuple[str, ...] = ("missing",)) -> list[Alarm]:
    return [item for item in found if isinstance(item, Alarm) and item.what not in but]


def seen(found: list[Happening], but: tuple[str, ...] = ("missing",)) -> Seen:
    return [(alarm.what, alarm.subject, alarm.raised) for alarm in alarms_in(found, but)]


def messages(
    motes: tuple[int, ...],
    seconds: range | list[float],
    skip: set[int] = frozenset(),
    setup: Deployment = SETUP,
    **more,
) -> list[Line]:
    """A message of each mote at each second, numbered by it; those of `skip` are lost."""
    network, gateway = Motes(setup, START), Gateway(setup)
    network.sequences = [int(seconds[0])] * 4
    for number, second in enumerate(seconds):
        for mote in motes:
            at = START + int(second * CRYSTAL_HZ) + mote * TICK
            data = network.send(mote, at, **more)
            if number not in skip:
                gateway.hear(data, at + TICK)
    return gateway.out


def raised_by(station: Station) -> tuple[str, ...]:
    return station.snapshot(0).alarms


# ---- Silence ----


def limit_after(pauses: list[float]) -> float:
    learnt = Pauses()
    for pause in pauses:
        learnt.add(pause)
    return learnt.limit_ns


def test_a_regular_mote_may_miss_a_few_periods_and_a_fast_one_a_least_time():
    assert limit_after([10 * SECOND] * FEW) == PERIODS * 10 * SECOND
    assert limit_after([SECOND // 100] * FEW) == LEAST_NS
    assert limit_after([10 * SECOND] * 3) > 100 * 10 * SECOND, "who knows yet that it is regular?"


def test_an_outage_does_not_make_the_next_one_go_unnoticed():
    regular = [SECOND] * 200
    assert limit_after([*regular, 36_000 * SECOND]) < 60 * SECOND
    assert limit_after([*regular, 36_000 * SECOND, *regular]) < 20 * SECOND


def random_senders(seed: int, motes: int, each: int) -> int:
    """Motes that send at random times, and how many alarms were raised; then they all fall silent."""
    draw = random.Random(seed)
    counts = {mote: MoteCounts() for mote in range(motes)}
    alarms = Alarms(counts, {0: GatewayCounts()}, motes)
    mean, at, raised = draw.choice((0.5, 5, 60)) * SECOND, float(SECOND), 0
    for _ in range(motes * each):
        at += draw.expovariate(motes / mean)
        while (due := alarms.next_check) is not None and due < at:
            raised += len(alarms.check(due, due))
        mote = draw.randrange(motes)
        raised += len(alarms.mote_seen(mote, counts[mote], int(at), int(at)))
    found = alarms.check(int(at + 40 * mean), 0)
    assert len(found) == motes, "those that really fall silent are found within 40 of their mean pauses"
    return raised


def test_a_random_sender_does_not_flap():
    """At most one false alarm in 100,000 messages; each would be seen twice, raised and over."""
    assert sum(random_senders(seed, motes=10, each=500) for seed in range(20)) <= 2


def test_an_alarm_calls_a_mote_by_its_name():
    station = Station(replace(SETUP, motes=(MoteDetails(2, "Old bridge"),)))
    play(station, messages((0, 2), range(20)))
    texts = [alarm.text for alarm in station.advance(10**18) if alarm.what == "mote"]
    assert [text.split(" has")[0] for text in texts] == ["mote 0", "mote 2 (Old bridge)"]


def test_a_lost_line_takes_the_place_of_a_silent_gateway_and_no_mote_is_blamed():
    station = Station(SETUP)
    lines = messages((0, 1, 2, 3), range(20))
    last = lines[-1].mono_ns
    quiet = last + GATEWAY_SILENCE_NS
    lines += [gap(quiet + SECOND, back=False), gap(quiet + 2000 * SECOND, back=True)]
    found = play(station, lines)
    assert seen(found)[:4] == [(*("mote", mote), True) for mote in range(4)], "the gateway may well be there"
    assert seen(found)[4:] == [
        ("gateway", 0, True),
        ("gateway", 0, False),
        ("line", 0, True),
        ("line", 0, False),
    ]
    station = Station(SETUP)
    lines = messages((0, 1, 2, 3), range(20))
    lines += [gap(last + SECOND, back=False), gap(last + 2000 * SECOND, back=True)]
    found = play(station, lines) + station.advance(last + 2004 * SECOND)
    assert seen(found) == [("line", 0, True), ("line", 0, False)], "motes have not had time to be silent"
    assert seen(station.advance(last + 2006 * SECOND)) == [("mote", mote, True) for mote in range(4)]


def test_a_gateway_that_does_not_report_may_be_silent_as_long_as_it_often_was():
    draw = random.Random(1)
    times, at = [], 0.0
    for _ in range(200):
        at += draw.expovariate(1 / 20)
        times.append(at)
    found = play(Station(SETUP), messages((0,), times))
    assert len(seen(found)) <= 4, "only while its habits are unknown"


def test_motes_that_were_never_heard_are_named_until_all_were():
    station = Station(SETUP)
    lines = (
        messages((0, 1), range(100)) + messages((0, 1, 3), range(110, 112)) + messages((2,), range(120, 121))
    )
    found = play(station, lines[:-2])
    (alarm,) = [item for item in alarms_in(found, ()) if item.what == "missing"]
    assert alarm.text == "2 of 4 motes heard; missing: 2, 3"
    assert alarm.wall_ns == WALL + lines[0].mono_ns + 90 * SECOND
    assert raised_by(station)[0] == "3 of 4 motes heard; missing: 2"
    found = play(station, lines[-2:])
    assert [(item.what, item.raised) for item in alarms_in(found, ())][-1] == ("missing", False)


def test_motes_with_a_schedule_have_longer_to_be_heard():
    """They report their health every ten minutes, and an app need not send anything else."""
    scheduled = replace(SETUP, radio=RadioSettings(16000, 1152))
    lines = messages((0, 1), range(0, 1000, 5), setup=scheduled)
    (alarm,) = [item for item in alarms_in(play(Station(scheduled), lines), ()) if item.what == "missing"]
    assert alarm.mono_ns == lines[0].mono_ns + 900 * SECOND


def test_motes_with_a_schedule_are_silent_between_windows():
    """The few milliseconds between messages of a window are not how often a mote sends."""
    scheduled = replace(SETUP, radio=RadioSettings(64000, 1152))
    times = [64 * window + 0.012 * message for window in range(20) for message in range(4)]
    lines = messages((0, 1, 2, 3), times, setup=scheduled)
    station = Station(scheduled)
    assert [alarm for alarm in alarms_in(play(station, lines)) if alarm.what == "mote"] == []
    assert station.motes[0].pauses.mean_ns == pytest.approx(64 * SECOND, rel=0.01)


def aged(codes: list[int], setup: Deployment) -> list[Line]:
    """Messages of a mote whose events had these ages, one in 4 s."""
    network, gateway = Motes(setup, START), Gateway(setup)
    for number, code in enumerate(codes):
        at = START + 4 * number * CRYSTAL_HZ
        gateway.hear(network.send(1, at, age=code), at + TICK)
    return gateway.out


def test_a_mote_that_makes_more_than_its_windows_take_is_told():
    """Its messages have waited for longer than a period, also long after an outage."""
    scheduled = replace(SETUP, radio=RadioSettings(16000, 1152))
    young, old, again = 100, 150, 230
    calm = aged([young] * 50 + [old] * 27 + [young] * 200 + [again] * 100, scheduled)
    assert [one for one in seen(play(Station(scheduled), calm)) if one[0] == "backlog"] == []
    station = Station(scheduled)
    found = play(station, aged([young, old, old] * 50 + [young] * 120, scheduled))
    alarms = [alarm for alarm in alarms_in(found) if alarm.what == "backlog"]
    assert [(alarm.subject, alarm.raised) for alarm in alarms] == [(1, True), (1, False)]
    assert (
        alarms[0].text
        == "mote 1 makes more messages than its windows take: 48 of the last 128 waited for over a period"
    )


def test_a_mote_that_was_heard_once_is_missed_in_the_end():
    station = Station(SETUP)
    lines = messages((0, 1, 2, 3), range(1))
    at = lines[-1].mono_ns
    reported = [arrival(health(0, START, SETUP), at + 20 * second * SECOND) for second in range(1, 400)]
    found = [one for one in alarms_in(play(station, [*lines, *reported])) if one.subject == 3]
    assert [one.text for one in found] == ["mote 3 was heard once, and has been silent for 7200 s since"]


# ---- What motes report ----


def reports(*batteries: int, **more) -> list[Line]:
    """Health reports, a minute apart."""
    return [
        arrival(
            replace(health(2, START + minute, SETUP), battery=battery // 20, **more), minute * 60 * SECOND
        )
        for minute, battery in enumerate(batteries, 1)
    ]


DAY = 86_400 * SECOND


def cells(*days: int, swing: int = 0) -> Drain:
    """Readings an hour apart, in steps of 20 mV, with these means of each day; colder by `swing` at night."""
    drain = Drain()
    for day, millivolts in enumerate(days):
        for hour in range(24):
            shown = millivolts + (swing if hour < 12 else -swing)
            drain.add(shown // 20 * 20, day * DAY + hour * 3600 * SECOND)
    return drain


@pytest.mark.parametrize(
    ("days", "swing", "left"),
    [
        ((3100, 3000, 2900, 0), 0, 2.0),
        ((3100, 3000, 2900, 0), 60, 2.0),  # nights say nothing
        ((3100, 0), 0, None),  # a day is not enough
        ((3000, 2980, 2960, 0), 0, None),  # two steps: perhaps the weather
        ((3000, 2980, 2960, 2940, 0), 0, 12.0),
        ((3000, 3000, 3000, 3000, 0), 40, None),
        ((2900, 2800, 3100, 3000, 2900, 0), 0, 2.0),  # new cells
        ((2800, 2700, 2600, 0), 0, 0.0),
    ],
)
def test_days_left_come_from_a_clear_fall_alone(days, swing, left):
    assert cells(*days, swing=swing).days_left == (None if left is None else pytest.approx(left, abs=0.01))


def test_a_fall_over_weeks_is_told_when_its_end_is_near():
    fall = [3200 - 3 * day for day in range(160)]
    first = next(day for day in range(160) if cells(*fall[:day]).days_left is not None)
    # By 60 days before 2.7 V: (3200 - 2700) / 3 - 60 is day 106, and the last day is not over.
    assert first == pytest.approx(108, abs=3)


def test_a_mote_s_days_are_in_its_row():
    station = Station(SETUP)
    told = [3100, 3000, 2900, 2890]
    lines = [
        arrival(replace(health(2, START + day, SETUP), battery=battery // 20), day * DAY + SECOND)
        for day, battery in enumerate(told)
    ]
    play(station, lines)
    (row,) = [mote for mote in station.snapshot(0).motes if mote.mote == 2]
    assert row.battery_days == pytest.approx(2.0)


def test_a_low_battery_is_told_once_though_its_reading_wavers():
    found = play(Station(SETUP), reports(2900, 2820, 2800, 2840, 2780, 2860, 0, 2900, 2840))
    assert seen(found, QUIET) == [("battery", 2, True), ("battery", 2, False)]
    assert alarms_in(found, QUIET)[0].text == "mote 2's battery is low: 2780 mV"
    assert alarms_in(found, QUIET)[0].wall_ns == WALL + 5 * 60 * SECOND


def test_one_low_reading_alone_is_no_alarm():
    found = play(Station(SETUP), reports(3000, 2600, 2980, 2700, 2900))
    assert seen(found, QUIET) == []


def test_a_mote_that_starts_again_and_again_is_told_and_one_boot_is_counted_once():
    station = Station(SETUP)
    lines, boots = [], (1, 2, 3)
    for minute, boot in enumerate(boots, 1):
        at = minute * 60 * SECOND
        lines += [line._replace(mono_ns=at + number, wall_ns=WALL + at + number) for number, line in enumerate(
            messages((2,), range(1), boot=boot))]  # fmt: skip
        lines.append(arrival(replace(health(2, minute, SETUP), boots=boot), at + SECOND))
    assert seen(play(station, lines), QUIET) == [], "two reboots, seen in messages and in health"
    found = play(station, [arrival(replace(health(2, 9, SETUP), boots=4), 240 * SECOND)])
    assert seen(found, QUIET) == [("reboots", 2, True)]
    found = play(station, [arrival(replace(health(1, 9, SETUP), boots=4), 241 * SECOND + REBOOTS_NS)])
    (over,) = [item for item in alarms_in(found) if item.what == "reboots"]
    assert (over.raised, over.mono_ns) == (False, 240 * SECOND + REBOOTS_NS)


def test_boots_that_nobody_heard_count_too():
    reported = [replace(health(2, at, SETUP), boots=boots) for at, boots in enumerate((5, 9))]
    lines = [arrival(report, (at + 1) * SECOND) for at, report in enumerate(reported)]
    assert ("reboots", 2, True) in seen(play(Station(SETUP), lines))


def test_a_mote_that_has_lost_count_is_told_to_have_started():
    """Its memory was erased, or another mote is in its place: an older report would have come sooner."""
    counts = ((0, 60), (30, 1), (120, 1), (180, 2))
    lines = [arrival(replace(health(2, at, SETUP), boots=boots), (at + 1) * SECOND) for at, boots in counts]
    found = play(Station(SETUP), lines)
    assert [(one.boots, one.mono_ns // SECOND) for one in found if isinstance(one, Restarted)] == [
        (1, 121),
        (2, 181),
    ]


def test_what_was_sent_while_the_line_was_gone_is_no_loss_of_the_motes():
    gone = range(20, 220)
    lines = messages((0,), range(440), set(gone))
    before = [line for line in lines if line.mono_ns < mono_at(START) + 100 * SECOND]
    after = lines[len(before) :]
    off = [gap(before[-1].mono_ns + SECOND, back=False), gap(after[0].mono_ns - SECOND, back=True)]
    station = Station(SETUP)
    assert ("losing", 0, True) not in seen(play(station, [*before, *off, *after]))
    assert station.motes[0].lost == len(gone), "they are counted all the same"


def test_losses_are_told_when_many_and_over_when_few():
    lost = set(range(10, 10 + WINDOW, 3))
    found = play(Station(SETUP), messages((0,), range(4 * WINDOW), lost))
    assert seen(found, ("missing", "mote")) == [("losing", 0, True), ("losing", 0, False)]
    assert "of the last messages of mote 0 were lost" in alarms_in(found)[0].text


def test_a_share_of_losses_between_the_two_does_not_flap():
    """At 12%, the worst between 5 and 20, at most one alarm in 10,000 messages."""
    raised = 0
    for seed in range(10):
        draw, losses, received, high = random.Random(seed), Losses(), 0, False
        for sent in range(1, 10_001):
            received += draw.random() >= 0.12
            losses.update(received, sent - received)
            if losses.share is not None and losses.share >= 0.2 and not high:
                raised, high = raised + 1, True
            high = high and (losses.share or 0) > 0.05
    assert raised <= 10


def test_a_mote_that_has_lost_the_time_is_told_when_it_lasts():
    station = Station(SETUP)
    short = messages((0,), range(5), in_sync=False) + messages((0,), range(5, 20))
    assert seen(play(station, short)) == []
    lasting = messages((0,), range(20, 60), in_sync=False)
    (alarm,) = alarms_in(play(station, lasting))
    assert (alarm.what, alarm.raised) == ("sync", True)
    assert alarm.mono_ns - lasting[1].mono_ns == pytest.approx(SYNC_NS, abs=2 * SECOND)
    assert seen(play(station, messages((0,), range(60, 100)))) == [("sync", 0, False)]


# ---- Lines, time, disk ----


def test_bytes_without_a_frame_are_an_alarm_until_a_frame_comes():
    station = Station(SETUP)
    station.add_gateway(0, "serial@/dev/ttyUSB1:57600")
    looks = [LineCount(0, SECOND, WALL + SECOND), LineCount(0, 5 * SECOND, WALL + 5 * SECOND, 400)]
    found = [item for look in looks for item in station.take(look)]
    assert seen(found) == [("speed", 0, True)]
    assert found[0].text == "serial@/dev/ttyUSB1:57600 sent 400 bytes but no frame: wrong speed?"
    assert found[0].wall_ns == WALL + 5 * SECOND
    assert station.snapshot(0).gateways[0].alarms == ("speed",)
    assert seen(station.take(arrival(health(2, 0, SETUP), 6 * SECOND))) == [("speed", 0, False)]


def test_a_new_root_epoch_is_an_alarm_for_a_while():
    station, gateway, motes = Station(SETUP), Gateway(SETUP), Motes(SETUP, START)
    found = play(station, gateway.hear(motes.send(0, START), START + TICK))
    for epoch in (1, 2):
        gateway.epoch = epoch
        found += play(station, gateway.hear(motes.send(0, START), START + epoch * CRYSTAL_HZ))
    assert seen(found) == [("epoch", 0, True)]
    assert "root epoch 2 follows 1" in raised_by(station)[0]
    over = mono_at(START + 2 * CRYSTAL_HZ) + OVER_NS + SECOND
    assert ("epoch", 0, False) in seen(station.advance(over))


def test_a_fault_of_the_disk_is_told_once():
    station = Station(SETUP)
    told = [
        station.alarms.disk(fault, at, WALL + at)
        for at, fault in enumerate(("", "full", "fuller", "", ""), 1)
    ]
    assert [seen(found) for found in told] == [[], [("disk", 0, True)], [], [("disk", 0, False)], []]
    assert told[3][0].text == "over: fuller"


# ---- All of them ----


def troubled() -> list[Line]:
    """A run in which much goes wrong."""
    lines = (
        messages((0, 1), range(60))
        + messages((0,), range(60, 200))
        + reports(2900, 2700, 2700, 2950, layout=1)
    )
    last = max(line.mono_ns for line in lines)
    lines += [gap(last + SECOND, back=False), gap(last + 90 * SECOND, back=True)]
    return [*lines, arrival(health(2, 0, SETUP), last + 200 * SECOND)]


def test_a_late_timer_or_none_changes_no_alarm():
    punctual, late = play(Station(SETUP), troubled()), play(Station(SETUP), troubled(), timers=False)
    assert len({alarm.what for alarm in alarms_in(punctual, ())}) >= 5
    assert alarms_in(punctual, ()) == alarms_in(late, ())


def test_each_kind_is_raised_before_it_is_over():
    state: dict[tuple[str, int], bool] = {}
    for alarm in alarms_in(play(Station(SETUP), troubled()), ()):
        assert alarm.what in KINDS
        assert alarm.raised != state.get((alarm.what, alarm.subject), False)
        state[alarm.what, alarm.subject] = alarm.raised


def test_a_mote_s_duty_is_in_its_row(root: Path) -> None:
    sleepers = load(root / "examples/micaz_months.toml")
    station = Station(sleepers)
    told = replace(health(2, START, sleepers), tail=bytes([duty_code(0.0107)]))
    play(station, [arrival(told, SECOND, setup=sleepers)])
    (row,) = [mote for mote in station.snapshot(0).motes if mote.mote == 2]
    assert row.duty == pytest.approx(0.0107, rel=0.07)
    assert row.duty_days == pytest.approx(290, rel=0.15)
    assert plain_mote(row, 0)["duty_days"] == pytest.approx(290, rel=0.15)
