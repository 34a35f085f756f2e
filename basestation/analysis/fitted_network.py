"""`fit`: a simulated network like the one that a log shows, and its predictions.

A log without names or receipts has no causes, so no violation can be counted in it. But it shows rate, loss, delays and
clocks. A simulated network with the same figures has violations that can be counted. How far the prediction can be
trusted shows where both can be measured: `checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.choices import Candidate, Choice, candidates, stamp_name
from basestation.analysis.facts import Arrivals, Fact, arrivals_of, facts_of, losses_by_mote, values
from basestation.analysis.student import reach
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import Scheme, TimedScheme
from basestation.simulator.measured_delays import LOST, MeasuredDelays
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulation import Measurement, generate, measure, measure_rule
from basestation.simulator.topology import in_groups
from basestation.traces.files import TraceError
from packet_formats.deployment import Deployment

Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""How a function is applied to many tasks."""
SEEDS = 5
MOST_MESSAGES, LEAST_MESSAGES = 20_000, 500
NAMED_MESSAGES = 2_000  # stamps without kernels are played by Python
STEPS = 2e7  # ticks of motes in one simulation: seconds
DRAWN = 128  # fates of messages for each mote


@dataclass(frozen=True, slots=True)
class Fitted:
    """A network as its log shows it. Times in ticks; `rate` is of a mote, in a tick; `epsilon` as promised or as
    measured.

    `delays` are of each mote's messages to the observer; a mote that was never heard has those of all.
    """

    run: str
    deployment: Deployment
    rate: float
    epsilon: int
    losses: tuple[float, ...]
    delays: tuple[NDArray[Any], ...]
    messages: int

    @property
    def tick_ms(self) -> float:
        return 1000 * self.deployment.clock.tick_seconds

    @property
    def horizon(self) -> int:
        clock = self.deployment.clock
        return clock.delta + 3 * clock.epsilon + 1


def fitted(seen: Arrivals, deployment: Deployment, run: str = "", epsilon: int | None = None) -> Fitted:
    """Read the network from a log. `epsilon`: measured by `clocks`, if it was."""
    if seen.delay is None:
        raise TraceError("the stamps have no clock, so the delays of messages are unknown")
    facts = values(facts_of(seen, 1, 1000.0))  # rate in ticks
    sources = [seen.delay[seen.source == mote] for mote in range(seen.motes)]
    return Fitted(
        run=run,
        deployment=deployment,
        rate=facts["rate"],
        epsilon=max(1, deployment.clock.epsilon if epsilon is None else epsilon),
        losses=tuple(losses_by_mote(seen).tolist()),
        delays=tuple(own if len(own) else seen.delay for own in sources),
        messages=round(facts["rate"] * seen.motes * (int(seen.clock[-1]) - int(seen.clock[0]) + 1)),
    )


@dataclass(frozen=True, slots=True)
class Off:
    """The factors by which a network differs from the fitted one."""

    epsilon: float = 1.0
    delta: float = 1.0
    loss: float = 1.0
    rate: float = 1.0


def world(fit: Fitted, seed: int, messages: int = MOST_MESSAGES, off: Off | None = None) -> WorldOptions:
    """The simulated network: delays are drawn from those that were measured, with each mote's own losses."""
    off = off or Off()
    clock, motes = fit.deployment.clock, fit.deployment.network.motes
    rate = fit.rate * off.rate
    turns = max(1, int(np.ceil(rate)))
    affordable = max(LEAST_MESSAGES, int(STEPS * rate))
    fates = MeasuredDelays(tuple(_fates(fit, mote, seed, off) for mote in range(motes)))
    longest = max(map(max, (row for rows in fates.rows for row in rows)))
    return WorldOptions(
        motes=motes,
        epsilon=max(1, round(fit.epsilon * off.epsilon)),
        delta=max(clock.delta, int(np.ceil(longest))),  # the simulator loses what is later
        rate=max(rate / turns, 1e-6),
        messages=max(1, min(messages, affordable, fit.messages)),
        seed=seed,
        events_per_tick=turns,
        measured=fates,
        **PRESETS["measured"],
    )


def _fates(fit: Fitted, mote: int, seed: int, off: Off) -> tuple[tuple[float, ...], ...]:
    """Fates of a mote's messages: when each peer hears them, and when the observer does.

    A log shows only the observer's. Peers hear the first of the hops: its share of the delay, and of the loss.
    """
    network = fit.deployment.network
    groups = in_groups(network.motes, min(network.hops, network.motes))
    hops = groups.hops[mote]
    rng = np.random.default_rng((seed, mote))
    ticks = off.delta * (rng.choice(fit.delays[mote], DRAWN) + rng.random(DRAWN))
    lost = min(0.95, fit.losses[mote] * off.loss)
    rows = np.full((DRAWN, network.motes + 1), LOST)
    peers = list(groups.peers[mote])
    heard = rng.random((DRAWN, len(peers))) >= 1 - (1 - lost) ** (1 / hops)
    rows[:, peers] = np.where(heard, (ticks / hops)[:, None], LOST)
    rows[:, -1] = np.where(rng.random(DRAWN) >= lost, ticks, LOST)
    return tuple(map(tuple, rows.tolist()))


