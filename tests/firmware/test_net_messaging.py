"""Messaging on the host: deadlines, relaying, duplicates, and that stamps order what is causally ordered."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from basestation.causality.order import Message, Stamp, key
from basestation.deployed import timed_scheme_of
from packet_formats.deployment import Deployment, from_dict
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.records import Arrived, Beacon, Command, Downlink, Health
from tests.firmware.net_world import HZ, Node, World, frame_of, give, library


def network(deployment: Deployment, motes: int, **options: Any) -> tuple[World, Node, list[Node]]:
    world = World(deployment, **options)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes, 20)
    mote = library(deployment, "mote")
    return world, gateway, [world.add(mote, i, 40 - 15 * (i % 6)) for i in range(motes)]


def data_now(node: Node, source: int = 9, sequence: int = 1, age: int = 1, **fields: Any) -> Data:
    """A message that was sent `age` ticks ago by the node's clock."""
    deployment = node.world.deployment
    layout = layout_of(deployment)
    tick = (node.network() >> deployment.clock.tick_log2) - age
    values = timed_scheme_of(deployment).encode(Stamp(tick, 0, (0,) * layout.stamp.entries))
    return Data(source, sequence, values, data=bytes(layout.data_bytes), **fields)


class Air:
    """Data frames on the air: (sender, source, sequence, hops left, payload, ticks from its clock field to its end)."""

    def __init__(self, world: World) -> None:
        self.frames: list[tuple[int, int, int, int, bytes, int]] = []
        self.deployment = world.deployment
        world.on_air = self.note

    def note(self, node: Node, frame: Any, end: float) -> None:
        layout, clock = layout_of(self.deployment), self.deployment.clock
        if frame.type != layout.am_type:
            return
        payload = bytes(frame.data[: frame.length])
        tick = int(node.c.timesync_network(node.local(end))) >> clock.tick_log2
        field = layout.stamp.unpack(payload[layout.stamp_at : layout.stamp_at + layout.stamp.size])[0]
        latest = tick + clock.epsilon
        age = tick - (latest - (latest - field) % layout.stamp.modulus)
        flags = payload[layout.flags_at]
        self.frames.append((node.id, payload[0], payload[layout.sequence_at], flags >> 6, payload, age))


def test_relays_within_the_hop_budget(meadow):
    world, gateway, motes = network(meadow, 3)
    world.chain([gateway, *motes])
    world.run(10)
    air = Air(world)
    gateway.pairs()
    world.run(60)
    world.run(0.5)
    layout = layout_of(meadow)
    ways: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for sender, source, sequence, hops, payload, age in air.frames:
        ways.setdefault((source, sequence), []).append((sender, hops, payload))
        assert age <= meadow.clock.delta
    # One hop: no mote forwards it. Two: mote 0 does. Three: mote 1, then mote 0.
    expected = {0: [(0, 0)], 1: [(1, 1), (0, 0)], 2: [(2, 2), (1, 1), (0, 0)]}
    for (source, _), way in ways.items():
        assert list(dict.fromkeys(copy[:2] for copy in way)) == expected[source]
    assert sum(map(len, ways.values())) < 1.3 * sum(len(expected[source]) for source, _ in ways)
    for way in ways.values():
        first = bytearray(way[0][2])
        for _, _, payload in way:
            copy = bytearray(payload)
            copy[layout.flags_at] &= 0x3F
            first[layout.flags_at] &= 0x3F
            assert copy == first  # the stamp and all else are untouched
    got = {
        (message.source, message.sequence) for _, _, message in gateway.pairs() if isinstance(message, Data)
    }
    assert got == set(ways)
    assert motes[1].messages["echoes"] > 0


