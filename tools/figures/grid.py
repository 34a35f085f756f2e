"""The networks of the paper's figures, and the measurements on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal, get_args

from basestation.causality.policy_choice import PolicyChoice
from basestation.simulator.options import PRESETS, DelayLaw, WorldOptions
from basestation.simulator.simulation import SimulatedRun, build_scheme, generate, measure

PHIS = (100, 80, 60, 40, 20, 0)
LAWS: tuple[DelayLaw, ...] = get_args(DelayLaw)
Policy = Literal["dapw", "cbd"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
FULL = "all"
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Applies a function to many tasks: `map`, or that of a pool of processes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a figure: a stamp, and a network (by its changes to epsilon = delta = 10, rate 0.1, n = 10)."""

    figure: int
    label: str
    changes: tuple[tuple[str, Any], ...] = ()
    scheme: str = "kn"
    entries: int | str = FULL


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """The paper's figure of merit, `mean`, at one phi: a value for each seed."""

    curve: Curve
    law: DelayLaw
    policy: Policy
    phi: int
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.values)


def _varied(figure: int, symbol: str, option: str, values: tuple[Any, ...]) -> list[Curve]:
    return [Curve(figure, f"{symbol} = {value}", ((option, value),)) for value in values]


def _partial(figure: int, motes: int) -> list[Curve]:
    network = (("motes", motes),)
    return [
        Curve(figure, "DPC1", network, "dpc1"),
        Curve(figure, "DPC2", network, "dpc2"),
        *(Curve(figure, f"{k} kn entries", network, "kn", k) for k in (2, 4, 6)),
        Curve(figure, "all kn entries", network),
        Curve(figure, "one-byte sHLC (ours)", network, "shlc"),
    ]


CURVES: tuple[Curve, ...] = (
    *_varied(2, "ε", "epsilon", (5, 10, 20, 30)),
    *_varied(3, "δ", "delta", (5, 10, 20, 30)),
    *_varied(4, "rate", "rate", (0.5, 0.1, 0.01)),
    *_varied(5, "n", "motes", (5, 10, 50)),
    *_partial(6, 10),
    *_partial(7, 50),
)
TITLES = {
    2: "Effect of the clocks' difference ε (δ = 10)",
    3: "Effect of the longest delay δ (ε = 10)",
    4: "Effect of the message rate",
    5: "Effect of the number of motes",
    6: "Partial stamps, 10 motes",
    7: "Partial stamps, 50 motes",
}


def policies_of(figure: int) -> tuple[Policy, ...]:
    """The policies in a figure. The figures of partial stamps show CBD only."""
    return ("cbd",) if figure in (6, 7) else POLICIES


@dataclass(frozen=True, slots=True)
class FigureNetwork:
    """One simulation, used by every curve with the same changes."""

    changes: tuple[tuple[str, Any], ...]
    law: DelayLaw
    seed: int
    messages: int


def networks(messages: int, seeds: int) -> list[FigureNetwork]:
    """All simulations that the figures need, seed by seed for each network and law."""
    return [
        FigureNetwork(changes, law, seed, messages)
        for changes in dict.fromkeys(curve.changes for curve in CURVES)
        for law in LAWS
        for seed in range(1, seeds + 1)
    ]


def measure_network(network: FigureNetwork) -> list[FigurePoint]:
    options = WorldOptions(
        messages=network.messages, seed=network.seed, delay_law=network.law, **PRESETS["paper"]
    )
    run = generate(replace(options, **dict(network.changes)))
    return _measure_curves(run, network)


def _measure_curves(run: SimulatedRun, network: FigureNetwork) -> list[FigurePoint]:
    points = []
    for curve in (curve for curve in CURVES if curve.changes == network.changes):
        scheme = build_scheme(run.options, curve.scheme, entries=curve.entries)
        wanted = [PolicyChoice(policy, phi) for policy in policies_of(curve.figure) for phi in PHIS]
        for delivery, row in zip(wanted, measure(run, scheme, wanted), strict=True):
            policy: Policy = "dapw" if delivery.policy == "dapw" else "cbd"
            points.append(
                FigurePoint(curve, network.law, policy, delivery.phi, (row.violations.percent()["mean"],))
            )
    return points


def measure_figures(messages: int, seeds: int, spread: Spread = map) -> list[FigurePoint]:
    """Measure every point of every figure. The largest networks start first, so that no worker waits at the end."""
    grid = networks(messages, seeds)
    begun = sorted(range(len(grid)), key=lambda place: -dict(grid[place].changes).get("motes", 10))
    found = dict(zip(begun, spread(measure_network, [grid[place] for place in begun]), strict=True))
    return gather([found[place] for place in range(len(grid))])


def gather(batches: list[list[FigurePoint]]) -> list[FigurePoint]:
    """Put the seeds of each point together."""
    values: dict[FigurePoint, list[float]] = {}
    for batch in batches:
        for point in batch:
            values.setdefault(replace(point, values=()), []).extend(point.values)
    return [replace(point, values=tuple(found)) for point, found in values.items()]
