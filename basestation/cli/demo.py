"""`basestation demo`: a simulated network on a serial line, decoded and ordered live, and what each byte buys."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from basestation.causality.policies import Delivery as Left
from basestation.cli import common
from basestation.cli.simulate import ARRIVAL_ORDER, CONTINUUM, show_measurements
from basestation.observer import Observer
from basestation.simulator.options import WorldOptions
from basestation.simulator.run import Delivery, Run, build_scheme, engine, generate, measure
from basestation.simulator.topology import from_positions
from basestation.simulator.trace import deployment_for, trace_of
from basestation.simulator.wire import serial_line, unwrap_time
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import Heard
from packet_formats.tinyos import ActiveMessage, decode_packet

MOTES, LIVE_MESSAGES, TABLE_MESSAGES = 10, 150, 20_000
SHOWN = 16  # rows of the live view
# Three rows of motes walking away from the gateway, which hears the first row only.
FIELD = [(x, y) for x in (1.0, 2.0, 3.0) for y in (0.0, 1.0, 2.0)] + [(3.0, 3.0)]
REACH, GATEWAY = 1.5, (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened at the observer: a message arrived (with its number), or left the queue."""

    tick: int
    message: int
    source: int
    sequence: int
    left: Left | None = None


@click.command(
    epilog=common.example(
        """
        basestation demo
        basestation demo --seconds 3
        basestation demo --json | head
        """
    )
)
@click.option(
    "--seconds",
    type=common.FiniteFloat(0, 3600),
    default=15.0,
    show_default=True,
    help="Length of the live part.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Same seed, same show.")
@common.json_option
def command(seconds: float, seed: int, as_json: bool) -> None:
    """Simulate ten motes over three hops, order them live from the serial line's bytes, and compare the stamps.

    With --json: one object a message delivered, in order of delivery.
    """
    field = from_positions(FIELD, GATEWAY, REACH)
    options = WorldOptions(motes=MOTES, messages=LIVE_MESSAGES, seed=seed, topology=field)
    run = generate(options)
    hasty = _arrived_before_a_cause(run)
    steps = _steps(run)
    if as_json:
        for step in steps:
            if step.left is not None:
                common.emit_json(_plain(step, step.left, hasty))
        return
    common.note(
        f"Simulating {MOTES} motes, up to {max(field.hops)} hops away; each frame crosses the serial format and back. "
        f"One byte of stamp, check before delivery, phi = 100%."
    )
    played = list(steps)
    if common.out.is_terminal:
        _show_live(played, hasty, seconds)
    else:
        _print_lines(played, hasty)
    _sum_up(run, played, hasty)
    _continuum(WorldOptions(motes=MOTES, messages=TABLE_MESSAGES, seed=seed, topology=field))


def _steps(run: Run) -> Iterator[Step]:
    """Run the whole road: stamp, encode, frame; then deframe, decode, observe."""
    deployment = deployment_for(run.options, build_scheme(run.options, "shlc"), "cbd", 100)
    layout, decoder, observer = layout_of(deployment), FrameDecoder(), Observer(deployment)
    heard = 0
    for tick, line in serial_line(trace_of(run, deployment)):
        yield from map(_left, observer.due(tick - 1))
        for packet in decoder.feed(line):
            frame = decode_packet(packet)
            message = decode_message(frame, layout) if isinstance(frame, ActiveMessage) else None
            if isinstance(message, Heard):
                heard = unwrap_time(message.time, heard)
            elif isinstance(message, Data):
                taken = observer.receive(message, heard >> deployment.clock.tick_log2)
                if taken is not None:
                    yield Step(tick, _number(taken.data), taken.source, taken.sequence)
        yield from map(_left, observer.due(tick))
    while (at := observer.next_due()) is not None:
        yield from map(_left, observer.due(at))


def _left(delivery: Left) -> Step:
    message = delivery.message
    return Step(delivery.left, _number(message.data), message.source, message.sequence, delivery)


def _number(data: bytes) -> int:
    """The simulator's application data is the message's number in the true order of sends."""
    return int.from_bytes(data, "little")