def test_deadline_of_a_relay(meadow):
    world, gateway, (mote,) = network(meadow, 1)
    world.run(10)
    air, before = Air(world), mote.messages
    delta = meadow.clock.delta
    give(mote, data_now(mote, sequence=1, age=delta - 4, hops=2))
    world.run(0.3)
    assert [frame[1:4] for frame in air.frames if frame[1] == 9] == [(9, 1, 0)]
    give(mote, data_now(mote, sequence=2, age=delta, hops=2))
    assert mote.messages["late"] == before["late"] + 1
    world.jammed = True
    give(mote, data_now(mote, sequence=3, age=1, hops=2))
    world.run(0.5)
    world.jammed = False
    world.run(0.5)
    assert mote.messages["late"] == before["late"] + 2
    assert [frame[2] for frame in air.frames if frame[1] == 9] == [1]
    assert gateway.in_sync


def one_way(deployment: Deployment) -> tuple[World, Node, Node]:
    """A mote in sync that the gateway does not hear, and that sends nothing of its own."""
    world, gateway, (mote,) = network(deployment, 1)
    world.run(12)
    give(mote, Downlink(0, 1, 0, Command.RATE, 0))
    world.run(1)
    world.links = {(gateway.id, mote.id)}
    return world, gateway, mote


def copies(air: Air, sequence: int) -> list[int]:
    """The ages of a foreign message's copies."""
    return [age for _, source, number, _, _, age in air.frames if (source, number) == (9, sequence)]


def arrived(deployment: Deployment, source: int, number: int) -> Arrived:
    """The gateway's word that this message has come."""
    return Arrived(source, number | (layout_of(deployment).hash & 31) << 11)


def test_repeats_until_it_is_taken(meadow):
    """A message goes out again, within delta, until the mote hears a node nearer to the gateway forward it."""
    world, _, mote = one_way(meadow)
    air = Air(world)
    give(mote, data_now(mote, sequence=1, hops=2))
    world.run(0.5)
    assert 3 <= len(copies(air, 1)) <= 5
    assert max(copies(air, 1)) <= meadow.clock.delta
    assert mote.messages["repeated"] == len(copies(air, 1)) - 1
    give(mote, data_now(mote, sequence=2, age=meadow.clock.delta - 4, hops=2))
    world.run(0.5)
    assert len(copies(air, 2)) == 1  # there is no time for more
    told = data_now(mote, sequence=3, hops=2)
    give(mote, told)
    while not copies(air, 3):
        world.run(0.001)
    give(mote, replace(told, hops=0))  # from one as near: the mote answers for it all the same
    world.run(0.06)
    assert len(copies(air, 3)) > 1
    sent, suppressed = len(copies(air, 3)), mote.messages["suppressed"]
    give(mote, arrived(meadow, 9, 3))
    world.run(0.5)
    assert len(copies(air, 3)) == sent
    assert mote.messages["suppressed"] == suppressed + 1


def test_asks_motes_at_its_distance_when_no_nearer_mote_forwards(meadow):
    """Distances are guesses. Who had left a message to others takes a later copy that has enough hops."""
    world, _, mote = one_way(meadow)
    air = Air(world)
    give(mote, data_now(mote, sequence=1, hops=2))
    world.run(0.5)
    assert [hops for _, _, _, hops, _, _ in air.frames][:3] == [0, 0, 1]
    message, before = data_now(mote, sequence=2, hops=0), mote.messages
    give(mote, message)
    give(mote, message)
    world.run(0.05)
    assert not copies(air, 2)
    give(mote, replace(message, hops=1))
    world.run(0.5)
    assert copies(air, 2)
    assert max(copies(air, 2)) <= meadow.clock.delta
    assert mote.messages["received"] == before["received"] + 1
    sent = len(copies(air, 2))
    give(mote, replace(message, hops=1))
    world.run(0.5)
    assert len(copies(air, 2)) == sent


