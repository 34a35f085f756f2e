"""The report of a run: plain values for scripts, and a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from packet_formats.phrases import many

from .node_times import Skew


@dataclass(frozen=True, slots=True)
class Fates:
    """The fates of the messages that motes stamped; the last four add up to `stamped`."""

    stamped: int
    out_of_sync: int  # of these, by a sender that said so
    relayed: int  # of those that arrived, first by way of a relay
    arrived: int  # at a gateway
    late: int  # dropped since they could not make delta, by their sender or by a relay, and no other copy arrived
    unsent: int  # never on the air, for another reason
    lost: int  # on the air, but not to a gateway

    @property
    def arrived_percent(self) -> float:
        return 100.0 * self.arrived / self.stamped if self.stamped else 0.0


@dataclass(frozen=True, slots=True)
class StampOrder:
    """The check that happened-before implies `less`, over all pairs of messages in sync, within each epoch."""

    messages: int
    pairs: int
    broken: int
    saturated: int  # messages whose stamp says "or more", which may hide an order
    last_broken: float | None  # seconds: when the later message of a broken pair was sent
    since: int  # of `messages`, those sent after that
    unreadable: int  # messages in sync for which no beacon tells the time
    altered: int  # copies whose stamp is not the one that was sent
    unmatched: int  # receptions of a message that nobody sent
    total: bool = True  # whether any two stamps compare; if not, only deliveries can be judged


@dataclass(frozen=True, slots=True)
class ObservedOrder:
    """The order of first copies at the gateways, or of an observer's deliveries."""

    messages: int
    related: int  # pairs of which one happened before the other
    inverted: int  # of these, in the wrong order
    involved: int  # messages in such a pair
    last_inverted: float | None  # seconds: when the later message of such a pair was sent

    @property
    def involved_percent(self) -> float:
        return 100.0 * self.involved / self.messages if self.messages else 0.0


@dataclass(frozen=True, slots=True)
class Delay:
    """The delay from the stamp to the end of the first copy at a gateway; `ticks` are by the root's clock."""

    messages: int
    median_ms: float
    p99_ms: float
    longest_ms: float
    ticks: int
    delta: int
    beyond: int


@dataclass(frozen=True, slots=True)
class Line:
    """The counts of what the gateways sent to the host, read by the base station's own decoder."""

    frames: int
    data: int
    unknown: dict[str, int]  # by reason
    dropped_bytes: int
    unpaired: int  # heard records that their frame did not follow
    lost: int  # frames that a gateway had no room for


@dataclass(frozen=True, slots=True)
class MoteReport:
    id: int
    stamped: int
    arrived: int
    last: float | None  # seconds: when it stamped its last message
    silent: bool  # it has power, and by its own habit should have sent again long ago


@dataclass(frozen=True, slots=True)
class NetworkReport:
    name: str
    motes: tuple[MoteReport, ...]
    gateways: int
    fates: Fates
    order: StampOrder
    arrivals: ObservedOrder
    delivered: ObservedOrder
    observer_late: int
    delay: Delay
    skew: Skew
    line: Line
    promised: bool = True  # whether the observer's policy promises causal order


@dataclass(frozen=True, slots=True)
class TestbedReport:
    seconds: float
    ended: str
    networks: tuple[NetworkReport, ...]
    signals: int
    outcomes: dict[str, int]
    missed: int  # recorder events that nobody saw: the rest is worth nothing then
    gaps: int  # in the recorders' numbers
    resets: dict[str, int]  # by cause
    script: int
    driver_faults: tuple[str, ...]

    @property
    def troubles(self) -> list[str]:
        """The faults of the run, in words."""
        found = []
        if self.missed or self.gaps:
            found.append(
                f"{self.missed} recorder events were missed, {self.gaps} gaps: the truth is not whole"
            )
        found += [f"driver fault: {what}" for what in self.driver_faults]
        for network in self.networks:
            found += [f"{network.name}: {trouble}" for trouble in _troubles(network)]
        return found


