"""The station: what it pairs, orders, counts and reports; and that a log played back delivers the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Arrival, Line
from basestation.journal.decision import Noted
from basestation.live.happenings import (
    Acknowledged,
    Arrived,
    ClockChanged,
    Delivered,
    Reboot,
    Restarted,
    Strange,
    Violation,
)
from basestation.live.station import Station
from basestation.simulator import engine
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.framing import FrameCounters, FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import StartCause, Status
from packet_formats.tinyos import Ack, ActiveMessage, encode_packet
from tests.live.station_runs import BEFORE, SECOND, SETUP, START, drain, of, two_causes
from tests.live.world import (
    MS,
    TICK,
    WALL,
    Gateway,
    Motes,
    arrival,
    deliveries,
    gap,
    health,
    mono_at,
    names,
    packet,
    play,
)

# ---- Live equals replay, and order ----

SENDS = st.lists(
    st.tuples(
        st.integers(0, 3),  # mote
        st.integers(0, 15 * TICK),  # cycles since the last send
        st.integers(1, 12 * TICK),  # on the air, up to delta
        st.integers(0, 20 * MS),  # on the line
        st.integers(0, 2),  # heard by gateway 0, 1 or both
        st.booleans(),  # peers hear it
    ),
    min_size=1,
    max_size=40,
)


def traffic(sends, jitter_ns: int = 0) -> list[Line]:
    motes, gateways = Motes(SETUP, START), (Gateway(SETUP, 0), Gateway(SETUP, 1))
    at, heard = START, []
    for mote, wait, air, line_ns, by, peers in sends:
        at += wait
        receivers = tuple(other for other in range(4) if other != mote) if peers else ()
        data = motes.send(mote, at, receivers)
        for gateway in (0, 1) if by == 2 else (by,):
            heard.append((at + air + 7 * gateway, gateway, line_ns + jitter_ns * gateway, data))
    for cycles, gateway, line_ns, data in sorted(heard, key=lambda item: item[:2]):
        gateways[gateway].hear(data, cycles, 4 * MS + line_ns)
    return sorted(gateways[0].out + gateways[1].out, key=lambda line: line.mono_ns)


POLICIES = st.sampled_from(
    [("none", 100), ("causal", 100), ("dapw", 40), ("cbd", 100), ("cbd", 30), ("cbd", 0)]
)


@given(SENDS, POLICIES, st.randoms(use_true_random=False), st.sampled_from([0, 400 * MS]))
def test_a_log_played_back_delivers_the_same(sends, policy, random, jitter_ns):
    """Live: timers late by anything, even beyond packets that wait to be taken. Played back: no timers at all."""
    lines = traffic(sends, jitter_ns)
    live, found, noted = Station(SETUP, *policy), [], []
    for line in lines:
        while (due := live.next_due()) is not None and due < line.mono_ns and random.random() < 0.7:
            found += live.advance(due + random.randrange(30 * MS))
        happened = live.take(line)
        noted.append(next((item.clock for item in of(Arrived, happened)), None))
        found += happened
    found += live.finish()
    again, replayed = Station(SETUP, *policy), []
    for line, clock in zip(lines, noted, strict=True):
        replayed += again.take(line, Noted(clock))
    replayed += again.finish()
    assert deliveries(found) == deliveries(replayed)
    assert Counter(names(found)).most_common(1)[0][1] == 1
    assert live.snapshot(0).arrival == again.snapshot(0).arrival
    assert live.snapshot(0).delivery == again.snapshot(0).delivery


@given(SENDS, st.sampled_from(["causal", "cbd"]))
def test_phi_100_delivers_in_causal_order_over_two_gateways(sends, policy):
    """Lines within their allowance, timers in time: whatever the receipts know of, nothing is overtaken."""
    lines = traffic(sends)
    station = Station(SETUP, policy, 100)
    found = play(station, lines)
    found += drain(station)
    snapshot = station.snapshot(lines[-1].mono_ns)
    assert snapshot.delivery.overtaken == 0
    assert snapshot.delivered == snapshot.received == len({(s.name) for s in of(Delivered, found)})
    assert not [item for item in of(Violation, found) if item.order == "delivery"]
    assert sum(mote.late for mote in snapshot.motes) == 0


@pytest.mark.parametrize(
    ("policy", "phi"), [("none", 100), ("causal", 100), ("dapw", 40), ("cbd", 100), ("cbd", 40)]
)
def test_the_simulators_line_gives_the_bulk_deliveries(policy, phi):
    """Over the simulator's own serial line: the kernels' order, message for message."""
    options = WorldOptions(messages=800, seed=11)
    run = generate(options)
    scheme = build_scheme(options, "shlc")
    setup = deployment_for(options, scheme, policy, phi)
    station, decoder, found = Station(setup), FrameDecoder(), []
    for tick, raw in serial_line(trace_of(run, setup)):
        for item in decoder.feed(raw):
            mono_ns = mono_at(tick << 7)
            found += station.take(Arrival(0, mono_ns, WALL + mono_ns, item))
    found += station.finish()
    bulk = engine.deliver(
        run.stream, engine.observe(run.stream, engine.stamp(run.stream, scheme), scheme), scheme, policy, phi
    )
    numbers = [int.from_bytes(item.data.data, "little") for item in of(Delivered, found)]
    expected = run.stream.arrival_message[bulk.order].tolist()
    if policy == "cbd" and phi < 100:  # what a kernel takes in at one go we take in one by one
        assert sorted(numbers) == sorted(expected)
    else:
        assert numbers == expected
    assert station.snapshot(0).motes[0].late == 0 or phi < 100


def test_a_minute_without_the_line_changes_no_order_afterwards():
    """The line stalls, time goes on, then all that was heard meanwhile comes at once."""
    motes, gateway = Motes(SETUP, START), Gateway(SETUP)
    at = START
    sent: list[tuple[int, Data]] = []
    for number in range(200):
        at += 2 * TICK
        data = motes.send(number % 4, at, (0, 1, 2, 3))
        sent.append((at + (11 if number % 3 else 2) * TICK, data))
    for cycles, data in sorted(sent, key=lambda item: item[0]):
        gateway.hear(data, cycles)
    stall_at = gateway.out[100].mono_ns
    late_by = 60 * SECOND
    lines = [
        line if line.mono_ns < stall_at else line._replace(mono_ns=stall_at + late_by + index)
        for index, line in enumerate(gateway.out)
    ]
    station = Station(SETUP, "cbd", 100)
    found = play(station, lines)
    lag = [item for item in of(ClockChanged, found) if item.what == "lag"]
    assert len(lag) == 1
    assert "59" in lag[0].text or "60" in lag[0].text
    found += drain(station)
    snapshot = station.snapshot(lines[-1].mono_ns)
    assert snapshot.delivered == 200
    assert snapshot.arrival.overtaken > 20
    # Only what was under way on the line when it stalled can have been overtaken by what had come before.
    assert snapshot.delivery.overtaken <= 8
    assert snapshot.gateways[0].lags == 1
    assert sum(mote.late for mote in snapshot.motes) == 0  # by its own time each came in time


# ---- Pairs ----


def pair_counts(station: Station) -> tuple[int, int, int]:
    (gateway,) = station.snapshot(0).gateways
    return gateway.unpaired, gateway.orphans, gateway.records_lost


def test_each_frame_is_read_with_its_own_record():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    found = play(station, gateway.hear(motes.send(1, START), START + 300))
    (arrived,) = of(Arrived, found)
    assert arrived.heard is not None
    assert arrived.heard.rssi == -60
    assert arrived.cycles is not None
    assert arrived.cycles % 2**32 == START + 300
    assert pair_counts(station) == (0, 0, 0)


@pytest.mark.parametrize("missing", ["record", "frame"])
def test_half_a_pair_is_counted_and_survived(missing):
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    lines = []
    for number in range(6):
        at = START + number * 20 * TICK
        pair = gateway.hear(motes.send(number % 2, at), at + TICK)
        if number == 3:
            pair = pair[1:] if missing == "record" else pair[:1]
        lines += pair
    found = play(station, lines) + drain(station)
    expected = ["0#0", "1#0", "0#1", "1#1", "0#2", "1#2"]
    if missing == "record":
        assert names(found) == expected
        assert pair_counts(station) == (1, 0, 1)
    else:
        assert names(found) == [name for name in expected if name != "1#1"]
        assert pair_counts(station) == (0, 1, 0)
        assert station.snapshot(0).motes[1].lost == 1


def test_a_record_is_not_taken_for_another_frames():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    first = gateway.hear(motes.send(0, START), START + TICK)
    second = gateway.hear(motes.send(1, START + TICK), START + 4 * TICK)
    found = play(station, [first[0], second[1]])
    (arrived,) = of(Arrived, found)
    assert arrived.heard is None
    assert pair_counts(station) == (1, 1, 0)
    assert names(found + drain(station)) == ["1#0"]


def test_an_acknowledgement_may_come_between_the_two():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    record, frame = gateway.hear(motes.send(0, START), START + TICK)
    found = station.take(record) + station.take(arrival(encode_packet(Ack(1, 77)), record.mono_ns))
    found += station.take(frame)
    assert [item.token for item in of(Acknowledged, found)] == [77]
    assert pair_counts(station) == (0, 0, 0)


def test_a_gateways_own_reports_have_no_record_and_need_none():
    station = Station(SETUP)
    status = Status(4, START, 0, 1, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0)
    for message in (status, health(4, START, SETUP)):
        station.take(arrival(message, SECOND))
    assert pair_counts(station) == (0, 0, 0)
    assert station.snapshot(0).gateways[0].status == status


# ---- Counters ----


def test_what_is_lost_doubled_late_or_odd_is_counted_per_mote():
    motes, gateways = Motes(SETUP, START), (Gateway(SETUP, 0), Gateway(SETUP, 1))
    station, found = Station(SETUP, "cbd", 100), []
    for number in range(10):
        at = START + number * 30 * TICK
        data = motes.send(0, at, saturated=number == 2, in_sync=number != 5)
        if number in (3, 4):
            continue
        found += play(station, gateways[0].hear(data, at + TICK))
        if number == 7:
            found += play(station, gateways[1].hear(data, at + 2 * TICK))
    found += station.take(gap(gateways[0].last_ns, back=False, gateway=1))  # nobody waits for it any more
    late = motes.send(1, START + 270 * TICK)
    found += play(station, gateways[0].hear(late, START + 290 * TICK))
    found += drain(station)
    mote, other = station.snapshot(gateways[0].last_ns).motes
    assert (mote.received, mote.lost, mote.duplicates) == (8, 2, 1)
    assert (mote.saturated, mote.out_of_sync, mote.late, mote.held) == (1, 1, 0, 0)
    assert (other.received, other.late) == (1, 1)
    assert [item.late for item in of(Delivered, found) if item.name.source == 1] == [True]
    assert len([item for item in of(Arrived, found) if item.copy]) == 1
    assert mote.delivered == 8
    assert mote.hold.count == 8
    assert 0 < mote.hold.mean <= mote.hold.max
    assert mote.hold.p50 <= mote.hold.p95 <= mote.hold.max


def test_a_straggler_fills_its_gap():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    sent = [motes.send(0, START + number * TICK) for number in range(3)]
    for data, at in ((sent[0], 5), (sent[2], 6)):
        play(station, gateway.hear(data, START + at * TICK))
    assert station.snapshot(0).motes[0].lost == 1
    play(station, gateway.hear(sent[1], START + 8 * TICK))
    assert station.snapshot(0).motes[0].lost == 0


def test_a_reboot_is_no_loss_and_a_straggler_of_the_old_boot_is_no_reboot():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    motes.sequences[0] = 100
    found, at = [], START
    old = [motes.send(0, at + number * TICK, boot=3) for number in range(3)]
    for data in (old[0], old[1]):
        at += 2 * TICK
        found += play(station, gateway.hear(data, at))
    motes.sequences[0] = 0
    for data in (motes.send(0, at, boot=4), old[2], motes.send(0, at + TICK, boot=4)):
        at += 2 * TICK
        found += play(station, gateway.hear(data, at))
    assert [(item.mote, item.boot, item.before) for item in of(Reboot, found)] == [(0, 4, 3)]
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.lost, mote.reboots, mote.boot) == (5, 0, 1, 4)


def test_health_tells_why_a_node_has_restarted():
    """A mote's and a gateway's; once for a boot, though reports come each minute and copies come late."""
    gateway, station = Gateway(SETUP), Station(SETUP)
    motes, base = SETUP.network.motes, health(2, START, SETUP)
    told, at = [], START
    for node, boots, cause in [
        (2, 7, StartCause.POWER_ON),
        (motes, 65535, StartCause.UNKNOWN),
        (2, 8, StartCause.BROWN_OUT),
        (2, 8, StartCause.BROWN_OUT),
        (2, 7, StartCause.POWER_ON),
        (motes, 0, StartCause.WATCHDOG),
        (2, 9, 15),
    ]:
        at += 100 * TICK
        flags = 1 | cause << 2
        report = replace(base, source=node, boots=boots, flags=flags, time=at % 2**32)
        lines = gateway.hear(report, at) if node < motes else [arrival(report, mono_at(at) + 4 * MS)]
        told += of(Restarted, play(station, lines))
    assert [(item.node, item.boots, item.cause) for item in told] == [
        (2, 8, "brown-out"),
        (motes, 0, "watchdog, its program hung"),
        (2, 9, "cause not reported"),
    ]


def test_the_first_health_after_a_reboot_tells_why():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    found = []
    for number, boot in enumerate((3, 4)):
        motes.sequences[0] = 0
        at = START + number * 300 * TICK
        found += play(station, gateway.hear(motes.send(0, at, boot=boot), at))
    at += 100 * TICK
    report = replace(health(0, at, SETUP), boots=12, flags=1 | StartCause.DAMAGE << 2)
    found += play(station, gateway.hear(report, at))
    assert len(of(Reboot, found)) == 1
    assert [item.cause for item in of(Restarted, found)] == ["it found its memory damaged"]


def test_eight_boots_on_the_numbers_of_the_same_boot_count_are_forgotten():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    at = START
    for boot in (0, 1, 2, 3, 4, 5, 6, 7, 0):
        motes.sequences[0] = 0
        for _ in range(2):
            at += 40 * TICK
            play(station, gateway.hear(motes.send(0, at, boot=boot), at + TICK))
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.lost, mote.duplicates, mote.reboots) == (18, 0, 0, 8)


def test_what_cannot_be_read_is_reported_and_counted():
    station = Station(SETUP)
    layout = layout_of(SETUP)
    good = encode_message(Data(0, 0, (0, 0), data=bytes(4)), layout)
    odd = [
        b"\x99\x00",
        packet(ActiveMessage(1, 0xFFFF, layout.group, layout.am_type ^ 1, good.data), SETUP),
        packet(ActiveMessage(1, 0xFFFF, layout.group ^ 1, layout.am_type, good.data), SETUP),
        packet(Data(200, 0, (0, 0), data=bytes(4)), SETUP),
    ]
    found = [item for raw in odd for item in station.take(arrival(raw, SECOND))]
    texts = [item.reason for item in of(Strange, found)]
    assert len(texts) == 4
    assert "unknown packet type" in texts[0]
    assert "another layout" in texts[1]
    assert "not a mote of this deployment" in texts[3]
    snapshot = station.snapshot(SECOND)
    assert snapshot.strange == snapshot.gateways[0].strange == 4
    assert snapshot.motes == ()


def test_rates_are_of_the_last_ten_seconds():
    motes, gateway, station = Motes(SETUP, START), Gateway(SETUP), Station(SETUP)
    for number in range(50):
        at = START + number * CRYSTAL_HZ // 4
        play(station, gateway.hear(motes.send(0, at), at + TICK))
    snapshot = station.snapshot(gateway.last_ns)
    assert snapshot.rate == pytest.approx(4, abs=0.5)
    assert snapshot.motes[0].rate == pytest.approx(4, abs=0.5)
    assert station.snapshot(gateway.last_ns + 60 * SECOND).rate == 0


def test_errors_of_the_line_are_shown_with_its_gateway():
    station, counters = Station(SETUP), FrameCounters()
    counters.crc.add(20)
    station.add_gateway(0, "serial@/dev/ttyUSB1", counters)
    (gateway,) = station.snapshot(0).gateways
    assert gateway.name == "serial@/dev/ttyUSB1"
    assert gateway.line_errors["crc"] == 1


# ---- Violations in words ----


def test_arrival_order_is_counted_beside_the_policy_and_each_violation_is_explained():
    lines, _ = two_causes()
    station = Station(SETUP, "cbd", 100)
    found = play(station, lines) + drain(station)
    assert names(found) == [*BEFORE, "0#1", "1#1", "2#1"]
    violations = of(Violation, found)
    assert {item.order for item in violations} == {"arrival"}
    assert {(str(item.message), str(item.cause)) for item in violations} == {("2#1", "1#1"), ("2#1", "0#1")}
    direct = next(item for item in violations if str(item.cause) == "1#1")
    assert direct.text == (
        "2#1 arrived before its cause 1#1, by 4 ticks (15.6 ms): mote 2 had received 1#1 when it sent 2#1"
    )
    through = next(item for item in violations if str(item.cause) == "0#1")
    assert through.text.endswith(
        "mote 1 had received 0#1 when it sent 1#1; mote 2 had received 1#1 when it sent 2#1"
    )
    snapshot = station.snapshot(lines[-1].mono_ns)
    assert (snapshot.arrival.messages, snapshot.arrival.overtaken) == (6, 2)
    assert (snapshot.delivery.messages, snapshot.delivery.overtaken) == (6, 0)
    assert snapshot.receipts
    assert snapshot.known == 1


def test_under_policy_none_both_orders_are_the_same():
    lines, _ = two_causes()
    station = Station(SETUP, "none")
    found = play(station, lines)
    assert names(found) == [*BEFORE, "2#1", "0#1", "1#1"]
    snapshot = station.snapshot(lines[-1].mono_ns)
    assert snapshot.delivery == snapshot.arrival
    assert snapshot.arrival.overtaken == 2


def test_motes_out_of_sync_leave_at_once_and_are_kept_out_of_the_figures():
    motes, gateway = Motes(SETUP, START), Gateway(SETUP)
    first = motes.send(0, START, (1,), in_sync=False)
    second = motes.send(1, START + TICK)
    for place, data in enumerate((second, first)):
        gateway.hear(data, START + (5 + place) * TICK)
    station = Station(SETUP, "cbd", 100)
    found = play(station, gateway.out)
    assert names(found) == ["0#0"]
    assert [item.in_sync for item in of(Delivered, found)] == [False]
    assert station.snapshot(0).arrival.overtaken == 0


def test_reorderings_show_in_the_places():
    lines, _ = two_causes()
    station = Station(SETUP, "cbd", 100)
    delivered = of(Delivered, play(station, lines) + drain(station))
    assert [item.moved for item in delivered] == [0, 0, 0, 1, 1, -2]
