"""An app is callbacks: each is called when it should be, and what is left out is done by the node."""

import ctypes
from pathlib import Path

import pytest

from packet_formats.deployment import Deployment
from packet_formats.messages import Data
from packet_formats.records import Command, Downlink, Health
from tests.firmware.net_world import HZ, Node, World, library
from tests.firmware.test_apps_mote import command

APPS = Path(__file__).parent / "c"
AFTER = 1
LIGHT, BATTERY, MISSING = 1, 8, 0xFFFF
EVERY, ONCE = 201, 202  # commands of app_probe: set the timer of this number


class Message(ctypes.Structure):
    """node_message_t."""

    _fields_ = (
        ("source", ctypes.c_uint16),
        ("sequence", ctypes.c_uint8),
        ("order", ctypes.c_uint8),
        ("tick", ctypes.c_uint32),
        ("sent", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
    )


def network(deployment: Deployment, app: str, motes: int = 3) -> tuple[World, Node, list[Node]]:
    world = World(deployment)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes)
    nodes = [world.add(library(deployment, str(APPS / app)), i) for i in range(motes)]
    world.run(8)
    gateway.read()
    return world, gateway, nodes


def test_question_and_answers(meadow):
    """Mote 0 asks; the others hear it, answer once each after a pause, and mote 0 hears that they knew its question."""
    world, _, (asker, *others) = network(meadow, "app_probe")
    world.run(20)
    asked = asker.get("probe_timers")
    assert 10 <= asked <= 18
    assert (asker.get("probe_sent"), asker.get("probe_dropped")) == (asked, 0)
    assert asker.get("probe_sequence") == asked
    for mote in others:
        answers = (ctypes.c_uint32 * 2).in_dll(mote.c, "probe_timers")
        assert (answers[0], answers[1]) in ((0, asked), (0, asked - 1))
        assert mote.get("host_leds", ctypes.c_uint8) == 2
    heard = Message.in_dll(asker.c, "probe_message")
    assert heard.source in (1, 2)
    assert ctypes.string_at(asker.address("probe_data"), 2) == bytes([1, heard.source])
    assert heard.order == AFTER  # a receipt names the question
    assert 0 <= heard.tick - heard.sent <= meadow.clock.delta
    assert asker.get("probe_messages") >= 2 * (asked - 1)
    answered = Message.in_dll(others[0].c, "probe_message")
    assert (answered.source, answered.order) != (0, AFTER)


def test_commands_that_are_not_the_node_s_own(meadow):
    world, gateway, (mote, *_) = network(meadow, "app_probe")
    command(gateway, Downlink(0, 1, 2, Command.BLINK, 4))
    world.run(1)
    assert mote.get("probe_command") == 0
    assert mote.get("host_leds", ctypes.c_uint8) & 4
    command(gateway, Downlink(0, 2, 2, Command.RATE, 77))
    world.run(1)
    assert (mote.get("probe_command"), mote.get("probe_argument")) == (Command.RATE, 77)


@pytest.mark.parametrize("setting", [EVERY, ONCE])
def test_a_timer_that_an_app_does_not_have(meadow, setting):
    """The first behind the app's own is the node's, for health; the last is behind all of memory's."""
    world, gateway, (mote, *_) = network(meadow, "app_probe", 1)
    world.run(10)  # its first health message has gone
    gateway.read()
    for number, timer in enumerate((2, 255), start=4):
        command(gateway, Downlink(0, number, 2, setting, timer))
        world.run(1)
    assert mote.get("probe_argument") == 255
    assert not [one for _, _, one in gateway.pairs() if isinstance(one, Health)]
    command(gateway, Downlink(0, 6, 2, setting, 1))
    world.run(1)
    assert (ctypes.c_uint32 * 2).in_dll(mote.c, "probe_timers")[1] > 0
    assert mote.generation == 1


@pytest.mark.parametrize(("sensor", "reading"), [(BATTERY, 417), (LIGHT, MISSING), (0, None), (99, None)])
def test_readings(meadow, sensor, reading):
    """The battery is every mote's; without a sensor board there is nothing else."""
    world, gateway, (mote, *_) = network(meadow, "app_probe", 1)
    command(gateway, Downlink(0, 3, 2, 200, sensor))
    world.run(1)
    assert mote.get("probe_readings") == (0 if reading is None else 1)
    assert mote.get("probe_reading") == (reading or 0)


def test_an_app_that_finds_its_state_impossible_restarts(meadow):
    world, _, (mote, *_) = network(meadow, "app_probe", 1)
    world.may_restart = True
    mote.set("probe_broken", 1, ctypes.c_bool)
    world.run(1.5)
    assert mote.generation == 2


def test_an_app_that_leaves_all_out_is_a_relay(meadow):
    """It passes on and reports its health; the command rate sets a timer that does nothing."""
    world = World(meadow)
    gateway = world.add(library(meadow, "gateway"), meadow.network.motes)
    empty = world.add(library(meadow, str(APPS / "app_empty")), 0)
    far = world.add(library(meadow, "mote"), 1)
    world.chain([gateway, empty, far])
    world.run(12)
    command(gateway, Downlink(0, 1, 2, Command.RATE, HZ))
    world.run(10)
    messages = [message for _, _, message in gateway.pairs()]
    assert {message.source for message in messages if isinstance(message, Data)} == {1}
    assert {message.source for message in messages if isinstance(message, Health)} == {0, 1}
    assert empty.messages["sent"] == 0
    assert empty.messages["relayed"] > 5
