"""A base station at the gateways' lines: what they said, and in which order an observer delivers it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from basestation.causality.order import Message
from basestation.causality.violations import find_violations
from basestation.observer import Observer
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.framing import FrameDecoder, crc16
from packet_formats.layout import DataLayout
from packet_formats.messages import Data, Unknown, decode_message
from packet_formats.records import Heard
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_packet

from .recorded_messages import MessageBook, Sent
from .scenario import ScenarioNetwork
from .testbed_report import Line, ObservedOrder
from .truth_log import Uart

AFTER = 1 << 20  # ticks after the last message: by then an observer has let everything go
BACKWARDS = CRYSTAL_HZ  # a line is a queue: if its time steps back by this much, time started afresh


def arrivals_in(order: Sequence[Sent]) -> ObservedOrder:
    found, involved = find_violations([sent.send for sent in order])
    last = max((sent.t for sent in order if (sent.send.source, sent.send.index) in involved), default=None)
    return ObservedOrder(
        found.delivered, found.related_pairs, found.pairs, found.any, None if last is None else last / 1e9
    )


class _Host:
    """A base station at one gateway's line."""

    def __init__(self, network: ScenarioNetwork, layout: DataLayout, book: MessageBook) -> None:
        self._network, self._layout, self._book = network, layout, book
        self._decoder = FrameDecoder()
        self._heard: Heard | None = None
        self._observers: dict[int, tuple[Observer, int]] = {}  # by epoch, each with its clock in cycles
        self._sends: dict[int, tuple[Message, Sent]] = {}
        self._orders: dict[int, list[Sent]] = defaultdict(list)
        self.late = 0
        self.frames = self.data = self.unpaired = self.lost = 0
        self.unknown: Counter[str] = Counter()

    def feed(self, event: Uart) -> None:
        for packet in self._decoder.feed(event.bytes):
            self.frames += 1
            try:
                frame = decode_packet(packet)
            except PacketError:
                self.unknown["packet"] += 1
                continue
            if not isinstance(frame, Ack):
                self._take(frame, event.t)

    def _take(self, frame: ActiveMessage, t: int) -> None:
        message = decode_message(frame, self._layout)
        heard, self._heard = self._heard, None
        if isinstance(message, Unknown):
            self.unknown[message.reason.name.lower()] += 1
        elif isinstance(message, Heard):
            self.lost += message.lost
            self._heard = message
        elif isinstance(message, Data):
            self.data += 1
            if heard is not None and heard.in_sync:
                self._observe(message, heard, t)
        self.unpaired += heard is not None and heard.check != crc16(frame.data)

    def _observe(self, data: Data, heard: Heard, t: int) -> None:
        observer, clock = self._observers.get(heard.epoch) or (Observer(self._network.deployment), 0)
        if heard.time < clock - BACKWARDS:
            self._finish(heard.epoch)
            observer, clock = Observer(self._network.deployment), 0
        clock = max(clock, heard.time)
        self._observers[heard.epoch] = observer, clock
        now = clock >> self._network.deployment.clock.tick_log2
        self._deliver(heard.epoch, now)
        message = observer.receive(data, now)
        sent = self._book.find(data.source, data.sequence, t)
        if message is not None and sent is not None and data.in_sync:
            self._sends[id(message)] = (message, sent)

    def _deliver(self, epoch: int, now: int) -> None:
        for delivery in self._observers[epoch][0].due(now):
            known = self._sends.pop(id(delivery.message), None)
            if known is not None:
                self._orders[epoch].append(known[1])

    def _finish(self, epoch: int) -> None:
        """Let an observer give all that it holds."""
        observer, clock = self._observers[epoch]
        self._deliver(epoch, (clock >> self._network.deployment.clock.tick_log2) + AFTER)
        self.late += observer.late

    def close(self) -> tuple[list[ObservedOrder], int, int]:
        """What was delivered in each epoch, how much of it too late, and the bytes that were no frame."""
        for epoch in self._observers:
            self._finish(epoch)
        return (
            [arrivals_in(order) for order in self._orders.values()],
            self.late,
            self._decoder.counters.dropped_bytes,
        )


def read_line(
    uarts: Iterable[Uart], network: ScenarioNetwork, layout: DataLayout, book: MessageBook
) -> tuple[Line, ObservedOrder, int]:
    hosts = {node: _Host(network, layout, book) for node in network.gateways}
    for event in uarts:
        if event.node in hosts:
            hosts[event.node].feed(event)
    closed = [host.close() for host in hosts.values()]
    delivered = [arrivals for orders, _, _ in closed for arrivals in orders]
    line = Line(
        frames=sum(host.frames for host in hosts.values()),
        data=sum(host.data for host in hosts.values()),
        unknown=dict(sum((host.unknown for host in hosts.values()), Counter[str]())),
        dropped_bytes=sum(dropped for _, _, dropped in closed),
        unpaired=sum(host.unpaired for host in hosts.values()),
        lost=sum(host.lost for host in hosts.values()),
    )
    total = ObservedOrder(
        sum(item.messages for item in delivered),
        sum(item.related for item in delivered),
        sum(item.inverted for item in delivered),
        sum(item.involved for item in delivered),
        max((item.last_inverted for item in delivered if item.last_inverted is not None), default=None),
    )
    return line, total, sum(late for _, late, _ in closed)
