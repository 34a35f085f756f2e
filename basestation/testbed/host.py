"""The live station at the gateways' lines: their packets, and the order in which the station delivers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from basestation.arrivals import Arrival
from basestation.causality.violations import find_violations
from basestation.live.happenings import Arrived, Delivered, Happening
from basestation.live.runner import past_due
from basestation.live.station import Station
from packet_formats.framing import FrameDecoder
from packet_formats.messages import Data
from packet_formats.records import Reason

from .recorded_messages import MessageBook, Sent
from .scenario import ScenarioNetwork
from .testbed_report import Line, ObservedOrder
from .truth_log import Uart

# Reasons for which the station could not read a packet; its other reasons are for refused packets.
UNREAD = {"no packet", *(reason.name.lower() for reason in Reason)}


def arrivals_in(order: Sequence[Sent]) -> ObservedOrder:
    found, involved = find_violations([sent.send for sent in order])
    last = max((sent.t for sent in order if (sent.send.source, sent.send.index) in involved), default=None)
    return ObservedOrder(
        found.delivered, found.related_pairs, found.pairs, found.any, None if last is None else last / 1e9
    )


class StationHost:
    """One station for all gateways of a network, each with a line of its own; the run's true time is the host's."""

    def __init__(self, network: ScenarioNetwork) -> None:
        self.station = Station(network.deployment)
        self._lines = {node: (line, FrameDecoder()) for line, node in enumerate(network.gateways)}
        for line in range(len(network.gateways)):
            self.station.add_gateway(line, f"gateway {line}")

    @property
    def dropped_bytes(self) -> int:
        return sum(decoder.counters.dropped_bytes for _, decoder in self._lines.values())

    def happenings(self, uarts: Iterable[Uart]) -> Iterator[Happening]:
        """The happenings of the lines' bytes, in the order of the bytes."""
        for event in sorted(uarts, key=lambda uart: uart.t):
            if event.node not in self._lines:
                continue
            line, decoder = self._lines[event.node]
            for packet in decoder.feed(event.bytes):
                yield from past_due(self.station, event.t)
                yield from self.station.take(Arrival(line, event.t, event.t, packet))
        yield from self.station.finish()


def read_line(
    uarts: Iterable[Uart], network: ScenarioNetwork, book: MessageBook
) -> tuple[Line, ObservedOrder, int]:
    """The counts of the gateways' lines, the order of the station's deliveries, and how many of them were late."""
    host = StationHost(network)
    data, sent_as, order = 0, dict[int, Sent](), list[Sent]()
    for one in host.happenings(uarts):
        if isinstance(one, Arrived) and isinstance(one.message, Data):
            data += 1
            sent = book.find(one.message.source, one.message.sequence, one.mono_ns)
            if one.number and sent is not None:
                sent_as[one.number] = sent
        elif isinstance(one, Delivered) and one.in_sync and one.number in sent_as:
            order.append(sent_as[one.number])
    gateways = host.station.timeline.gateways.values()
    line = Line(
        frames=sum(counts.frames for counts in gateways),
        data=data,
        unknown={reason: count for reason, count in host.station.reasons.items() if reason in UNREAD},
        dropped_bytes=host.dropped_bytes,
        unpaired=sum(counts.orphans for counts in gateways),
        lost=sum(counts.dropped for counts in gateways),
    )
    return line, arrivals_in(order), host.station.observer.late
