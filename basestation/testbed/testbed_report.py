"""The report on a run: plain values for scripts, and a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from packet_formats.phrases import many
from packet_formats.power import shown_days

from .energy import NetworkEnergy, NodeEnergy
from .node_times import Skew

ARRIVE = 0.9  # the least share of messages that should arrive, without intended losses
JUDGED = 20  # messages: of fewer the share is left to chance


@dataclass(frozen=True, slots=True)
class Fates:
    """What happened to the messages that motes stamped; the last five counts add up to `stamped`."""

    stamped: int
    out_of_sync: int  # of these, from a sender that said it was out of sync
    relayed: int  # of those that arrived, first through a relay
    arrived: int  # at a gateway
    late: int  # dropped by their sender or a relay because they could not make delta; no other copy arrived
    unsent: int  # never on the air, for another reason
    lost: int  # on the air, but not received by a gateway
    underway: int  # the run ended before delta was over

    @property
    def arrived_percent(self) -> float:
        return 100.0 * self.arrived / self.stamped if self.stamped else 0.0


@dataclass(frozen=True, slots=True)
class StampOrder:
    """Whether happened-before implies `less`, over all pairs of in-sync messages of one epoch."""

    messages: int
    pairs: int
    broken: int
    saturated: int  # messages with a full counter, which may hide an order
    last_broken: float | None  # seconds: when the later message of a broken pair was sent
    since: int  # of `messages`, those sent after that
    unreadable: int  # in-sync messages whose time no beacon gives
    altered: int  # copies whose stamp is not the one that was sent
    unmatched: int  # receptions of a message that no mote sent
    total: bool = True  # whether any two stamps compare; otherwise only deliveries are judged


@dataclass(frozen=True, slots=True)
class ObservedOrder:
    """How well an order keeps causality: that of arrival at the gateways (first copies), or of delivery."""

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
    """The time from the stamp to the end of the first copy at a gateway; `ticks` are those of the root's clock."""

    messages: int
    median_ms: float
    p99_ms: float
    longest_ms: float
    ticks: int
    delta: int
    beyond: int


@dataclass(frozen=True, slots=True)
class Line:
    """The gateways' packets to the host, read with the base station's own decoder."""

    frames: int
    data: int
    unknown: dict[str, int]  # by reason
    dropped_bytes: int
    unpaired: int  # heard records not followed by their frame
    lost: int  # frames that a gateway had no room for


@dataclass(frozen=True, slots=True)
class MoteReport:
    id: int
    stamped: int
    arrived: int
    last: float | None  # seconds: when it sent its last message, health record or beacon
    silent: bool  # it has power, but has paused far longer than before


@dataclass(frozen=True, slots=True)
class NetworkReport:
    name: str
    motes: tuple[MoteReport, ...]
    gateways: int
    fates: Fates
    starting: Fates  # of the messages stamped while motes join
    transmissions: int  # frames on the air that carried these messages, or said that one had arrived
    order: StampOrder
    arrivals: ObservedOrder
    delivered: ObservedOrder
    observer_late: int
    delay: Delay
    skew: Skew
    line: Line
    promised: bool = True  # whether the observer's policy promises causal order
    energy: NetworkEnergy | None = None  # None: no mote had power


@dataclass(frozen=True, slots=True)
class TestbedReport:
    seconds: float
    ended: str
    networks: tuple[NetworkReport, ...]
    signals: int
    outcomes: dict[str, int]
    missed: int  # recorder events that were lost, which makes the report worthless
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
                f"{self.missed} recorder events were missed, {self.gaps} gaps: the truth log is incomplete"
            )
        found += [f"driver fault: {what}" for what in self.driver_faults]
        for network in self.networks:
            found += [f"{network.name}: {trouble}" for trouble in _troubles(network)]
        return found


def _troubles(network: NetworkReport) -> list[str]:
    order, skew, delay, line = network.order, network.skew, network.delay, network.line
    checks = [
        (order.broken, "pair", "of messages whose stamps contradict what happened before"),
        (order.altered, "stamp", "altered on the way"),
        (order.unmatched, "reception", "of messages that no mote sent"),
        (skew.beyond, "moment", "with clocks further apart than epsilon"),
        (delay.beyond, "message", "that took longer than delta"),
        (network.promised and network.delivered.inverted, "pair", "delivered in the wrong order"),
        (line.dropped_bytes, "byte", "from gateways outside any frame"),
        (line.unpaired, "heard record", "without a frame"),
    ]
    silent = [f"mote {mote.id} fell silent at {mote.last:.1f} s" for mote in network.motes if mote.silent]
    return [f"{many(count, noun)} {words}" for count, noun, words in checks if count] + silent


