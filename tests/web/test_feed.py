"""What the feed makes of happenings: causes, links, relays, curves, and no floods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from basestation.arrivals import Arrival
from basestation.live.station import Station
from basestation.web.feed import POINT_MS, STRANGE_MS, Feed, picture_of
from packet_formats.deployment import CRYSTAL_HZ, Deployment, RadioSettings, from_dict
from packet_formats.layout import layout_of
from packet_formats.messages import encode_message
from packet_formats.records import Beacon, Heard, Proof
from packet_formats.seal import Seal
from packet_formats.tinyos import encode_packet
from tests.live.test_guard import KEY, WRONG, S, by_air
from tests.live.test_guard import deployment as guarded
from tests.live.world import MS, TICK, Gateway, Motes, arrival, deployment, health, play

START = 100 * CRYSTAL_HZ


def fed(setup: Deployment, lines: list) -> tuple[Feed, dict]:
    """The feed after these lines, and its rows."""
    station = Station(setup, allowance_ns=20 * MS)
    feed = Feed(station)
    for happening in play(station, lines) + station.finish():
        feed.take(happening)
    rows: dict = {}
    for change in feed.changes:
        rows.setdefault(change["key"], {}).update(change)
    return feed, rows


def picture(feed: Feed, points: int = -1) -> dict:
    return picture_of(feed.view(feed.station.snapshot(feed.station.timeline.mono_ns), points), 0)


def overtaken(setup: Deployment) -> list:
    """Mote 1 answers mote 0, and its answer comes first."""
    motes, gateway = Motes(setup, START), Gateway(setup)
    cause = motes.send(0, START, (1,))
    effect = motes.send(1, START + 2 * TICK)
    return gateway.hear(effect, START + 3 * TICK) + gateway.hear(cause, START + 6 * TICK)


def test_a_violation_is_in_the_rows_of_both_and_only_deliveries_are_events() -> None:
    setup = deployment(policy="none")
    _, rows = fed(setup, overtaken(setup))
    effect, cause = rows[1], rows[2]
    assert (effect["name"], cause["name"]) == ("1#0", "0#0")
    assert (effect["wrong"], cause["wrong"]) == ("delivery", "delivery")
    assert {"key": 2, "name": "0#0", "how": "receipt"} in effect["causes"]
    events = [row for row in rows.values() if row["kind"] == "event" and row["what"] == "violation"]
    assert [event["subject"] for event in events] == ["1#0"]
    assert events[0]["text"].startswith("1#0 was delivered before its cause 0#0")


def test_what_the_policy_puts_right_is_no_event() -> None:
    setup = deployment(policy="cbd", phi=100)
    _, rows = fed(setup, overtaken(setup))
    assert (rows[1]["wrong"], rows[2]["wrong"]) == ("arrival", "arrival")
    assert (rows[1]["place"], rows[2]["place"]) == (2, 1)
    assert not [row for row in rows.values() if row["kind"] == "event"]


def test_a_message_was_sent_when_its_stamp_says() -> None:
    setup = deployment(policy="cbd", phi=100)
    motes, gateway = Motes(setup, START), Gateway(setup)
    quick, slow = motes.send(0, START), motes.send(1, START + 8 * TICK)
    lines = gateway.hear(quick, START) + gateway.hear(slow, START + 16 * TICK, line_ns=30 * MS)
    _, rows = fed(setup, lines)
    assert rows[1]["sent_ms"] == pytest.approx(rows[1]["came_ms"], abs=0.01)
    between = rows[2]["sent_ms"] - rows[1]["sent_ms"]
    assert between == pytest.approx(8 * TICK * 1000 / CRYSTAL_HZ, abs=0.1)


def test_an_age_that_may_be_more_makes_an_event_that_may_be_before() -> None:
    setup = replace(deployment(), radio=RadioSettings(16000, 1152))
    motes, gateway = Motes(setup, START), Gateway(setup)
    for second, code in enumerate((100, 191)):
        at = START + second * CRYSTAL_HZ
        gateway.hear(motes.send(1, at, age=code), at + TICK)
    _, rows = fed(setup, gateway.out)
    ages = [rows[number]["sent_ms"] - rows[number]["event_ms"] for number in (1, 2)]
    assert ages == pytest.approx([12500, 23875])
    assert [rows[number]["event_or_before"] for number in (1, 2)] == [False, True]


def test_a_line_that_falls_behind_for_good_does_not_make_messages_look_older() -> None:
    setup = deployment(policy="cbd", phi=100)
    motes, gateway = Motes(setup, START), Gateway(setup)
    later = START + 4 * CRYSTAL_HZ // TICK * TICK
    lines = gateway.hear(motes.send(0, START), START)
    lines += gateway.hear(motes.send(1, later), later, line_ns=500 * MS)
    _, rows = fed(setup, lines)
    assert rows[2]["sent_ms"] == pytest.approx(rows[2]["came_ms"], abs=0.1)


def test_frames_that_cannot_be_read_do_not_flood_the_rows() -> None:
    setup = deployment()
    apart = STRANGE_MS * MS // 100
    lines = [arrival(b"\x99junk", number * apart, setup=setup) for number in range(250)]
    feed, rows = fed(setup, lines)
    assert len([row for row in rows.values() if row.get("what") == "strange"]) == 3
    assert picture(feed)["strange"] == 250


def relay_lines(setup: Deployment, left: int, distance: int) -> list:
    """A health report with the hops of mote 1, then a message of mote 1 with this many hops left."""
    report = replace(health(1, START, setup), hops=distance, flags=1 | min(distance - 1, 3) << 6)
    gateway = Gateway(setup)
    gateway.hear(report, START)
    data = Motes(setup, START).send(1, START + TICK, hops=left)
    gateway.hear(data, START + 2 * TICK)
    return gateway.out


@pytest.mark.parametrize(
    ("hops", "distance", "left", "relayed"),
    [(1, 1, 0, False), (3, 1, 0, False), (3, 2, 1, False), (3, 2, 0, True), (3, 5, 3, None), (3, 5, 2, True)],
)
def test_who_was_heard_is_told_by_the_hops_that_are_left(
    hops: int, distance: int, left: int, relayed: bool | None
) -> None:
    setup = deployment()
    setup = replace(setup, network=replace(setup.network, hops=hops))
    feed, rows = fed(setup, relay_lines(setup, left, distance))
    assert rows[1]["relayed"] is relayed
    (mote,) = picture(feed)["motes"]
    assert (mote["hops"], mote["rssi"]) == (distance, -60)


def test_links_are_those_that_were_heard() -> None:
    """TinyOS 2 names the sender of each frame: mote 2 passes on what mote 1 sent."""
    plain = deployment().to_dict()
    setup = from_dict(
        plain | {"network": plain["network"] | {"tinyos": 2, "group": 0x22, "channel": 26, "hops": 2}}
    )
    motes, gateway = Motes(setup, START), Gateway(setup)
    data = motes.send(1, START)
    record, _ = gateway.hear(data, START + TICK)
    frame = encode_message(data, layout_of(setup), source=2)
    relayed = [record, record._replace(mono_ns=record.mono_ns + 1, packet=encode_packet(frame))]
    direct = gateway.hear(motes.send(2, START + 2 * TICK), START + 4 * TICK)
    feed, rows = fed(setup, [*relayed, *direct])
    assert [rows[key]["relayed"] for key in (1, 2)] == [True, False]
    assert picture(feed)["links"] == [{"from": 2, "to": 4, "rssi": -60, "heard": 2}]


def test_with_a_key_a_beacon_draws_a_link_when_it_is_proven() -> None:
    setup = guarded()
    layout, feed = layout_of(setup), Feed(Station(setup))
    heard = Heard(5, 4, 0, 0, 3, -60, 100, 0, START)
    beacon = Beacon(1, 5, 4, 1, 1, 1, 0, START)

    def take(message: Beacon | Proof, seconds: int) -> list:
        at = Arrival(0, seconds * S, seconds * S, b"")
        record = replace(heard, sequence=seconds, time=START + seconds * CRYSTAL_HZ)
        for line in by_air(encode_message(message, layout), record, at, setup):
            for happening in feed.station.take(line):
                feed.take(happening)
        return list(picture(feed)["links"])

    assert not take(beacon, 1)
    assert not take(Seal(WRONG, layout).proof(beacon), 2)
    assert picture(feed)["refused"]["forged"] == 1
    assert [link["from"] for link in take(Seal(KEY, layout).proof(beacon), 3)] == [1]


def test_curves_get_a_point_a_minute_and_are_sent_when_they_change() -> None:
    setup = deployment()
    motes, gateway = Motes(setup, START), Gateway(setup)
    minute = POINT_MS * CRYSTAL_HZ // 1000
    for number in range(10):
        at = START + number * minute // 2
        gateway.hear(motes.send(0, at), at)
    feed, _ = fed(setup, gateway.out)
    view = feed.view(feed.station.snapshot(0), -1)
    assert view.points in (4, 5)
    (mote,) = picture(feed)["motes"]
    assert mote["history"]["rssi"] == [-60] * view.points
    assert mote["history"]["lost"] == [0] * view.points
    assert "history" not in picture(feed, view.points)["motes"][0]
