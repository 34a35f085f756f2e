"""The delay of urgent messages on emulated motes, and the cost of listening for them: 20 minutes.

The networks of `power_runs` with a period of 16 s, with urgent windows and without. Each mote sends a message in ten
seconds, of which every 32nd is urgent (`tools/urgent_app`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from basestation.testbed.energy import JOINING, Battery
from basestation.testbed.judge import judge
from basestation.testbed.setup import Wish
from basestation.testbed.truth_log import Event, Leds, Uart
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.tinyos import ActiveMessage, decode_packet
from tools.grid_run import run_on_grid
from tools.pages import table

from . import ROOT, Workload, by_row
from .power_runs import RATE, PowerPoint, ScheduledNetwork, arrived_cells, deployment_of, life_cells, point_of

APP = str(ROOT / "tools" / "urgent_app")
EVERY = 32  # as in the app
YELLOW = 4
FIELDS = tuple(
    ScheduledNetwork(board, 10, 16000, seeds=2, seconds=2400.0, urgent_ms=urgent_ms)
    for board, often in (("micaz", 2000), ("mica2", 4000))
    for urgent_ms in (0, often)
)


class UrgentPoint(NamedTuple):
    """The result of a run."""

    urgent: int  # that should have arrived by now
    delays: tuple[float, ...]  # of those that did, in seconds from the app to the gateway's line
    power: PowerPoint  # of all messages


class UrgentWatch:
    """When urgent messages were handed over, and when they arrived, by mote and number."""

    def __init__(self, deployment: Deployment) -> None:
        self._layout, self._decoder = layout_of(deployment), FrameDecoder()
        self._flashes: dict[int, int] = defaultdict(int)
        self.begun: dict[tuple[int, int], float] = {}
        self.came: dict[tuple[int, int], float] = {}

    def watched(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, which this watches as they pass."""
        for event in events:
            if isinstance(event, Leds) and event.lit & YELLOW:
                self._flashes[event.node] += 1
                self.begun[event.node, EVERY * self._flashes[event.node]] = event.t / 1e9
            elif isinstance(event, Uart):
                for packet in map(decode_packet, self._decoder.feed(event.bytes)):
                    if isinstance(packet, ActiveMessage):
                        self._take(decode_message(packet, self._layout), event.t / 1e9)
            yield event

    def _take(self, message: object, t: float) -> None:
        if isinstance(message, Data) and message.data[2]:
            number = int.from_bytes(message.data[:2], "little" if self._layout.tinyos == 1 else "big")
            self.came.setdefault((message.source, number), t)

    def between(self, since: float, until: float) -> dict[tuple[int, int], float | None]:
        """The delay of each message handed over in that time; None if it did not arrive."""
        return {
            name: self.came[name] - begun if name in self.came else None
            for name, begun in self.begun.items()
            if since <= begun < until
        }


def run(field: ScheduledNetwork, seed: int) -> UrgentPoint:
    deployment, wish = deployment_of(field), Wish(seed=seed, seconds=field.seconds, states=JOINING)
    watch = UrgentWatch(deployment)
    with run_on_grid(deployment, field.motes, wish, RATE, app=APP) as (events, network):
        report = judge(watch.watched(events), [network], Battery(since=JOINING)).networks[0]
    delays = watch.between(JOINING, field.seconds - 3 * field.period_ms / 1000)
    return UrgentPoint(
        len(delays), tuple(delay for delay in delays.values() if delay is not None), point_of(report)
    )


def lines(effort: Workload) -> Iterator[str]:
    """Days are those of the mean mote and of the worst."""
    heads = (
        "motes", "urgent windows", "urgent", "arrived", "delay: mean", "worst", "at most", "all messages", "violations",
        "mA", "model", "days", "model",
    )  # fmt: skip
    found = by_row(run, {field: field.seeds for field in FIELDS}, effort)
    yield from table(heads, (tuple(_cells(field, points)) for field, points in found))


def _cells(field: ScheduledNetwork, points: Sequence[UrgentPoint]) -> Iterator[str]:
    schedule, power = deployment_of(field).schedule, [point.power for point in points]
    assert schedule is not None
    delays = list(chain.from_iterable(point.delays for point in points))
    yield field.name
    yield f"every {field.urgent_ms // 1000} s" if field.urgent_ms else "none"
    yield str(sum(point.urgent for point in points))
    yield str(len(delays))
    yield f"{fmean(delays):.1f} s"
    yield f"{max(delays):.1f} s"
    yield f"{schedule.urgent_wait_ms / 1000:.1f} s" if field.urgent_ms else ""
    yield from arrived_cells(power)
    yield from life_cells(field, power)
