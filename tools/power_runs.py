"""Runs networks that `plan` would build on emulated motes, and sets what they drew beside what the model said.

    python -m tools.power_runs [--write] [--only "10 MICAz, 16 s"] [--seeds 2] [--seconds 600] [--processes 2]
    python -m tools.power_runs --night [--write]

`make power-runs` runs it. Each mote sends a message in ten seconds, over three hops, by a schedule whose window `plan`
chose, on the testbed's grid (docs/reference/testbed.md). Every message is judged by the true happened-before. Prints
a table in
Markdown; with --write it also goes into docs/evidence/power.md. The networks that the aims are about run for five
hours each,
those with a longer period for one, those with loss or a key for twenty minutes. --night is one run of ten hours.

Runs that are over are kept in .pio/power_runs.jsonl, so that a command that was stopped goes on where it was. They
count as long as the images are the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from basestation.planning.budget import PlannedNetwork, make_budget
from basestation.planning.life import LifePlan, life_of
from basestation.planning.trade import with_period
from basestation.testbed import images
from basestation.testbed.energy import JOINING, Battery
from basestation.testbed.grid_run import run_on_grid
from basestation.testbed.judge import judge
from basestation.testbed.setup import Wish
from basestation.testbed.testbed_report import NetworkReport
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment, from_dict
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.records import MIC_BYTES
from tools.pages import MarkedPlace, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "power.md"
KEPT = ROOT / ".pio" / "power_runs.jsonl"
PLACE = MarkedPlace(PAGE, "<!-- runs: made by `make power-runs` -->", "<!-- end of the runs -->")
NIGHT = MarkedPlace(
    PAGE, "<!-- night: made by `python -m tools.power_runs --night --write` -->", "<!-- end of the night -->"
)
NIGHT_NAME, NIGHT_SECONDS = "10 MICAz, 16 s", 36_000.0
HOPS, RATE = 3, 0.1
DATA_BYTES = {0: 6, MIC_BYTES: 4}  # by the MIC's: two messages of a MICA2 fit in one frame
KEY = Key(bytes(range(16)))


class Field(NamedTuple):
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
            Field(board, motes, period_ms, seeds=5, seconds=3600.0)
            for board, motes, period_ms in (
                ("micaz", 10, 16000),
                ("micaz", 10, 8000),
                ("mica2", 10, 16000),
                ("micaz", 20, 16000),
                ("mica2", 20, 16000),
            )
        ),
        *(Field("micaz", 10, period_ms, seconds=3600.0) for period_ms in (32000, 64000)),
        *(Field(board, 10, 16000, loss=loss) for board in ("micaz", "mica2") for loss in (0.05, 0.1)),
        *(Field(board, 10, 16000, mic=MIC_BYTES) for board in ("micaz", "mica2")),
    )
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


class RunName(NamedTuple):
    """Which run it was."""

    name: str  # of the network
    seed: int
    seconds: float
    images: str


def planned(field: Field) -> PlannedNetwork:
    data_bytes = DATA_BYTES[field.mic]
    network = PlannedNetwork(
        field.motes, field.board, RATE, HOPS, data_bytes=data_bytes, mic=field.mic, urgent_ms=field.urgent_ms
    )
    return with_period(network, field.period_ms)


def deployment_of(field: Field) -> Deployment:
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


def modelled(field: Field) -> LifePlan:
    network = replace(planned(field), stamp_bytes=layout_of(deployment_of(field)).stamp.size)
    return life_of(network, network.schedule, field.loss)


def run(name: str, seed: int, seconds: float) -> PowerPoint:
    field, wish = FIELDS[name], Wish(seed=seed, seconds=seconds, states=JOINING)
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


class Runs:
    """Runs that are over, one a line of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found = {RunName(*run): PowerPoint(*point) for run, point in map(json.loads, lines)}

    def keep(self, run: RunName, point: PowerPoint) -> None:
        self.found[run] = point
        with self._path.open("a") as file:
            file.write(json.dumps([run, point]) + "\n")


