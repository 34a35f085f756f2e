"""Currents and days of motes with a schedule on the real firmware, beside the model of `basestation plan`: hours.

Each mote sends a message in ten seconds, over three hops, by a schedule whose window `plan` chose. Every message is
judged by the true happened-before. `night_lines` is one run of ten hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from basestation.planning.budget import PlannedNetwork, make_budget
from basestation.planning.life import LifePlan, life_of, with_period
from basestation.testbed.energy import JOINING, Battery
from basestation.testbed.judge import judge
from basestation.testbed.setup import Wish
from basestation.testbed.testbed_report import NetworkReport
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment, from_dict
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.records import MIC_BYTES
from tools.grid_run import run_on_grid
from tools.pages import table

from . import Workload, by_row

NIGHT = ("10 MICAz, 16 s", 36_000.0)  # a network, and the seconds of its run
HOPS, RATE = 3, 0.1
DATA_BYTES = {0: 6, MIC_BYTES: 4}  # by the MIC's: two messages of a MICA2 fit in one frame
KEY = Key(bytes(range(16)))


class ScheduledNetwork(NamedTuple):
    """A network to run."""

    board: str
    motes: int
    period_ms: int
    loss: float = 0.0  # of frames, on each link
    mic: int = 0
    seeds: int = 1
    seconds: float = 1200.0
    urgent_ms: int = 0

    @property
    def name(self) -> str:
        lost = f", {self.loss:.0%} lost" if self.loss else ""
        key = ", with a key" if self.mic else ""
        return f"{self.motes} {BOARDS[self.board].title}, {self.period_ms // 1000} s{lost}{key}"


FIELDS = {
    field.name: field
    for field in (
        *(
            ScheduledNetwork(board, motes, period_ms, seeds=5, seconds=3600.0)
            for board, motes, period_ms in (
                ("micaz", 10, 16000),
                ("micaz", 10, 8000),
                ("mica2", 10, 16000),
                ("micaz", 20, 16000),
                ("mica2", 20, 16000),
            )
        ),
        *(ScheduledNetwork("micaz", 10, period_ms, seconds=3600.0) for period_ms in (32000, 64000)),
        *(
            ScheduledNetwork(board, 10, 16000, loss=loss)
            for board in ("micaz", "mica2")
            for loss in (0.05, 0.1)
        ),
        *(ScheduledNetwork(board, 10, 16000, mic=MIC_BYTES) for board in ("micaz", "mica2")),
    )
}


class PowerPoint(NamedTuple):
    """The result of a run."""

    stamped: int
    arrived: int
    violations: int
    duty: float
    ma: float
    days: float
    worst_days: float


def planned(field: ScheduledNetwork) -> PlannedNetwork:
    data_bytes = DATA_BYTES[field.mic]
    network = PlannedNetwork(
        field.motes, field.board, RATE, HOPS, data_bytes=data_bytes, mic=field.mic, urgent_ms=field.urgent_ms
    )
    return with_period(network, field.period_ms)


def deployment_of(field: ScheduledNetwork) -> Deployment:
    """As `plan` would write it, with a stamp by the clock."""
    network, clock = planned(field), make_budget(planned(field)).clock
    deployment = from_dict(
        {
            "network": {
                "name": f"{field.board}-{field.motes}-{field.period_ms // 1000}",
                "board": field.board,
                "motes": field.motes,
                "hops": HOPS,
                "data_bytes": network.data_bytes,
            },
            "clock": {"tick_log2": clock.tick_log2, "epsilon": clock.epsilon, "delta": clock.delta},
            "stamp": {"scheme": "shlc"},
            "radio": {
                "period_ms": network.period_ms,
                "window_ms": network.window_ms,
                "urgent_ms": network.urgent_ms,
            },
            **({"security": {"mic": field.mic, "key": "site.key"}} if field.mic else {}),
        }
    )
    return replace(deployment, key=KEY) if field.mic else deployment


def modelled(field: ScheduledNetwork) -> LifePlan:
    network = replace(planned(field), stamp_bytes=layout_of(deployment_of(field)).stamp.size)
    return life_of(network, network.schedule, field.loss)


def run(field: ScheduledNetwork, seed: int) -> PowerPoint:
    wish = Wish(seed=seed, seconds=field.seconds, states=JOINING)
    with run_on_grid(deployment_of(field), field.motes, wish, RATE, field.loss) as (events, network):
        report = judge(events, [network], Battery(since=JOINING)).networks[0]
    return point_of(report)


def point_of(report: NetworkReport) -> PowerPoint:
    fates, energy = report.fates, report.energy
    assert energy is not None
    return PowerPoint(
        fates.stamped - fates.underway,
        fates.arrived,
        report.order.broken + report.delivered.inverted,
        energy.duty,
        energy.ma,
        energy.days,
        energy.worst_days,
    )


def lines(effort: Workload) -> Iterator[str]:
    yield from table_of(FIELDS.values(), effort)


def night_lines(effort: Workload) -> Iterator[str]:
    name, seconds = NIGHT
    yield from table_of([FIELDS[name]._replace(seeds=1, seconds=seconds)], effort)


def table_of(fields: Iterable[ScheduledNetwork], effort: Workload) -> Iterator[str]:
    """Days are those of the mean mote and of the worst."""
    heads = ("motes", "runs", "arrived", "violations", "duty", "model", "mA", "model", "days", "model")
    found = by_row(run, {field: field.seeds for field in fields}, effort)
    yield from table(heads, ((field.name, *_cells(field, points)) for field, points in found))


def _cells(field: ScheduledNetwork, points: Sequence[PowerPoint]) -> Iterator[str]:
    yield f"{len(points)} x {field.seconds / 60:.0f} min"
    yield from arrived_cells(points)
    yield f"{100 * fmean(point.duty for point in points):.2f}%"
    yield f"{100 * modelled(field).duty:.2f}%"
    yield from life_cells(field, points)


def arrived_cells(points: Sequence[PowerPoint]) -> Iterator[str]:
    """The share of messages that arrived, and the number of violations."""
    stamped, arrived = (sum(getattr(point, what) for point in points) for what in ("stamped", "arrived"))
    yield f"{100 * arrived / stamped:.2f}% of {stamped}"
    yield str(sum(point.violations for point in points))


def life_cells(field: ScheduledNetwork, points: Sequence[PowerPoint]) -> Iterator[str]:
    """mA and days, each beside the model's."""
    model = modelled(field)
    yield f"{fmean(point.ma for point in points):.3f}"
    yield f"{model.ma:.3f}"
    yield f"{fmean(point.days for point in points):.0f} / {min(point.worst_days for point in points):.0f}"
    yield f"{model.days:.0f} / {model.worst_days:.0f}"
