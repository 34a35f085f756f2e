"""The judge, on logs in which everything is known."""

from dataclasses import replace

import pytest

from basestation.deployed import promises_order
from basestation.testbed.judge import judge
from basestation.testbed.testbed_report import lines_of
from packet_formats.deployment import from_dict
from packet_formats.messages import Data
from packet_formats.records import Arrived, Taken
from tests.live.world import health
from tests.testbed.worlds import AIRTIME, MS, SECOND, TICK_NS, World, deployment, network, on_air, stamped


@pytest.fixture
def world():
    made = World()
    made.boot()
    return made


def report_of(world):
    return judge(world.events(), [world.network])


def judged(world):
    (found,) = report_of(world).networks
    return found


def chain(world, lower=0):
    """Mote 0's message a goes to mote 1, which then sends b; b reaches the gateway before a does, through mote 2."""
    first, second, relay = world.network.motes
    a = stamped(world, 0, 7, SECOND)
    world.send(SECOND, a, to=(second, relay))
    later = SECOND + 10 * MS
    b = stamped(world, 1, 9, later, ticks=-lower)
    world.send(later, b, to=(first, world.gateway))
    world.copy(SECOND + 30 * MS, relay, a, to=(world.gateway,))
    return a, b


def test_what_happened_before_is_less(world):
    chain(world)
    found = judged(world)
    assert (found.order.messages, found.order.pairs, found.order.broken) == (2, 1, 0)
    assert found.order.last_broken is None
    assert (found.order.unreadable, found.order.altered, found.order.unmatched) == (0, 0, 0)


def test_a_stamp_that_contradicts_it_is_found(world):
    chain(world, lower=6)
    found = judged(world)
    assert (found.order.pairs, found.order.broken) == (1, 1)
    assert found.order.last_broken == pytest.approx(1.010)
    assert found.order.since == 0
    assert any("contradict" in trouble for trouble in report_of(world).troubles)


def test_messages_after_the_last_broken_pair_are_counted(world):
    chain(world, lower=6)
    for number in range(4):
        at = (2 + number) * SECOND
        world.send(at, stamped(world, 2, number, at))
    order = judged(world).order
    assert (order.broken, order.since) == (1, 4)


def test_a_message_out_of_sync_orders_nothing(world):
    a = stamped(world, 0, 7, SECOND)
    world.send(SECOND, a, to=(1,))
    world.send(SECOND + 10 * MS, Data(1, 1, (0, 0), in_sync=False))
    found = judged(world)
    assert (found.fates.stamped, found.fates.out_of_sync) == (2, 1)
    assert (found.order.messages, found.order.pairs) == (1, 0)


def test_stamps_of_two_epochs_are_not_compared(world):
    world.send(SECOND, stamped(world, 0, 7, SECOND), to=(1,))
    world.record(2 * SECOND, 1, "epoch", 2)
    at = 3 * SECOND
    world.send(at, stamped(world, 1, 1, at, ticks=-3))
    order = judged(world).order
    assert (order.messages, order.unreadable, order.pairs) == (1, 1, 0)
    world.beacon(4 * SECOND, epoch=2)
    order = judged(world).order
    assert (order.messages, order.unreadable, order.pairs, order.broken) == (2, 0, 0, 0)


def test_arrivals_out_of_causal_order(world):
    chain(world)
    found = judged(world)
    assert (found.arrivals.messages, found.arrivals.related, found.arrivals.inverted) == (2, 1, 1)
    assert found.arrivals.involved_percent == 100
    assert (found.fates.arrived, found.fates.relayed) == (2, 1)


def test_the_observer_delivers_them_in_order(world):
    chain(world)
    found = judged(world)
    assert (found.delivered.messages, found.delivered.related, found.delivered.inverted) == (2, 1, 0)
    assert found.observer_late == 0
    assert (found.line.frames, found.line.data, found.line.unknown, found.line.dropped_bytes) == (4, 2, {}, 0)
    assert (found.line.unpaired, found.line.lost) == (0, 0)


def test_what_two_gateways_hear_is_delivered_once():
    """The station takes all lines: a copy that the second gateway hears is the same message."""
    world = World(network(gateways=2))
    world.boot()
    for number in range(4):
        at = SECOND + number * 50 * MS
        world.send(at, stamped(world, number % 3, number, at), to=world.network.gateways)
    found = judged(world)
    assert (found.fates.arrived, found.delivered.messages) == (4, 4)
    assert (found.line.frames, found.line.data, found.line.unpaired) == (16, 8, 0)


def test_a_cause_that_one_gateway_hears_goes_before_its_effect_at_the_other():
    world = World(network(gateways=2))
    world.boot()
    near, far = world.network.gateways
    a, b = stamped(world, 0, 7, SECOND), stamped(world, 1, 4, SECOND + 5 * MS)
    world.send(SECOND, a, to=(1, 2))
    world.send(SECOND + 5 * MS, b, to=(near,))
    world.copy(SECOND + 20 * MS, 2, a, to=(far,))
    found = judged(world)
    assert (found.arrivals.inverted, found.delivered.inverted) == (1, 0)
    assert (found.delivered.messages, found.delivered.related) == (2, 1)