def _arrived_before_a_cause(run: Run) -> set[int]:
    """The messages that arrival order would have shown before one of their causes."""
    position = {message: place for place, message in enumerate(run.stream.arrival_message.tolist())}
    found = set()
    for later in position:
        for earlier in position:
            knows = run.vectors[later][run.stream.sent_by[earlier]] >= run.stream.sent_index[earlier]
            if later != earlier and knows and position[earlier] > position[later]:
                found.add(later)
    return found


def _plain(step: Step, left: Left, hasty: set[int]) -> dict[str, object]:
    return {
        "source": step.source,
        "sequence": step.sequence,
        "number": step.message,
        "arrived": left.arrived,
        "delivered": left.left,
        "late": left.late,
        "arrived_before_a_cause": step.message in hasty,
    }


def _name(step: Step) -> str:
    return f"mote {step.source} #{step.sequence}"


def _sum_up(run: Run, played: Sequence[Step], hasty: set[int]) -> None:
    """Judge the show by the truth, which the observer never saw."""
    delivered = np.array([step.message for step in played if step.left is not None], dtype=np.int64)
    wrong = engine.violations(run.stream, run.vectors, delivered).forward
    common.out.print(
        f"{len(delivered)} messages: {len(hasty)} arrived before one of their causes, {wrong} delivered so.\n",
        style="bold",
    )


def _print_lines(steps: Sequence[Step], hasty: set[int]) -> None:
    """For a pipe or a log: every step on a line of its own."""
    for step in steps:
        mark = "  (before a cause of it)" if step.message in hasty and step.left is None else ""
        verb = (
            "arrived" if step.left is None else f"delivered, held {step.left.left - step.left.arrived} ticks"
        )
        common.out.print(f"tick {step.tick:4}  {_name(step):<12} {verb}{mark}", markup=False)


def _show_live(played: Sequence[Step], hasty: set[int], seconds: float) -> None:
    view = _View(hasty)
    pace = seconds / max(1, played[-1].tick - played[0].tick)
    clock = played[0].tick
    with Live(view.picture(clock), console=common.out, refresh_per_second=12) as live:
        for step in played:
            if step.tick > clock:
                time.sleep(pace * (step.tick - clock))
                clock = step.tick
            view.take(step)
            live.update(view.picture(clock))
        live.update(view.picture(clock), refresh=True)


class _View:
    """The two streams side by side."""

    def __init__(self, hasty: set[int]) -> None:
        self._hasty = hasty
        self._arrived: deque[Step] = deque(maxlen=SHOWN)
        self._delivered: deque[Step] = deque(maxlen=SHOWN)
        self._held = 0
        self._count = 0
        self._reordered = 0

    def take(self, step: Step) -> None:
        if step.left is None:
            self._arrived.append(step)
            self._held += 1
            self._count += 1
            self._reordered += step.message in self._hasty
        else:
            self._delivered.append(step)
            self._held -= 1

    def picture(self, clock: int) -> Group:
        table = Table(expand=False, pad_edge=True)
        table.add_column("as they arrived", width=34)
        table.add_column("as delivered, in causal order", width=34)
        for i in range(SHOWN):
            table.add_row(self._arrival(i), self._delivery(i))
        state = Text(
            f"tick {clock}: {self._count} arrived, {self._held} held, {self._reordered} came before a cause"
        )
        return Group(table, state)

    def _arrival(self, row: int) -> Text:
        if row >= len(self._arrived):
            return Text("")
        step = self._arrived[row]
        wrong = step.message in self._hasty
        return Text(f"{_name(step)}{'  before a cause' if wrong else ''}", style="red" if wrong else "")

    def _delivery(self, row: int) -> Text:
        if row >= len(self._delivered):
            return Text("")
        step = self._delivered[row]
        assert step.left is not None
        wrong = step.message in self._hasty
        held = f"  held {step.left.left - step.left.arrived} ticks"
        return Text(f"{_name(step)}{held}", style="green" if wrong else "")


def _continuum(options: WorldOptions) -> None:
    """What each byte buys: every stamp on one larger run of the same network."""
    with common.progress(len(CONTINUUM) + 1, "comparing stamps") as advance:
        run = generate(options)
        advance()
        rows = []
        for name, entries in CONTINUUM:
            scheme = build_scheme(options, name, entries=entries)
            base, *found = measure(run, scheme, [ARRIVAL_ORDER, Delivery("cbd", 100), Delivery("cbd", 20)])
            rows += [(base, row) for row in found]
            advance()
    show_measurements(run, rows)
