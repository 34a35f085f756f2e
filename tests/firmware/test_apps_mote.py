"""The mote app on the host: commands, readings, ids, boots."""

import ctypes
from typing import Any

import pytest

from packet_formats.deployment import Deployment
from packet_formats.framing import encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Command, Downlink, Health
from packet_formats.tinyos import encode_packet
from tests.firmware.net_world import HZ, Node, World, library

ALL = 0xFFFF


def network(deployment: Deployment, motes: int, *options: str) -> tuple[World, Node, list[Node]]:
    world = World(deployment)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes)
    mote = library(deployment, "mote", *options)
    nodes = [world.add(mote, i) for i in range(motes)]
    world.chain([gateway, *nodes])
    world.run(8)
    gateway.read()
    return world, gateway, nodes


def command(gateway: Node, message: Downlink) -> None:
    packet = encode_packet(encode_message(message, layout_of(gateway.world.deployment)))
    gateway.write_line(encode_frame(packet))


def data_of(gateway: Node) -> list[Data]:
    return [message for _, _, message in gateway.pairs() if isinstance(message, Data)]


def test_rate(meadow):
    world, gateway, motes = network(meadow, 3)
    world.run(40)
    sent = [mote.messages["sent"] for mote in motes]
    assert all(18 <= n <= 30 for n in sent)  # one in 2 s
    command(gateway, Downlink(ALL, 1, 2, Command.RATE, HZ // 2))
    world.run(1)
    before = [mote.messages["sent"] for mote in motes]
    world.run(40)
    assert all(70 <= mote.messages["sent"] - n <= 90 for mote, n in zip(motes, before, strict=True))
    command(gateway, Downlink(1, 2, 2, Command.RATE, 0))
    world.run(1)
    silent = motes[1].messages["sent"]
    world.run(10)
    assert motes[1].messages["sent"] == silent
    assert motes[2].messages["sent"] > before[2]


def test_hop_budget_of_commands(meadow):
    world, gateway, motes = network(meadow, 3)
    command(gateway, Downlink(ALL, 1, 1, Command.BLINK, 6))
    world.run(0.5)
    assert [mote.get("host_leds", ctypes.c_uint8) for mote in motes] == [6, 6, 0]
    world.run(3)
    assert [mote.get("host_leds", ctypes.c_uint8) for mote in motes] == [0, 0, 0]
    command(gateway, Downlink(ALL, 1, 1, Command.BLINK, 6))  # the same number is the same command
    world.run(0.5)
    assert [mote.get("host_leds", ctypes.c_uint8) for mote in motes] == [0, 0, 0]


def test_report(meadow):
    world, gateway, _ = network(meadow, 2)
    world.run(10)
    gateway.read()
    command(gateway, Downlink(1, 7, 2, Command.REPORT, 0))
    world.run(0.6)
    found = [
        m for item in gateway.read() if isinstance(item, tuple) for m in item[1:] if isinstance(m, Health)
    ]
    assert [(m.source, m.in_sync, m.hops, m.boots) for m in found] == [(1, True, 2, 0)]


def test_reboot(meadow):
    world, gateway, motes = network(meadow, 2)
    generations = [mote.generation for mote in motes]
    world.may_restart = True
    command(gateway, Downlink(ALL, 3, 2, Command.REBOOT, 0))
    world.run(30)
    assert [mote.generation - n for mote, n in zip(motes, generations, strict=True)] == [1, 1]
    gateway.read()
    world.run(20)
    assert {message.boot for message in data_of(gateway)} == {1}
    assert all(mote.in_sync for mote in motes)


def test_without_values_messages_are_numbered(meadow):
    world, gateway, _ = network(meadow, 1)
    world.run(20)
    counted = [
        [int.from_bytes(message.data[i : i + 2], "little") for i in range(0, len(message.data), 2)]
        for message in data_of(gateway)
    ]
    assert len(counted) > 6
    for row in counted[3:]:
        assert row == [row[0], row[0] - 1, row[0] - 2, row[0] - 3]


@pytest.mark.parametrize(
    ("reading", "steps"),
    [(417, 150), (379, 165), (522, 120), (246, 255), (245, 255), (1, 255), (1023, 61), (0, 0)],
)
def test_battery(meadow, reading, steps):
    """Steps of 20 mV, from a reference of 1.223 V against the supply."""
    world, gateway, (mote,) = network(meadow, 1)
    mote.set("host_supply", reading, ctypes.c_uint16)
    command(gateway, Downlink(0, 7, 0, Command.REPORT, 0))
    world.run(0.6)
    assert [message.battery for _, _, message in gateway.pairs() if isinstance(message, Health)] == [steps]


def test_identity(meadow):
    """EEPROM goes before TOS_NODE_ID; boots are counted from 0."""
    world = World(meadow)
    node = world.add(library(meadow, "mote"), 3)
    node.eeprom = b"\xc5\x0b\x00" + node.eeprom[3:]
    senders: set[int] = set()
    boots: list[int] = []

    def note(node: Any, kind: str, peer: int, sequence: int, tick: int) -> None:
        if kind == "boot":
            boots.append(sequence)
        if kind == "send":
            senders.add(peer)

    world.on_event = note
    for _ in range(3):
        world.run(10)
        node.die()
        node.boot()
    assert senders == {11}
    assert boots == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["image", "eeprom"])
@pytest.mark.parametrize(
    ("app", "id", "refused"),
    [
        ("mote", 0, False),
        ("mote", 19, False),
        ("mote", 20, True),  # the root's: not a mote's either
        ("mote", 0xFFFF, True),
        ("gateway", 19, True),
        ("gateway", 20, False),
        ("gateway", 0xFFFE, False),
        ("gateway", 0xFFFF, True),
    ],
)
def test_ids_that_are_refused(meadow, app, id, refused, where):
    """A node that the deployment lacks never starts: it would be a second root, or an unknown sender."""
    world = World(meadow)
    node = world.add(library(meadow, app), id if where == "image" else 3 if app == "mote" else 20)
    if where == "eeprom":
        node.eeprom = b"\xc5" + id.to_bytes(2, "little") + node.eeprom[3:]
    world.run(5)
    assert node.refused == refused
    assert node.up != refused
    assert node.get("host_radio_on", ctypes.c_bool) != refused


def test_watchdog_is_patted_while_idle(meadow):
    world, gateway, motes = network(meadow, 1)
    command(gateway, Downlink(ALL, 1, 0, Command.RATE, 0))
    world.run(1)
    for node in (gateway, *motes):
        before = node.get("host_pats")
        world.run(20)
        assert node.get("host_pats") - before >= 18
