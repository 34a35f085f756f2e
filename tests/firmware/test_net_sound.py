"""Damaged memory on the host: a node that finds it starts anew, what heals by itself does so, and all is well again."""

import ctypes
import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest

from packet_formats.deployment import Deployment, from_dict
from packet_formats.messages import Data
from tests.firmware.net_world import HZ, Node, World, library

HOURS = 5 * 3600 * HZ
LINE = 24  # bytes of network_time.c's line_t on this machine
FRAME = 48  # of outbox_frame_t
TIMESYNC = 48  # of timesync_shared_t
EPOCH, SEQUENCE, STATE, INTENT, BEACON_AT, ASK_PAUSE = 0, 4, 8, 36, 40, 45  # where its members are
LOOKED_AT = {"own_boots": 6, "timesync": 12}  # seconds: at the next message, at the next beacon


@pytest.fixture(scope="module", autouse=True)
def _nm(require_tool):
    require_tool("nm")


@cache
def variables(path: Path) -> dict[tuple[str, int], int]:
    """Where the library's variables are, by name and size: those of two modules may have one name."""
    listing = subprocess.run(["nm", "-S", path], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {(row[3], int(row[1], 16)): int(row[0], 16) for row in rows if len(row) == 4 and row[2] in "bBdD"}


def place(node: Node, name: str, size: int) -> int:
    known = variables(node.library)
    return node.address("host_eeprom") - known["host_eeprom", 4096] + known[name, size]


def damage(node: Node, name: str, size: int, at: int, raw: bytes) -> None:
    assert at + len(raw) <= size
    ctypes.memmove(place(node, name, size) + at, raw, len(raw))


def network(deployment: Deployment) -> tuple[World, Node, list[Node]]:
    world = World(deployment)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes, 20)
    motes = [world.add(library(deployment, "mote"), i, 30 - 20 * i) for i in range(3)]
    world.chain([gateway, *motes])
    world.run(20)
    world.may_restart = True
    return world, gateway, motes


def assert_well(world: World, gateway: Node, motes: list[Node]) -> None:
    """All send under their own names, in sync, and the gateway hands it up."""
    world.run(10)
    gateway.read()
    world.run(20)
    pairs = gateway.pairs()
    assert {heard.gateway for heard, _, _ in pairs} == {gateway.id}
    data = [message for _, _, message in pairs if isinstance(message, Data)]
    for mote in motes:
        assert mote.in_sync
        assert sum(message.source == mote.id for message in data) >= 7
    assert {message.source for message in data} == {mote.id for mote in motes}
    assert all(message.in_sync for message in data)
    assert len({node.network() >> world.deployment.clock.tick_log2 for node in (gateway, *motes)}) <= 2


def u16(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *(value % 2**32 for value in values))


@pytest.mark.parametrize(
    ("name", "size", "at", "raw"),
    [
        ("own_id", 4, 0, u16(2)),
        ("own_boots", 4, 0, u16(77)),
        ("timesync", TIMESYNC, EPOCH, u16(77)),
        ("timesync", TIMESYNC, SEQUENCE, u16(20000)),
        ("period", 8, 0, u32(999)),
        ("running", 1, 0, b"\x00"),
        ("timesync", TIMESYNC, STATE, u32(1)),  # the root's
        ("timesync", TIMESYNC, STATE, u32(0)),
        ("pairs", 1, 0, b"\xc8"),
        ("pairs", 1, 0, b"\x00"),
        ("window", 96, 16, u32(1 << 20)),  # an offset
        ("lines", 2 * LINE, 4, u32(99)),
        ("lines", 2 * LINE, LINE + 4, u32(99)),
    ],
)
def test_a_mote_starts_anew(meadow, name, size, at, raw):
    world, gateway, motes = network(meadow)
    before = motes[1].generation
    damage(motes[1], name, size, at, raw)
    world.run(LOOKED_AT.get(name, 1.5))
    assert motes[1].generation == before + 1
    assert_well(world, gateway, motes)
    assert [mote.generation for mote in motes] == [1, before + 1, 1]
    assert gateway.generation == 1


