"""How many messages arrive on the real firmware, and their cost, with the examples' deployments: six minutes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

from basestation.testbed.judge import judge
from basestation.testbed.setup import Wish
from basestation.testbed.testbed_report import NetworkReport
from packet_formats.deployment import load
from tools.grid_run import run_on_grid
from tools.pages import table

from . import ROOT, Workload, by_row

SEEDS = 5


class DeliveryNetwork(NamedTuple):
    """A network and the length of its runs."""

    deployment: str  # of examples/
    motes: int
    seconds: float


FIELDS = {
    "10 MICAz": DeliveryNetwork("micaz", 10, 120),
    "20 MICAz": DeliveryNetwork("micaz", 20, 120),
    "8 MICA2": DeliveryNetwork("mica2", 8, 600),
}


class DeliveryPoint(NamedTuple):
    """Counts of a run, or of several together."""

    start_stamped: int = 0
    start_arrived: int = 0
    later_stamped: int = 0
    later_arrived: int = 0
    transmissions: int = 0
    longest_ms: float = 0.0
    beyond: int = 0  # later than delta
    violations: int = 0  # pairs of stamps against happened-before, and pairs delivered in the wrong order
    root_cycles: float = 0.0  # the largest distance of a clock in sync from the root's

    def plus(self, other: DeliveryPoint) -> DeliveryPoint:
        summed = {name: getattr(self, name) + getattr(other, name) for name in self._fields}
        return DeliveryPoint(**summed)._replace(
            longest_ms=max(self.longest_ms, other.longest_ms),
            root_cycles=max(self.root_cycles, other.root_cycles),
        )


def point_of(report: NetworkReport) -> DeliveryPoint:
    fates, start = report.fates, report.starting
    return DeliveryPoint(
        start.stamped - start.underway,
        start.arrived,
        fates.stamped - fates.underway - (start.stamped - start.underway),
        fates.arrived - start.arrived,
        report.transmissions,
        report.delay.longest_ms,
        report.delay.beyond,
        report.order.broken + report.delivered.inverted,
        report.skew.root_cycles,
    )


def run(name: str, seed: int) -> DeliveryPoint:
    field = FIELDS[name]
    deployment = load(ROOT / "examples" / f"{field.deployment}.toml")
    wish = Wish(seed=seed, seconds=field.seconds)
    with run_on_grid(deployment, field.motes, wish) as (events, network):
        return point_of(judge(events, [network]).networks[0])


def lines(effort: Workload) -> Iterator[str]:
    lengths = ", ".join(f"{name} {field.seconds:g} s" for name, field in FIELDS.items())
    yield f"{effort.seeds or SEEDS} seeds each: {lengths}."
    yield ""
    heads = (
        "motes",
        "arrived of those stamped in the first 10 s",
        "later",
        "transmissions a message",
        "longest delay, ms",
        "beyond δ",
        "violations",
        "clocks: cycles from the root's",
    )
    found = by_row(run, dict.fromkeys(FIELDS, SEEDS), effort)
    yield from table(heads, ((name, *_cells(reduce(DeliveryPoint.plus, points))) for name, points in found))


def _cells(point: DeliveryPoint) -> Iterator[str]:
    yield _share(point.start_arrived, point.start_stamped)
    yield _share(point.later_arrived, point.later_stamped)
    yield f"{point.transmissions / (point.start_stamped + point.later_stamped):.1f}"
    yield f"{point.longest_ms:.0f}"
    yield str(point.beyond)
    yield str(point.violations)
    yield f"{point.root_cycles:.0f}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}, {100 * part / whole:.1f}%" if whole else "-"
