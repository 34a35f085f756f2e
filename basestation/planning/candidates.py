"""Measures every candidate stamp on the same simulated network and chooses the smallest that is good enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

from basestation.causality.policy_choice import SAME_MS, PolicyChoice, levelled
from basestation.causality.schemes import Scheme, Setting, TimedScheme, make_scheme
from basestation.deployed import scheme_of_layout, setting_of_layout
from basestation.simulator.engine import IS_FAST
from basestation.simulator.options import PRESETS, READINGS, WorldOptions
from basestation.simulator.simulation import Measurement, generate, measure, measure_rule, world_for
from basestation.simulator.topology import HopTopology, in_groups
from packet_formats import deployment
from packet_formats.deployment import Deployment
from packet_formats.layout import PAYLOAD_LIMIT, StampLayout, stamp_layout
from packet_formats.schemes import LEDGER, LayoutError, descriptor, names, ordered

from .budget import Budget, BudgetError, PlannedNetwork

FIGURES = ("pairs", "backward", "forward", "mean", "any", "related")
POLICIES = ("cbd", "dapw", "causal", LEDGER)
PHIS = (0, 10, 20, 40, 60, 80, 100)

MOST_MESSAGES = 20_000  # of one seed
LEAST_MESSAGES = 500
NAMED_MESSAGES = 1_000  # of one seed, for stamps that have no kernel
STEPS_FAST, STEPS_PLAIN = 20_000_000, 150_000  # of all seeds: about five seconds with numba, and without
# A tick and mote: below this rate, hardly two messages are near in time.
LEAST_RATE_FAST, LEAST_RATE_PLAIN = 3e-4, 3e-3


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to simulate: `messages` for each seed, or as many as a few seconds allow."""

    messages: int | None = None
    seed: int = 1
    seeds: int = 3
    busier: bool = False  # raise a very low rate even if `messages` is given


