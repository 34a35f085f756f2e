"""The kernels beside the plain objects, and bulk decoding beside construct.

Both sides of a ratio give the same answers, as the tests say; each is timed as the best of a few rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from basestation.simulator import engine
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from packet_formats import bulk
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.tinyos import BROADCAST, ActiveMessage, decode_packet, encode_packet
from tests.simulator import oracle

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
    big, small = engine.generate(many), engine.generate(few)
    rows = [
        Row(
            "vector clocks",
            rate(lambda: oracle.vector_clocks(small), FEW, 1),
            rate(lambda: engine.vector_clocks(big), MANY),
        ),
    ]
    for name in ("kn", "shlc"):
        scheme = build_scheme(many, name)
        stamps_big, stamps_small = engine.stamp(big, scheme), engine.stamp(small, scheme)
        seen_big = engine.observe(big, stamps_big, scheme)
        seen_small = engine.observe(small, stamps_small, scheme)
        ranked = engine.rank(big, seen_big)
        rows.append(
            Row(
                f"{name}: stamping",
                rate(lambda s=scheme: engine.stamp_by_objects(small, s), FEW, 1),
                rate(lambda s=scheme: engine.stamp(big, s), MANY),
            )
        )
        for policy in ("dapw", "cbd"):
            objects = rate(
                lambda s=scheme, o=seen_small, p=policy: oracle.deliver(small, o, s, p, 40),
                small.arrivals,
                1,
            )
            whole = rate(
                lambda s=scheme, o=seen_big, p=policy: engine.deliver(big, o, s, p, 40), big.arrivals
            )
            rows.append(Row(f"{name}: {policy}, ordering included", objects, whole))
            kernel = rate(
                lambda s=scheme, o=seen_big, p=policy, r=ranked: engine.deliver(big, o, s, p, 40, ranked=r),
                big.arrivals,
            )
            rows.append(Row(f"{name}: {policy}, ordered before", objects, kernel))
    truth_big, truth_small = engine.vector_clocks(big), engine.vector_clocks(small)
    rows.append(
        Row(
            "counting violations",
            rate(
                lambda: oracle.violations(small, truth_small, small.arrival_message),
                small.arrivals,
                1,
            ),
            rate(lambda: engine.violations(big, truth_big, big.arrival_message), big.arrivals),
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
