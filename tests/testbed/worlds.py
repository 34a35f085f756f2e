"""Runs made up by hand: a network, and a truth log of it in which everything is known."""

from __future__ import annotations

import json
import struct
from collections import Counter

from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.truth_log import parse
from packet_formats.air import fcs
from packet_formats.deployment import Deployment, from_dict
from packet_formats.framing import crc16, encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Beacon, Heard
from packet_formats.tinyos import encode_am, encode_packet

MS = 1_000_000
SECOND = 1_000_000_000
AIRTIME = 1_100_000
TICK_NS = 128 * SECOND / 32768


def deployment(name: str = "meadow", board: str = "micaz", tinyos: int = 1, motes: int = 3) -> Deployment:
    """Ticks of 3.9 ms, dpc2 stamps: the clock and c, so that a test can say what it means."""
    return from_dict(
        {
            "network": {
                "name": name,
                "board": board,
                "motes": motes,
                "tinyos": tinyos,
                "hops": 3,
                "data_bytes": 0,
            },
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
            "stamp": {"scheme": "dpc2"},
        }
    )


def network(
    described: Deployment | None = None, motes: int = 3, gateways: int = 1, first: int = 0
) -> ScenarioNetwork:
    described = described or deployment()
    return ScenarioNetwork(
        described,
        tuple(range(first, first + motes)),
        tuple(range(first + motes, first + motes + gateways)),
    )


def on_air(message: Data | Beacon, described: Deployment) -> bytes:
    """The bytes of a signal."""
    raw = encode_message(message, layout_of(described))
    if described.network.board == "mica2":
        body = encode_am(raw) if raw.tinyos == 1 else encode_am(raw)[1:]
        return b"\xaa" * 8 + b"\x33\xcc" + body + crc16(body).to_bytes(2, "little") + b"\xaa\xaa"
    if raw.tinyos == 1:
        head = b"\x01\x08\x00\xff\xff" + struct.pack("<HBB", raw.dest, raw.type, raw.group)
    else:
        head = b"\x41\x88\x00" + struct.pack("<HHHBB", raw.group, raw.dest, raw.source or 0, 0x3F, raw.type)
    frame = head + raw.data
    return bytes([len(frame) + 2]) + frame + fcs(frame).to_bytes(2, "little")


class World:
    """Writes the log of one network whose root, the gateway, shows 1000 ticks more than true time."""

    AHEAD = 1000 << 7  # cycles

    def __init__(self, members: ScenarioNetwork | None = None) -> None:
        self.network = members or network()
        self.lines: list[dict[str, object]] = [
            {"t": 0, "is": "start", "seed": 1, "nodes": len(self.network.nodes), "version": 1}
        ]
        self._numbers: dict[int, int] = {}
        self._signals = 0
        self._heard = Counter[int]()  # records of each gateway

    @property
    def gateway(self) -> int:
        return self.network.gateways[0]

    def add(self, t: float, kind: str, /, **members: object) -> None:
        self.lines.append({"t": round(t), "is": kind, **members})

    def record(self, t: float, node: int, kind: str, peer: int = 0, sequence: int = 0, tick: int = 0) -> None:
        number = 0 if kind == "boot" else self._numbers.get(node, 0)
        self._numbers[node] = number + 1
        self.add(t, "recorder", node=node, number=number, kind=kind, peer=peer, sequence=sequence, tick=tick)

    def boot(self, epoch: int = 1) -> None:
        """All motes start and follow the root's epoch."""
        for mote, node in enumerate(self.network.motes):
            self.record(0, node, "boot", mote, 1)
            self.record(0, node, "epoch", 255)  # its own, before it hears of another
            self.record(1 * MS, node, "epoch", epoch)
        self.beacon(2 * MS, epoch)

    def time(self, t: float) -> int:
        return self.AHEAD + round(t * 32768 / SECOND)

    def tick(self, t: float) -> int:
        return self.time(t) >> 7

    def beacon(self, t: float, epoch: int = 1) -> None:
        root = self.network.deployment.clock.root
        beacon = Beacon(root, root, epoch, 1, 0, 1, 0, self.time(t))
        self.signal(t - 160_000, self.gateway, on_air(beacon, self.network.deployment))

    def signal(self, begin: float, node: int | None, raw: bytes, broken: bool = False) -> int:
        number, self._signals = self._signals, self._signals + 1
        begin = round(begin)
        times = {"from": begin, "data": begin + 160_000, "to": begin + AIRTIME}
        self.add(
            begin + AIRTIME, "signal", number=number, node=node, khz=2480000, dbm=0.0, **times, broken=broken,
            bytes=raw.hex(),
        )  # fmt: skip
        return number

    def outcome(self, number: int, node: int, outcome: str = "received") -> None:
        self.add(0, "outcome", signal=number, node=node, outcome=outcome, dbm=-60.0)

    def send(self, t: float, data: Data, air_after: float = 2 * MS, to: tuple[int, ...] = ()) -> int:
        """A mote stamps and sends; the nodes in `to` receive it. Returns the signal's number."""
        self.record(t, self.network.motes[data.source], "send", data.source, data.sequence)
        return self.copy(t + air_after, self.network.motes[data.source], data, to)

    def copy(self, begin: float, sender: int, data: Data, to: tuple[int, ...] = ()) -> int:
        number = self.signal(begin, sender, on_air(data, self.network.deployment))
        for node in to:
            self.outcome(number, node)
            if node in self.network.motes:
                self.record(begin + AIRTIME, node, "receive", data.source, data.sequence)
            else:
                self.hand_up(begin + AIRTIME, data, gateway=node)
        return number

    def hand_up(self, t: float, data: Data, lost: int = 0, gateway: int | None = None) -> None:
        """A gateway's two packets on its line, which had no room for `lost` pairs before."""
        layout, node = layout_of(self.network.deployment), self.gateway if gateway is None else gateway
        message = encode_message(data, layout)
        identity, number = self.network.id_of(node), self._heard[node]
        heard = Heard(identity, 1, number, lost, 3, -60, 100, crc16(message.data), self.time(t))
        self._heard[node] += 1
        for packet in (encode_message(heard, layout), message):
            raw = encode_frame(encode_packet(packet))
            self.add(t + MS, "uart", node=node, bytes=raw.hex())

    def text(self) -> list[str]:
        return [json.dumps(line) + "\n" for line in self.lines]

    def events(self):
        return list(parse(self.text()))


def stamped(world: World, source: int, sequence: int, t: float, c: int = 0, ticks: int = 0) -> Data:
    """A message of mote `source` stamped at `t`, `ticks` off the root's clock."""
    modulus = layout_of(world.network.deployment).stamp.modulus
    return Data(source, sequence, ((world.tick(t) + ticks) % modulus, c))
