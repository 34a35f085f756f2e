"""A network with several gateways, each with a clock, a line and hearing of its own, at the limits of G1 and G2.

Time is in cycles of the crystal. A clock is the time plus an offset of up to epsilon ticks. A copy is received while
the slowest clock is at most l + delta with barrier, else while the sender's is at most r + delta. Lines keep the order,
and take at most the allowance longer than their quickest record. A foreign gateway sends no heard records; it hands up
the motes' beacons and health messages, which carry the clock of their sender.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random

from basestation.arrivals import Line
from basestation.causality.order import Message
from basestation.causality.truth import Send, VectorTruth
from basestation.deployed import scheme_of
from basestation.live.happenings import Delivered, Happening
from basestation.live.station import Station
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict
from packet_formats.messages import Data
from packet_formats.messages import Message as AnyMessage

from .world import MS, Gateway, beacon, health, mono_at, play

START = 100 * CRYSTAL_HZ


@dataclass(frozen=True, slots=True)
class Several:
    """How the network behaves. Shares are chances of a copy."""

    scheme: str = "barrier"
    ticks: tuple[int, int] = (3, 32)  # epsilon, delta
    motes: int = 6
    rate: float = 2.0  # messages a second and mote
    seconds: float = 20.0
    loss: float = 0.2  # between motes
    hears: tuple[float, ...] = (0.7, 0.7)  # each gateway's share of copies
    lines_ms: tuple[float, ...] = (2.0, 2.0)  # the quickest record of each line
    slow_ms: float = 6.0  # that a line takes longer, at most
    late: float = 0.2  # copies in the last two ticks that are allowed
    allowance_ms: float = 172.0
    idle_ms: float = 0.0  # without a frame, after which a gateway sends an idle record; 0: it sends none
    clock_bits: int | None = None  # the fewest that are allowed
    timers: bool = True
    foreign: tuple[int, ...] = ()  # gateways that send no heard records
    beacons_s: float = 4.0  # between the beacons of a mote; it sends a health message with each
    beacon_ms: float = 0.0  # that a beacon takes before it is heard, at most
    observer: tuple[tuple[str, object], ...] = ()

    @property
    def deployment(self) -> Deployment:
        epsilon, delta = self.ticks
        clock = {"tick_log2": 7, "epsilon": epsilon, "delta": delta}
        return from_dict(
            {
                "network": {"name": "several", "board": "micaz", "motes": self.motes, "data_bytes": 2},
                "clock": clock if self.clock_bits is None else clock | {"clock_bits": self.clock_bits},
                "stamp": {"scheme": self.scheme},
                "observer": dict(self.observer),
            }
        )


class SeveralWorld:
    """Plays a network into lines. `sends` has the truth by (source, number)."""

    def __init__(self, options: Several, seed: int) -> None:
        self.options, self.setup, self._random = options, options.deployment, Random(seed)
        self._scheme = scheme_of(self.setup)
        self._codec = self._scheme.codec()
        self._programs = [self._scheme.start(mote) for mote in range(options.motes)]
        self._tick = 1 << self.setup.clock.tick_log2
        reach = options.ticks[0] * self._tick
        clocks = options.motes + len(options.hears)
        self._offset = [
            self._random.choice((0, reach, self._random.randint(0, reach))) for _ in range(clocks)
        ]
        self._offset[self._random.randrange(clocks)] = 0
        self._numbers = [0] * options.motes
        self._last_tick = [0] * options.motes  # of its sends
        self._truth = VectorTruth(options.motes)
        self.sends: dict[tuple[int, int], Send] = {}
        self.gateways = [Gateway(self.setup, number) for number in range(len(options.hears))]
        self._up = [START] * len(options.hears)  # when each gateway last sent a frame up
        self._queue: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = count()

    def lines(self) -> list[Line]:
        for mote in range(self.options.motes):
            self._next_send(mote, START)
            if self.options.foreign:
                self._next_times(mote, START - 2 * self._spacing())
        end = START + int((self.options.seconds + 2) * CRYSTAL_HZ)
        while self._queue:
            at, _, event = heapq.heappop(self._queue)
            event(at)
        for gateway in range(len(self.gateways)):
            self._idle_until(gateway, end)
        return [line for gateway in self.gateways for line in gateway.out]

    def _at(self, when: int, event: Callable[[int], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._count), event))

    def _clock(self, process: int, now: int) -> int:
        return (now + self._offset[process]) // self._tick

    def _next_send(self, mote: int, now: int) -> None:
        at = now + int(self._random.expovariate(self.options.rate) * CRYSTAL_HZ) + 1
        if at < START + self.options.seconds * CRYSTAL_HZ:
            self._at(at, lambda now: self._send(mote, now))

    def _spacing(self) -> int:
        return int(self.options.beacons_s * CRYSTAL_HZ)

    def _next_times(self, mote: int, now: int) -> None:
        at = now + self._random.randrange(self._spacing() // 2, self._spacing())
        if at < START + self.options.seconds * CRYSTAL_HZ:
            self._at(at, lambda now: self._send_times(mote, now))

    def _send_times(self, mote: int, now: int) -> None:
        """A mote's time in a beacon, and in a health message, which is relayed as data is."""
        time = now + self._offset[mote]
        slowest = (now + min(self._offset)) // self._tick
        last = (slowest + self.options.ticks[1] + 1) * self._tick - 1 - min(self._offset)
        late = int(self._random.random() * self.options.beacon_ms * CRYSTAL_HZ / 1000)
        report = health(mote, time, self.setup)
        for gateway in range(len(self.options.hears)):
            self._at(now + late, lambda now, gateway=gateway: self._hear(gateway, beacon(time), now))
            at = self._arrival(now, last)
            self._at(at, lambda now, gateway=gateway: self._hear(gateway, report, now))
        self._next_times(mote, now)

    def _send(self, mote: int, now: int) -> None:
        if self.setup.scheme.one_send_a_tick and self._clock(mote, now) == self._last_tick[mote]:
            self._at(now + self._tick, lambda now: self._send(mote, now))
            return
        self._last_tick[mote] = self._clock(mote, now)
        self._numbers[mote] += 1
        number, clock = self._numbers[mote], self._clock(mote, now)
        stamp = self._programs[mote].on_send(clock, number)
        message = Message(mote, number, stamp)
        self.sends[mote, number] = self._truth.on_send(mote)
        data = Data(mote, (number - 1) % 256, self._codec.encode(stamp, mote, number), data=bytes(2))
        last = self._last(mote, message)
        for peer in range(self.options.motes):
            if peer != mote and self._random.random() >= self.options.loss:
                self._at(self._arrival(now, last), lambda now, peer=peer: self._receive(peer, message, now))
        for gateway, share in enumerate(self.options.hears):
            if self._random.random() < share:
                self._at(
                    self._arrival(now, last), lambda now, gateway=gateway: self._hear(gateway, data, now)
                )
        self._next_send(mote, now)

    def _last(self, mote: int, message: Message) -> int:
        """The last cycle in which a copy may be received."""
        delta = self.options.ticks[1]
        if self.setup.scheme.name == "barrier":
            return (message.stamp.top + delta + 1) * self._tick - 1 - min(self._offset)
        return (self._last_tick[mote] + delta + 1) * self._tick - 1 - self._offset[mote]

    def _arrival(self, now: int, last: int) -> int:
        if self._random.random() < self.options.late:
            return max(now + 1, last - self._random.randrange(2 * self._tick))
        return min(now + 1 + int(self._random.expovariate(1 / self._tick)), max(now + 1, last))

    def _receive(self, peer: int, message: Message, now: int) -> None:
        self._programs[peer].on_receive(self._clock(peer, now), [message])
        self._truth.on_receive(peer, [self.sends[message.source, message.number]])

    def _hear(self, gateway: int, data: AnyMessage, now: int) -> None:
        """A record has the gateway's own time; the line takes its time by the true one."""
        self._idle_until(gateway, now)
        self._up[gateway] = now
        own = self.gateways[gateway]
        pair = own.hear(data, self._shown(gateway, now), self._takes_ns(gateway, now))
        if gateway in self.options.foreign:
            own.out.remove(pair[0])

    def _idle_until(self, gateway: int, now: int) -> None:
        """The idle records that a gateway sent since something went up last."""
        period = int(self.options.idle_ms * CRYSTAL_HZ / 1000)
        for at in range(self._up[gateway] + period, now, period) if period else ():
            self.gateways[gateway].idle(self._shown(gateway, at), self._takes_ns(gateway, at))

    def _shown(self, gateway: int, now: int) -> int:
        """The time of a gateway's clock."""
        return now + self._offset[self.options.motes + gateway]

    def _takes_ns(self, gateway: int, now: int) -> int:
        """When a record comes, counted from the time in it."""
        extra = self.options.slow_ms * (1.0 if self._random.random() < 0.3 else self._random.random())
        reach_ns = mono_at(self._shown(gateway, now)) - mono_at(now)
        return int((self.options.lines_ms[gateway] + extra) * MS) - reach_ns


def run(options: Several, seed: int) -> tuple[Station, SeveralWorld, list[Happening]]:
    """A world played into a station whose lines are all open."""
    world = SeveralWorld(options, seed)
    station = Station(world.setup, allowance_ns=int(options.allowance_ms * MS))
    lines = world.lines()
    for gateway in range(len(options.hears)):
        station.add_gateway(gateway, f"gateway {gateway}")
    return station, world, play(station, lines, options.timers) + station.finish()


def order(world: SeveralWorld, found: list[Happening]) -> list[Send]:
    """What was delivered, as the truth knows it."""
    return [
        world.sends[one.name.source, one.name.sequence + 1] for one in found if isinstance(one, Delivered)
    ]


def overtaken(sends: list[Send]) -> int:
    """How many were delivered when something that they had led to had left."""
    covered: dict[int, int] = {}
    wrong = 0
    for send in sends:
        wrong += send.index <= covered.get(send.source, 0)
        for mote, known in enumerate(send.vector):
            covered[mote] = max(covered.get(mote, 0), known)
    return wrong