def images_of(field: Field) -> str:
    """Builds them, and says which they are."""
    programs = images.programs_for(deployment_of(field), RATE)
    both = programs.mote.path.read_bytes() + programs.gateway.path.read_bytes()
    return sha256(both).hexdigest()[:16]


def wanted_of(field: Field) -> list[RunName]:
    """Builds its images, and names its runs."""
    built = images_of(field)
    return [RunName(field.name, seed, field.seconds, built) for seed in range(1, field.seeds + 1)]


def collect(fields: Sequence[Field], processes: int) -> dict[Field, list[PowerPoint]]:
    wanted = {field: wanted_of(field) for field in fields}  # before the processes do it side by side
    runs = Runs(KEPT)
    with ProcessPoolExecutor(processes) as pool:
        missing = [which for names in wanted.values() for which in names if which not in runs.found]
        running = {pool.submit(run, *which[:3]): which for which in missing}
        for done, future in enumerate(as_completed(running), start=1):
            which, point = running[future], future.result()
            runs.keep(which, point)
            told = f"{done} of {len(running)}: {which.name}, seed {which.seed}: {point}"
            print(told, file=sys.stderr, flush=True)
    return {field: [runs.found[which] for which in names] for field, names in wanted.items()}


def table_of(found: Mapping[Field, Sequence[PowerPoint]]) -> Iterator[str]:
    """Days are those of the mean mote and of the worst."""
    heads = ("motes", "runs", "arrived", "violations", "duty", "model", "mA", "model", "days", "model")
    yield from table(heads, ((field.name, *_cells(field, points)) for field, points in found.items()))


def _cells(field: Field, points: Sequence[PowerPoint]) -> Iterator[str]:
    yield f"{field.seeds} x {field.seconds / 60:.0f} min"
    yield from arrived_cells(points)
    yield f"{100 * fmean(point.duty for point in points):.2f}%"
    yield f"{100 * modelled(field).duty:.2f}%"
    yield from life_cells(field, points)


def arrived_cells(points: Sequence[PowerPoint]) -> Iterator[str]:
    """How many messages arrived, and violations."""
    stamped, arrived = (sum(getattr(point, what) for point in points) for what in ("stamped", "arrived"))
    yield f"{100 * arrived / stamped:.2f}% of {stamped}"
    yield str(sum(point.violations for point in points))


def life_cells(field: Field, points: Sequence[PowerPoint]) -> Iterator[str]:
    """mA and days, each beside the model's."""
    model = modelled(field)
    yield f"{fmean(point.ma for point in points):.3f}"
    yield f"{model.ma:.3f}"
    yield f"{fmean(point.days for point in points):.0f} / {min(point.worst_days for point in points):.0f}"
    yield f"{model.days:.0f} / {model.worst_days:.0f}"


def parser_of(described: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(described or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/evidence/power.md")
    parser.add_argument("--seeds", type=int, help="of each network")
    parser.add_argument("--seconds", type=float, help="of each run")
    parser.add_argument("--processes", type=int, default=2)
    return parser


def asked_for(fields: Iterable[Field], given: argparse.Namespace) -> list[Field]:
    """The networks, with the seeds and seconds that were asked for."""
    return [
        field._replace(seeds=given.seeds or field.seeds, seconds=given.seconds or field.seconds)
        for field in fields
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=FIELDS, action="append", help="this network; may be repeated")
    parser.add_argument("--night", action="store_true", help=f"one run of ten hours: {NIGHT_NAME}")
    given = parser.parse_args()
    if given.night:
        given.only, given.seeds, given.seconds = [NIGHT_NAME], 1, NIGHT_SECONDS
    asked = asked_for((FIELDS[name] for name in given.only or FIELDS), given)
    content = "\n".join(table_of(collect(asked, given.processes)))
    print(content)
    if given.write:
        (NIGHT if given.night else PLACE).write(content)


if __name__ == "__main__":
    main()