def too_few(report: TestbedReport, share: float) -> list[str]:
    """A text for each network of which less than this share of messages arrived, after its motes had joined."""
    return [words for network in report.networks if (words := _too_few(network, share))]


def _too_few(network: NetworkReport, share: float) -> str:
    fates, starting = network.fates, network.starting
    arrived = fates.arrived - starting.arrived
    settled = fates.stamped - fates.underway - (starting.stamped - starting.underway)
    if settled < JUDGED or arrived >= share * settled:
        return ""
    return (
        f"{network.name}: {arrived} of {settled} messages came to a gateway, {arrived / settled:.0%}; such a network "
        f"should bring {share:.0%} or more. Perhaps motes are too far away (--range) or send too often "
        "(--rate)"
    )


def lines_of(report: TestbedReport) -> list[tuple[str, str]]:
    """The report for people, as rows of a name and a text."""
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
        return f"do not order every two messages, so only deliveries are judged; {order.saturated} saturated"
    return (
        f"{order.broken} of {order.pairs} pairs contradict happened-before{_last_at(order.last_broken)}; "
        f"{order.messages} messages in sync, {fates.out_of_sync} not, {order.saturated} saturated"
    )


def _network_rows(network: NetworkReport) -> list[tuple[str, str]]:
    fates, delay, skew, line = network.fates, network.delay, network.skew, network.line
    tick = f"{many(skew.ticks, 'tick')} apart at most, epsilon is {skew.epsilon}{_last_at(skew.last_beyond)}"
    unknown = sum(line.unknown.values())
    return [
        (network.name, f"{many(len(network.motes), 'mote')}, {many(network.gateways, 'gateway')}"),
        (
            "messages",
            f"{fates.stamped} stamped, {fates.arrived} at a gateway ({fates.arrived_percent:.1f}%, {fates.relayed} of "
            f"them by relay); {fates.late} late and dropped, {fates.unsent} not sent, {fates.lost} lost on the air, "
            f"{fates.underway} under way at the end",
        ),
        (
            "arrival order",
            f"{network.arrivals.involved_percent:.1f}% of messages out of causal order, "
            f"{network.arrivals.inverted} of {network.arrivals.related} related pairs",
        ),
        (
            "delivered",
            f"{network.delivered.messages} by the station, {network.delivered.inverted} pairs out of causal order, "
            f"{network.observer_late} late{'' if network.promised else '; its policy promises no causal order'}",
        ),
        ("stamps", _stamps(network.order, fates)),
        (
            "clocks",
            f"{skew.root_cycles:.0f} cycles from the root's, {skew.spread_cycles:.0f} from one another; {tick}",
        ),
        (
            "delay",
            f"median {delay.median_ms:.1f} ms, 99% {delay.p99_ms:.1f} ms, longest {delay.longest_ms:.1f} ms; "
            f"{many(delay.ticks, 'tick')}, delta is {delay.delta}",
        ),
        (
            "line",
            f"{line.frames} frames, {line.data} data, {unknown} of another layout, {line.lost} dropped: queue full",
        ),
        *(_energy_rows(network.energy) if network.energy else ()),
    ]


LEAST_SHARE = 0.005  # of a current: a smaller one is not shown
LEAST_STARTS = 0.01  # a second: fewer are not shown


def _energy_rows(energy: NetworkEnergy) -> list[tuple[str, str]]:
    since = f" from {energy.since:g} s on, when the network has found itself" if energy.since else ""
    rows = [
        (
            "energy",
            f"{_drawn(energy.ma, energy.duty, energy.days)} on {energy.mah:,.0f} mAh: the mean mote{since}; "
            f"mote {energy.worst} lasts {shown_days(energy.worst_days)} days",
        )
    ]
    rows += [
        (f"mote {mote.id}", f"{_drawn(mote.ma, mote.duty, mote.days)}: {_took(mote)}")
        for mote in energy.motes
    ]
    mains = [f"{one.id}: {one.ma:.3f} mA: {_took(one)}" for one in energy.gateways]
    return rows + [("on mains", f"gateway {words}") for words in mains]


def _took(node: NodeEnergy) -> str:
    shares = sorted(((ma / node.ma, part) for part, ma in node.parts.items()), reverse=True)
    parts = [f"{part.replace('_', ' ')} {share:.0%}" for share, part in shares if share >= LEAST_SHARE]
    starts = [f"{part} {often:.3g}" for part, often in node.starts.items() if often >= LEAST_STARTS]
    return ", ".join(parts) + (f"; starts a second: {', '.join(starts)}" if starts else "")


def _drawn(ma: float, duty: float, days: float) -> str:
    return f"{ma:.3f} mA, radio on {duty:.2%}, {shown_days(days)} days"


def _last_at(seconds: float | None) -> str:
    return "" if seconds is None else f" (last at {seconds:.1f} s)"
