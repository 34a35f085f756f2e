"""Compares schemes on several runs and networks: one task for each scheme and stream.

A `Spread` applies a function to many tasks. It is `map` in this process, or `Engine.each` of `spark_jobs` on many cores
or on Spark; the rows are the same. Each worker makes or reads the streams that it plays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from basestation.simulator.options import WorldOptions
from basestation.simulator.simulation import world_for
from basestation.traces.files import TraceError

from .catalogue import Terms, build
from .comparison import (
    ComparisonRow,
    KnownStream,
    SweepPoint,
    Trial,
    attempt,
    place_of,
    seeded,
    simulated,
    summed,
)

Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Applies a function to many tasks: `map`, or `Engine.each` of `spark_jobs`."""


class StreamSource(Protocol):
    """A stream's description, which a worker turns into the stream; `TraceError` gives the reason if it can't."""

    def network(self) -> WorldOptions: ...
    def stream(self, scheme: str) -> KnownStream: ...


@dataclass(frozen=True, slots=True)
class Simulated:
    options: WorldOptions

    def network(self) -> WorldOptions:
        return self.options

    def stream(self, scheme: str) -> KnownStream:
        return _simulated(world_for(self.options, scheme))


@lru_cache(maxsize=2)
def _simulated(options: WorldOptions) -> KnownStream:
    """A worker plays several schemes on a network, which has two worlds at most (`world_for`)."""
    return simulated(options)


@dataclass(frozen=True, slots=True)
class Spot:
    """A row of the comparison: a recorded run, or a network with one stream for each seed."""

    run: str | None
    place: SweepPoint
    sources: tuple[StreamSource, ...]


def network_spot(options: WorldOptions, seeds: int) -> Spot:
    return Spot(None, place_of(options), tuple(map(Simulated, seeded(options, seeds))))


@dataclass(frozen=True, slots=True)
class Compared:
    """A spot with a row for each scheme, or with the fault of its run."""

    spot: Spot
    rows: list[ComparisonRow]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class CompareTask:
    """One scheme on one stream."""

    source: StreamSource
    scheme: str
    terms: Terms


def take(task: CompareTask) -> Trial | str:
    """A trial, or the reason for its failure: the other streams are still compared."""
    try:
        return attempt(task.source.stream(task.scheme), task.scheme, task.terms)
    except TraceError as fault:
        return str(fault)


def check(spots: Iterable[Spot], names: Sequence[str], terms: Terms) -> None:
    """Refuse, before the work begins, options with which no scheme can be built."""
    for spot in spots:
        try:
            network = spot.sources[0].network()
        except TraceError:
            continue  # a fault of this run only, reported with its name
        for name in names:
            build(name, network, terms).rule()


def compare(
    spots: Sequence[Spot], names: Sequence[str], terms: Terms, spread: Spread = map
) -> Iterator[Compared]:
    """Compare the schemes at each spot, and yield the spots in their order, each as soon as it is done.

    The largest networks start first, so that no worker waits at the end.
    """
    tasks = {
        (at, seed, name): CompareTask(source, name, terms)
        for at, spot in enumerate(spots)
        for seed, source in enumerate(spot.sources)
        for name in names
    }
    begun = sorted(tasks, key=lambda key: -spots[key[0]].place.motes)
    waits = [{key for key in tasks if key[0] == at} for at in range(len(spots))]
    outcomes: dict[tuple[int, int, str], Trial | str] = {}
    ready = 0
    for key, outcome in zip(begun, spread(take, [tasks[key] for key in begun]), strict=True):
        outcomes[key] = outcome
        waits[key[0]].discard(key)
        while ready < len(spots) and not waits[ready]:
            mine = {k[1:]: outcomes.pop(k) for k in tasks if k[0] == ready}
            yield _compared(spots[ready], names, mine)
            ready += 1


def _compared(spot: Spot, names: Sequence[str], outcomes: dict[tuple[int, str], Trial | str]) -> Compared:
    for outcome in outcomes.values():
        if isinstance(outcome, str):
            return Compared(spot, [], outcome)
    trials = {key: one for key, one in outcomes.items() if isinstance(one, Trial)}
    return Compared(
        spot,
        [summed(spot.place, name, [one for (_, n), one in trials.items() if n == name]) for name in names],
    )


def measure_network(
    options: WorldOptions, names: Sequence[str], terms: Terms, seeds: int
) -> list[ComparisonRow]:
    """Measure every scheme on the same streams, one stream a seed; `world_for` knows which schemes need another one."""
    (found,) = compare([network_spot(options, seeds)], names, terms)
    return found.rows