def test_the_delay_is_that_of_the_first_copy(world):
    a = stamped(world, 0, 7, SECOND)
    world.send(SECOND, a, air_after=5 * MS, to=(2,))
    world.copy(SECOND + 20 * MS, 2, a, to=(world.gateway,))
    world.copy(SECOND + 40 * MS, 1, a, to=(world.gateway,))
    delay = judged(world).delay
    assert delay.messages == 1
    assert delay.longest_ms == pytest.approx((20 * MS + AIRTIME) / MS)
    assert delay.ticks == round(delay.longest_ms * MS / TICK_NS)
    assert delay.beyond == 0


def test_a_message_later_than_delta_is_found(world):
    a = stamped(world, 0, 7, SECOND)
    world.send(SECOND, a, to=(2,))
    world.copy(SECOND + 33 * TICK_NS + MS, 2, a, to=(world.gateway,))
    delay = judged(world).delay
    assert (delay.ticks, delay.beyond) == (33, 1)


def test_every_message_has_one_fate(world):
    world.send(SECOND, stamped(world, 0, 1, SECOND), to=(world.gateway,))
    at = 2 * SECOND
    number = world.send(at, stamped(world, 0, 2, at))
    world.outcome(number, world.gateway, "damaged")
    at = 3 * SECOND
    world.record(at, 0, "send", 0, 3)
    world.record(at + MS, 0, "late", 0, 3)
    at = 4 * SECOND
    world.send(at, stamped(world, 0, 4, at), to=(1,))
    world.record(at + 90 * MS, 1, "late", 0, 4)
    world.record(5 * SECOND, 0, "send", 0, 5)
    world.record(6 * SECOND, 0, "late", 0, 6)  # dropped before it was stamped: none of ours
    fates = judged(world).fates
    assert (fates.stamped, fates.arrived, fates.late, fates.unsent, fates.lost) == (5, 1, 2, 1, 1)
    assert fates.arrived_percent == 20
    assert report_of(world).outcomes == {"damaged": 1, "received": 2}


def test_reports_of_arrival_are_transmissions_too(world):
    world.send(SECOND, stamped(world, 0, 0, SECOND), to=(world.gateway,))
    for answer in (Arrived(0, 0), Taken(*[0] * 8)):
        world.signal(2 * SECOND, world.gateway, on_air(answer, world.network.deployment))
    assert judged(world).transmissions == 3


def test_numbers_come_again_after_256(world):
    for round_ in (1, 2):
        at = round_ * SECOND
        world.send(at, stamped(world, 0, 5, at), to=(1, world.gateway))
        world.send(at + 5 * MS, stamped(world, 1, round_, at + 5 * MS), to=(world.gateway,))
    found = judged(world)
    assert (found.fates.stamped, found.fates.arrived) == (4, 4)
    assert found.order.pairs == 1 + 1 + 3  # each own pair, a to b twice, a1 to b2
    assert found.order.broken == 0


def test_a_copy_with_another_stamp_is_found(world):
    a = stamped(world, 0, 7, SECOND)
    world.send(SECOND, a, to=(2,))
    world.copy(SECOND + 20 * MS, 2, stamped(world, 0, 7, SECOND, ticks=2), to=(world.gateway,))
    assert judged(world).order.altered == 1


def test_a_reception_of_an_unsent_message_is_found(world):
    world.record(SECOND, 1, "receive", 0, 200)
    assert judged(world).order.unmatched == 1


def test_recorders_must_be_whole(world):
    assert (report_of(world).gaps, report_of(world).missed) == (0, 0)
    world.add(SECOND, "recorder", node=0, number=5, kind="relay", peer=1, sequence=1, tick=0)
    world.add(SECOND, "missed", node=0, count=3)
    report = report_of(world)
    assert (report.gaps, report.missed) == (1, 3)
    assert "incomplete" in report.troubles[0]


def test_a_reboot_begins_the_numbers_anew(world):
    world.record(SECOND, 0, "boot", 0, 2)
    assert report_of(world).gaps == 0


def test_driver_faults_and_resets_are_reported(world):
    world.add(SECOND, "reset", node=1, cause="watchdog")
    world.add(SECOND, "fault", node=1, what="STXON while the oscillator is off")
    world.add(2 * SECOND, "script", line="at 2 off 1")
    world.add(3 * SECOND, "end", reason="end", slices=4)
    report = report_of(world)
    assert report.driver_faults == ("node 1 at 1.000000 s: STXON while the oscillator is off",)
    assert (report.resets, report.script, report.ended, report.seconds) == ({"watchdog": 1}, 1, "end", 3.0)


