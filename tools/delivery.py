"""Measures how many messages arrive on the real firmware, and what that costs. `make delivery` runs it: six minutes.

    python -m tools.delivery [--write] [--seeds 5] [--processes 2] [--only "10 MICAz"]

It runs the examples' deployments on emulated motes (docs/reference/testbed.md), as `basestation testbed --motes 10
--seconds 120` does. Prints a table in Markdown; with --write it also goes into docs/evidence/firmware.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from basestation.testbed.grid_run import run_on_grid
from basestation.testbed.judge import judge
from basestation.testbed.setup import Wish
from basestation.testbed.testbed_report import NetworkReport
from packet_formats.deployment import load
from tools.pages import MarkedPlace, table

ROOT = Path(__file__).resolve().parents[1]
PLACE = MarkedPlace(
    ROOT / "docs" / "evidence" / "firmware.md",
    "<!-- table: made by `make delivery` -->",
    "<!-- end of the delivery -->",
)


class Field(NamedTuple):
    """A network to run."""

    deployment: str  # of examples/
    motes: int
    seconds: float


FIELDS = {
    "10 MICAz": Field("micaz", 10, 120),
    "20 MICAz": Field("micaz", 20, 120),
    "8 MICA2": Field("mica2", 8, 600),
}


class DeliveryPoint(NamedTuple):
    """What became of the messages of a run, or of several together."""

    start_stamped: int = 0
    start_arrived: int = 0
    later_stamped: int = 0
    later_arrived: int = 0
    transmissions: int = 0
    longest_ms: float = 0.0
    beyond: int = 0  # later than delta
    violations: int = 0  # pairs of stamps against happened-before, and pairs delivered in the wrong order
    root_cycles: float = 0.0  # a clock in sync, from the root's

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


def collect(names: Sequence[str], seeds: int, processes: int) -> dict[str, DeliveryPoint]:
    found = dict.fromkeys(names, DeliveryPoint())
    with ProcessPoolExecutor(processes) as pool:
        jobs = [(name, seed) for name in names for seed in range(1, seeds + 1)]
        running = {pool.submit(run, *job): job for job in jobs}
        for done, future in enumerate(as_completed(running), start=1):
            name, seed = running[future]
            found[name] = found[name].plus(future.result())
            print(f"{done} of {len(jobs)}: {name}, seed {seed}", file=sys.stderr, flush=True)
    return found


def table_of(found: Mapping[str, DeliveryPoint], seeds: int) -> Iterator[str]:
    lengths = ", ".join(f"{name} {FIELDS[name].seconds:g} s" for name in found)
    yield f"{seeds} seeds each: {lengths}."
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
    yield from table(heads, ((name, *_cells(point)) for name, point in found.items()))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/evidence/firmware.md")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=FIELDS, action="append", help="this network; may be repeated")
    given = parser.parse_args()
    found = collect(given.only or list(FIELDS), given.seeds, given.processes)
    content = "\n".join(table_of(found, given.seeds))
    print(content)
    if given.write:
        PLACE.write(content)


if __name__ == "__main__":
    main()
