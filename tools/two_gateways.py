"""Measures order and hold with two gateways on the real firmware. `make gateways` runs it: some minutes.

    python -m tools.two_gateways [--write] [--seeds 5] [--processes 2]

Ten emulated motes with the stamp `barrier` are one hop from both gateways. Each gateway loses a share of what it could
hear. The station takes both lines with the run's own times (docs/reference/testbed.md). Prints a table in Markdown;
with --write it also goes into docs/evidence/station.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean, quantiles
from typing import NamedTuple

from basestation.testbed import topologies
from basestation.testbed.grid_run import run_on
from basestation.testbed.setup import Wish
from basestation.testbed.through_station import FieldRun, field_run
from packet_formats.deployment import load
from tools.pages import MarkedPlace, table

ROOT = Path(__file__).resolve().parents[1]
PLACE = MarkedPlace(
    ROOT / "docs" / "evidence" / "station.md",
    "<!-- table: made by `make gateways` -->",
    "<!-- end of the gateways -->",
)
MOTES, MESSAGES = 10, 1200


class Hearing(NamedTuple):
    """What each gateway hears, in per cent, and the messages a second of each mote."""

    gateways: int
    share: int
    rate: float


ROWS = (Hearing(1, 95, 4), Hearing(2, 95, 4), Hearing(2, 70, 0.5), Hearing(2, 70, 4))


def run(row: Hearing, seed: int) -> FieldRun:
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
        return field_run(events, network)


def cells(row: Hearing, runs: Sequence[FieldRun]) -> tuple[str, ...]:
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


def table_of(found: dict[Hearing, list[FieldRun]], seeds: int) -> Iterator[str]:
    yield f"{seeds} seeds a row, {MESSAGES:,} messages or more each."
    yield ""
    heads = [
        "gateways", "each hears", "messages/s a mote", "delivered", "after an effect", "mean hold, ms", "99%, ms",
        "left on arrival",
    ]  # fmt: skip
    yield from table(heads, (cells(row, runs) for row, runs in found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="into docs/evidence/station.md")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    jobs = [(row, seed) for row in ROWS for seed in range(1, given.seeds + 1)]
    found: dict[Hearing, list[FieldRun]] = {row: [] for row in ROWS}
    with ProcessPoolExecutor(given.processes) as pool:
        for (row, seed), done in zip(jobs, pool.map(run, *zip(*jobs, strict=True)), strict=True):
            found[row].append(done)
            print(f"{row}, seed {seed}: {cells(row, [done])}", file=sys.stderr, flush=True)
    text = "\n".join(table_of(found, given.seeds))
    print(text)
    if given.write:
        PLACE.write(text)


if __name__ == "__main__":
    main()
