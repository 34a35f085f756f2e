"""How fast the journal is: appending under each sync policy, reading it back in bulk, and making tables of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from basestation.arrivals import Arrival
from basestation.journal.convert import trace_of
from basestation.journal.reader import JournalFault
from basestation.journal.writer import SYNCS, JournalWriter, Sync, read_journal
from basestation.live.deciding import decide
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for
from basestation.simulator.simulated_trace import trace_of as simulated_trace
from basestation.simulator.simulation import build_scheme, generate
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder, encode_frame

MESSAGES = 50_000
FEW = 1000  # frames where each waits for the disk
BYTES_PER_SECOND = 5760  # of a line at 57600 baud


class Rate(NamedTuple):
    what: str
    per_second: float


def bench() -> list[Rate]:
    """In frames a second; a message is two of them, its heard record and itself."""
    options = WorldOptions(messages=MESSAGES)
    deployment = deployment_for(options, build_scheme(options, "shlc"), "cbd", 100)
    trace = simulated_trace(generate(options), deployment)
    decoder = FrameDecoder()
    packets = [packet for _, line in serial_line(trace) for packet in decoder.feed(line)]
    on_line = sum(len(encode_frame(packet)) for packet in packets[:FEW]) / FEW
    rates = [Rate("the line itself, at 57600 baud", BYTES_PER_SECOND / on_line)]
    rates += [_append(packets if sync != "always" else packets[:FEW], sync) for sync in SYNCS]
    return rates + _read(packets, deployment)


@contextmanager
def _journal(
    packets: list[bytes], sync: Sync, deployment: Deployment | None = None
) -> Iterator[tuple[Path, float]]:
    """A journal of these frames, and how long it took; in the working folder, since memory is not a disk."""
    with TemporaryDirectory(dir=".", prefix=".bench-") as place:
        folder = Path(place) / "run"
        with JournalWriter(folder, deployment, "bench", sync) as journal:
            start = time.perf_counter()
            for i, packet in enumerate(packets):
                journal.append(Arrival(0, i, i, packet))
            took = time.perf_counter() - start
        yield folder, took


def _append(packets: list[bytes], sync: Sync) -> Rate:
    with _journal(packets, sync) as (_, took):
        return Rate(f"append, sync {sync}", len(packets) / took)


def _read(packets: list[bytes], deployment: Deployment) -> list[Rate]:
    with _journal(packets, "never", deployment) as (folder, _):
        decide(read_journal(folder), deployment, _refuse)
        start = time.perf_counter()
        found = sum(len(segment.records) for segment in read_journal(folder).segments(_refuse))
        read = time.perf_counter() - start
        start = time.perf_counter()
        table = trace_of(read_journal(folder), deployment, _refuse).messages
        made = time.perf_counter() - start
    assert found == len(packets)
    assert 2 * len(table) == len(packets)
    return [
        Rate("read in bulk, check sums included", found / read),
        Rate("read and make the table of messages", found / made),
    ]


def _refuse(fault: JournalFault) -> None:
    raise AssertionError(str(fault))
