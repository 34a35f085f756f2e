"""Judges a run by its truth log: order, skew, delay, losses, and the gateways' lines.

Happened-before comes from the flight recorders alone: sends, and receptions that were merged. (A message of a sender
out of sync is not merged, and orders nothing.) The stamps come from the air, as the motes sent them. An observer
reads a stamp against the network's clock; here that clock is that of the root or its successor, from its own beacons.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from basestation.causality.order import Message, key
from basestation.causality.truth import Send, VectorTruth
from basestation.causality.violations import find_violations
from basestation.deployed import promises_order, timed_scheme_of
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, decode_message, parts_of
from packet_formats.records import Arrived, Beacon, Taken

from . import node_times
from .energy import JOINING, TWO_CELLS, Battery, StatesLog
from .host import arrivals_in, read_line
from .recorded_messages import MessageBook, Sent
from .scenario import ScenarioNetwork
from .signals import delimiter_ns, message_of
from .testbed_report import Delay, Fates, MoteReport, NetworkReport, StampOrder, TestbedReport
from .truth_log import (
    DriverFault,
    Event,
    Missed,
    Power,
    ReceptionOutcome,
    RecordedEvent,
    Reset,
    RunEnd,
    Script,
    Signal,
    States,
    Uart,
)

NS = 1e9
STARTING = 10.0  # seconds in which motes are switched on, find the time and their distance
SILENCE = 8  # usual pauses without a message: unusual for a mote
LONGER = 2  # and this many of its longest pauses, for motes that send only on events
# A sender that drops its own message does so within this time, and does not use its number again.
SOON_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class _OnAir:
    signal: Signal
    message: Data | Beacon | Arrived | Taken


@dataclass(slots=True)
class _Log:
    """The events that count, by kind."""

    states: StatesLog
    recorded: list[RecordedEvent] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    received: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # signal: nodes
    outcomes: Counter[str] = field(default_factory=Counter)
    uarts: list[Uart] = field(default_factory=list)
    readings: list[node_times.NodeTime] = field(default_factory=list)
    missed: int = 0
    resets: Counter[str] = field(default_factory=Counter)
    script: int = 0
    driver_faults: list[str] = field(default_factory=list)
    end: RunEnd | None = None
    powered: set[int] = field(default_factory=set)
    last: int = 0

    def take(self, event: Event) -> None:
        self.last = max(self.last, event.t)
        match event:
            case RecordedEvent():
                self.recorded.append(event)
            case Signal():
                self.signals.append(event)
            case ReceptionOutcome(signal=signal, node=node, outcome=outcome):
                self.outcomes[outcome] += 1
                if outcome == "received":
                    self.received[signal].append(node)
            case Uart():
                self.uarts.append(event)
            case Missed(count=count):
                self.missed += count
            case Power(node=node, on=on):
                (self.powered.add if on else self.powered.discard)(node)
            case Reset(cause=cause):
                self.resets[cause] += 1
            case Script():
                self.script += 1
            case DriverFault(t=t, node=node, what=what):
                self.driver_faults.append(f"node {node} at {t / NS:.6f} s: {what}")
            case States():
                self.states.take(event)
            case RunEnd():
                self.end = event
            case _:
                pass


def judge(
    events: Iterable[Event], networks: Sequence[ScenarioNetwork], battery: Battery = TWO_CELLS
) -> TestbedReport:
    """The report on these networks, from the log of a run."""
    log = _Log(StatesLog(battery))

    def noted() -> Iterable[Event]:
        for event in events:
            log.take(event)
            yield event

    log.readings = list(node_times.readings(noted()))
    log.recorded.sort(key=lambda event: event.t)
    log.signals.sort(key=lambda signal: signal.begin)
    return TestbedReport(
        seconds=log.last / NS,
        ended=log.end.reason if log.end else "not at all",
        networks=tuple(_judge_network(log, network) for network in networks),
        signals=len(log.signals),
        outcomes=dict(sorted(log.outcomes.items())),
        missed=log.missed,
        gaps=_gaps(log.recorded),
        resets=dict(sorted(log.resets.items())),
        script=log.script,
        driver_faults=tuple(log.driver_faults),
    )


def _gaps(recorded: Iterable[RecordedEvent]) -> int:
    """Numbers left out by a recorder, which counts from 0 at each boot."""
    expected: dict[int, int] = {}
    gaps = 0
    for event in recorded:
        if event.kind == "boot":
            gaps += event.number != 0
        else:
            gaps += event.number != expected.get(event.node, 0)
        expected[event.node] = (event.number + 1) % 65536
    return gaps


def _judge_network(log: _Log, network: ScenarioNetwork) -> NetworkReport:
    layout = layout_of(network.deployment)
    on_air = decoded(log.signals, network, layout)
    book, unmatched = messages_of(log.recorded, network)
    altered = follow(book, on_air, log.received, network)
    time = _RootTime(on_air, network)
    line, delivered, observer_late = read_line(log.uarts, network, book)
    clock = network.deployment.clock
    open_since = log.last - round(clock.delta * clock.tick_seconds * NS)
    found_itself = (JOINING if network.deployment.schedule else STARTING) * NS
    return NetworkReport(
        name=network.name,
        motes=_motes(book.all, log, network),
        gateways=len(network.gateways),
        fates=_fates(book.all, open_since),
        starting=_fates([sent for sent in book.all if sent.t < found_itself], open_since),
        transmissions=len({seen.signal.number for seen in on_air if not isinstance(seen.message, Beacon)}),
        order=_order(book.all, time, network, altered, unmatched),
        arrivals=arrivals_in(_by_arrival(book.all)),
        delivered=delivered,
        observer_late=observer_late,
        delay=_delay(book.all, time, network),
        skew=node_times.skew_of(log.readings, network),
        line=line,
        promised=promises_order(network.deployment),
        energy=log.states.energy_of(network),
    )


def decoded(signals: Iterable[Signal], network: ScenarioNetwork, layout: DataLayout) -> list[_OnAir]:
    """This network's data messages, beacons and acknowledgements, in the order of their signals."""
    members = set(network.nodes)
    found = []
    for signal in signals:
        if signal.node in members:
            raw = message_of(signal, network.deployment.network.board, layout.tinyos)
            for part in parts_of(raw, layout) if raw else ():
                message = decode_message(part, layout)
                if isinstance(message, Data | Beacon | Arrived | Taken):
                    found.append(_OnAir(signal, message))
    return found


