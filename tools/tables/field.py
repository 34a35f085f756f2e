"""phi and k on the real firmware and in the simulator: half an hour.

Ten emulated motes over three hops, one deployment for each kind of stamp, judged by their flight recorders. The
simulator draws its delays from the testbed's messages, once with clocks as close together as the testbed's, and once
with clocks that use all of epsilon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, product
from statistics import mean
from typing import Any, NamedTuple

from basestation.analysis.student import reach
from basestation.causality.policy_choice import PolicyChoice
from basestation.deployed import timed_scheme_of
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulation import generate, measure
from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.layout import layout_of
from tools.pages import table
from tools.station_run import StationRun, run_station

from . import ROOT, Workload, results

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
SEEDS, SECONDS = 10, 40.0

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


def deployment_of(stamp: str) -> Deployment:
    """examples/micaz.toml with another stamp, and epsilon wide enough for numbers of entries to differ."""
    tables = load(ROOT / "examples" / "micaz.toml").to_dict()
    tables["network"] |= {"motes": MOTES, "hops": HOPS}
    clock = tables["clock"]
    tables["clock"] = {"tick_log2": clock["tick_log2"], "delta": clock["delta"], "epsilon": EPSILON}
    tables["stamp"] = STAMPS[stamp] | {"receipts": 2}
    return from_dict(tables)


def points_of(stamp: str, seed: int, seconds: float = SECONDS) -> list[FieldPoint]:
    run = run_station(deployment_of(stamp), MOTES, seconds, RATE, seed)
    found = list(_on_testbed(run, stamp, seed))
    for where, epsilon in (("simulator", NEAR), ("roaming", EPSILON)):
        found += _simulated(run, stamp, seed, where, epsilon)
    return found


def _on_testbed(run: StationRun, stamp: str, seed: int) -> Iterator[FieldPoint]:
    """The testbed's points. The live station's own deliveries must be among them."""
    for delivery in DELIVERIES:
        found = run.deliver(delivery.policy, delivery.phi)
        if (delivery.policy, delivery.phi) == ("cbd", 100) and found != run.violations:
            raise AssertionError(f"the live station delivered differently: {run.violations}, not {found}")
        percent = found.percent()["mean"]
        yield FieldPoint(stamp, "testbed", *_named(delivery), seed, found.delivered, found.pairs, percent)


def _simulated(run: StationRun, stamp: str, seed: int, where: str, epsilon: int) -> Iterator[FieldPoint]:
    """The simulator's points. The scheme is the deployment's, even if the simulated clocks differ more or less."""
    clock = run.deployment.clock
    options = WorldOptions(
        motes=MOTES,
        epsilon=epsilon,
        delta=clock.delta,
        rate=RATE * clock.tick_seconds,
        messages=SIMULATED,
        seed=seed,
        measured=run.delays,
        **PRESETS["measured"],
    )
    for row in measure(generate(options), timed_scheme_of(run.deployment), DELIVERIES):
        percent = row.violations.percent()["mean"]
        yield FieldPoint(
            stamp, where, *_named(row.delivery), seed, row.delivered, row.violations.pairs, percent
        )


def _named(delivery: PolicyChoice) -> tuple[str, int]:
    return delivery.policy, delivery.phi


def lines(effort: Workload) -> Iterator[str]:
    seeds = range(1, (effort.seeds or SEEDS) + 1)
    found = results(points_of, list(product(STAMPS, seeds)), effort.processes)
    yield from tables_of(sorted(chain.from_iterable(found)))


def tables_of(points: Sequence[FieldPoint]) -> Iterator[str]:
    groups: dict[tuple[str, str, str, int], list[FieldPoint]] = defaultdict(list)
    for point in points:
        groups[point.stamp, point.where, point.policy, point.phi].append(point)
    seeds = len({point.seed for point in points})
    tick = deployment_of("hlc").clock
    yield (
        f"{MOTES} motes, {HOPS} hops, {RATE:g} messages a second of each, {seeds} seeds of {SECONDS:g} s; "
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
    """The mean over seeds, and its 95% interval."""
    shares = [point.percent for point in points]
    if not any(shares):
        return "0"
    return f"{mean(shares):.2f} ± {reach(shares):.2f}"
