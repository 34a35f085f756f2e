"""The gateway app on the host: the line up and down."""

import tomllib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.framing import crc16, encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Arrived, Beacon, Command, Downlink, Health, Heard, Idle, Status
from packet_formats.tinyos import Ack, ActiveMessage, encode_packet
from tests.firmware.net_world import Node, World, library, message_struct


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.wide)])
def meadow(root, request):
    if request.param == 1:
        return load(root / "examples/micaz.toml")
    described = tomllib.loads((root / "examples/micaz.toml").read_text())
    described["network"]["tinyos"] = 2
    return from_dict(described)


def network(deployment: Deployment, motes: int) -> tuple[World, Node, list[Node]]:
    world = World(deployment)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes)
    nodes = [world.add(library(deployment, "mote"), i) for i in range(motes)]
    world.run(5)
    return world, gateway, nodes


def status_of(gateway: Node) -> Status:
    """Asked for, now."""
    ask = Downlink(gateway.id, 9, 0, Command.REPORT, 0)
    gateway.write_line(encode_frame(encode_packet(encode_message(ask, layout_of(gateway.world.deployment)))))
    found = [item[1] for item in gateway.read() if isinstance(item, tuple) and isinstance(item[1], Status)]
    return found[-1]


def test_one_of_several_gateways_reports_its_time_while_idle(meadow):
    """After 20 ms without a frame; a gateway that has the network to itself says nothing."""
    _, alone, _ = network(meadow, 0)
    assert not [item for item in alone.read() if isinstance(item, tuple) and isinstance(item[1], Idle)]
    several = replace(meadow, network=replace(meadow.network, gateways=2))
    world, gateway, _ = network(several, 3)
    gateway.read()
    world.run(30)
    told = [
        item[1] for item in gateway.read() if isinstance(item, tuple) and isinstance(item[1], Heard | Idle)
    ]
    idle = [one for one in told if isinstance(one, Idle)]
    assert 1000 < len(idle) <= 1500
    assert all(one.gateway == gateway.id and one.in_sync for one in idle)
    for before, after in pairwise(told):
        if isinstance(after, Idle):
            assert after.time - before.time >= 600  # cycles, of a period of 655 and a margin of 32


def raw_frame(deployment: Deployment, type_: int, data: bytes, group: int | None = None) -> Any:
    layout = layout_of(deployment)
    frame = message_struct(layout.limit)(
        dest=0xFFFF,
        source=3,
        type=type_,
        group=layout.group if group is None else group,
        length=len(data),
    )
    frame.data[: len(data)] = data
    return frame


def test_heard_records_and_frames_come_in_pairs(meadow):
    world, gateway, motes = network(meadow, 3)
    gateway.read()
    world.run(30)
    pairs = gateway.pairs()
    assert {type(message) for _, _, message in pairs} == {Data, Beacon, Health}
    numbers = [heard.sequence for heard, _, _ in pairs]
    assert numbers == [(numbers[0] + i) % 256 for i in range(len(pairs))]
    times = [heard.time for heard, _, _ in pairs]
    assert times == sorted(times)
    for heard, frame, message in pairs:
        assert heard.gateway == gateway.id
        assert heard.check == crc16(frame.data)
        assert (heard.rssi, heard.lqi, heard.lost, heard.flags) == (-60, 100, 0, 7)
        assert heard.epoch == gateway.c.timesync_epoch()
        if isinstance(message, Beacon):
            assert abs(heard.time - message.time) <= 8
    status = status_of(gateway)
    assert status.heard == status.forwarded > len(pairs)
    assert gateway.decoder.counters.dropped_bytes == 0
    assert all(mote.in_sync for mote in motes)


def test_anything_that_fits_is_handed_up(meadow):
    _, gateway, _ = network(meadow, 0)
    gateway.read()
    limit = layout_of(meadow).limit
    for type_, data, group in [(5, b"", 0x11), (0xAA, bytes(range(limit)), None), (0x70, b"\x7e\x7d", None)]:
        gateway.hear(raw_frame(meadow, type_, data, group), gateway.world.now)
    found = [(frame.type, frame.data) for _, frame, _ in gateway.pairs()]
    assert found == [(5, b""), (0xAA, bytes(range(limit))), (0x70, b"\x7e\x7d")]


def test_a_gateways_records_from_the_air_are_dropped_and_counted(meadow):
    """Only a gateway makes them, for its host: an attacker sends them by radio so that the host believes them."""
    world, gateway, _ = network(meadow, 0)
    before = status_of(gateway)
    layout = layout_of(meadow)
    made_up = Heard(9, 1, 2, 0, 3, -60, 100, 5, 6), Status(gateway.id, *range(1, 14)), Idle(9, 1, 1, 6)
    for record in made_up:
        data = encode_message(record, layout).data
        gateway.hear(raw_frame(meadow, record.AM_TYPE, data), world.now)
        gateway.hear(raw_frame(meadow, record.AM_TYPE, data[:3]), world.now)
    assert gateway.pairs() == []
    assert not [item for item in gateway.read() if isinstance(item, tuple)]
    after = status_of(gateway)
    assert after.foreign == before.foreign + 6
    assert after.forwarded == before.forwarded