@dataclass(frozen=True, slots=True)
class StampCandidate:
    """A stamp that could be chosen; `left` is the free part of the payload, negative when it does not fit."""

    layout: StampLayout
    scheme: Scheme
    events_per_tick: int
    left: int

    @property
    def name(self) -> str:
        layout, tried = self.layout, descriptor(self.layout.scheme).worth_trying
        if "entries" in tried:
            entries = "all" if layout.entries == self.scheme.setting.epsilon + 1 else str(layout.entries)
            return f"{layout.scheme} {entries} {layout.count}"
        return f"{layout.scheme} {layout.entry_bits}" if "counter_bits" in tried else layout.scheme

    @property
    def proven(self) -> bool:
        """Whether it is kn with all entries: at phi = 100 exact by proof, as long as no entry is full."""
        return self.exact and "entries" in descriptor(self.layout.scheme).settings

    @property
    def exact(self) -> bool:
        """Whether phi = 100 gives causal order, unless a counter is full: an hlc then runs ahead of all clocks."""
        return descriptor(self.layout.scheme).exact(self.layout, self.scheme.setting.epsilon)


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate under one policy and phi, over all seeds. Violations are in per cent, hold in ticks.

    The ledger has a share to tolerate in place of phi, in per cent.
    """

    candidate: StampCandidate
    policy: str
    phi: int
    sent: int
    delivered: int
    violations: dict[str, float]
    hold_mean: float
    hold_p95: float
    saturated: int
    bounded: int
    wrong_unwraps: int
    tolerate: float | None = None
    mean_bits: float = 0.0

    @property
    def guaranteed(self) -> bool:
        """Whether it is exact as long as G1 and G2 hold: no stamp was full, cut or misread in these runs."""
        strained = self.saturated or self.bounded or self.wrong_unwraps
        return self.candidate.exact and self.phi == 100 and not self.tolerate and not strained


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that was measured, with arrival order as the baseline."""

    measured: tuple[CandidateRow, ...]
    arrival: CandidateRow
    options: WorldOptions
    figure: str
    tolerance: float
    named: tuple[CandidateRow, ...] = ()  # stamps that name causes, by their own rules
    tick_ms: float = 1.0

    @property
    def quickest(self) -> CandidateRow | None:
        """The smallest stamp among those within a tick of the shortest hold that fits and meets the tolerance."""
        good = [row for row in (*self.measured, *self.named) if self._good(row)]
        shortest = min((row.hold_mean for row in good), default=0.0)
        quick = (row for row in good if row.hold_mean <= shortest + 1)
        return min(quick, key=lambda row: (row.mean_bits, row.hold_mean), default=None)

    @property
    def rows(self) -> list[CandidateRow]:
        """The rows worth showing: for each stamp the phis that no other phi beats. causal is dapw at phi = 100."""
        groups = groupby(self.measured, lambda row: (row.candidate, row.policy == "cbd", row.tolerate))
        return [row for _, same in groups for row in worth_it(list(same), self.figure)]

    @property
    def choice(self) -> CandidateRow | None:
        """The smallest stamp, then the shortest hold, that fits and meets the tolerance."""
        return self._cheapest(row for row in self.rows if self._good(row))

    @property
    def guaranteed_choice(self) -> CandidateRow | None:
        """The same among the rows that are exact and did not reach their limits in these runs."""
        sure = (row for row in self.measured if row.guaranteed and self._good(row))
        return self._cheapest(sure)

    @property
    def nearest(self) -> list[CandidateRow]:
        """Each stamp's best row, for when nothing is good enough: those that fit and the fewest violations first."""
        ranked = sorted(
            self.rows, key=lambda row: (row.candidate.left < 0, self.of(row), self._cost(row, row.hold_mean))
        )
        first: dict[StampCandidate, CandidateRow] = {}
        for row in ranked:
            first.setdefault(row.candidate, row)
        return list(first.values())

    def narrower(self, choice: CandidateRow) -> list[StampCandidate]:
        """The stamps with fewer bits that are as good as the choice in the same bytes."""
        same = (row.candidate for row in self.measured if self._good(row) and self._is_equal(row, choice))
        return list(dict.fromkeys(one for one in same if one.layout.bits < choice.candidate.layout.bits))

    def of(self, row: CandidateRow) -> float:
        """The violations of a row by the chosen figure, in per cent."""
        return row.violations[self.figure]

    def _is_equal(self, row: CandidateRow, choice: CandidateRow) -> bool:
        one, other = row.candidate, choice.candidate
        apart_ms = abs(row.hold_mean - choice.hold_mean) * self.tick_ms
        return (one.layout.size, one.exact) == (other.layout.size, other.exact) and apart_ms <= SAME_MS

    def _cheapest(self, rows: Iterable[CandidateRow]) -> CandidateRow | None:
        found = list(rows)
        holds = levelled((row.candidate.layout.size, row.hold_mean * self.tick_ms) for row in found)
        return min(zip(found, holds, strict=True), key=lambda pair: self._cost(*pair), default=(None,))[0]

    def _cost(self, row: CandidateRow, hold: float) -> tuple[float, ...]:
        """The sort key: the smallest stamp, then the shortest hold; among equals what is provable, then the fewest
        violations, then the widest stamp: bits that fill up the last byte cost nothing, and a wider counter is full
        later."""
        layout, unproven = row.candidate.layout, (not row.guaranteed, not row.candidate.exact)
        place = (*POLICIES, *names()).index(row.policy)
        return layout.size, hold, *unproven, self.of(row), -layout.bits, place

    def _good(self, row: CandidateRow) -> bool:
        return row.candidate.left >= 0 and self.of(row) <= self.tolerance


def upper_bound_percent(row: CandidateRow) -> float:
    """The upper bound at 95% confidence when N messages had no violation: 3/N (the rule of three)."""
    return 300 / row.delivered if row.delivered else 100.0


def candidates(budget: Budget) -> list[StampCandidate]:
    """All stamps to compare, with the widths that they would have in this network."""
    heard = 1 + int(budget.clock.tick_ms / budget.network.airtime_ms)  # the channel brings no more in a tick
    sent = _turns(budget)
    wanted = [(scheme, trial) for scheme in reversed(ordered()) for trial in descriptor(scheme).trials()]
    known = [(scheme, trial) for scheme, trial in wanted if not _is_all(trial, budget.clock.epsilon)]
    found = [
        _candidate(budget, scheme, sent if trial.get("count") == "sends" else heard, trial)
        for scheme, trial in known
    ]
    return [candidate for candidate in found if candidate is not None]


def named_schemes() -> list[str]:
    """The schemes that name causes, know by the clock when to stop waiting for one, and are in the firmware."""
    rows = map(descriptor, names())
    return [row.name for row in rows if not row.is_ordered and row.has_clock and row.in_firmware]


def named_candidates(budget: Budget) -> list[StampCandidate]:
    found = [_candidate(budget, name, 1, {}) for name in named_schemes()]
    return [candidate for candidate in found if candidate is not None and candidate.exact]


def _is_all(trial: Mapping[str, int | str], epsilon: int) -> bool:
    """Whether a trial's number of entries is all of them or more; "all" already stands for it."""
    entries = trial.get("entries")
    return isinstance(entries, int) and entries > epsilon


