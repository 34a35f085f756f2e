"""How fast the live base station is, from a line's bytes to deliveries with the journal written; and how punctual."""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from basestation.arrivals import Arrival
from basestation.journal.writer import SYNCS, JournalWriter, Sync
from basestation.live.happenings import Delivered, Happening
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, build_scheme, generate
from basestation.sources import SourceOptions, open_source
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.schemes import descriptor

from .journal import BYTES_PER_SECOND, Rate

MESSAGES, FEW = 5000, 200  # few where each frame waits for the disk
MOTES, SECONDS = 10, 20.0
STORED = Path(__file__).with_name("station_ratios.json")
SLOWER = 0.9  # of a stored ratio: noise of the machine does not explain less
ROUNDS = 9


class Punctuality(NamedTuple):
    """How much later than its deadline a message left, in ms, on an otherwise idle base station."""

    deliveries: int
    p50: float
    p99: float
    worst: float


def bench() -> list[Rate]:
    """In frames a second, a message being two of them."""
    deployment, pieces = _line_of("shlc")
    decoder = FrameDecoder()
    packets = [packet for _, raw in pieces for packet in decoder.feed(raw)]
    on_line = sum(len(encode_frame(packet)) for packet in packets) / len(packets)
    tick_ns = int(deployment.clock.tick_seconds * 1e9)
    rates = [Rate("the line itself, at 57600 baud", BYTES_PER_SECOND / on_line)]
    rates.append(_work(pieces, deployment, tick_ns, None))
    for sync in SYNCS:
        rates.append(_work(pieces[: FEW if sync == "always" else None], deployment, tick_ns, sync))
    deployment, pieces = _line_of("barrier")
    rates.append(_work(pieces, deployment, tick_ns, None))
    return rates


class Pace(NamedTuple):
    """Frames that the station takes while the yardstick takes a thousand steps: when it was stored, and now."""

    what: str
    rate: float  # frames in a second of CPU
    stored: float
    ratio: float

    @property
    def is_slower(self) -> bool:
        return self.ratio < SLOWER * self.stored


def paces(rounds: int = ROUNDS) -> list[Pace]:
    """The station beside a yardstick of plain Python, in turns: the ratio holds on other machines, and under load."""
    stored = json.loads(STORED.read_text())
    lines = {scheme: _line_of(scheme) for scheme in stored}
    found: dict[str, list[tuple[float, float]]] = {scheme: [] for scheme in stored}
    for _ in range(rounds + 1):
        for scheme, (deployment, pieces) in lines.items():
            step, frame = _yardstick(), _cpu_of_a_frame(pieces, deployment)
            found[scheme].append((1 / frame, 1000 * step / frame))
    rates = {scheme: map(statistics.median, zip(*rows[1:], strict=True)) for scheme, rows in found.items()}
    return [Pace(scheme, rate, stored[scheme], ratio) for scheme, (rate, ratio) in rates.items()]


def store() -> None:
    """Keep the present ratios: after a change that is worth its time, or one that saves some."""
    kept = {pace.what: round(pace.ratio, 1) for pace in paces()}
    STORED.write_text(json.dumps(kept, indent=1) + "\n")


def _yardstick(steps: int = 4000) -> float:
    """Seconds of CPU for a step of what an interpreter does all day: make objects, look them up, order them."""
    gc.collect()
    kept: dict[int, Rate] = {}
    heap: list[tuple[int, int]] = []
    start = time.process_time()
    for step in range(steps):
        for key in range(step, step + 8):
            kept[key % 512] = Rate("step", step / (key + 1))
        heapq.heappush(heap, (step * 7919 % 1009, step))
        if len(heap) > 64:
            heapq.heappop(heap)
        sorted(kept[key % 512].per_second for key in range(step, step + 8))
    return (time.process_time() - start) / steps


def _cpu_of_a_frame(pieces: list[tuple[int, bytes]], deployment: Deployment) -> float:
    gc.collect()
    tick_ns = int(deployment.clock.tick_seconds * 1e9)
    decoder, station, frames = FrameDecoder(), Station(deployment), 0
    start = time.process_time()
    for tick, raw in pieces:
        for packet in decoder.feed(raw):
            station.take(Arrival(0, tick * tick_ns, tick * tick_ns, packet))
            frames += 1
    return (time.process_time() - start) / frames


def _line_of(scheme: str) -> tuple[Deployment, list[tuple[int, bytes]]]:
    """What the gateway of a simulated network sends, in ticks; the same sends for each scheme."""
    options = WorldOptions(motes=MOTES, messages=MESSAGES)
    build = build_scheme if descriptor(scheme).is_ordered else build_named
    deployment = deployment_for(options, build(options, scheme), "cbd", 100)
    return deployment, list(serial_line(trace_of(generate(options), deployment)))


def _work(pieces: list[tuple[int, bytes]], deployment: Deployment, tick_ns: int, sync: Sync | None) -> Rate:
    """Through deframer, journal, station; the journal in the working folder, since memory is not a disk."""
    with TemporaryDirectory(dir=".", prefix=".bench-") as place:
        journal = JournalWriter(Path(place) / "run", deployment, "bench", sync) if sync else None
        decoder, station, frames = FrameDecoder(), Station(deployment), 0
        start = time.perf_counter()
        for tick, raw in pieces:
            for packet in decoder.feed(raw):
                arrival = Arrival(0, tick * tick_ns, tick * tick_ns, packet)
                number = 0 if journal is None else journal.append(arrival)
                station.take(arrival)
                if journal is not None and station.decision is not None:
                    journal.append_decision(number, arrival, station.decision)
                frames += 1
        took = time.perf_counter() - start
        if journal is not None:
            journal.close()
    what = f"read, journal (sync {sync}), observe, deliver" if sync else "read, observe, deliver"
    return Rate(f"{deployment.stamp.scheme}: {what}", frames / took)


class Overdue:
    """A sink that keeps how late deliveries were."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered) and happening.in_sync:
            self.ms.append(happening.overdue_ms)

    def close(self) -> None:
        pass


def punctuality(seconds: float = SECONDS) -> Punctuality:
    """A simulated network in real time, 30 messages a second: about a quarter of what the line carries."""
    options = WorldOptions(motes=MOTES)
    deployment = deployment_for(options, build_scheme(options, "shlc"), "cbd", 100)
    rate = 3 * deployment.clock.tick_seconds
    text = f"simulate@?messages={int(60 * seconds)}&rate={rate:.6f}&pace=1"
    source = open_source(text, 0, SourceOptions(deployment=deployment))
    sink = Overdue()
    with (
        TemporaryDirectory(dir=".", prefix=".bench-") as place,
        JournalWriter(Path(place) / "run", deployment, "bench") as journal,
    ):
        asyncio.run(Runner(Station(deployment), [source], [sink], journal).run(seconds))
    late = sorted(sink.ms)
    return Punctuality(len(late), quantile(late, 0.5), quantile(late, 0.99), late[-1])


def quantile(ordered: list[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]