def messages_of(
    recorded: Iterable[RecordedEvent],
    network: ScenarioNetwork,
    merged: Callable[[Sent, int, int], object] | None = None,
) -> tuple[MessageBook, int]:
    """The messages with their true causes, and the number of receptions that fit no message.

    `merged` is called with each message that a mote merged, the mote and the time.
    """
    id_of = {node: identity for identity, node in enumerate(network.motes)}
    truth, book = VectorTruth(len(network.motes)), MessageBook()
    epochs: dict[int, int] = {}
    unmatched = 0
    for event in recorded:
        mote = id_of.get(event.node)
        if mote is None:
            continue
        if event.kind == "epoch":
            epochs[mote] = event.peer
        elif event.kind == "send":
            book.add(event.sequence, Sent(truth.on_send(mote), event.t, epochs.get(mote, 0)))
        elif event.kind in ("receive", "late"):
            sent = book.find(event.peer, event.sequence, event.t)
            if event.kind == "late":
                if sent is not None and event.t - sent.t < SOON_NS:
                    sent.late = True
            elif sent is None:
                unmatched += 1
            else:
                truth.on_receive(mote, [sent.send])
                if merged is not None:
                    merged(sent, mote, event.t)
    return book, unmatched


def follow(
    book: MessageBook,
    on_air: Iterable[_OnAir],
    received: Mapping[int, Sequence[int]],
    network: ScenarioNetwork,
) -> int:
    """Note the first signal and arrival of each message; returns the number of copies with an altered stamp."""
    board, altered = network.deployment.network.board, 0
    for seen in on_air:
        signal, data = seen.signal, seen.message
        if not isinstance(data, Data):
            continue
        sent = book.find(data.source, data.sequence, signal.to)
        if sent is None:
            continue
        if sent.data is None:
            sent.data, sent.began = data, delimiter_ns(signal, board)
        altered += data.stamp != sent.data.stamp
        heard = any(node in network.gateways for node in received.get(signal.number, ()))
        if heard and (sent.arrived is None or signal.to < sent.arrived):
            sent.arrived = signal.to
            sent.relayed = signal.node != network.node_of(data.source)
    return altered


