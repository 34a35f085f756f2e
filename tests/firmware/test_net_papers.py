"""The papers' stamps in a network on the host: what motes say is what their flight recorders make of the programs."""

from typing import Any

import pytest

from basestation.causality.modular import nearest
from packet_formats.deployment import Deployment, from_dict
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.records import Command, Downlink
from packet_formats.schemes import descriptor
from tests.firmware.cores import FIRMWARE_SCHEMES
from tests.firmware.net_world import HZ, Node, World
from tests.firmware.papers import Sent, reference_of
from tests.firmware.test_net_messaging import give, network

MOTES = 6


def deployed(scheme: str, hops: int = 3) -> Deployment:
    return from_dict(
        {
            "network": {"name": "papers", "board": "micaz", "motes": MOTES, "hops": hops},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
            "stamp": {"scheme": scheme, "receipts": 1},
        }
    )


class Told:
    """The programs, driven by the flight recorders, beside what was sent."""

    def __init__(self, world: World) -> None:
        self.deployment, self.layout = world.deployment, layout_of(world.deployment)
        self.programs = {mote: reference_of(world.deployment, mote) for mote in range(MOTES)}
        self.numbers, self.ticks = dict.fromkeys(range(MOTES), 0), dict.fromkeys(range(MOTES + 1), 0)
        self.sent: dict[tuple[int, int], Sent] = {}
        self.compared = self.wrapped = 0
        self.out_of_sync: list[bool] = []
        world.on_event, world.on_air = self.event, self.air

    def event(self, node: Node, kind: str, peer: int, sequence: int, tick: int) -> None:
        tick = self.ticks[node.id] = nearest(tick, self.ticks[node.id], 1 << 16)
        if kind == "epoch" and node.id < MOTES:
            self.programs[node.id].start(tick)
        if kind in ("send", "receive", "unmerged"):
            self.programs[node.id].has_time(tick, node.in_sync)
        if kind == "send":
            self.numbers[peer] += (sequence + 1 - self.numbers[peer]) % 256
            self.sent[peer, sequence] = self.programs[peer].send(tick, self.numbers[peer])
        elif kind == "receive":
            self.programs[node.id].receive(tick, self.sent[peer, sequence])

    def air(self, node: Node, frame: Any, end: float) -> None:
        payload, layout = bytes(frame.data[: frame.length]), self.layout
        if frame.type != layout.am_type or payload[0] != node.id:
            return
        sent = self.sent[payload[0], payload[layout.sequence_at]]
        stamp = payload[layout.stamp_at : len(payload) - (layout.length - layout.receipts_at)]
        assert layout.stamp.unpack(stamp) == sent.fields
        if self.deployment.stamp.scheme == "barrier":
            assert payload[layout.flags_at] & 1 == sent.message.in_sync
        self.out_of_sync.append(not payload[layout.flags_at] & 1)
        self.compared += 1
        self.wrapped += sent.message.sequence > 256


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(name, marks=[] if name == "barrier" else [pytest.mark.wide])
        for name in FIRMWARE_SCHEMES
        if not descriptor(name).is_ordered
    ],
)
def test_stamps_are_the_programs_of_what_happened(scheme):
    """Over two hops, with loss, until the numbers begin again."""
    world, gateway, motes = network(deployed(scheme), MOTES, loss=0.05)
    links = {(i, (i + 1) % MOTES) for i in range(MOTES)} | {(i, MOTES) for i in range(3)}
    world.links = links | {(b, a) for a, b in links}
    told = Told(world)
    world.run(10)
    gateway.pairs()
    for mote in motes:
        give(mote, Downlink(mote.id, 100 + mote.id, 0, Command.RATE, HZ // 8))
    world.run(35)
    assert told.compared > 6 * 250
    assert told.wrapped > 50
    arrived = {
        (message.source, message.sequence) for _, _, message in gateway.pairs() if isinstance(message, Data)
    }
    assert len(arrived) > 1000
    assert {source for source, _ in arrived} == set(range(MOTES))
    assert sum(mote.messages["relayed"] for mote in motes) > 500
    assert sum(mote.messages["foreign"] for mote in motes) == 0


def test_a_mote_that_regains_the_time_starts_anew():
    """A barrier's sends out of sync touch nothing; the first in sync comes after a silence, and says so."""
    world, gateway, motes = network(deployed("barrier"), 3)
    told = Told(world)
    world.run(20)
    for mote in motes:
        give(mote, Downlink(mote.id, 100 + mote.id, 0, Command.RATE, HZ // 8))
    gateway.die()
    world.links = set()  # else one of them would carry on with the time for all
    world.run(5)
    while any(mote.in_sync for mote in motes):
        world.run(10)
    told.out_of_sync.clear()
    world.run(2)
    assert all(told.out_of_sync)
    world.links = None
    gateway.boot()
    world.run(20)
    assert all(mote.in_sync for mote in motes)
    assert not any(told.out_of_sync[-30:])
    assert told.compared > 500


def heard(source: int, sequence: int, **fields: Any) -> Data:
    return Data(source, sequence, (0,) * (MOTES - 1), data=bytes(4), **fields)


def test_a_message_without_a_clock_has_a_share_of_delta_at_each_hop():
    """41 ms: the third of delta, from when it was heard; so three hops keep delta, though none knows its age."""
    deployment = deployed("vector")
    world, _, (mote,) = network(deployment, 1)
    world.run(10)
    passed: list[tuple[int, float]] = []
    layout = layout_of(deployment)

    def note(node: Node, frame: Any, end: float) -> None:
        if frame.type == layout.am_type and frame.data[0] == 4:
            passed.append((frame.data[layout.sequence_at], end))

    world.on_air = note
    share = 32 * 2**7 / HZ / 3
    for sequence, busy in ((1, 0.0), (2, 0.6), (3, 1.2)):
        before, start = mote.messages["late"], world.now
        world.jammed = busy > 0
        give(mote, heard(4, sequence, hops=2))
        world.run(busy * share)
        world.jammed = False
        world.run(0.5)
        assert mote.messages["late"] - before == (busy > 1)
        assert all(end - start <= share for number, end in passed if number == sequence)
    assert [sequence for sequence, _ in passed] == [1, 2]


def test_own_messages_have_a_share_as_well():
    deployment = deployed("last-sender")
    world, _, motes = network(deployment, 4)
    world.run(10)
    stamped: dict[tuple[int, int], float] = {}
    ages: list[float] = []
    layout = layout_of(deployment)

    def event(node: Node, kind: str, peer: int, sequence: int, tick: int) -> None:
        if kind == "send":
            stamped[peer, sequence] = world.now

    def air(node: Node, frame: Any, end: float) -> None:
        if frame.type == layout.am_type and frame.data[0] == node.id:
            ages.append(end - stamped[node.id, frame.data[layout.sequence_at]])

    world.on_event, world.on_air = event, air
    for _ in range(60):
        world.jammed = True
        world.run(0.06)
        world.jammed = False
        world.run(0.3)
    assert sum(mote.messages["late"] for mote in motes) > 3
    assert len(ages) > 20
    assert max(ages) <= 32 * 2**7 / HZ / 3