@pytest.mark.parametrize("sign", ["as near", "arrived", "another boot", "another layout", "unrelated"])
def test_leaves_a_message_to_the_first_forwarder(meadow, sign):
    """A relay that waits keeps quiet when the message was passed on from as near, or is at the gateway."""
    world, _, mote = one_way(meadow)
    air, message = Air(world), data_now(mote, sequence=1, hops=2)
    give(mote, message)
    heard: dict[str, Any] = {
        "as near": replace(message, hops=0),
        "arrived": arrived(meadow, 9, 1),
        "another boot": arrived(meadow, 9, 0x101),
        "another layout": Arrived(9, arrived(meadow, 9, 1).number ^ 1 << 11),
        "unrelated": replace(message, sequence=2, hops=0),
    }
    give(mote, heard[sign])
    world.run(0.5)
    assert bool(copies(air, 1)) == (sign not in ("as near", "arrived"))


def test_the_gateway_reports_what_arrived(meadow):
    world, gateway, _ = network(meadow, 0)
    world.run(5)
    told: list[bytes] = []
    world.on_air = lambda node, frame, end: (
        told.append(bytes(frame.data[: frame.length])) if frame.type == Arrived.AM_TYPE else None
    )
    message = data_now(gateway, source=3, sequence=7, boot=2)
    give(gateway, message)
    give(gateway, replace(message, hops=1))  # while the answer waits
    world.run(0.1)
    give(gateway, frame := replace(message, hops=1))  # a repeat: the answer was not heard
    world.run(0.1)
    assert told == [struct.pack("<HH", 3, arrived(meadow, 3, 0x207).number)] * 2
    foreign = frame_of(meadow, frame)
    foreign.group = 0x11
    gateway.hear(foreign, world.now)
    world.run(0.1)
    assert len(told) == 2


def test_delivers_over_bad_links(meadow):
    """Of four frames one is lost on each link: over three hops, 42% would arrive without repeats."""
    world, gateway, motes = network(meadow, 3, loss=0.25)
    world.chain([gateway, *motes])
    world.run(30)
    sent: set[tuple[int, int]] = set()

    def note(node: Node, kind: str, peer: int, sequence: int, tick: int) -> None:
        if kind == "send":
            sent.add((peer, sequence))

    world.on_event = note
    gateway.pairs()
    world.run(240)
    world.on_event = lambda *event: None
    world.run(0.5)
    got = {(m.source, m.sequence) for _, _, m in gateway.pairs() if isinstance(m, Data)}
    assert len(sent) > 300
    assert len(got & sent) > 0.97 * len(sent)


def test_nothing_goes_out_late(meadow):
    """The channel is busy for longer than delta again and again."""
    world, _, motes = network(meadow, 4)
    world.run(10)
    air = Air(world)
    for _ in range(40):
        world.jammed = True
        world.run(0.2)
        world.jammed = False
        world.run(0.3)
    assert sum(mote.messages["late"] for mote in motes) > 3
    assert len(air.frames) > 20
    assert all(age <= meadow.clock.delta for *_, age in air.frames)
    for mote in motes:
        counted = mote.messages
        assert counted["full"] + counted["failed"] == 0


def test_copies_echoes_and_strangers(meadow):
    world, _, (mote,) = network(meadow, 1)
    world.run(10)
    before = mote.messages

    def grown() -> dict[str, int]:
        return {name: n - before[name] for name, n in mote.messages.items() if n != before[name]}

    first = data_now(mote, hops=0)
    give(mote, first)
    assert grown() == {"received": 1, "spent": 1}
    give(mote, first)
    give(mote, replace(first, hops=2))
    assert grown() == {"received": 1, "duplicates": 2}  # passed on after all
    give(mote, replace(first, boot=1))  # the same number after a restart is another message
    give(mote, replace(first, sequence=2, in_sync=False))
    give(mote, replace(first, source=0))
    give(mote, replace(first, source=200))
    foreign = frame_of(meadow, first)
    foreign.group = 0x11
    mote.hear(foreign, world.now)
    foreign.group, foreign.length = 0x7D, 10
    mote.hear(foreign, world.now)
    assert grown() == {
        "received": 2,
        "spent": 2,
        "duplicates": 2,
        "unmerged": 1,
        "echoes": 1,
        "foreign": 3,
    }