def _troubles(network: NetworkReport) -> list[str]:
    order, skew, delay, line = network.order, network.skew, network.delay, network.line
    checks = [
        (order.broken, "pairs of messages whose stamps belie what happened before"),
        (order.altered, "copies with another stamp than was sent"),
        (order.unmatched, "receptions of messages that nobody sent"),
        (skew.beyond, "moments with clocks further apart than epsilon"),
        (delay.beyond, "messages that came later than delta"),
        (network.promised and network.delivered.inverted, "pairs delivered in the wrong order"),
        (line.dropped_bytes, "bytes from gateways that are no frame"),
        (line.unpaired, "heard records without their frame"),
    ]
    silent = [f"mote {mote.id} fell silent at {mote.last:.1f} s" for mote in network.motes if mote.silent]
    return [f"{count} {words}" for count, words in checks if count] + silent


def lines_of(report: TestbedReport) -> list[tuple[str, str]]:
    """The report for people, as rows of name and value."""
    rows = [("run", f"{report.seconds:.1f} s, ended: {report.ended}; {report.signals} transmissions")]
    rows.append(
        ("at receivers", ", ".join(f"{count} {name}" for name, count in report.outcomes.items()) or "-")
    )
    if report.resets:
        rows.append(("starts", ", ".join(f"{count} {cause}" for cause, count in report.resets.items())))
    if report.script:
        rows.append(("script", many(report.script, "line")))
    for network in report.networks:
        rows.append(("", ""))
        rows += _network_rows(network)
    return rows


def _stamps(order: StampOrder, fates: Fates) -> str:
    if not order.total:
        return f"order no two messages by themselves: what is delivered counts; {order.saturated} saturated"
    return (
        f"{order.broken} of {order.pairs} pairs belie happened-before{_last_at(order.last_broken)}; "
        f"{order.messages} messages in sync, {fates.out_of_sync} not, {order.saturated} saturated"
    )


def _network_rows(network: NetworkReport) -> list[tuple[str, str]]:
    fates, order, delay, skew, line = (
        network.fates,
        network.order,
        network.delay,
        network.skew,
        network.line,
    )
    tick = f"{skew.ticks} ticks apart at most, epsilon is {skew.epsilon}{_last_at(skew.last_beyond)}"
    unknown = sum(line.unknown.values())
    return [
        (network.name, f"{many(len(network.motes), 'mote')}, {many(network.gateways, 'gateway')}"),
        (
            "messages",
            f"{fates.stamped} stamped, {fates.arrived} at a gateway ({fates.arrived_percent:.1f}%, {fates.relayed} of "
            f"them by relay); {fates.late} late and dropped, {fates.unsent} not sent, {fates.lost} lost on the air",
        ),
        (
            "arrival order",
            f"{network.arrivals.involved_percent:.1f}% of messages out of causal order, "
            f"{network.arrivals.inverted} of {network.arrivals.related} related pairs",
        ),
        (
            "delivered",
            f"{network.delivered.messages} by the observer, {network.delivered.inverted} pairs out of causal order, "
            f"{network.observer_late} late{'' if network.promised else '; its policy promises no causal order'}",
        ),
        ("stamps", _stamps(order, fates)),
        (
            "clocks",
            f"{skew.root_cycles:.0f} cycles from the root's, {skew.spread_cycles:.0f} from one another; {tick}",
        ),
        (
            "delay",
            f"median {delay.median_ms:.1f} ms, 99% {delay.p99_ms:.1f} ms, longest {delay.longest_ms:.1f} ms; "
            f"{delay.ticks} ticks, delta is {delay.delta}",
        ),
        (
            "line",
            f"{line.frames} frames, {line.data} data, {unknown} of another layout, {line.lost} without room",
        ),
    ]


def _last_at(seconds: float | None) -> str:
    return "" if seconds is None else f" (broken last at {seconds:.1f} s)"
