"""Runs networks that `plan` would build on emulated motes, and sets what they drew beside what the model said.

    python -m tools.power_runs [--write] [--only "10 MICAz, 16 s"] [--seeds 5] [--seconds 3600] [--processes 2]

`make power-runs` runs it. Each mote sends a message in ten seconds, over three hops, by a schedule whose window `plan`
chose, on the testbed's grid (docs/testbed.md). Every message is judged by the true happened-before. Prints a table in
Markdown; with --write it also goes into docs/power.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from basestation.planning.budget import PlannedNetwork, make_budget
from basestation.planning.life import LifePlan, life_of
from basestation.planning.trade import with_period
from basestation.testbed import images
from basestation.testbed.energy import Battery
from basestation.testbed.grid_run import run_on_grid
from basestation.testbed.judge import judge
from basestation.testbed.setup import Wish
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment, from_dict
from packet_formats.layout import layout_of
from packet_formats.phrases import many
from tools.pages import MarkedPlace, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "power.md"
PLACE = MarkedPlace(PAGE, "<!-- runs: made by `make power-runs` -->", "<!-- end of the runs -->")
HOPS, RATE, DATA_BYTES = 3, 0.1, 6
JOINING = 150.0  # seconds that are not counted: the network finds itself


class Field(NamedTuple):
    """A network to run."""

    board: str
    motes: int
    period_ms: int


FIELDS = {
    f"{motes} {BOARDS[board].title}, {period} s": Field(board, motes, 1000 * period)
    for board, motes, period in (("micaz", 10, 16), ("micaz", 10, 8), ("mica2", 10, 16), ("micaz", 20, 16))
}


class PowerPoint(NamedTuple):
    """What a run came to."""

    stamped: int
    arrived: int
    violations: int
    duty: float
    ma: float
    days: float
    worst_days: float


def planned(field: Field) -> PlannedNetwork:
    network = PlannedNetwork(field.motes, field.board, RATE, HOPS, data_bytes=DATA_BYTES)
    return with_period(network, field.period_ms)


def deployment_of(field: Field) -> Deployment:
    """As `plan` would write it, with a stamp by the clock."""
    network, clock = planned(field), make_budget(planned(field)).clock
    return from_dict(
        {
            "network": {
                "name": f"{field.board}-{field.motes}-{field.period_ms // 1000}",
                "board": field.board,
                "motes": field.motes,
                "hops": HOPS,
                "data_bytes": DATA_BYTES,
            },
            "clock": {"tick_log2": clock.tick_log2, "epsilon": clock.epsilon, "delta": clock.delta},
            "stamp": {"scheme": "shlc"},
            "radio": {"period_ms": network.period_ms, "window_ms": network.window_ms},
        }
    )


def modelled(field: Field) -> LifePlan:
    network = replace(planned(field), stamp_bytes=layout_of(deployment_of(field)).stamp.size)
    return life_of(network, network.schedule)


def run(name: str, seed: int, seconds: float) -> PowerPoint:
    field, wish = FIELDS[name], Wish(seed=seed, seconds=seconds, states=JOINING)
    with run_on_grid(deployment_of(field), field.motes, wish, RATE) as (events, network):
        report = judge(events, [network], Battery(since=JOINING)).networks[0]
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


def collect(names: Sequence[str], seeds: int, seconds: float, processes: int) -> dict[str, list[PowerPoint]]:
    found: dict[str, list[PowerPoint]] = {name: [] for name in names}
    for name in names:  # before the processes do it side by side
        images.programs_for(deployment_of(FIELDS[name]), RATE)
    with ProcessPoolExecutor(processes) as pool:
        jobs = [(name, seed) for name in names for seed in range(1, seeds + 1)]
        running = {pool.submit(run, *job, seconds): job for job in jobs}
        for done, future in enumerate(as_completed(running), start=1):
            name, seed = running[future]
            found[name].append(future.result())
            print(
                f"{done} of {len(jobs)}: {name}, seed {seed}: {future.result()}", file=sys.stderr, flush=True
            )
    return found


def table_of(found: Mapping[str, Sequence[PowerPoint]], seconds: float) -> Iterator[str]:
    seeds = max(map(len, found.values()))
    runs = f"{many(seeds, 'seed')} of {seconds / 3600:.2g} h each"
    yield f"{runs}; days of the mean mote and of the worst."
    yield ""
    heads = ("motes", "arrived", "violations", "duty", "model", "mA", "model", "days", "model")
    yield from table(heads, ((name, *_cells(name, points)) for name, points in found.items()))


def _cells(name: str, points: Sequence[PowerPoint]) -> Iterator[str]:
    model = modelled(FIELDS[name])
    stamped, arrived = (sum(getattr(point, what) for point in points) for what in ("stamped", "arrived"))
    yield f"{100 * arrived / stamped:.2f}% of {stamped}"
    yield str(sum(point.violations for point in points))
    yield f"{100 * fmean(point.duty for point in points):.2f}%"
    yield f"{100 * model.duty:.2f}%"
    yield f"{fmean(point.ma for point in points):.3f}"
    yield f"{model.ma:.3f}"
    yield f"{fmean(point.days for point in points):.0f} / {min(point.worst_days for point in points):.0f}"
    yield f"{model.days:.0f} / {model.worst_days:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/power.md")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=FIELDS, action="append", help="this network; may be repeated")
    given = parser.parse_args()
    found = collect(given.only or list(FIELDS), given.seeds, given.seconds, given.processes)
    content = "\n".join(table_of(found, given.seconds))
    print(content)
    if given.write:
        PLACE.write(content)


if __name__ == "__main__":
    main()