@pytest.mark.wide
def test_idle_for_most_of_a_day(meadow):
    """More than half the clock's range after its last event a mote's events are in the present tick again."""
    world, _, (mote,) = network(meadow, 1)
    world.run(30)
    give(mote, Downlink(0, 1, 0, Command.RATE, 0))
    world.run(19 * 3600)
    sent: list[tuple[int, int]] = []

    def note(node: Node, kind: str, peer: int, sequence: int, tick: int) -> None:
        if kind == "send":
            sent.append((tick, (node.network() >> meadow.clock.tick_log2) % (1 << 16)))

    world.on_event = note
    give(mote, Downlink(0, 2, 0, Command.RATE, HZ))
    world.run(10)
    assert len(sent) > 5
    assert all((now - tick) % (1 << 16) <= 1 for tick, now in sent)


def test_out_of_sync(meadow):
    """Without a root a mote says so and is not merged; others pass on what it sends."""
    world = World(meadow)
    mote = library(meadow, "mote")
    a, b = world.add(mote, 0), world.add(mote, 1)
    seen: list[int] = []
    kinds: set[str] = set()
    world.on_event = lambda node, kind, *rest: kinds.add(kind)
    world.on_air = lambda node, frame, end: seen.append(frame.data[2] & 1) if frame.type == 0xF4 else None
    world.run(30)
    assert len(seen) > 10
    assert not any(seen)
    assert a.messages["received"] == b.messages["received"] == 0
    assert a.messages["unmerged"] > 3
    assert kinds == {"boot", "epoch", "send", "unmerged", "relay"}
    assert a.get("host_leds") & 1


def test_health_is_relayed(meadow):
    world, gateway, motes = network(meadow, 3)
    world.chain([gateway, *motes])
    world.run(90)
    health = [message for _, _, message in gateway.pairs() if isinstance(message, Health)]
    assert {message.source for message in health} == {0, 1, 2}
    for source in range(3):
        own = [message for message in health if message.source == source]
        assert [message.hops for message in own] == [source + 1] * len(own)
        assert all(message.layout == layout_of(meadow).hash for message in own)


def test_health_of_every_id_is_new_once(meadow):
    """Mote 5 and mote 32773 report at the same time, and so does a mote whose last message has a number like it."""
    tables = meadow.to_dict()
    large = from_dict(
        tables | {"network": tables["network"] | {"motes": 40000}, "clock": tables["clock"] | {"root": 40000}}
    )
    world, _, (mote,) = network(large, 1)
    world.run(10)
    number = 1
    give(mote, data_now(mote, source=33000, sequence=number, hops=0))
    before = mote.messages["duplicates"]
    for source in (5, 32773, 33000):
        give(mote, Health(source, number << 4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1))
        assert mote.messages["duplicates"] == before, source
        give(mote, Health(source, number << 4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1))
        before += 1
        assert mote.messages["duplicates"] == before


SCHEMES = {
    "shlc": {"scheme": "shlc", "counter_bits": 7, "receipts": 2},
    "kn": {"scheme": "kn", "entries": "all", "events_per_tick": 3},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["shlc", "kn"])
