"""A base station at the gateways' lines: what they said, and in which order an observer delivers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from basestation.arrivals import Arrival
from basestation.causality.rules import Delivery
from basestation.causality.violations import find_violations
from basestation.live.counters import GatewayCounts
from basestation.live.happenings import ClockChanged
from basestation.live.timeline import Timeline
from basestation.observer import Observer
from packet_formats.framing import FrameDecoder
from packet_formats.messages import Data, Unknown

from .recorded_messages import MessageBook, Sent
from .scenario import ScenarioNetwork
from .testbed_report import Line, ObservedOrder
from .truth_log import Uart


def arrivals_in(order: Sequence[Sent]) -> ObservedOrder:
    found, involved = find_violations([sent.send for sent in order])
    last = max((sent.t for sent in order if (sent.send.source, sent.send.index) in involved), default=None)
    return ObservedOrder(
        found.delivered, found.related_pairs, found.pairs, found.any, None if last is None else last / 1e9
    )


class _Host:
    """A base station at one gateway's line, whose clock is the time at which each frame was heard.

    Whenever the network's time starts afresh, so do the observer and the order that is judged.
    """

    def __init__(self, network: ScenarioNetwork, book: MessageBook) -> None:
        self._deployment, self._book = network.deployment, book
        self._decoder = FrameDecoder()
        self._timeline = Timeline(network.deployment)
        self._observer, self._clock = Observer(network.deployment), 0
        self._order: list[Sent] = []
        self.orders: list[ObservedOrder] = []
        self.late = self.data = 0
        self.unknown: Counter[str] = Counter()

    @property
    def counts(self) -> GatewayCounts:
        return self._timeline.gateway(0)

    @property
    def dropped_bytes(self) -> int:
        return self._decoder.counters.dropped_bytes

    def feed(self, event: Uart) -> None:
        for packet in self._decoder.feed(event.bytes):
            self._take(Arrival(0, event.t, event.t, packet))

    def _take(self, arrival: Arrival) -> None:
        self._timeline.advance(arrival.mono_ns)
        read = self._timeline.read(arrival)
        if any(isinstance(one, ClockChanged) and one.what != "lag" for one in read.happenings):
            self.finish()
        if isinstance(read.message, Unknown):
            self.unknown[read.message.reason.name.lower()] += 1
        elif read.error:
            self.unknown["packet"] += 1
        elif isinstance(read.message, Data):
            self.data += 1
            if read.heard is not None and read.cycles is not None:
                self._observe(read.message, self._timeline.tick(read.cycles), arrival.mono_ns)

    def _observe(self, data: Data, tick: int, t: int) -> None:
        self._clock = max(self._clock, tick)
        sent = self._book.find(data.source, data.sequence, t) if data.in_sync else None
        self._deliver(self._observer.receive(data, self._clock, token=sent).deliveries)

    def _deliver(self, deliveries: Iterable[Delivery]) -> None:
        self._order += [delivery.message.token for delivery in deliveries if delivery.message.token]

    def finish(self) -> None:
        """Let the observer give all that it holds, and judge the order."""
        while (tick := self._observer.next_due()) is not None:
            self._deliver(self._observer.due(tick))
        self.late += self._observer.late
        self.orders.append(arrivals_in(self._order))
        self._observer, self._clock, self._order = Observer(self._deployment), 0, []


def read_line(
    uarts: Iterable[Uart], network: ScenarioNetwork, book: MessageBook
) -> tuple[Line, ObservedOrder, int]:
    """What the gateways' lines held, the order in which it is delivered, and how much of that was late."""
    by_node = {node: _Host(network, book) for node in network.gateways}
    for event in uarts:
        if event.node in by_node:
            by_node[event.node].feed(event)
    hosts = list(by_node.values())
    for host in hosts:
        host.finish()
    line = Line(
        frames=sum(host.counts.frames for host in hosts),
        data=sum(host.data for host in hosts),
        unknown=dict(sum((host.unknown for host in hosts), Counter[str]())),
        dropped_bytes=sum(host.dropped_bytes for host in hosts),
        unpaired=sum(host.counts.orphans for host in hosts),
        lost=sum(host.counts.dropped for host in hosts),
    )
    delivered = [order for host in hosts for order in host.orders]
    total = ObservedOrder(
        sum(item.messages for item in delivered),
        sum(item.related for item in delivered),
        sum(item.inverted for item in delivered),
        sum(item.involved for item in delivered),
        max((item.last_inverted for item in delivered if item.last_inverted is not None), default=None),
    )
    return line, total, sum(host.late for host in hosts)
