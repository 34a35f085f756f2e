"""Lines and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from basestation.cli.common import plain
from basestation.live.happenings import (
    Alarm,
    ClockChanged,
    Delivered,
    Happening,
    Name,
    Reboot,
    Restarted,
    Strange,
    Tentative,
    Violation,
)
from basestation.live.station import Station
from basestation.views.lines import FinalRows, LinesView, row_of, shown_age, summary
from basestation.views.ndjson import JsonView, to_plain
from packet_formats.deployment import CRYSTAL_HZ, RadioSettings, from_dict
from packet_formats.json_form import message_to_plain
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from tests.journal.logs import with_values
from tests.live.world import MS, WALL, arrival, gap, health
from tests.views.runs import SETUP, FakeStage, busy, waiting


def test_the_summary_tells_of_a_line_that_was_too_slow():
    shot = FakeStage(busy).snapshot()
    gateways = [replace(gateway, lags=2) for gateway in shot.gateways]
    assert "slower" not in "".join(summary(shot))
    assert ", slower than allowed for 2 times" in "".join(summary(replace(shot, gateways=gateways)))


def shown(found: list[Happening]) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    notes: list[str] = []
    view = LinesView(lambda line, style: lines.append(line), notes.append)
    for happening in found:
        view.take(happening)
    view.close()
    return lines, notes


def test_lines_are_aligned_and_say_what_matters():
    lines, _ = shown(busy()[1])
    delivered = [line for line in lines if "deliver" in line]
    assert len(delivered) > 20
    assert len({line.index(" ms") for line in delivered}) == 1
    assert any("↑" in line for line in delivered)
    assert any("↓" in line for line in delivered)
    assert any("strange" in line and "9900" in line for line in lines)
    assert any(line.split()[1] == "ALARM" and "another layout" in line for line in lines)
    assert any("health" in line and "3000 mV" in line for line in lines)


def test_violations_that_were_delivered_are_shown_and_those_of_arrival_only_counted():
    found = busy("none")[1]
    assert [item for item in found if isinstance(item, Violation) and item.order == "arrival"]
    lines, _ = shown(found)
    violations = [line for line in lines if "violation" in line]
    assert violations
    assert len(violations) == len([v for v in found if isinstance(v, Violation) and v.order == "delivery"])


def test_a_row_is_marked_until_it_is_final_and_final_rows_can_be_had_alone():
    station, found, now = waiting()
    found += station.finish()
    lines, _ = shown(found)
    kinds = [line.split()[1:3] for line in lines if "gave up" not in line]
    tentative, delivered = (
        [["tentative", "0#2"], ["tentative", "0#3"]],
        [["deliver", "0#2"], ["deliver", "0#3"]],
    )
    assert kinds == [["deliver", "0#0"], *tentative, ["deliver", "1#0"], *delivered]
    assert "waits for 0#1, at most until tick" in next(line for line in lines if "tentative" in line)
    final: list[str] = []
    view = FinalRows(LinesView(lambda line, style: final.append(line), final.append))
    for happening in found:
        view.take(happening)
    view.close()
    assert final == [line for line in lines if "tentative" not in line]
    assert "50% of messages were final on arrival" in summary(station.snapshot(now))


def test_every_kind_of_happening_has_its_line():
    station = Station(SETUP)
    found: list[Happening] = [
        *station.take(gap(1, back=False)),
        *station.take(gap(2, back=True)),
        *station.set_policy("dapw", 40),
        Reboot(1, 2, 3, 4, 5),
        Restarted(1, 2, 7, 12, "brown-out"),
        ClockChanged(1, 2, 0, "epoch", "time has started afresh"),
        Strange(1, 2, 0, "no packet", b"\x01"),
        Alarm(1, 2, "mote", 3, False, "over: silence"),
    ]
    assert all(row_of(item) is not None for item in found)
    lines, _ = shown(found)
    assert len(lines) == len(found) - 1  # that a line is lost, an alarm says
    assert sum("unplugged" in line for line in lines) == 2, "when it is raised, and when it is over"
    assert "dapw, phi 40%; 0 messages moved over" in "\n".join(lines)
    assert any(line.split()[-3:] == ["7", "restarted:", "brown-out"] for line in lines)


def test_a_late_message_says_so():
    data = Data(1, 2, (0, 0), data=b"\x01")
    late = Delivered(0, WALL, Name(1, 0, 2), data, 5, 5, 10, 20, 3.0, 0.0, True, False)
    row = row_of(late)
    assert row is not None
    assert row.text.endswith("late, out of sync")


def test_values_with_names_take_the_place_of_hex():
    layout = layout_of(with_values(SETUP))
    data = Data(1, 2, (0, 0), data=bytes([0x10, 0x10, 7, 0xFF]))
    left = Delivered(0, WALL, Name(1, 0, 2), data, 5, 4, 10, 20, 3.0, 0.0, False, True)
    row, tentative = (
        row_of(left, layout),
        row_of(Tentative(0, WALL, Name(1, 0, 2), data, 1, 2, (), "waits"), layout),
    )
    assert row is not None
    assert tentative is not None
    assert row.text == 'held     3.0 ms  light 411.2 lx, count 7 a, "b", t -1  ↑1'
    assert tentative.text == 'light 411.2 lx, count 7 a, "b", t -1  waits'
    assert to_plain(left, layout)["data"]["values"] == {"light": 411.2, "count": 7, "t": -1}
    lines: list[str] = []
    LinesView(lambda line, style: lines.append(line), lines.append, layout).take(left)
    assert row.text in lines[0]
    assert "101007ff" in row_of(left, layout_of(SETUP)).text


def test_an_age_that_may_be_more_says_so():
    scheduled, data = layout_of(replace(SETUP, radio=RadioSettings(16000, 1152))), Data(1, 2, (0, 0))
    ages = [shown_age(replace(data, age=code), scheduled) for code in (8, 191, 193, 255)]
    assert ages == [
        ["1.0 s old"],
        ["23.9 s old or more"],
        ["1.0 s old", "again"],
        ["63.0 s old or more", "again"],
    ]


def test_the_summary_counts_both_orders():
    station, _, now = busy()
    text = "\n".join(summary(station.snapshot(now)))
    assert "40 messages from 4 motes" in text
    assert "arrival order: at least" in text
    assert "delivered by cbd, phi 100%: no message is known to be out of causal order" in text
    assert "100% of messages were checked fully: it is known whether one of their effects left" in text
    assert "serial@/dev/ttyUSB1:micaz" in text


@pytest.mark.parametrize(("scheme", "unordered"), [("shlc", True), ("barrier", True), ("vector", False)])
def test_the_summary_says_that_nothing_was_ordered_if_stamps_need_a_time_and_none_is_known(scheme, unordered):
    setup = from_dict(
        {
            "network": {"name": "test", "board": "micaz", "motes": 4},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": scheme},
        }
    )
    station, stamp = Station(setup), {"shlc": (0, 0), "barrier": (0,) * 5, "vector": (0, 0, 0)}[scheme]
    assert not station.snapshot(0).unordered
    for sequence in range(3):
        station.take(arrival(Data(0, sequence, stamp, data=bytes(4)), sequence * MS, setup=setup))
    text = "\n".join(summary(station.snapshot(0)))
    assert ("nothing was ordered: no time is known" in text) == unordered
    assert ("causal order" in text) != unordered
    assert ("final on arrival" in text) == (scheme == "vector")


def test_the_summary_says_that_all_messages_were_sent_before_their_motes_had_the_time():
    station, setup = Station(SETUP), SETUP
    for sequence in range(3):
        data = Data(0, sequence, (0, 0), in_sync=False, data=bytes(4))
        station.take(arrival(data, sequence * MS, setup=setup))
    station.take(arrival(health(0, 5 * CRYSTAL_HZ, setup), 5000 * MS, setup=setup))
    said = "nothing was ordered: all 3 messages were sent before their motes had the network's time"
    assert said in list(summary(station.snapshot(6000 * MS)))
    station.take(arrival(Data(0, 3, (0, 0), data=bytes(4)), 6001 * MS, setup=setup))
    assert not station.snapshot(6002 * MS).unordered


def test_the_summary_of_a_run_names_every_policy_that_delivered():
    station, _, now = busy()
    station.set_policy("sequence", 100)
    station.set_policy("dapw", 50)
    text = "\n".join(summary(station.snapshot(now)))
    assert "delivered by dapw, phi 50% (before that by cbd, phi 100%; sequence): " in text


# ---- JSON ----


def test_each_happening_is_one_object():
    _, found, _ = busy()
    out: list[str] = []
    view = JsonView(lambda item: out.append(json.dumps(plain(item), allow_nan=False)), layout_of(SETUP))
    for happening in found:
        view.take(happening)
    view.close()
    objects = [json.loads(line) for line in out]
    assert len(objects) == len(found)
    kinds = {item["event"] for item in objects}
    assert {"arrived", "delivered", "violation", "strange", "alarm"} <= kinds
    delivered = next(item for item in objects if item["event"] == "delivered")
    assert delivered["name"] == {"source": 0, "boot": 0, "sequence": 0}
    assert delivered["data"]["stamp"].keys() == {"clock", "counter"}
    arrived = next(item for item in objects if item["event"] == "arrived" and item["heard"])
    assert arrived["heard"]["rssi"] == -60
    assert {"mono_ns", "wall_ns"} <= arrived.keys()


def test_tentative_rows_are_objects_of_their_own():
    _, found, _ = waiting()
    told = [to_plain(item, layout_of(SETUP)) for item in found if isinstance(item, Tentative | Delivered)]
    assert [item["event"] for item in told] == ["delivered", "tentative", "tentative", "delivered"]
    tentative = told[1]
    assert tentative["name"] == {"source": 0, "boot": 0, "sequence": 2}
    assert (tentative["place"], tentative["number"], tentative["missing"]) == (2, 2, ("0#1",))
    assert tentative["data"] == message_to_plain(found_data(found, "0#2"), layout_of(SETUP))
    assert told[0]["tentative"] is False


def found_data(found: list[Happening], name: str) -> Data:
    (data,) = (item.data for item in found if isinstance(item, Tentative) and str(item.name) == name)
    return data