class _RootTime:
    """The network's clock in each epoch: that of the root or its successor, by its own beacons."""

    def __init__(self, on_air: Iterable[_OnAir], network: ScenarioNetwork) -> None:
        self._tick_log2 = network.deployment.clock.tick_log2
        self._beacons: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for seen in on_air:
            beacon = seen.message
            if (
                isinstance(beacon, Beacon)
                and beacon.sender == beacon.root
                and beacon.in_sync
                and beacon.hops == 0
            ):
                at = delimiter_ns(seen.signal, network.deployment.network.board)
                self._beacons[beacon.epoch].append((at, beacon.time))

    def tick(self, epoch: int, t: int) -> int | None:
        """By the last beacon before `t`, or else the first one after."""
        beacons = self._beacons.get(epoch)
        if not beacons:
            return None
        at, time = beacons[max(0, bisect_right(beacons, t, key=lambda beacon: beacon[0]) - 1)]
        return (time + (t - at) * CRYSTAL_HZ // 1_000_000_000) >> self._tick_log2


def _order(
    book: Sequence[Sent], time: _RootTime, network: ScenarioNetwork, altered: int, unmatched: int
) -> StampOrder:
    if not network.deployment.scheme.is_ordered:
        return _no_order(book, altered, unmatched)
    synced = [sent for sent in book if sent.data is not None and sent.data.in_sync]
    judged = [sent for sent in synced if time.tick(sent.epoch, sent.began) is not None]
    broken = pairs = 0
    involved: set[tuple[int, int]] = set()
    for sends in _by_stamps(judged, time, network):
        found, which = find_violations(sends)
        broken += found.pairs
        pairs += found.related_pairs
        involved |= which
    times = [sent.t for sent in judged if (sent.send.source, sent.send.index) in involved]
    last = max(times, default=None)
    return StampOrder(
        messages=len(judged),
        pairs=pairs,
        broken=broken,
        saturated=sum(sent.data is not None and sent.data.saturated for sent in judged),
        last_broken=None if last is None else last / NS,
        since=sum(last is None or sent.t > last for sent in judged),
        unreadable=len(synced) - len(judged),
        altered=altered,
        unmatched=unmatched,
    )


def _by_stamps(book: Iterable[Sent], time: _RootTime, network: ScenarioNetwork) -> Iterator[list[Send]]:
    """The sends of each epoch in the order of their stamps, read by the network's clock."""
    scheme = timed_scheme_of(network.deployment)
    by_epoch: dict[int, list[tuple[tuple[int, ...], Send]]] = defaultdict(list)
    for sent in book:
        now = time.tick(sent.epoch, sent.began)
        assert sent.data is not None
        assert now is not None
        stamp = scheme.decode(sent.data.stamp, now)
        by_epoch[sent.epoch].append((key(Message(sent.send.source, sent.send.index, stamp)), sent.send))
    for messages in by_epoch.values():
        yield [send for _, send in sorted(messages, key=lambda item: item[0])]


def _no_order(book: Sequence[Sent], altered: int, unmatched: int) -> StampOrder:
    """The papers' stamps do not order any two messages, so only deliveries can be judged."""
    full = sum(sent.data is not None and sent.data.in_sync and sent.data.saturated for sent in book)
    return StampOrder(0, 0, 0, full, None, 0, 0, altered, unmatched, total=False)


def _fates(book: Sequence[Sent], open_since: int) -> Fates:
    """`open_since`: messages stamped after this may still arrive when the log ends."""
    absent = [sent for sent in book if sent.arrived is None]
    missing = [sent for sent in absent if sent.t <= open_since]
    late = sum(sent.late for sent in missing)
    unsent = sum(sent.data is None and not sent.late for sent in missing)
    return Fates(
        stamped=len(book),
        out_of_sync=sum(sent.data is not None and not sent.data.in_sync for sent in book),
        relayed=sum(sent.relayed for sent in book),
        arrived=len(book) - len(absent),
        late=late,
        unsent=unsent,
        lost=len(missing) - late - unsent,
        underway=len(absent) - len(missing),
    )


def _motes(book: Sequence[Sent], log: _Log, network: ScenarioNetwork) -> tuple[MoteReport, ...]:
    by_mote: dict[int, list[Sent]] = defaultdict(list)
    for sent in book:
        by_mote[sent.send.source].append(sent)
    on_air: dict[int, list[int]] = defaultdict(list)
    for signal in log.signals:
        if signal.node is not None:
            on_air[signal.node].append(signal.begin)
    return tuple(
        _mote(mote, by_mote[mote], on_air[node], log.last, node in log.powered)
        for mote, node in enumerate(network.motes)
    )


def _mote(mote: int, sent: Sequence[Sent], on_air: Sequence[int], now: int, powered: bool) -> MoteReport:
    stamped = [one.t for one in sent]
    times = sorted([*stamped, *on_air])
    return MoteReport(
        mote,
        len(sent),
        sum(one.arrived is not None for one in sent),
        times[-1] / NS if times else None,
        powered and _is_silent(stamped, times, now),
    )


def _is_silent(stamped: Sequence[int], times: Sequence[int], now: int) -> bool:
    """`times`: of all its frames, health, beacons and relayed messages too. A mote that sends on events may pause for
    long, so the pause must also be far longer than any before."""
    if len(stamped) < 3:
        return False
    pause = now - times[-1]
    usual, longest = median(_gaps_between(stamped)), max(_gaps_between(times))
    return pause > SILENCE * usual and pause > LONGER * longest


def _gaps_between(times: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise(times)]


def _by_arrival(book: Iterable[Sent]) -> list[Sent]:
    arrived = [(sent.arrived, sent) for sent in book if sent.arrived is not None]
    return [sent for _, sent in sorted(arrived, key=lambda item: item[0])]


def _delay(book: Iterable[Sent], time: _RootTime, network: ScenarioNetwork) -> Delay:
    delta = network.deployment.clock.delta
    delays, ticks = [], [0]
    for sent in book:
        if sent.arrived is None or sent.data is None or not sent.data.in_sync:
            continue
        delays.append((sent.arrived - sent.t) / 1e6)
        begin, end = time.tick(sent.epoch, sent.t), time.tick(sent.epoch, sent.arrived)
        if begin is not None and end is not None:
            ticks.append(end - begin)
    delays.sort()
    return Delay(
        messages=len(delays),
        median_ms=_quantile(delays, 0.5),
        p99_ms=_quantile(delays, 0.99),
        longest_ms=_quantile(delays, 1.0),
        ticks=max(ticks),
        delta=delta,
        beyond=sum(tick > delta for tick in ticks),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))] if ordered else 0.0
