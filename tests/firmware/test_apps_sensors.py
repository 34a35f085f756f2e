"""The stock app with sensors: each is powered, warmed up, read and switched off; the values of [[data]] go out."""

import ctypes
import re
import struct
from typing import Any

import pytest

from packet_formats.deployment import Deployment, from_dict
from packet_formats.messages import Data
from packet_formats.records import Command, Downlink, Health
from tests.firmware.net_world import HZ, Node, World, library
from tests.firmware.test_apps_mote import command

LIGHT, TEMPERATURE, ACCEL_X, ACCEL_Y = 1, 2, 4, 5
READINGS = {LIGHT: 700, TEMPERATURE: 300, ACCEL_X: 512, ACCEL_Y: 480}
VALUES = [
    {"name": "light", "sensor": "light"},
    {"name": "number", "type": "u8"},
    {"name": "x", "sensor": "accel_x"},
    {"name": "y", "sensor": "accel_y", "type": "i32"},
    {"name": "field", "sensor": "mag_x"},
]


def described(values: list[dict[str, Any]], tinyos: int = 1) -> Deployment:
    return from_dict(
        {
            "network": {
                "name": "orchard", "board": "micaz", "motes": 4, "sensor_board": "mts310", "tinyos": tinyos,
            },
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
            "stamp": {"scheme": "shlc"},
            "data": values,
        }
    )  # fmt: skip


def network(deployment: Deployment, *options: str, app: str = "mote") -> tuple[World, Node, Node]:
    world = World(deployment)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes)
    mote = world.add(library(deployment, app, *options), 0)
    world.run(0.5)
    for sensor, reading in READINGS.items():
        feed(mote, sensor, reading)
    return world, gateway, mote


def feed(mote: Node, sensor: int, reading: int) -> None:
    (ctypes.c_uint16 * 9).in_dll(mote.c, "host_sensors")[sensor] = reading


def data_of(gateway: Node) -> list[bytes]:
    return [message.data for _, _, message in gateway.pairs() if isinstance(message, Data)]


def test_values_go_out_and_the_supply_is_off_after():
    """A value without a sensor is the number of its message; a sensor that the board lacks reads as 65535."""
    for tinyos, order in ((1, "<"), (2, ">")):
        world, gateway, mote = network(described(VALUES, tinyos))
        world.run(20)
        found = [struct.unpack(f"{order}HBHiH", data) for data in data_of(gateway)]
        assert len(found) > 6
        assert found == [(700, number, 512, 480, 65535) for number in range(len(found))]
        assert mote.get("host_powered", ctypes.c_uint8) == 0
        assert mote.get("host_supplies") in (2 * len(found), 2 * len(found) + 1)  # both axes share theirs


@pytest.mark.wide
def test_one_after_the_other_and_the_battery_between():
    """However often all are due, and though a round takes longer than the period: each gets its own reading."""
    values = [
        {"name": "t", "sensor": "temperature"},
        {"name": "x", "sensor": "accel_x"},
        {"name": "b", "sensor": "battery"},
    ]
    world, gateway, mote = network(described(values), "-DMOTE_PERIOD=512", "-DMOTE_HEALTH_PERIOD=512")
    world.run(1)
    gateway.read()
    world.run(20)
    pairs = gateway.pairs()
    sent = [struct.unpack("<HHH", message.data) for _, _, message in pairs if isinstance(message, Data)]
    health = [message.battery for _, _, message in pairs if isinstance(message, Health)]
    assert set(sent) == {(300, 512, 417)}
    assert set(health) == {150}
    assert min(len(sent), len(health)) > 300
    command(gateway, Downlink(0, 1, 2, Command.RATE, 30 * HZ))
    world.run(1)
    assert mote.get("host_powered", ctypes.c_uint8) == 0


@pytest.mark.wide
def test_missing_sensors_hold_up_nobody():
    """One after another that does not answer takes no time: all are passed over at once."""
    names = ("microphone", "mag_x", "mag_y", "battery")
    values = [{"name": name, "sensor": name} for name in names]
    world, gateway, _ = network(described(values), f"-DMOTE_PERIOD={HZ // 2}")
    world.run(10)
    assert len(data_of(gateway)) > 17


def test_the_app_in_the_document(root, tmp_path):
    """docs/guide/apps.md: a light threshold in less than thirty lines, in a folder of its own."""
    blocks = re.findall(r"```c\n(.*?)```", (root / "docs" / "guide" / "apps.md").read_text(), re.DOTALL)
    (text,) = blocks
    assert text.count("\n") < 30
    (tmp_path / "app.c").write_text(text)
    light = described([{"name": "light", "sensor": "light"}])
    world, gateway, mote = network(light, app=str(tmp_path))
    world.run(8)
    for reading in (100, 101, 900):
        feed(mote, LIGHT, reading)
        world.run(5)
    assert [struct.unpack("<H", data)[0] for data in data_of(gateway)] == [700, 100, 900]