def _candidate(
    budget: Budget, scheme: str, events: int, settings: Mapping[str, int | str]
) -> StampCandidate | None:
    """The candidate of one trial; None when its fields are too narrow."""
    clock, network = budget.clock, budget.network
    try:
        layout = stamp_layout(
            scheme,
            clock_bits=_clock_bits(budget, scheme),
            epsilon=clock.epsilon,
            delta=clock.delta,
            motes=network.motes,
            events_per_tick=events,
            **settings,
        )
    except LayoutError:
        return None
    left = PAYLOAD_LIMIT[network.tinyos] - network.payload_without_stamp - layout.size
    if descriptor(scheme).is_ordered:
        return StampCandidate(layout, scheme_of_layout(layout, clock.epsilon, clock.delta), events, left)
    setting = setting_of_layout(layout, Setting(network.motes, clock.epsilon, clock.delta))
    return StampCandidate(layout, make_scheme(scheme, setting), events, left)


def _clock_bits(budget: Budget, scheme: str) -> int | None:
    """The width of a clock field with values to spare for a late guess; None: the least, where nobody guesses."""
    if not budget.network.late_ms:
        return None
    clock, row = budget.clock, descriptor(scheme)
    lead, late = max(row.lead, 1 + row.carries), math.ceil(budget.network.late_ms / clock.tick_ms)
    return (clock.delta + (1 + lead) * clock.epsilon + late).bit_length()


def topology_of(network: PlannedNetwork) -> HopTopology | None:
    """Groups on a line, a hop apart: a mote hears its own group and the ones beside it, the gateway the first."""
    return in_groups(network.motes, network.hops) if network.hops > 1 else None


