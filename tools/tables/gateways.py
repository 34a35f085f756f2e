"""Order and hold with two gateways on the real firmware: ten minutes.

Ten emulated motes with the stamp `barrier` are one hop from both gateways, each of which loses a share of its
frames. The station reads both lines at the run's own times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, quantiles
from typing import NamedTuple

from basestation.testbed import topologies
from basestation.testbed.setup import Wish
from packet_formats.deployment import load
from tools.grid_run import run_on
from tools.pages import table
from tools.station_run import StationRun, station_run

from . import ROOT, Workload, by_row

MOTES, MESSAGES, SEEDS = 10, 1200, 5


class Hearing(NamedTuple):
    """What each gateway hears, in per cent, and the messages a second of each mote."""

    gateways: int
    share: int
    rate: float


ROWS = (Hearing(1, 95, 4), Hearing(2, 95, 4), Hearing(2, 70, 0.5), Hearing(2, 70, 4))


def run(row: Hearing, seed: int) -> StationRun:
    deployment = load(ROOT / "examples" / "barrier.toml")
    deployment = replace(deployment, network=replace(deployment.network, hops=1))
    topology = topologies.grid(MOTES, row.gateways, hops=1)
    heard = {
        (mote, gateway): row.share / 100
        for mote in range(MOTES)
        for gateway in range(topology.motes, topology.places)
    }
    wish = Wish(seed=seed, seconds=10 + MESSAGES / MOTES / row.rate)
    with run_on(replace(topology, deliveries=heard), deployment, wish, row.rate) as (events, network):
        return station_run(events, network)


def cells(row: Hearing, runs: Sequence[StationRun]) -> tuple[str, ...]:
    holds = [held for one in runs for held in one.held_ms]
    wrong = sum(one.violations.backward for one in runs)
    at_once = 100 * sum(held == 0 for held in holds) / len(holds)
    return (
        str(row.gateways),
        f"{row.share}%",
        f"{row.rate:g}",
        f"{len(holds):,}",
        str(wrong),
        f"{fmean(holds):.1f}",
        f"{quantiles(holds, n=100)[98]:.0f}",
        f"{at_once:.0f}%",
    )


def lines(effort: Workload) -> Iterator[str]:
    yield f"{effort.seeds or SEEDS} seeds a row, {MESSAGES:,} messages or more each."
    yield ""
    heads = [
        "gateways", "each hears", "messages/s a mote", "delivered", "after an effect", "mean hold, ms", "99%, ms",
        "left on arrival",
    ]  # fmt: skip
    found = by_row(run, dict.fromkeys(ROWS, SEEDS), effort)
    yield from table(heads, (cells(row, runs) for row, runs in found))