def test_a_stalled_line_drops_pairs_and_counts_them(meadow):
    world, gateway, _ = network(meadow, 0)
    gateway.read()
    world.stalled = True
    gateway.set("host_up_room", 64)
    for i in range(40):
        gateway.hear(raw_frame(meadow, 5, bytes([i] * 20)), world.now)
    world.stalled = False
    for _ in range(100):
        world.run(0.05)
        gateway.step()
    pairs = gateway.pairs()
    assert 5 < len(pairs) < 40
    assert [frame.data[0] for _, frame, _ in pairs] == list(range(len(pairs)))
    gateway.hear(raw_frame(meadow, 5, b"after"), world.now)
    for _ in range(5):
        gateway.step()
    (last,) = gateway.pairs()
    assert last[0].lost == 40 - len(pairs)
    assert last[0].sequence == (pairs[-1][0].sequence + 1) % 256
    gateway.set("host_up_room", 4096)
    assert status_of(gateway).up_full == 40 - len(pairs)


def test_a_message_that_the_line_dropped_is_not_answered(meadow):
    """After an answer no mote would send it again, and the host would never see it."""
    world, gateway, _ = network(meadow, 0)
    gateway.read()
    answered: list[int] = []
    low = 2 if meadow.network.tinyos == 1 else 3  # byte of the number
    world.on_air = lambda node, frame, end: (
        answered.append(frame.data[low]) if frame.type == Arrived.AM_TYPE else None
    )
    world.stalled = True
    gateway.set("host_up_room", 64)
    layout = layout_of(meadow)
    for sequence in range(40):
        stamp = (0,) * len(layout.stamp.fields)
        data = encode_message(Data(3, sequence, stamp, data=bytes(layout.data_bytes)), layout)
        gateway.hear(raw_frame(meadow, data.type, data.data), world.now)
        world.run(0.02)
    world.stalled = False
    for _ in range(100):
        world.run(0.05)
        gateway.step()
    went_up = [message.sequence for _, _, message in gateway.pairs() if isinstance(message, Data)]
    assert 0 < len(went_up) < 40
    assert answered == went_up


def test_acknowledgements_and_the_air(meadow):
    world, gateway, _ = network(meadow, 0)
    gateway.read()
    sent: list[tuple[int, int, bytes]] = []
    world.on_air = lambda node, frame, end: (
        sent.append((frame.type, frame.group, bytes(frame.data[: frame.length])))
        if frame.type != Beacon.AM_TYPE
        else None
    )
    tinyos = meadow.network.tinyos
    source = None if tinyos == 1 else 0
    wanted = ActiveMessage(tinyos, 0xFFFF, 0x01, 0x33, b"hello", source, "data-ack", 0x7E)
    gateway.write_line(encode_frame(encode_packet(wanted)))
    gateway.write_line(encode_frame(encode_packet(ActiveMessage(tinyos, 3, 0x01, 0x34, b"", source))))
    world.run(0.5)
    assert sent == [(0x33, meadow.network.group, b"hello"), (0x34, meadow.network.group, b"")]
    assert [item for item in gateway.read() if isinstance(item, Ack)] == [Ack(tinyos, 0x7E)]
    assert status_of(gateway).down_sent == 2


def test_reboot_is_acknowledged_first(meadow):
    """Or the host would send it again, and again."""
    world, gateway, _ = network(meadow, 0)
    gateway.read()
    boots = gateway.generation
    world.may_restart = True
    command = encode_message(Downlink(gateway.id, 1, 0, Command.REBOOT, 0), layout_of(meadow))
    gateway.write_line(encode_frame(encode_packet(replace(command, kind="data-ack", token=7))))
    assert [item for item in gateway.read() if isinstance(item, Ack)] == [Ack(meadow.network.tinyos, 7)]
    world.run(3)
    assert gateway.generation == boots + 1


def test_what_the_line_refuses(meadow):
    world, gateway, _ = network(meadow, 0)
    gateway.read()
    sent: list[int] = []
    world.on_air = lambda node, frame, end: sent.append(frame.type)
    tinyos = meadow.network.tinyos
    limit = layout_of(meadow).limit
    data = bytes(limit + 1)
    head = (
        bytes([0x41, 5, 0xFF, 0xFF, 0x33, 0x7D, len(data)])
        if tinyos == 1
        else bytes([0x44, 5, 0, 0xFF, 0xFF, 0, 0, len(data), 0x22, 0x33])
    )
    gateway.write_line(encode_frame(head + data))  # oversize, with a good CRC: acknowledged, never sent
    gateway.write_line(encode_frame(b"\x55\x01\x02\x03\x04"))
    good = encode_frame(head[:1] + head[1:])
    gateway.write_line(good[:-3] + bytes([good[-3] ^ 1]) + good[-2:])
    world.run(0.5)
    assert [item for item in gateway.read() if isinstance(item, Ack)] == [Ack(tinyos, 5)]
    status = status_of(gateway)
    assert (status.line_refused, status.line_crc, status.down_sent) == (2, 1, 0)
    assert 0x33 not in sent


def test_more_than_the_air_takes(meadow):
    world, gateway, _ = network(meadow, 0)
    tinyos = meadow.network.tinyos
    message = ActiveMessage(tinyos, 0xFFFF, 0x01, 0x33, b"x", None if tinyos == 1 else 0)
    world.jammed = True
    gateway.write_line(encode_frame(encode_packet(message)) * 12)
    world.run(8)
    world.jammed = False
    world.run(1)
    status = status_of(gateway)
    assert status.down_full == 12
    assert status.down_sent == 0