@pytest.mark.parametrize(
    ("name", "size", "at"), [("timer_at", 24, 0), ("timer_at", 24, 8), ("outbox_frames", 6 * FRAME, 36)]
)
def test_times_far_ahead(meadow, name, size, at):
    """Of the next message, of the next health, and until when a frame waits: for one that waits in the first place."""
    world, gateway, motes = network(meadow)
    before = motes[1].generation
    damage(motes[1], name, size, at, u32(motes[1].local() + HOURS))
    if name == "outbox_frames":
        damage(motes[1], name, size, 47, b"\xa5")
    world.run(1.5)
    assert motes[1].generation == before + 1
    assert_well(world, gateway, motes)


@pytest.mark.parametrize(
    ("name", "size", "at", "raw"),
    [
        ("current", 1, 0, b"\xc0"),
        ("current", 1, 0, b"\x37"),
        ("state", 2, 0, u16(0)),  # of the random numbers
        ("last_tick", 4, 0, u32(1 << 23)),
        ("outliers", 1, 0, b"\xff"),
        ("timesync", TIMESYNC, ASK_PAUSE, b"\xff"),
        ("tidy_at", 4, 0, u32(HOURS)),
        ("outbox_busy", 1, 0, b"\xa5"),
        ("got_answer", 1, 0, b"\xa5"),
    ],
)
def test_what_heals_by_itself(meadow, name, size, at, raw):
    world, gateway, motes = network(meadow)
    damage(motes[1], name, size, at, raw)
    assert_well(world, gateway, motes)
    assert [mote.generation for mote in motes] == [1, 1, 1]


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(12))
def test_filters_and_receipts_stay_within_their_memory(meadow, seed):
    """Whatever is in them. What lies behind them in memory would show it."""
    world, gateway, motes = network(meadow)
    for name, size in (("seen", 130), ("receipts", 62), ("stamp", 8)):
        damage(motes[1], name, size, 0, world.rng.randbytes(size))
    assert_well(world, gateway, motes)


@pytest.mark.parametrize(
    ("name", "size", "at", "raw"),
    [
        ("own_id", 4, 0, u16(33)),
        ("head", 2, 0, u16(9999)),
        ("used", 2, 0, u16(9999)),
        ("acks_waiting", 1, 0, b"\x09"),
        ("until_health", 1, 0, b"\xff"),
        ("timesync", TIMESYNC, INTENT, u32(0)),
        ("lines", 2 * LINE, 4, u32(99)),
        ("timesync", TIMESYNC, SEQUENCE, u16(20000)),
    ],
)
def test_a_gateway_starts_anew(meadow, name, size, at, raw):
    """It is the root, too: the network keeps its time meanwhile, and gives it back."""
    world, gateway, motes = network(meadow)
    epoch = gateway.c.timesync_epoch()
    damage(gateway, name, size, at, raw)
    world.run(LOOKED_AT.get(name, 1.5))
    assert gateway.generation == 2
    assert_well(world, gateway, motes)
    assert gateway.c.timesync_epoch() == epoch
    assert [mote.generation for mote in motes] == [1, 1, 1]


def test_a_root_whose_next_beacon_is_far_ahead(meadow):
    world, gateway, motes = network(meadow)
    damage(gateway, "timesync", TIMESYNC, BEACON_AT, u32(gateway.local() + HOURS))
    world.run(1.5)
    assert gateway.generation == 2
    assert_well(world, gateway, motes)


def test_lengths_in_the_queue(meadow):
    """A packet too long for its place is never taken out; the queue is then begun anew."""
    world, gateway, motes = network(meadow)
    world.stalled = True
    gateway.set("host_up_room", 0)
    world.run(2)
    damage(gateway, "ring", 768, 0, b"\xff" * 768)
    world.stalled = False
    gateway.set("host_up_room", 4096)
    world.run(2)
    gateway.read()
    assert_well(world, gateway, motes)


def test_the_longest_times_that_a_deployment_may_have(meadow):
    """No sound frame seems to wait too long: a mote that thinks so would start anew for ever."""
    clock = {"tick_log2": 16, "epsilon": 2, "delta": 16198}
    longest = from_dict(meadow.to_dict() | {"clock": clock, "stamp": {"scheme": "dpc1"}})
    world = World(longest)
    gateway = world.add(library(longest, "gateway"), longest.network.motes)
    mote = world.add(library(longest, "mote"), 0)
    world.run(20)
    assert gateway.generation == mote.generation == 1
    assert mote.messages["sent"] >= 7