def world_of(budget: Budget, effort: Effort) -> WorldOptions:
    """The simulation of this network: all peers hear a broadcast at once, and it is relayed to the observer.

    If `effort` gives no number of messages, a very low rate is raised: that errs towards more violations.
    """
    network, clock, turns = budget.network, budget.clock, _turns(budget)
    rate = network.rate * clock.tick_ms / 1000 / turns
    if (effort.messages is None or effort.busier) and network.schedule is None:
        rate = max(rate, LEAST_RATE_FAST if IS_FAST else LEAST_RATE_PLAIN)
    return WorldOptions(
        motes=network.motes,
        epsilon=clock.epsilon,
        delta=clock.delta,
        rate=rate,
        messages=effort.messages or _affordable_messages(network.motes, rate, effort.seeds),
        seed=effort.seed,
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


def _turns(budget: Budget) -> int:
    """How many sends a mote may have in a tick: more than one only at rates above one a tick."""
    return max(1, math.ceil(budget.network.rate * budget.clock.tick_ms / 1000))


def _affordable_messages(motes: int, rate: float, seeds: int) -> int:
    steps_per_message = (motes + 1) / (motes * rate) + 10 * motes
    affordable = (STEPS_FAST if IS_FAST else STEPS_PLAIN) / seeds / steps_per_message
    return int(min(MOST_MESSAGES, max(LEAST_MESSAGES, affordable)))


def compare(
    budget: Budget,
    tolerance: float = 0.0,
    figure: str = "mean",
    policies: Sequence[str] = POLICIES,
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
    for seed in range(effort.seed, effort.seed + effort.seeds):
        stream = generate(replace(options, seed=seed))
        for scheme, runs in found.items():
            assert isinstance(scheme, TimedScheme)
            runs.append(list(measure(stream, scheme, _deliveries(policies, tolerance))))
            advance()
    rows = [row for stamp in stamps for row in _rows(stamp, found[stamp.scheme])]
    arrival = next(row for row in rows if row.policy == "none")
    measured = tuple(row for row in rows if row.policy != "none")
    asked = [stamp for stamp in named_candidates(budget) if _asked(stamp, schemes)]
    named = tuple(_measure_named(asked, options, effort, tolerance, advance))
    return Comparison(measured, arrival, options, figure, tolerance, named, budget.clock.tick_ms)


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
        for seed in range(effort.seed, effort.seed + effort.seeds):
            run = generate(replace(world, seed=seed))
            runs.append(list(measure_rule(run, stamp.scheme, deliveries)))
            advance()
        yield from _rows(stamp, runs)


def steps_of(budget: Budget, effort: Effort) -> int:
    timed = {stamp.scheme for stamp in candidates(budget)}
    return effort.seeds * (len(timed) + len(named_candidates(budget)))


def _deliveries(policies: Sequence[str], tolerance: float) -> list[PolicyChoice]:
    """The policies to measure. Causal delivery is dapw at 100, so it is measured once, under the name asked for.

    The ledger is offered at the tolerance itself. At 0 it is causal delivery.
    """
    phis = {"cbd": PHIS, "dapw": PHIS[:-1] if "causal" in policies else PHIS, "causal": (100,)}
    asked = [policy for policy in POLICIES if policy in policies and policy in phis]
    ledger = LEDGER in policies and (tolerance or not asked)
    return [
        PolicyChoice("none", 100),
        *(PolicyChoice(policy, phi) for policy in asked for phi in phis[policy]),
        *([PolicyChoice(LEDGER, 100, tolerance)] if ledger else []),
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
                name: sum(w * f[name] for w, f in zip(weights, figures, strict=True)) for name in FIGURES
            },
            hold_mean=sum(w * one.hold_mean for w, one in zip(weights, same, strict=True)),
            hold_p95=max(one.hold_p95 for one in same),
            saturated=sum(one.saturated for one in same),
            bounded=sum(one.bounded for one in same),
            wrong_unwraps=sum(one.wrong_unwraps for one in same),
            tolerate=same[0].delivery.tolerate,
            mean_bits=sum(one.stamp_bits for one in same) / len(same),
        )


def worth_it(rows: Sequence[CandidateRow], figure: str) -> list[CandidateRow]:
    """The rows that no other row equals or beats in both violations and hold; the first of equal rows stays."""

    def beats(other: CandidateRow, row: CandidateRow) -> bool:
        violations, hold = other.violations[figure], other.hold_mean
        if violations > row.violations[figure] or hold > row.hold_mean:
            return False
        return violations < row.violations[figure] or hold < row.hold_mean or other.phi < row.phi

    return [row for row in rows if not any(beats(other, row) for other in rows)]


def simulate_command(comparison: Comparison, row: CandidateRow, hops: int) -> str:
    """The `basestation simulate` command that runs the first of these networks with this row's stamp and policy."""
    options, layout, usual = comparison.options, row.candidate.layout, WorldOptions()
    always = ("motes", "epsilon", "delta", "rate", "messages", "seed")
    given: dict[str, object] = {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name not in ("topology", *READINGS)
        and (field.name in always or getattr(options, field.name) != getattr(usual, field.name))
    }
    if row in comparison.named:
        given["messages"] = min(options.messages, NAMED_MESSAGES)
    given |= {"preset": "network"}
    given |= {"hops": hops} if hops > 1 else {}
    given |= {"scheme": layout.scheme}
    given |= {
        key: value for key, value in layout.settings.items() if key in ("entries", "count", "counter_bits")
    }
    if row.tolerate is not None:
        given |= {"tolerate": row.tolerate}
    elif row not in comparison.named:  # which are delivered by their own rules
        given |= {"policy": row.policy}
    given |= {"phi": row.phi} if row.policy in ("cbd", "dapw") else {}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in given.items()]
    return " ".join(["basestation simulate", *words])


def deployment_of(budget: Budget, row: CandidateRow, name: str, key: str = "site.key") -> Deployment:
    """The deployment with this stamp; `DeploymentError` if it is impossible. `key`: its file, where there is a MIC."""
    network, clock, layout = budget.network, budget.clock, row.candidate.layout
    stamp: dict[str, object] = {
        "scheme": layout.scheme,
        "packing": layout.packing,
        "events_per_tick": row.candidate.events_per_tick,
        "receipts": network.receipts,
    }
    stamp |= layout.settings
    tables = {
        "network": {
            "name": name,
            "board": network.board,
            "motes": network.motes,
            "tinyos": network.tinyos,
            "hops": network.hops,
            "data_bytes": network.data_bytes,
        },
        "clock": {"tick_log2": clock.tick_log2, "epsilon": clock.epsilon, "delta": clock.delta}
        | ({"clock_bits": layout.clock_bits} if network.late_ms else {}),
        "stamp": stamp,
        "observer": {"policy": row.policy, "phi": row.phi}
        | ({} if row.tolerate is None else {"tolerate": row.tolerate}),
        **({"security": {"mic": network.mic, "key": key}} if network.mic else {}),
        **(
            {
                "radio": {
                    "period_ms": network.period_ms,
                    "window_ms": network.window_ms,
                    "urgent_ms": network.urgent_ms,
                }
            }
            if network.period_ms
            else {}
        ),
    }
    return deployment.from_dict(tables)