def test_stamps_order_what_is_causally_ordered(name):
    """Truth from the flight recorders, keys from what the gateway handed up. Clocks are as far apart as G1 allows."""
    deployment = from_dict(
        {
            "network": {"name": "order", "board": "micaz", "motes": 6, "hops": 2},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
            "stamp": SCHEMES[name],
        }
    )
    world, gateway, motes = network(deployment, 6, loss=0.05)
    # Motes 0..2 hear the gateway, all hear their neighbours in a ring.
    links = {(i, (i + 1) % 6) for i in range(6)} | {(i, 6) for i in range(3)}
    world.links = links | {(b, a) for a, b in links}
    world.run(12)
    world.deaf_to = {Beacon.AM_TYPE}
    for mote in motes[1::2]:
        mote.first += 350  # cycles; epsilon is 384
    gateway.first += 175
    world.run(1)
    gateway.pairs()
    pasts: dict[int, frozenset[tuple[int, int]]] = {i: frozenset() for i in range(6)}
    sends: dict[tuple[int, int], frozenset[tuple[int, int]]] = {}

    def note(node: Node, kind: str, peer: int, sequence: int, tick: int) -> None:
        if kind == "send":
            sends[node.id, sequence] = pasts[node.id]
            pasts[node.id] |= {(node.id, sequence)}
        elif kind == "receive" and (peer, sequence) in sends:
            pasts[node.id] |= sends[peer, sequence] | {(peer, sequence)}

    world.on_event = note
    for mote in motes:
        give(mote, Downlink(mote.id, 100 + mote.id, 0, Command.RATE, HZ // 8))
    world.run(15)
    scheme, shift = timed_scheme_of(deployment), deployment.clock.tick_log2
    keys: dict[tuple[int, int], tuple[int, ...]] = {}
    for heard, _, message in gateway.pairs():
        if isinstance(message, Data):
            assert message.in_sync
            assert not message.saturated
            stamp = scheme.decode(message.stamp, heard.time >> shift)
            named = Message(message.source, message.sequence, stamp)
            keys.setdefault((message.source, message.sequence), key(named))
    assert len(sends) > 500
    assert len(keys) > 0.7 * len(sends)
    related = 0
    for late, past in sends.items():
        for early in past:
            if early in keys and late in keys:
                related += 1
                assert keys[early] < keys[late], (early, late)
    assert related > 10_000
    assert all(mote.messages["full"] == 0 for mote in motes)


def test_a_radio_that_answers_too_late(meadow, monkeypatch):
    """The outbox has given its frame up by then, and others after it: none of them is reported again."""
    world, _, (mote,) = network(meadow, 1)
    world.run(20)
    monkeypatch.setattr(world, "request", lambda node: None)
    before = mote.messages
    world.run(30)
    given_up = mote.messages
    assert given_up["failed"] - before["failed"] >= 2
    mote.c.host_sent(0, mote.local())
    mote.c.radio_service()
    assert mote.messages == given_up
    assert given_up["sent"] == before["sent"]
    monkeypatch.undo()
    mote.step()
    world.run(10)
    assert mote.messages["sent"] > before["sent"]


def sends_at_once(scheme: str, asked: int) -> tuple[list[int], list[int]]:
    """Ask a mote for several sends at once, early in a tick of 31 ms: the ticks of its sends, and which went when."""
    deployment = from_dict(
        {
            "network": {"name": "burst", "board": "micaz", "motes": 6},
            "clock": {"tick_log2": 10, "epsilon": 2, "delta": 12},
            "stamp": {"scheme": scheme},
        }
    )
    world, _, (mote,) = network(deployment, 1)
    world.run(12)
    give(mote, Downlink(0, 1, 0, Command.RATE, 0))
    world.run(1)
    while mote.network() % 1024 > 32:
        world.run(0.0005)
    mote.step()
    ticks: list[int] = []
    world.on_event = lambda node, kind, peer, sequence, tick: ticks.append(tick) if kind == "send" else None
    air, data_at = Air(world), layout_of(deployment).data_at
    for number in range(asked):
        assert mote.c.messaging_send(bytes([number] * 4), False)
    mote.step()
    world.run(1)
    return ticks, [payload[data_at] for *_, payload, _ in air.frames]


@pytest.mark.few(1)  # each is compiled
@pytest.mark.parametrize(
    ("scheme", "ticks"),
    [
        ("delta-vector", [0, 1, 2, 3]),
        *((name, [0, 0, 0, 0]) for name in ("vector", "dpc1", "kn", "shlc", "last-sender")),
    ],
)
def test_what_names_a_send_by_its_tick_sends_once_a_tick(scheme, ticks):
    found, order = sends_at_once(scheme, 4)
    assert [tick - found[0] for tick in found] == ticks
    assert order == [0, 1, 2, 3]
