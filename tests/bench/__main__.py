"""`make bench`: kernels beside the plain objects, bulk decoding beside construct, measured side by side in one run.

Figures in messages a second depend on the machine; the ratios hold. Both sides of a ratio give the same answers, as the
tests say; each is timed as the best of a few rounds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from basestation.simulator import fast, plain
from basestation.simulator.options import WorldOptions
from basestation.simulator.run import build_scheme, generate
from basestation.simulator.trace import deployment_for, trace_of
from basestation.testbed.engine import EngineError
from basestation.testbed.images import ImageError
from packet_formats import bulk
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.tinyos import BROADCAST, ActiveMessage, decode_packet, encode_packet
from spark_jobs.session import JobError
from tests.bench import analysis, journal, station, testbed

MANY, FEW = 500_000, 5_000  # messages for the kernels and for the objects


@dataclass(frozen=True)
class Row:
    """One comparison: what, messages a second plain and fast."""

    what: str
    plain: float
    fast: float

    @property
    def ratio(self) -> float:
        return self.fast / self.plain


def rate(work: Callable[[], Any], messages: int, rounds: int = 3) -> float:
    """Messages a second, the best of some rounds; the first call, which may compile, is not counted."""
    work()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return messages / best


def bench_simulation(motes: int) -> list[Row]:
    many, few = (WorldOptions(motes=motes, messages=count) for count in (MANY, FEW))
    big, small = fast.generate(many), fast.generate(few)
    rows = [
        Row(
            "simulator",
            rate(lambda: plain.generate(few), FEW, 1),
            rate(lambda: fast.generate(many), MANY),
        ),
        Row(
            "vector clocks",
            rate(lambda: plain.vector_clocks(small), FEW, 1),
            rate(lambda: fast.vector_clocks(big), MANY),
        ),
    ]
    for name in ("kn", "shlc"):
        scheme = build_scheme(many, name)
        stamps_big, stamps_small = fast.stamp(big, scheme), fast.stamp(small, scheme)
        seen_big = fast.observe(big, stamps_big, scheme)
        seen_small = fast.observe(small, stamps_small, scheme)
        ranked = fast.rank(big, seen_big)
        rows.append(
            Row(
                f"{name}: stamping",
                rate(lambda s=scheme: plain.stamp(small, s), FEW, 1),
                rate(lambda s=scheme: fast.stamp(big, s), MANY),
            )
        )
        for policy in ("dapw", "cbd"):
            objects = rate(
                lambda s=scheme, o=seen_small, p=policy: plain.deliver(small, o, s, p, 40), small.arrivals, 1
            )
            whole = rate(lambda s=scheme, o=seen_big, p=policy: fast.deliver(big, o, s, p, 40), big.arrivals)
            rows.append(Row(f"{name}: {policy}, ordering included", objects, whole))
            kernel = rate(
                lambda s=scheme, o=seen_big, p=policy, r=ranked: fast.deliver(big, o, s, p, 40, ranked=r),
                big.arrivals,
            )
            rows.append(Row(f"{name}: {policy}, ordered before", objects, kernel))
    truth_big, truth_small = fast.vector_clocks(big), fast.vector_clocks(small)
    rows.append(
        Row(
            "counting violations",
            rate(lambda: plain.violations(small, truth_small, small.arrival_message), small.arrivals, 1),
            rate(lambda: fast.violations(big, truth_big, big.arrival_message), big.arrivals),
        )
    )
    return rows


def bench_decoding() -> list[Row]:
    options = WorldOptions(messages=100_000)
    deployment = deployment_for(options, build_scheme(options, "kn"), "cbd", 100)
    layout = layout_of(deployment)
    payloads = trace_of(generate(options), deployment).messages["payload"].to_pylist()
    frames = [ActiveMessage(1, BROADCAST, layout.group, layout.am_type, payload) for payload in payloads]
    packets = [encode_packet(frame) for frame in frames]
    matrix = bulk.np.frombuffer(b"".join(payloads), bulk.np.uint8).reshape(len(payloads), -1)

    def one_by_one() -> None:
        for packet in packets[:FEW]:
            decode_message(decode_packet(packet), layout)

    construct = rate(one_by_one, FEW, 1)
    return [
        Row(
            "decode packets",
            construct,
            rate(lambda: bulk.decode_data(bulk.Frames.of_packets(packets, 1), layout), len(packets)),
        ),
        Row(
            "decode payloads (Parquet)",
            construct,
            rate(lambda: bulk.decode_data(bulk.Frames.of_payloads(matrix, layout), layout), len(packets)),
        ),
    ]


def testbed_paces() -> list[testbed.Pace]:
    """None, and why on standard error, on a machine that cannot run it."""
    try:
        return list(testbed.bench())
    except (EngineError, ImageError) as error:
        print(f"the testbed is left out: {error}", file=sys.stderr)
        return []


def analysis_paces() -> list[analysis.Pace]:
    """The same for a machine without Java; `--growth` takes longer traces as well."""
    try:
        paces = list(analysis.bench())
        return paces + list(analysis.growth()) if "--growth" in sys.argv[1:] else paces
    except (ImportError, JobError) as error:
        print(f"the analysis is left out: {error}", file=sys.stderr)
        return []


def _print_rates(what: str, rates: list[journal.Rate]) -> None:
    table = Table("what", title=f"{what}: frames a second, one core")
    table.add_column("rate", justify="right")
    for rate_ in rates:
        table.add_row(rate_.what, f"{rate_.per_second:,.0f}")
    Console().print(table)


def main() -> None:
    results = {
        "simulation, 10 motes": bench_simulation(10),
        "simulation, 50 motes": bench_simulation(50),
        "the wire, all kn entries": bench_decoding(),
    }
    if "--json" in sys.argv[1:]:
        for part, rows in results.items():
            for row in rows:
                line = {
                    "part": part,
                    "what": row.what,
                    "plain": row.plain,
                    "fast": row.fast,
                    "ratio": row.ratio,
                }
                print(json.dumps(line))
        for rate_ in journal.bench():
            print(json.dumps({"part": "the journal", "what": rate_.what, "rate": rate_.per_second}))
        for rate_ in station.bench():
            print(json.dumps({"part": "the base station", "what": rate_.what, "rate": rate_.per_second}))
        print(json.dumps({"part": "overdue, ms", **station.punctuality()._asdict()}))
        for pace in testbed_paces():
            print(json.dumps({"part": "the testbed", "motes": pace.motes, "rate": pace.per_second}))
        for found in analysis_paces():
            print(json.dumps({"part": "the analysis", **asdict(found)}))
        return
    for part, rows in results.items():
        table = Table(title=f"{part}: messages a second, one core")
        table.add_column("what")
        for name in ("plain", "fast", "ratio"):
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(row.what, f"{row.plain:,.0f}", f"{row.fast:,.0f}", f"{row.ratio:,.0f}")
        Console().print(table)
    _print_rates("the journal", journal.bench())
    _print_rates("the live base station", station.bench())
    late = station.punctuality()
    print(
        f"{late.deliveries} deliveries in real time were late against their deadlines by {late.p50:.2f} ms (half), "
        f"{late.p99:.2f} ms (99%), {late.worst:.2f} ms (all)"
    )
    table = Table(
        "motes", title="the testbed: emulated seconds in a second, one core, one message a second each"
    )
    table.add_column("pace", justify="right")
    for pace in testbed_paces():
        table.add_row(str(pace.motes), f"{pace.per_second:.1f}")
    Console().print(table)
    table = Table("what", title="the analysis: million messages x configurations a second")
    for name in ("messages", "configurations", "seconds", "rate", "most MB of a worker"):
        table.add_column(name, justify="right")
    for found in analysis_paces():
        cells = (
            f"{found.messages:,}",
            str(found.configurations),
            f"{found.seconds:.1f}",
            f"{found.rate:.1f}",
        )
        table.add_row(found.what, *cells, str(found.peak_mb))
    Console().print(table)


if __name__ == "__main__":
    main()
