"""A network made by hand: motes that stamp, gateways that hear, lines that take their time."""

from __future__ import annotations

from dataclasses import dataclass, field

from basestation.arrivals import Arrival, Gap, Line
from basestation.causality.schemes.timed import TimedProgram
from basestation.deployed import timed_scheme_of
from basestation.live.happenings import Delivered, Happening
from basestation.live.station import Station
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import Data, Message, encode_message
from packet_formats.records import Beacon, Health, Heard, Idle
from packet_formats.tinyos import ActiveMessage, encode_packet

MS = 1_000_000
WALL = 1_700_000_000 * 10**9
TICK = 1 << 7
ROOT = 3


def deployment(**observer: object) -> Deployment:
    """Four motes, ticks of 3.9 ms, epsilon 3, delta 12, two receipts."""
    return from_dict(
        {
            "network": {"name": "test", "board": "micaz", "motes": 4, "hops": 2},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": "shlc", "receipts": 2},
            "observer": observer,
        }
    )


def cycles_at(mono_ns: int) -> int:
    """Network time at a time of the host: both clocks run alike and start together."""
    return mono_ns * CRYSTAL_HZ // 10**9


def mono_at(cycles: int) -> int:
    return -(-cycles * 10**9 // CRYSTAL_HZ)


def packet(message: Message | ActiveMessage, setup: Deployment) -> bytes:
    frame = message if isinstance(message, ActiveMessage) else encode_message(message, layout_of(setup))
    return encode_packet(frame)


def arrival(
    message: Message | bytes, mono_ns: int, gateway: int = 0, setup: Deployment | None = None
) -> Arrival:
    raw = message if isinstance(message, bytes) else packet(message, setup or deployment())
    return Arrival(gateway, mono_ns, WALL + mono_ns, raw)


def gap(mono_ns: int, back: bool, gateway: int = 0, reason: str = "unplugged") -> Gap:
    return Gap(gateway, mono_ns, WALL + mono_ns, back, reason)


def beacon(time: int, epoch: int = 0) -> Beacon:
    return Beacon(ROOT, 4, epoch, 1, 0, 1, 0, time % 2**32)


def health(source: int, time: int, setup: Deployment, layout: int | None = None) -> Health:
    own = layout_of(setup).hash if layout is None else layout
    return Health(source, time % 2**32, 0, 1, 1, own, 10, 20, 0, 5, 6, 0, 150, 1)


@dataclass
class Gateway:
    """Hears frames and hands them up its line in pairs."""

    setup: Deployment
    number: int = 0
    epoch: int = 0
    flags: int = 3
    records: int = 0
    last_ns: int = 0
    out: list[Line] = field(default_factory=list)

    def heard(self, data: Message, cycles: int) -> Heard:
        payload = encode_message(data, layout_of(self.setup)).data
        record = Heard(
            gateway=4 + self.number,
            epoch=self.epoch,
            sequence=self.records % 256,
            lost=0,
            flags=self.flags,
            rssi=-60,
            lqi=100,
            check=crc16(payload),
            time=cycles % 2**32,
        )
        self.records += 1
        return record

    def hear(self, data: Message, cycles: int, line_ns: int = 4 * MS) -> list[Line]:
        """The pair on the line, `line_ns` after it was heard and never before what is on the line already."""
        self.last_ns = max(self.last_ns + 1, mono_at(cycles) + line_ns)
        pair: list[Line] = [
            arrival(self.heard(data, cycles), self.last_ns, self.number, self.setup),
            arrival(data, self.last_ns + 1, self.number, self.setup),
        ]
        self.last_ns += 1
        self.out += pair
        return pair

    def idle(self, cycles: int, line_ns: int = 4 * MS) -> None:
        """An idle record on the line, as `hear` puts a pair."""
        self.last_ns = max(self.last_ns + 1, mono_at(cycles) + line_ns)
        record = Idle(4 + self.number, self.epoch, self.flags & 1, cycles % 2**32)
        self.out.append(arrival(record, self.last_ns, self.number, self.setup))


@dataclass
class Motes:
    """Motes whose clocks are right, and who remember what they received."""

    setup: Deployment
    start: int = 0
    programs: list[TimedProgram] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    fresh: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheme = timed_scheme_of(self.setup)
        count = self.setup.network.motes
        self.programs = [self.scheme.start(0, self.start >> self.setup.clock.tick_log2) for _ in range(count)]
        self.sequences = [0] * count
        self.fresh = [{} for _ in range(count)]

    def send(self, mote: int, cycles: int, receivers: tuple[int, ...] = (), **more: object) -> Data:
        """A message that these receive at once."""
        tick = cycles >> self.setup.clock.tick_log2
        stamp = self.programs[mote].on_send(tick)
        slots = layout_of(self.setup).receipts
        told = [(source, number % 256) for source, number in self.fresh[mote].items()][-slots:]
        data = Data(
            source=mote,
            sequence=self.sequences[mote] % 256,
            stamp=self.scheme.encode(stamp),
            complete=len(told) == len(self.fresh[mote]),
            receipts=tuple(told),
            data=bytes(self.setup.network.data_bytes),
        )
        for other in receivers:
            self.programs[other].merge(tick, [stamp])
            self.fresh[other][mote] = self.sequences[mote]
        self.fresh[mote] = {}
        self.sequences[mote] += 1
        return Data(**{name: getattr(data, name) for name in data.__slots__} | more)


def play(station: Station, lines: list[Line], timers: bool = True) -> list[Happening]:
    """Lines in order of their times; with a timer that is always punctual, or none."""
    found: list[Happening] = []
    for line in sorted(lines, key=lambda line: line.mono_ns):
        while timers and (due := station.next_due()) is not None and due < line.mono_ns:
            found += station.advance(due)
        found += station.take(line)
    return found


def deliveries(found: list[Happening]) -> list[tuple[str, int, int, bool]]:
    return [(str(d.name), d.arrived, d.left, d.late) for d in found if isinstance(d, Delivered)]


def names(found: list[Happening]) -> list[str]:
    return [str(d.name) for d in found if isinstance(d, Delivered)]
