"""Sensor boards on emulated motes: the real images power, read and switch off; what is not powered shows nothing."""

import struct

import pytest

from basestation.testbed import emulator
from basestation.testbed.sensors import SensorsError, parse
from basestation.testbed.signals import message_of
from basestation.testbed.truth_log import DriverFault, Reset, SensorSupply, Signal
from packet_formats.deployment import from_dict
from packet_formats.layout import layout_of
from tests.testbed.worlds import network
from tools import firmware_report as report

FED = {
    "light": 700,
    "temperature": 301,
    "microphone": 512,
    "accel_x": 480,
    "accel_y": 533,
    "mag_x": 1023,
    "mag_y": 1,
}
WARM_UP = {
    "light": 10,
    "temperature": 10,
    "microphone": 1200,
    "accel_x": 17,
    "accel_y": 17,
    "mag_x": 100,
    "mag_y": 100,
}
SECONDS = {"micaz": 9, "mica2": 28}


def described(board, sensor_board="mts310", sensors=tuple(FED)):
    return from_dict(
        {
            "network": {"name": "orchard", "board": board, "motes": 2, "sensor_board": sensor_board},
            "clock": {"tick_log2": 9, "epsilon": 3, "delta": 32},
            "stamp": {"scheme": "shlc"},
            "data": [{"name": sensor, "sensor": sensor} for sensor in (*sensors, "battery")],
        }
    )


@pytest.fixture(scope="module")
def images(require_tool, tmp_path_factory):
    require_tool("avr-gcc")
    folder = tmp_path_factory.mktemp("sensors")
    return {board: report.build(described(board), "mote", folder / board).elf for board in SECONDS}


def run(testbed, image, board, fitted, *script):
    """The values of each message, and all that happened."""
    lines = [
        "nodes 1",
        f"node 0 {board} 0 0 0 0 {image}",
        f"sensors 0 {fitted}",
        *script,
        f"end {SECONDS[board]}",
    ]
    events = emulator.events_of("\n".join(lines), testbed)
    assert not [event for event in events if isinstance(event, DriverFault)]
    assert [event.cause for event in events if isinstance(event, Reset)] == ["power-on"]
    layout = layout_of(described(board))
    messages = [message_of(event, board, 1) for event in events if isinstance(event, Signal)]
    payloads = [message.data for message in messages if message and message.type == layout.am_type]
    # A message may go out again
    found = [struct.unpack("<8H", payload[-16:]) for payload in dict.fromkeys(payloads)]
    return found, [event for event in events if isinstance(event, SensorSupply)]


@pytest.mark.parametrize(
    ("board", "fitted"), [("micaz", "mts310"), ("mica2", "mts310"), ("mica2", "mts310ca")]
)
def test_each_sensor_is_powered_read_and_switched_off(testbed, images, board, fitted):
    feeds = [f"at 0 sense 0 {sensor} {reading}" for sensor, reading in FED.items()]
    found, supplies = run(
        testbed, images[board], board, fitted, *feeds, f"at {SECONDS[board] / 2} sense 0 light 90"
    )
    assert len(found) >= 2
    assert {row[1:7] for row in found} == {tuple(FED.values())[1:]}
    assert {row[0] for row in found} <= {700, 90}
    assert found[-1][0] == 90
    assert {row[7] for row in found} <= {417, 419, 420}  # 1.223 V or, on a MICAz, 1.23 V of 3 V
    on = {}
    for event in supplies:
        if event.on:
            assert set(on) <= {"accel_x", "accel_y", "mag_x", "mag_y"}, (
                "one at a time, but for what shares a supply"
            )
            on[event.sensor] = event.t
        else:
            assert event.t - on.pop(event.sensor) >= (WARM_UP[event.sensor] - 0.01) * 1e6
    assert len(on) <= 1  # the end of the run may come in between
    assert {event.sensor for event in supplies} == set(FED)


def test_what_is_not_powered_shows_nothing(testbed, images):
    """The thermistor of a first edition is on INT2, which is the radio's on a MICAz: the firmware does not power it."""
    feeds = [f"at 0 sense 0 {sensor} {reading}" for sensor, reading in FED.items()]
    found, supplies = run(testbed, images["micaz"], "micaz", "mts310ca", *feeds)
    assert "temperature" not in {event.sensor for event in supplies}
    assert len({row[1] for row in found}) == len(found) >= 2
    assert {row[0] for row in found} == {700}


def test_a_scenario_s_mistakes(testbed, images):
    for wrong, why in [
        ("sensors 0 mts999", "there are sensor boards"),
        ("sensors 0 mda100\nat 1 sense 0 mag_x 1", "no such sensor"),
        ("at 1 sense 0 light 1", "no such sensor"),
        ("at 1 sense 0 1 1024", "from 0 to 1023"),
        ("sensors 0 mda100\nsensors 0 mda100", "one sensor board"),
    ]:
        with pytest.raises(emulator.EmulatorError, match=why):
            emulator.events_of(f"nodes 1\nnode 0 micaz 0 0 0 0 {images['micaz']}\n{wrong}\nend 1\n", testbed)


# --- the CSV ---


def rows(*lines, first="time,mote,sensor,value"):
    return parse([first, *lines], (network(described("micaz"), motes=2),))


def test_readings_become_lines_in_the_order_of_time():
    assert rows("2.5, 1, light, 700", "0,0,accel_x,3", "1,0,2,9") == (
        "at 0.000000000 sense 0 accel_x 3",
        "at 1.000000000 sense 0 2 9",
        "at 2.500000000 sense 1 light 700",
    )
    assert rows("orchard,0,0,light,1", first="network,time,mote,sensor,value") == (
        "at 0.000000000 sense 0 light 1",
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("x,0,light,1", "line 2: time 'x' is not a number"),
        ("-1,0,light,1", "time -1 must be from 0"),
        ("0,2,light,1", "mote 2 must be from 0 to 1"),
        ("0,0,lihgt,1", "no sensor 'lihgt'.*light"),
        ("0,0,battery,1", "no sensor 'battery'"),
        ("0,0,8,1", "no sensor '8'"),
        ("0,0,light,1024", "value 1024 must be from 0 to 1023"),
        ("0,0,light,1.5", "value 1.5 must be a whole number"),
        ("0,0,light", "value '' is not a number"),
        ("0,0,light,1,2", "more values than columns"),
        ("nan,0,light,1", "time nan"),
    ],
)
def test_a_csv_s_mistakes(line, why):
    with pytest.raises(SensorsError, match=why):
        rows(line)


def test_a_csv_without_its_first_line():
    with pytest.raises(SensorsError, match="the first line must be time,mote,sensor,value"):
        rows("0,0,light,1", first="0,0,light,1")