def test_bytes_that_are_no_frame_and_frames_of_others(world):
    world.hand_up(SECOND, stamped(world, 0, 1, SECOND))
    world.add(2 * SECOND, "uart", node=world.gateway, bytes="7e4200000000007e")
    line = judged(world).line
    assert line.dropped_bytes == 6
    assert line.data == 1


def test_another_network_on_the_ether_is_not_ours(world):
    other = World(network(deployment("brook", tinyos=2), first=10))
    other.boot()
    chain(world)
    chain(other)
    for line in other.lines:  # its signals are others
        line.update(
            {
                name: line[name] + 1000
                for name in ("number", "signal")
                if name in line and line["is"] != "recorder"
            }
        )
    both = judge([*world.events(), *other.events()], [world.network, other.network])
    alone = judged(world)
    assert both.networks[0] == alone
    assert both.networks[1].order == alone.order
    assert both.networks[1].fates == alone.fates


def test_mica2_frames_are_read_too():
    world = World(network(deployment(board="mica2")))
    world.boot()
    chain(world)
    found = judged(world)
    assert (found.order.pairs, found.order.broken, found.arrivals.inverted) == (1, 0, 1)


def test_a_mote_that_fell_silent_is_found(world):
    for node in world.network.motes:
        world.add(0, "power", node=node, on=True)
    for second in range(1, 30):
        for mote in (0, 1, 2):
            if mote == 0 or second < 20:
                at = (second + mote / 10) * SECOND
                world.send(at, stamped(world, mote, second, at), to=(world.gateway,))
    world.add(20 * SECOND, "power", node=2, on=False)
    found = judged(world).motes
    assert [(mote.id, mote.stamped, mote.arrived, mote.silent) for mote in found] == [
        (0, 29, 29, False),
        (1, 19, 19, True),
        (2, 19, 19, False),
    ]
    assert found[1].last == pytest.approx(19.1, abs=0.1)
    assert "meadow: mote 1 fell silent at 19.1 s" in report_of(world).troubles


def test_a_mote_that_sends_only_on_events_is_not_silent_while_it_reports_its_health(world):
    first, second, _ = world.network.motes
    for node in (first, second):
        world.add(0, "power", node=node, on=True)
    for number in range(4):
        for mote in (0, 1):
            at = (1 + number / 2 + mote / 10) * SECOND
            world.send(at, stamped(world, mote, number, at), to=(world.gateway,))
    report = on_air(health(0, 0, world.network.deployment), world.network.deployment)
    for at in (20, 60, 100):
        world.signal(at * SECOND, first, report)
    world.add(130 * SECOND, "power", node=first, on=True)
    assert [mote.silent for mote in judged(world).motes] == [False, True, False]
    assert judged(world).motes[0].last == pytest.approx(100)


def test_the_table_names_the_figures(world):
    chain(world)
    rows = dict(lines_of(report_of(world)))
    assert rows["arrival order"].startswith("100.0% of messages")
    assert rows["stamps"].startswith("0 of 1 pairs")
    assert "2 stamped, 2 at a gateway (100.0%, 1 of them by relay)" in rows["messages"]


def test_an_empty_log_is_no_trouble():
    report = judge([], [network()])
    assert report.networks[0].fates.stamped == 0
    assert report.ended == "not at all"
    assert lines_of(report)


@pytest.mark.parametrize(
    ("scheme", "policy", "phi", "promised"),
    [
        ("hlc", "cbd", 100, True),
        ("hlc", "causal", 100, True),
        ("hlc", "cbd", 50, False),
        ("hlc", "sequence", 100, False),
        ("hlc", "none", 100, False),
        ("dpc2", "cbd", 100, False),
        ("vector", "vector", 100, True),
        ("vector", "sequence", 100, False),
        ("last-sender", "last-sender", 100, False),
    ],
)
def test_what_a_rule_never_promised_is_no_fault_of_the_run(world, scheme, policy, phi, promised):
    chain(world)
    report = report_of(world)
    (found,) = report.networks
    tables = world.network.deployment.to_dict() | {
        "stamp": {"scheme": scheme},
        "observer": {"policy": policy},
    }
    tables["observer"] |= {"phi": phi} if phi < 100 else {}
    assert promises_order(from_dict(tables)) == promised
    wrong = replace(found.delivered, inverted=1)
    judgement = replace(report, networks=(replace(found, delivered=wrong, promised=promised),))
    assert ("meadow: 1 pair delivered in the wrong order" in judgement.troubles) == promised
    shown = dict(lines_of(judgement))["delivered"]
    assert "1 pairs out of causal order" in shown
    assert ("promises no causal order" in shown) != promised


def test_the_observers_own_policy_is_judged(world):
    observer = replace(world.network.deployment.observer, policy="none")
    world.network = replace(world.network, deployment=replace(world.network.deployment, observer=observer))
    chain(world)
    report = report_of(world)
    (found,) = report.networks
    assert (found.delivered.inverted, found.promised) == (1, False)
    assert not any("wrong order" in trouble for trouble in report.troubles)