@dataclass(frozen=True, slots=True)
class Predicted:
    """A configuration on networks like the log's: violations in per cent, hold in ms, with 95% intervals over seeds."""

    run: str
    stamp: str
    scheme: str
    stamp_bytes: int
    policy: str
    phi: int
    tolerate: float | None
    figure: str
    violations: float
    low: float
    high: float
    hold_ms: float
    hold_low_ms: float
    hold_high_ms: float


@dataclass(frozen=True, slots=True)
class Check:
    """A fact as the log shows it and as the simulation predicts it. `off`: how far apart they are, in per cent of the
    log's; `agrees`: their 95% intervals meet."""

    run: str
    fact: str
    measured: float
    low: float | None
    high: float | None
    predicted: float
    predicted_low: float
    predicted_high: float
    off: float | None
    agrees: bool


@dataclass(frozen=True, slots=True)
class SeedTask:
    """The networks of one seed, with the stamps to measure on it."""

    fit: Fitted
    seed: int
    stamps: tuple[tuple[Scheme, tuple[PolicyChoice, ...]], ...]
    messages: int = MOST_MESSAGES
    off: Off = Off()


@dataclass(frozen=True, slots=True)
class SeedResult:
    facts: dict[str, float]
    measured: tuple[tuple[Measurement, ...], ...]


def simulate(task: SeedTask) -> SeedResult:
    """Measure every stamp on one network."""
    run = generate(world(task.fit, task.seed, task.messages, task.off))
    timed = all(isinstance(scheme, TimedScheme) for scheme, _ in task.stamps)
    few = run if timed else generate(world(task.fit, task.seed, NAMED_MESSAGES, task.off))
    found = []
    for scheme, deliveries in task.stamps:
        if isinstance(scheme, TimedScheme):
            found.append(tuple(measure(run, scheme, deliveries)))
        else:
            found.append(tuple(measure_rule(few, scheme, deliveries)))
    shown = facts_of(arrivals_of(run.stream), task.fit.horizon, task.fit.tick_ms)
    return SeedResult(values(shown), tuple(found))


def predict(
    fit: Fitted, choice: Choice, figure: str, spread: Spread, seeds: int = SEEDS
) -> tuple[list[Predicted], list[SeedResult]]:
    """The continuum that networks like this one would have, and the results of each seed."""
    stamps = candidates(fit.deployment, choice)
    asked = tuple((stamp.scheme, tuple(choice.rules(stamp.layout.scheme))) for stamp in stamps)
    results = list(spread(simulate, [SeedTask(fit, seed, asked) for seed in range(1, seeds + 1)]))
    rows = []
    for number, stamp in enumerate(stamps):
        for same in zip(*(result.measured[number] for result in results), strict=True):
            rows.append(_predicted(fit, stamp, same, figure))
    return rows, results


def _predicted(fit: Fitted, stamp: Candidate, same: Sequence[Measurement], figure: str) -> Predicted:
    layout, delivery = stamp.layout, same[0].delivery
    violations = [one.violations.percent()[figure] for one in same]
    holds = [one.hold_mean * fit.tick_ms for one in same]
    return Predicted(
        run=fit.run,
        stamp=stamp_name(layout),
        scheme=layout.scheme,
        stamp_bytes=layout.size,
        policy=delivery.policy,
        phi=delivery.phi,
        tolerate=delivery.tolerate,
        figure=figure,
        violations=float(np.mean(violations)),
        **dict(zip(("low", "high"), over_seeds(violations), strict=True)),
        hold_ms=float(np.mean(holds)),
        **dict(zip(("hold_low_ms", "hold_high_ms"), over_seeds(holds), strict=True)),
    )


def over_seeds(found: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of the mean over independent runs, by Student's t."""
    mean, half = float(np.mean(found)), reach(found)
    return max(0.0, mean - half), mean + half


def checks(facts: dict[str, Fact], results: Sequence[SeedResult], run: str = "") -> Iterator[Check]:
    """Compare the prediction with the log."""
    for name, fact in facts.items():
        told = [result.facts[name] for result in results]
        predicted, (low, high) = float(np.mean(told)), over_seeds(told)
        yield check(run, name, fact.value, fact.interval or (None, None), (predicted, low, high))


def check(
    run: str,
    name: str,
    measured: float,
    interval: tuple[float | None, float | None],
    predicted: tuple[float, float, float],
) -> Check:
    least, most = (measured if end is None else end for end in interval)
    off = 100 * (predicted[0] - measured) / measured if measured else None
    return Check(
        run, name, measured, *interval, *predicted, off, predicted[1] <= most and least <= predicted[2]
    )
