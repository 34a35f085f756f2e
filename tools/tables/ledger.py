"""Whether the ledger keeps its promise: some minutes.

Ten motes send four messages a second of each, all hear one another, and copies have delays of three kinds: steady;
bursty, where a second of long delays and heavy loss comes twice a minute; changing, where all delays grow fourfold and
fall again every eighty seconds. Every message is judged by the true happened-before.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import chain, product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.student import reach
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.stream import RECEIVE, SEND, Stream
from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulation import (
    Measurement,
    SimulatedRun,
    build_named,
    build_scheme,
    measure,
    measure_rule,
)
from tools.pages import table

from . import Workload, results

FIRST_SEED, MESSAGES = 101, 60_000
MOTES, EPSILON, DELTA = 10, 3, 32
TICK_MS = 3.90625
RATE = 1 / 64  # messages a tick of each mote: four a second
LOSS = 0.05
MEDIAN, SPREAD = 1.5, 0.79  # ticks, lognormal: 9.5 at the 99th percentile
BURST, BETWEEN, SLOWER, BURST_LOSS = 256, 7680, 6.0, 0.3  # ticks, ticks, times, share
REGIME, FOURFOLD = 20_480, 4.0  # ticks, times
WIDTH = 120  # of lines in documents
LAWS = ("steady", "bursty", "changing")
TARGETS = (0.1, 0.5, 1.0)
SCHEMES = ("shlc", "barrier")

Floats = NDArray[np.float64]


class Point(NamedTuple):
    """One run: the share of messages that were in a violation, in per cent, and the mean hold in ticks."""

    law: str
    scheme: str
    seed: int
    tolerate: float
    share: float
    hold: float


def stream_of(law: str, messages: int, seed: int, motes: int = MOTES, loss: float = LOSS) -> Stream:
    """A network whose delays follow a law. Clocks wander, and any two differ by at most epsilon (G1)."""
    random = np.random.default_rng([seed, LAWS.index(law)])
    sent = np.sort(random.uniform(0, messages / (motes * RATE), messages))
    mote = random.integers(0, motes, messages)
    delays, lost = _copies(law, sent, (len(sent), motes + 1), loss, random)
    phase = random.uniform(0, 2 * np.pi, motes + 1)
    sent_at = _clock(sent, mote, phase)
    index = np.empty(messages, np.int64)
    for one in range(motes):
        index[mote == one] = 1 + np.arange(np.count_nonzero(mote == one))
    message, receiver = np.nonzero(~lost)
    at = sent[message] + delays[message, receiver]
    read = _clock(at, receiver, phase)
    peers = (receiver < motes) & (receiver != mote[message])
    events = np.concatenate(
        [
            np.column_stack([np.full(messages, SEND), mote, sent_at, np.arange(messages)]),
            np.column_stack([np.full(peers.sum(), RECEIVE), receiver[peers], read[peers], message[peers]]),
        ]
    )
    events = events[np.argsort(np.concatenate([sent, at[peers]]), kind="stable")]
    observed = np.flatnonzero(receiver == motes)
    observed = observed[np.argsort(at[observed], kind="stable")]
    batch = np.arange(len(observed))
    arrivals = np.column_stack([message[observed], read[observed], batch, np.zeros_like(batch)])
    return Stream.from_tables(motes, np.column_stack([mote, index, sent_at]), events, arrivals)


def _copies(
    law: str, sent: Floats, shape: tuple[int, int], loss: float, random: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """The delay of each message's copy to each mote, and last to the observer; and which copies are lost."""
    times, lost = np.ones(len(sent)), np.full(len(sent), loss)
    if law == "bursty":
        begins = np.cumsum(random.exponential(BETWEEN, int(2 * sent[-1] / BETWEEN) + 10))
        last = np.searchsorted(begins, sent) - 1
        inside = (last >= 0) & (sent < begins[last] + BURST)
        times, lost = np.where(inside, SLOWER, times), np.where(inside, BURST_LOSS, lost)
    elif law == "changing":
        times = np.where(sent // REGIME % 2 == 1, FOURFOLD, times)
    delays = MEDIAN * times[:, None] * np.exp(SPREAD * random.standard_normal(shape))
    return delays, (random.random(shape) < lost[:, None]) | (delays > DELTA)


def _clock(time: Floats, process: NDArray[np.int64], phase: Floats) -> NDArray[np.int64]:
    """What the process's clock reads: it swings slowly by (epsilon - 1) / 2 ticks around the true time."""
    swing = (EPSILON - 1) / 2 * np.sin(time / 10_000 + phase[process])
    return np.floor(time + EPSILON + swing).astype(np.int64)


def points_of(law: str, messages: int, seed: int) -> list[Point]:
    options = WorldOptions(motes=MOTES, epsilon=EPSILON, delta=DELTA, rate=RATE, messages=messages, seed=seed)
    stream = stream_of(law, messages, seed)
    run = SimulatedRun(options, stream, engine.vector_clocks(stream))
    ledgers = [PolicyChoice("ledger", 100, share) for share in TARGETS]
    rows: list[Measurement] = list(
        measure(run, build_scheme(options, "shlc"), [PolicyChoice("cbd", 100), *ledgers])
    )
    rows += measure_rule(run, build_named(options, "barrier"), [PolicyChoice("barrier", 100), *ledgers])
    return [_point(law, row) for row in rows]


def _point(law: str, row: Measurement) -> Point:
    share = 100 * row.violations.any / row.delivered
    return Point(law, row.scheme.name, row.seed, row.delivery.tolerate or 0.0, share, row.hold_mean)


def lines(effort: Workload) -> Iterator[str]:
    seeds = range(FIRST_SEED, FIRST_SEED + (effort.seeds or 5))
    found = results(points_of, list(product(LAWS, [MESSAGES], seeds)), effort.processes)
    yield from table_of(list(chain.from_iterable(found)), MESSAGES)


def table_of(points: Sequence[Point], messages: int) -> Iterator[str]:
    seeds = sorted({point.seed for point in points})
    about = (
        f"{MOTES} motes, {RATE * 1000 / TICK_MS:g} messages a second of each, {100 * LOSS:g}% of copies lost; "
        f"ticks of {TICK_MS:.1f} ms, ε = {EPSILON}, δ = {DELTA}; {len(seeds)} seeds ({seeds[0]} to {seeds[-1]}) of "
        f"{messages} messages. Messages in a violation in %, with the 95% interval of the mean over seeds; hold in ms."
    )
    yield from textwrap.wrap(about, WIDTH)
    yield ""
    heads = ["stamp", "delays", "full wait: in a violation", "hold"]
    heads += [head for share in TARGETS for head in (f"tolerate {share:g}%", "hold")]
    rows = ([scheme, law, *_cells(points, scheme, law)] for scheme in SCHEMES for law in LAWS)
    yield from table(heads, rows)
    missed = [
        f"{scheme}, {law}, {share:g}%"
        for scheme in SCHEMES
        for law in LAWS
        for share in TARGETS
        if fmean(_shares(points, scheme, law, share)) > share
    ]
    yield ""
    yield (
        f"Missed (the mean is above the target): {'; '.join(missed)}." if missed else "No target was missed."
    )


def _cells(points: Sequence[Point], scheme: str, law: str) -> Iterator[str]:
    for tolerate in (0.0, *TARGETS):
        shares = _shares(points, scheme, law, tolerate)
        missed = " (missed)" if fmean(shares) > tolerate else ""
        yield "0" if not any(shares) else f"{_interval(shares)}{missed}"
        yield f"{TICK_MS * fmean(p.hold for p in points if p[:2] == (law, scheme) and p.tolerate == tolerate):.1f}"


def _shares(points: Sequence[Point], scheme: str, law: str, tolerate: float) -> list[float]:
    return [p.share for p in points if p[:2] == (law, scheme) and p.tolerate == tolerate]


def _interval(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f} ± {reach(values):.3f}"
