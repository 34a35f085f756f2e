"""A run of the testbed through the live station, and the delays that the simulator draws from it.

The station reads the gateways' lines at the run's own times. Its arrivals can be delivered again by any policy, and
judged by the flight recorders.
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
from basestation.testbed import emulator
from basestation.testbed.host import StationHost
from basestation.testbed.judge import decoded, follow, messages_of
from basestation.testbed.recorded_messages import MessageBook
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish
from basestation.testbed.truth_log import Event, Missed, ReceptionOutcome, RecordedEvent, Signal, Uart
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from tools.grid_run import run_on_grid

NS = 1_000_000_000
AFTER = 1 << 20  # ticks after the last message: by then an observer has delivered all


@dataclass(slots=True)
class TruthEvents:
    """The events of a run by kind, those that are used here."""

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
class FirstCopy:
    """The first copy of a message, with the station's ticks when it arrived and was heard, and its true send."""

    data: Data
    now: int
    heard: int
    send: Send


@dataclass(frozen=True, slots=True)
class StationRun:
    """What arrived, in order; what the station delivered; and the fate of each message at each mote."""

    deployment: Deployment
    arrivals: tuple[FirstCopy, ...]
    delivered: tuple[Send, ...]
    held_ms: tuple[float, ...]  # of each delivered message
    gave_up: int  # messages delivered without a cause that they named
    delays: MeasuredDelays

    def deliver(self, policy: str, phi: int) -> Violations:
        """The violations if the station had delivered by another policy."""
        observer = Observer(self.deployment, policy, phi)
        out: list[Delivery] = []
        for taken in self.arrivals:
            out += observer.receive(taken.data, taken.now, taken.heard, taken.send).deliveries
        if self.arrivals:
            out += observer.due(self.arrivals[-1].now + AFTER)
        return count_violations([delivery.message.token for delivery in out])

    @property
    def violations(self) -> Violations:
        """The violations among the station's deliveries, by the deployment's own policy."""
        return count_violations(self.delivered)


def run_station(
    deployment: Deployment, motes: int, seconds: float, rate: float, seed: int, script: tuple[str, ...] = ()
) -> StationRun:
    """The deployment's images on a grid of `motes`, each sending at `rate` messages a second.

    `script` has further events, as the engine's `at` lines.
    """
    wish = Wish(seed=seed, seconds=seconds, script=script)
    with run_on_grid(deployment, motes, wish, rate) as (events, network):
        return station_run(events, network)


def station_run(events: Iterable[Event], network: ScenarioNetwork) -> StationRun:
    truth = TruthEvents.of(events)
    if truth.missed:
        raise emulator.EmulatorError(f"{truth.missed} recorder events were missed: the truth is not whole")
    merged: dict[int, dict[int, int]] = defaultdict(dict)  # by message: when each mote had merged it
    book, _ = messages_of(truth.recorded, network, lambda sent, mote, t: merged[id(sent)].setdefault(mote, t))
    follow(book, decoded(truth.signals, network, layout_of(network.deployment)), truth.received, network)
    arrivals: list[FirstCopy] = []
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
    return StationRun(
        network.deployment,
        tuple(arrivals),
        tuple(delivered),
        tuple(held_ms),
        gave_up,
        _delays(book, merged, network),
    )


def _taken(arrived: Arrived, data: Data, book: MessageBook, network: ScenarioNetwork) -> FirstCopy | None:
    """None if the message cannot be ordered: its sender was out of sync, or its time is not known."""
    sent = book.find(data.source, data.sequence, arrived.mono_ns)
    if sent is None or not data.in_sync or arrived.cycles is None or arrived.clock is None:
        return None
    shift = network.deployment.clock.tick_log2
    return FirstCopy(data, arrived.clock >> shift, arrived.cycles >> shift, sent.send)


def _delays(
    book: MessageBook, merged: Mapping[int, Mapping[int, int]], network: ScenarioNetwork
) -> MeasuredDelays:
    """Only of messages that another mote merged, which shows that their sender was in sync."""
    rows: list[list[Row]] = [[] for _ in network.motes]
    tick_ns = NS * 2.0**network.deployment.clock.tick_log2 / CRYSTAL_HZ
    for sent in book.all:
        at = merged.get(id(sent))
        if not at:
            continue
        times = [at.get(mote) for mote in range(len(network.motes))] + [sent.arrived]
        row = tuple(LOST if t is None else max(0.0, (t - sent.t) / tick_ns) for t in times)
        rows[sent.send.source].append(row)
    return MeasuredDelays(tuple(map(tuple, rows)))
