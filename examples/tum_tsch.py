"""Recordings of TUM's TSCH network (Vilgelm and others, SmartGridComm 2016): arrivals out of their senders' order.

    python -m examples.tum_tsch RECORDING [--out FOLDER]

A root wrote down each packet with the slot in which it was sent and the one in which it came, both of the network's one
clock, and its way. So the send slot is a perfect physical stamp, and one can see what each share of the longest delay
that was met would have mended. A line is 38 byte values and the root's time; other lines are named and left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import make_rule
from spark_jobs.result_files import write_rows
from spark_jobs.session import JobError, note

BYTES, HOPS, HOP_BYTES = 38, 6, 4
FIRST_HOP = 14
PHIS = (0, 20, 40, 60, 80, 100)


@dataclass(frozen=True, slots=True)
class Packet:
    """One arrival: slots of sending and arrival, and the motes that it came through, its sender first."""

    source: int
    sequence: int
    sent: int
    arrived: int
    way: tuple[int, ...]


def read(path: Path) -> tuple[list[Packet], list[str]]:
    """The packets in order of arrival, and what was wrong with the other lines."""
    packets, faults = [], []
    for number, line in enumerate(_lines(path), start=1):
        try:
            packets.append(_packet(line))
        except ValueError as error:
            faults.append(f"{path}: line {number}: {error}")
    return packets, faults


def _lines(path: Path) -> Iterator[str]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("ascii")
    except (EOFError, gzip.BadGzipFile) as error:
        raise JobError(f"{path}: a damaged gzip file: {error}") from None
    except UnicodeDecodeError as error:
        raise JobError(f"{path}: no recording of text lines, at byte {error.start}") from None
    yield from text.splitlines()


def _packet(line: str) -> Packet:
    values = json.loads(line.partition("\t")[0])
    if not isinstance(values, list) or len(values) != BYTES:
        raise ValueError(f"not {BYTES} byte values")
    raw = bytes(values)
    hops = [raw[at] for at in range(FIRST_HOP, BYTES, HOP_BYTES)]
    way = tuple(mote for mote in hops[:HOPS] if mote)
    if not way:
        raise ValueError("it names no sender")
    last, first = (int.from_bytes(raw[at : at + 5], "little") for at in (1, 6))
    return Packet(way[0], int.from_bytes(raw[11:13], "little"), first, last, way)


def out_of_order(packets: Sequence[Packet]) -> int:
    """Arrivals that were sent before the one that came last from the same source."""
    before: dict[int, int] = {}
    found = 0
    for packet in packets:
        found += packet.sent < before.get(packet.source, packet.sent)
        before[packet.source] = packet.sent
    return found


def held(packets: Sequence[Packet], phi: int) -> list[Packet]:
    """In order of delivery when each is held phi of the longest delay met, by its send slot."""
    delta = max((packet.arrived - packet.sent for packet in packets), default=0)
    rule = make_rule("dapw", phi, 0, delta)
    order: list[int] = []
    now = 0
    for number, packet in enumerate(packets):
        now = max(now, packet.arrived)
        order += [delivery.message.sequence for delivery in rule.due(now)]
        rule.receive(Message(packet.source, number, Stamp(packet.sent, 0, ())), now)
    order += [delivery.message.sequence for delivery in rule.due(now + delta + 2)]
    return [packets[number] for number in order]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tum_tsch", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recording", type=Path, help="a raw log, gzipped or not")
    parser.add_argument("--out", type=Path, help="write packets.parquet and packets.csv here")
    options = parser.parse_args(arguments)
    try:
        packets, faults = read(options.recording)
        if not packets:
            raise JobError(f"{options.recording}: no packet in it" + (f"; {faults[0]}" if faults else ""))
        if options.out:
            write_rows(options.out, "packets", packets)
    except (JobError, OSError) as error:
        note(f"tum_tsch: {error}")
        return 1
    for fault in faults:
        note(fault)
    print(json.dumps(_summary(packets)))
    return 1 if faults else 0


def _summary(packets: Sequence[Packet]) -> dict[str, object]:
    delays = sorted(packet.arrived - packet.sent for packet in packets)
    return {
        "packets": len(packets),
        "sources": len({packet.source for packet in packets}),
        "most_hops": max(len(packet.way) for packet in packets),
        "delay_slots": {"median": delays[len(delays) // 2], "max": delays[-1]},
        "out_of_order": out_of_order(packets),
        "out_of_order_held": {f"{phi}%": out_of_order(held(packets, phi)) for phi in PHIS},
    }


if __name__ == "__main__":
    sys.exit(main())
