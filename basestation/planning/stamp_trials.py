"""Simulates a planned network and measures every candidate stamp on the same streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import Scheme, TimedScheme
from basestation.simulator.options import PRESETS, WorldOptions
from basestation.simulator.simulation import Measurement, generate, measure, measure_rule, world_for
from basestation.simulator.topology import HopTopology, in_groups
from packet_formats.schemes import LEDGER, descriptor

from .budget import Budget, BudgetError, PlannedNetwork
from .candidates import StampCandidate, candidates, named_candidates
from .stamp_choice import CandidateRow, Comparison

POLICY = "cbd"
PHIS = (0, 10, 20, 40, 60, 80, 100)

MOST_MESSAGES = 20_000  # of one seed
LEAST_MESSAGES = 500
NAMED_MESSAGES = 1_000  # of one seed, for stamps that have no kernel
STEPS = 20_000_000  # of all seeds: about five seconds
# A tick and mote: below this rate, hardly two messages are near in time.
LEAST_RATE = 3e-4


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to simulate: `messages` for each seed; by default those of a few seconds."""

    messages: int | None = None
    seeds: int = 3
    busier: bool = False  # raise a very low rate even if `messages` is given


def topology_of(network: PlannedNetwork) -> HopTopology | None:
    """Groups on a line, a hop apart: a mote hears its own group and its neighbours', the gateway the first."""
    return in_groups(network.motes, network.hops) if network.hops > 1 else None


def world_of(budget: Budget, effort: Effort) -> WorldOptions:
    """The simulation of this network: all peers hear a broadcast at once, and it is relayed to the observer.

    If `effort` gives no number of messages, a very low rate is raised: that errs towards more violations.
    """
    network, clock, turns = budget.network, budget.clock, budget.turns
    rate = network.rate * clock.tick_ms / 1000 / turns
    if (effort.messages is None or effort.busier) and network.schedule is None:
        rate = max(rate, LEAST_RATE)
    return WorldOptions(
        motes=network.motes,
        epsilon=clock.epsilon,
        delta=clock.delta,
        rate=rate,
        messages=effort.messages or _affordable_messages(network.motes, rate, effort.seeds),
        delay_law="quarter",
        events_per_tick=turns,
        topology=topology_of(network),
        **_windows(budget),
        **PRESETS["network"],
    )


def _windows(budget: Budget) -> dict[str, Any]:
    """The windows of a schedule, in ticks, and the loss that their later rounds make good."""
    schedule, tick_log2 = budget.network.schedule, budget.clock.tick_log2
    if schedule is None:
        return {}
    return {
        "period": schedule.period >> tick_log2,
        "window": schedule.delta_ticks(tick_log2),
        "loss": budget.network.loss,
    }


def _affordable_messages(motes: int, rate: float, seeds: int) -> int:
    steps_per_message = (motes + 1) / (motes * rate) + 10 * motes
    affordable = STEPS / seeds / steps_per_message
    return int(min(MOST_MESSAGES, max(LEAST_MESSAGES, affordable)))


def compare(
    budget: Budget,
    tolerance: float = 0.0,
    effort: Effort | None = None,
    advance: Callable[[], object] = lambda: None,
    schemes: Collection[str] | None = None,
) -> Comparison:
    """Measure every candidate, or those of some schemes, on the same streams; call `advance` after each of `steps_of`
    steps."""
    effort = effort or Effort()
    options = world_of(budget, effort)
    stamps = [stamp for stamp in candidates(budget) if _asked(stamp, schemes)]
    if not stamps:
        clock = budget.clock
        raise BudgetError(
            "epsilon", f"no stamp has a clock wide enough for epsilon {clock.epsilon} and delta {clock.delta}"
        )
    found: dict[Scheme, list[list[Measurement]]] = {stamp.scheme: [] for stamp in stamps}
    for seed in range(1, effort.seeds + 1):
        stream = generate(replace(options, seed=seed))
        for scheme, runs in found.items():
            assert isinstance(scheme, TimedScheme)
            runs.append(list(measure(stream, scheme, _deliveries(tolerance))))
            advance()
    rows = [row for stamp in stamps for row in _rows(stamp, found[stamp.scheme])]
    arrival = next(row for row in rows if row.policy == "none")
    measured = tuple(row for row in rows if row.policy != "none")
    asked = [stamp for stamp in named_candidates(budget) if _asked(stamp, schemes)]
    named = tuple(_measure_named(asked, options, effort, tolerance, advance))
    return Comparison(measured, arrival, options, tolerance, named, budget.clock.tick_ms)


def _asked(stamp: StampCandidate, schemes: Collection[str] | None) -> bool:
    return schemes is None or stamp.scheme.name in schemes


def _measure_named(
    stamps: Sequence[StampCandidate],
    options: WorldOptions,
    effort: Effort,
    tolerance: float,
    advance: Callable[[], object],
) -> Iterator[CandidateRow]:
    """Measure the stamps that name causes on shorter runs of the same network: they have no kernels."""
    for stamp in stamps:
        world = world_for(options, stamp.scheme.name)
        world = replace(world, messages=min(world.messages, NAMED_MESSAGES))
        deliveries = [PolicyChoice(stamp.scheme.name, 100)]
        if tolerance > 0 and descriptor(stamp.scheme.name).takes_ledger:
            deliveries.append(PolicyChoice(LEDGER, 100, tolerance))
        runs = []
        for seed in range(1, effort.seeds + 1):
            run = generate(replace(world, seed=seed))
            runs.append(list(measure_rule(run, stamp.scheme, deliveries)))
            advance()
        yield from _rows(stamp, runs)


def steps_of(budget: Budget, effort: Effort) -> int:
    timed = {stamp.scheme for stamp in candidates(budget)}
    return effort.seeds * (len(timed) + len(named_candidates(budget)))


def _deliveries(tolerance: float) -> list[PolicyChoice]:
    """Arrival order, the policy with each phi, and the ledger at the tolerance; at 0 that would be phi = 100."""
    return [
        PolicyChoice("none", 100),
        *(PolicyChoice(POLICY, phi) for phi in PHIS),
        *([PolicyChoice(LEDGER, 100, tolerance)] if tolerance else []),
    ]


def _rows(candidate: StampCandidate, runs: Sequence[Sequence[Measurement]]) -> Iterator[CandidateRow]:
    """One row for each policy and phi; `runs` holds them in the same order for each seed."""
    for same in zip(*runs, strict=True):
        delivered = sum(one.delivered for one in same)
        weights = [one.delivered / delivered if delivered else 0.0 for one in same]
        figures = [one.violations.percent() for one in same]
        yield CandidateRow(
            candidate=candidate,
            policy=same[0].delivery.policy,
            phi=same[0].delivery.phi,
            sent=sum(one.messages for one in same),
            delivered=delivered,
            violations={
                name: sum(w * f[name] for w, f in zip(weights, figures, strict=True)) for name in figures[0]
            },
            hold_mean=sum(w * one.hold_mean for w, one in zip(weights, same, strict=True)),
            hold_p95=max(one.hold_p95 for one in same),
            saturated=sum(one.saturated for one in same),
            bounded=sum(one.bounded for one in same),
            wrong_unwraps=sum(one.wrong_unwraps for one in same),
            tolerate=same[0].delivery.tolerate,
            mean_bits=sum(one.stamp_bits for one in same) / len(same),
        )
