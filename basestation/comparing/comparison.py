"""Measures each scheme on each network, in figures that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from basestation.causality.stream import Int32, Stream
from basestation.causality.violations import Violations
from basestation.simulator import engine
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.scheme_run import Played, play
from basestation.simulator.simulation import generate

from .catalogue import Terms, build

HEADER_BYTES = 3  # source, sequence, flags
PAYLOAD_BYTES = 29
DATA_BYTES = 4
MOST_MOTES = 239  # with a one-byte source id


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A point of a sweep: the network's settings that are varied."""

    motes: int
    epsilon: int
    delta: int
    rate: float | None
    loss: float | None


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """The result of one scheme on one network, summed over seeds. The hold is from arrival to delivery, in ticks.

    `violations_most` is an upper bound, where a field log does not show all causes. `unknown` messages arrived and are
    left out, since their causes are not known. `gave_up`: messages delivered without a cause that they named.
    `stuck`: held for ever. Times are of our Python.
    """

    place: SweepPoint
    scheme: str
    messages: int
    arrived: int
    violations: Violations
    hold_mean: float
    hold_p99: float
    hold_max: int
    late: int
    gave_up: int
    discarded: int
    concurrent: int
    stuck: int
    bits_mean: float
    bits_max: int
    mote_us: float
    observer_us: float
    unknown: int = 0
    violations_most: Violations | None = None

    @property
    def size(self) -> int:
        """The size of the largest stamp in whole bytes."""
        return -(-self.bits_max // 8)

    @property
    def mean_bytes(self) -> float:
        """The mean size in bytes; whole ones where all stamps have the same length."""
        return self.size if self.bits_mean == self.bits_max else self.bits_mean / 8

    @property
    def fits(self) -> bool:
        return self.size + HEADER_BYTES <= PAYLOAD_BYTES

    def to_dict(self) -> dict[str, Any]:
        """The row as `basestation compare --json` prints it."""
        place = self.place
        return {
            "scheme": self.scheme,
            "motes": place.motes,
            "epsilon": place.epsilon,
            "delta": place.delta,
            "rate": place.rate,
            "loss": place.loss,
            "messages": self.messages,
            "arrived": self.arrived,
            "unknown": self.unknown,
            "delivered": self.violations.delivered,
            "violations": self.violations.percent(),
            "violated_pairs": self.violations.pairs,
            **({"violations_most": self.violations_most.percent()} if self.violations_most else {}),
            "hold": {"mean": self.hold_mean, "p99": self.hold_p99, "max": self.hold_max},
            "late": self.late,
            "gave_up": self.gave_up,
            "discarded": self.discarded,
            "concurrent": self.concurrent,
            "stuck": self.stuck,
            "stamp_bits": {"mean": self.bits_mean, "max": self.bits_max},
            "stamp_bytes": self.size,
            "fits": self.fits,
            "microseconds": {"motes": self.mote_us, "observer": self.observer_us},
        }


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream with its causes, and its network. `most`: possible causes, where not all are known. `unknown` arrivals
    are left out, since their causes are not known."""

    stream: Stream
    vectors: Int32
    options: WorldOptions
    most: Int32 | None = None
    unknown: int = 0


def sweep(base: WorldOptions, axes: dict[str, Sequence[Any]]) -> list[WorldOptions]:
    """The networks with every combination of the values of all axes."""
    return [replace(base, **dict(zip(axes, values, strict=True))) for values in product(*axes.values())]


def seeded(options: WorldOptions, seeds: int) -> list[WorldOptions]:
    """The same network with `seeds` different seeds."""
    return [replace(options, seed=options.seed + i) for i in range(seeds)]


def simulated(options: WorldOptions) -> KnownStream:
    run = generate(options)
    return KnownStream(run.stream, run.vectors, run.options)


def place_of(options: WorldOptions) -> SweepPoint:
    return SweepPoint(options.motes, options.epsilon, options.delta, options.rate, options.loss)


def measure(place: SweepPoint, recorded: Sequence[KnownStream], name: str, terms: Terms) -> ComparisonRow:
    return summed(place, name, [attempt(one, name, terms) for one in recorded])


@dataclass(frozen=True, slots=True)
class Trial:
    """One scheme on one stream."""

    messages: int
    arrived: int
    violations: Violations
    played: Played
    most: Violations | None = None
    unknown: int = 0


def attempt(recorded: KnownStream, name: str, terms: Terms) -> Trial:
    stream = recorded.stream
    played = play(stream, build(name, recorded.options, terms))
    violations = engine.violations(stream, recorded.vectors, played.order)
    most = None if recorded.most is None else engine.violations(stream, recorded.most, played.order)
    return Trial(stream.messages, stream.arrivals, violations, played, most, recorded.unknown)


def summed(place: SweepPoint, name: str, trials: Sequence[Trial]) -> ComparisonRow:
    """The sum of the trials of one scheme at one point of a sweep."""
    played = [trial.played for trial in trials]
    sent = sum(trial.messages for trial in trials)
    hold = np.concatenate([result.hold for result in played])
    bits = np.concatenate([result.bits for result in played])
    return ComparisonRow(
        place=place,
        scheme=name,
        messages=sent,
        arrived=sum(trial.arrived for trial in trials),
        violations=_sum([trial.violations for trial in trials]),
        hold_mean=float(hold.mean()) if len(hold) else 0.0,
        hold_p99=float(np.percentile(hold, 99)) if len(hold) else 0.0,
        hold_max=int(hold.max(initial=0)),
        late=sum(result.late for result in played),
        gave_up=sum(result.gave_up for result in played),
        discarded=sum(result.discarded for result in played),
        concurrent=sum(result.concurrent for result in played),
        stuck=sum(result.stuck for result in played),
        bits_mean=float(bits.mean()) if len(bits) else 0.0,
        bits_max=int(bits.max(initial=0)),
        mote_us=1e6 * sum(result.mote_seconds for result in played) / max(sent, 1),
        observer_us=1e6 * sum(result.observer_seconds for result in played) / max(sent, 1),
        unknown=sum(trial.unknown for trial in trials),
        violations_most=_sum(most) if (most := [trial.most for trial in trials if trial.most]) else None,
    )


def _sum(found: Sequence[Violations]) -> Violations:
    names = ("delivered", "pairs", "backward", "forward", "any", "related_pairs")
    return Violations(*(sum(getattr(one, name) for one in found) for name in names))


def most_motes(name: str, options: WorldOptions, terms: Terms, data_bytes: int) -> int:
    """The largest network whose stamp fits beside the header and the data; 0 if none does, or its stamps grow."""
    if build(name, options, terms).grows:
        return 0
    room = 8 * (PAYLOAD_BYTES - HEADER_BYTES - data_bytes)
    fits = _fits(name, replace(options, topology=None), terms, room)
    low, high = 2, MOST_MOTES
    if not fits(low):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _fits(name: str, options: WorldOptions, terms: Terms, room: int) -> Callable[[int], bool]:
    def fits(motes: int) -> bool:
        try:
            scheme = build(name, replace(options, motes=motes), terms)
        except OptionError:
            return False
        return scheme.most_bits <= room

    return fits
