"""Measures phi and k on the real firmware and in the simulator. `make field` runs it: half an hour on two cores.

    python -m tools.field_table [--write] [--seeds 10] [--seconds 40] [--processes 2]

Ten emulated motes over three hops (docs/reference/testbed.md), one deployment for each kind of stamp, judged by their
flight recorders. The simulator draws its delays from the testbed's messages, once with clocks as close together as the
testbed's, and once with clocks that use all of epsilon. It prints tables in Markdown; with --write they also go into
docs/figures/field.md, between the two marks, and each seed's figures into docs/figures/field.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from basestation.causality.policy_choice import PolicyChoice
from basestation.deployed import timed_scheme_of
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulation import generate, measure
from basestation.testbed.through_station import FieldRun, run_field
from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.layout import layout_of
from tools.pages import MarkedPlace, table

ROOT = Path(__file__).resolve().parents[1]
POINTS = ROOT / "docs" / "figures" / "field.csv"
PLACE = MarkedPlace(
    ROOT / "docs" / "figures" / "field.md",
    "<!-- table: made by `make field` -->",
    "<!-- end of the table -->",
)

MOTES, HOPS, RATE = 10, 3, 4.0  # messages a second of each: two thirds of what the gateway's line carries
EPSILON = 7  # more than the clocks need, so that kn has entries to leave out
PHIS = (0, 5, 10, 20, 40, 60, 80, 100)
DELIVERIES = (
    PolicyChoice("none", 0),
    *(PolicyChoice(policy, phi) for policy in ("dapw", "cbd") for phi in PHIS),
)
WHERE = ("testbed", "simulator", "roaming")
SIMULATED = 10_000  # messages a seed
NEAR = 1  # ticks: how far apart the testbed's clocks are
# The 97.5% quantiles of Student's t, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}

STAMPS: dict[str, dict[str, Any]] = {
    "kn, all 8": {"scheme": "kn"},
    "kn, 4": {"scheme": "kn", "entries": 4},
    "kn, 2": {"scheme": "kn", "entries": 2},
    "hlc": {"scheme": "hlc"},
    "shlc, one byte": {"scheme": "shlc", "counter_bits": 2},
}


class FieldPoint(NamedTuple):
    """One seed's figure. `percent` is the mean of causes and effects in a violation, as everywhere in docs/."""

    stamp: str
    where: str
    policy: str
    phi: int
    seed: int
    delivered: int
    pairs: int
    percent: float


@dataclass(frozen=True, slots=True)
class Job:
    stamp: str
    seed: int
    seconds: float


def deployment_of(stamp: str) -> Deployment:
    """examples/micaz.toml with another stamp, and epsilon wide enough to tell numbers of entries apart."""
    tables = load(ROOT / "examples" / "micaz.toml").to_dict()
    tables["network"] |= {"motes": MOTES, "hops": HOPS}
    clock = tables["clock"]
    tables["clock"] = {"tick_log2": clock["tick_log2"], "delta": clock["delta"], "epsilon": EPSILON}
    tables["stamp"] = STAMPS[stamp] | {"receipts": 2}
    return from_dict(tables)


def points_of(job: Job) -> list[FieldPoint]:
    run = run_field(deployment_of(job.stamp), MOTES, job.seconds, RATE, job.seed)
    found = list(_on_testbed(run, job))
    for where, epsilon in (("simulator", NEAR), ("roaming", EPSILON)):
        found += simulated(run, job, where, epsilon)
    return found


def _on_testbed(run: FieldRun, job: Job) -> Iterator[FieldPoint]:
    """The testbed's points. The live station's own deliveries must be among them."""
    for delivery in DELIVERIES:
        found = run.deliver(delivery.policy, delivery.phi)
        if (delivery.policy, delivery.phi) == ("cbd", 100) and found != run.violations:
            raise AssertionError(f"the live station delivered differently: {run.violations}, not {found}")
        percent = found.percent()["mean"]
        yield FieldPoint(
            job.stamp, "testbed", *_named(delivery), job.seed, found.delivered, found.pairs, percent
        )


