"""A run of the testbed as the live station sees it, and as the simulator would play it.

The gateways' lines go through the station with the run's own times. What it heard can then be delivered again by any
policy, and judged by the flight recorders. What became of each message, mote by mote, is what the simulator draws from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from basestation.causality.rules import Delivery
from basestation.causality.truth import Send
from basestation.causality.violations import Violations, count_violations
from basestation.live.happenings import Arrived, Delivered, GaveUp
from basestation.observer import Observer
from basestation.simulator.measured_delays import LOST, MeasuredDelays, Row
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import Data

from . import engine
from .grid_run import run_on_grid
from .host import StationHost
from .judge import decoded, follow, messages_of
from .recorded_messages import MessageBook
from .scenario import ScenarioNetwork
from .setup import Wish
from .truth_log import Event, Missed, ReceptionOutcome, RecordedEvent, Signal, Uart

NS = 1_000_000_000
AFTER = 1 << 20  # ticks after the last message: by then an observer has let everything go


@dataclass(slots=True)
class TruthEvents:
    """The events of a run that matter here, by kind."""

    recorded: list[RecordedEvent] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    received: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # signal: nodes
    uarts: list[Uart] = field(default_factory=list)
    missed: int = 0

    @classmethod
    def of(cls, events: Iterable[Event]) -> TruthEvents:
        truth = cls()
        for event in events:
            match event:
                case RecordedEvent():
                    truth.recorded.append(event)
                case Signal():
                    truth.signals.append(event)
                case ReceptionOutcome(signal=signal, node=node, outcome="received"):
                    truth.received[signal].append(node)
                case Uart():
                    truth.uarts.append(event)
                case Missed(count=count):
                    truth.missed += count
                case _:
                    pass
        truth.recorded.sort(key=lambda event: event.t)
        return truth


@dataclass(frozen=True, slots=True)
class Taken:
    """A first copy as the station took it: ticks of its clock then and when it was heard, and what it really is."""

    data: Data
    now: int
    heard: int
    send: Send


@dataclass(frozen=True, slots=True)
class FieldRun:
    """One run: what arrived, in order; what the station delivered meanwhile; and what became of each message.

    `sent`: for each mote, the true time in ticks at which each message of its `delays` was sent.
    """

    deployment: Deployment
    arrivals: tuple[Taken, ...]
    delivered: tuple[Send, ...]
    held_ms: tuple[float, ...]  # each of those, and
    gave_up: int  # how many of them left without what they waited for
    delays: MeasuredDelays
    sent: tuple[tuple[float, ...], ...]

    def deliver(self, policy: str, phi: int) -> Violations:
        """By another policy, as the station does it."""
        observer = Observer(self.deployment, policy, phi)
        out: list[Delivery] = []
        for taken in self.arrivals:
            out += observer.receive(taken.data, taken.now, taken.heard, taken.send).deliveries
        if self.arrivals:
            out += observer.due(self.arrivals[-1].now + AFTER)
        return count_violations([delivery.message.token for delivery in out])

    @property
    def violations(self) -> Violations:
        """Of what the station delivered, by the deployment's own policy."""
        return count_violations(self.delivered)


def run_field(
    deployment: Deployment, motes: int, seconds: float, rate: float, seed: int, script: tuple[str, ...] = ()
) -> FieldRun:
    """The deployment's images on a grid of so many motes, each sending at `rate` messages a second.

    `script` is what else happens, in the engine's `at` lines.
    """
    wish = Wish(seed=seed, seconds=seconds, script=script)
    with run_on_grid(deployment, motes, wish, rate) as (events, network):
        return field_run(events, network)


def field_run(events: Iterable[Event], network: ScenarioNetwork) -> FieldRun:
    truth = TruthEvents.of(events)
    if truth.missed:
        raise engine.EngineError(f"{truth.missed} recorder events were missed: the truth is not whole")
    merged: dict[int, dict[int, int]] = defaultdict(dict)  # by message: when each mote had merged it
    book, _ = messages_of(truth.recorded, network, lambda sent, mote, t: merged[id(sent)].setdefault(mote, t))
    follow(book, decoded(truth.signals, network, layout_of(network.deployment)), truth.received, network)
    arrivals: list[Taken] = []
    delivered: list[Send] = []
    held_ms: list[float] = []
    gave_up = 0
    numbers: dict[int, Send] = {}
    for happening in StationHost(network).happenings(truth.uarts):
        if isinstance(happening, Arrived) and happening.number and isinstance(happening.message, Data):
            taken = _taken(happening, happening.message, book, network)
            if taken is not None:
                numbers[happening.number] = taken.send
                arrivals.append(taken)
        elif isinstance(happening, Delivered) and happening.number in numbers:
            delivered.append(numbers[happening.number])
            held_ms.append(happening.held_ms)
        gave_up += isinstance(happening, GaveUp)
    return FieldRun(
        network.deployment,
        tuple(arrivals),
        tuple(delivered),
        tuple(held_ms),
        gave_up,
        *_delays(book, merged, network),
    )


def _taken(arrived: Arrived, data: Data, book: MessageBook, network: ScenarioNetwork) -> Taken | None:
    """None for what nobody can order: a sender out of sync, a time that is not known."""
    sent = book.find(data.source, data.sequence, arrived.mono_ns)
    if sent is None or not data.in_sync or arrived.cycles is None or arrived.clock is None:
        return None
    shift = network.deployment.clock.tick_log2
    return Taken(data, arrived.clock >> shift, arrived.cycles >> shift, sent.send)


def _delays(
    book: MessageBook, merged: Mapping[int, Mapping[int, int]], network: ScenarioNetwork
) -> tuple[MeasuredDelays, tuple[tuple[float, ...], ...]]:
    """Of messages whose sender was in sync, as far as anybody knows: those that merged nowhere never were."""
    rows: list[list[Row]] = [[] for _ in network.motes]
    begins: list[list[float]] = [[] for _ in network.motes]
    tick_ns = NS * 2.0**network.deployment.clock.tick_log2 / CRYSTAL_HZ
    for sent in book.all:
        at = merged.get(id(sent))
        if not at:
            continue
        times = [at.get(mote) for mote in range(len(network.motes))] + [sent.arrived]
        row = tuple(LOST if t is None else max(0.0, (t - sent.t) / tick_ns) for t in times)
        rows[sent.send.source].append(row)
        begins[sent.send.source].append(sent.t / tick_ns)
    return MeasuredDelays(tuple(map(tuple, rows))), tuple(map(tuple, begins))