def simulated(run: FieldRun, job: Job, where: str, epsilon: int) -> Iterator[FieldPoint]:
    """The simulator's points. The scheme is the deployment's, even if the simulated clocks differ more or less."""
    clock = run.deployment.clock
    options = WorldOptions(
        motes=MOTES,
        epsilon=epsilon,
        delta=clock.delta,
        rate=RATE * clock.tick_seconds,
        messages=SIMULATED,
        seed=job.seed,
        measured=run.delays,
        **PRESETS["measured"],
    )
    for row in measure(generate(options), timed_scheme_of(run.deployment), DELIVERIES):
        percent = row.violations.percent()["mean"]
        yield FieldPoint(
            job.stamp, where, *_named(row.delivery), job.seed, row.delivered, row.violations.pairs, percent
        )


def _named(delivery: PolicyChoice) -> tuple[str, int]:
    return delivery.policy, delivery.phi


def collect(seeds: int, seconds: float, processes: int) -> list[FieldPoint]:
    jobs = [Job(stamp, seed, seconds) for seed in range(1, seeds + 1) for stamp in STAMPS]
    points: list[FieldPoint] = []
    with ProcessPoolExecutor(processes) as pool:
        running = {pool.submit(points_of, job): job for job in jobs}
        for done, future in enumerate(as_completed(running), start=1):
            points += future.result()
            job = running[future]
            print(f"{done} of {len(jobs)}: {job.stamp}, seed {job.seed}", file=sys.stderr, flush=True)
    return sorted(points)


def tables_of(points: Sequence[FieldPoint], seconds: float) -> Iterator[str]:
    groups: dict[tuple[str, str, str, int], list[FieldPoint]] = defaultdict(list)
    for point in points:
        groups[point.stamp, point.where, point.policy, point.phi].append(point)
    seeds = len({point.seed for point in points})
    tick = deployment_of("hlc").clock
    yield (
        f"{MOTES} motes, {HOPS} hops, {RATE:g} messages a second of each, {seeds} seeds of {seconds:g} s; "
        f"ticks of {1000 * tick.tick_seconds:.1f} ms, ε = {tick.epsilon}, δ = {tick.delta}."
    )
    yield from ("", "**Everything waits its full time (φ = 100%)**", "")
    yield from table(
        ("stamp", "bytes", "messages", "violated pairs, arrival order", "DAPW", "CBD"),
        (_totals(stamp, groups) for stamp in STAMPS),
    )
    yield from ("", "**Messages in a violation, %, and 95% intervals**", "")
    heads = [f"{policy}, {where}" for policy in ("DAPW", "CBD") for where in WHERE]
    yield from table(("stamp", "φ", *heads), _shares(groups))


def _totals(stamp: str, groups: dict[tuple[str, str, str, int], list[FieldPoint]]) -> list[str]:
    def pairs(policy: str, phi: int) -> str:
        return str(sum(point.pairs for point in groups[stamp, "testbed", policy, phi]))

    size = layout_of(deployment_of(stamp)).stamp.size
    messages = sum(point.delivered for point in groups[stamp, "testbed", "none", 0])
    return [stamp, str(size), str(messages), pairs("none", 0), pairs("dapw", 100), pairs("cbd", 100)]


def _shares(groups: dict[tuple[str, str, str, int], list[FieldPoint]]) -> Iterator[list[str]]:
    for stamp in STAMPS:
        arrival = [_interval(groups[stamp, where, "none", 0]) for where in WHERE]
        yield [stamp, "arrival", *arrival, *arrival]
        for phi in PHIS:
            cells = [
                _interval(groups[stamp, where, policy, phi]) for policy in ("dapw", "cbd") for where in WHERE
            ]
            yield ["", str(phi), *cells]


def _interval(points: Sequence[FieldPoint]) -> str:
    return interval([point.percent for point in points])


def interval(shares: Sequence[float]) -> str:
    """A mean, and its 95% interval over seeds."""
    if not any(shares):
        return "0"
    if len(shares) == 1:
        return f"{shares[0]:.2f}"
    return f"{mean(shares):.2f} ± {STUDENT[len(shares) - 1] * stdev(shares) / sqrt(len(shares)):.2f}"


def save(points: Sequence[FieldPoint]) -> None:
    with POINTS.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(FieldPoint._fields)
        rows.writerows((*point[:-1], f"{point.percent:.4f}") for point in points)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/figures/field.md")
    parser.add_argument("--seeds", type=int, choices=range(1, 11), default=10, metavar="1-10")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    points = collect(given.seeds, given.seconds, given.processes)
    content = "\n".join(tables_of(points, given.seconds))
    print(content)
    if given.write:
        PLACE.write(content)
        save(points)


if __name__ == "__main__":
    main()
