"""Hostile frames for the Python decoder and for whole stations: no exception, no message twice, every byte counted.

Two kinds of pieces take turns. The decoder gets lines of noise, cut and changed frames; its quick reading must give
what the plain definitions give. A station gets the line of a simulated run in which frames are lost, doubled, replayed,
put in another order, changed, and joined by frames that somebody made up who knows the layout.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from basestation.arrivals import Arrival, Gap, Line
from basestation.live.happenings import Arrived, Delivered, Discarded, Happening
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from basestation.sources.base import Spec
from basestation.sources.simulate import world_of
from basestation.views.lines import row_of, summary
from basestation.views.ndjson import to_plain
from packet_formats.deployment import Deployment
from packet_formats.fast_read import MessageReader, read_packet
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import RECORDS, members
from packet_formats.schemes import names
from packet_formats.tinyos import ActiveMessage, PacketError, decode_packet, encode_packet
from tests.firmware.cores import described
from tests.soak.running import Piece, Search, draw_of

AIM = 10_000_000
FRAMES = 5_000  # of a piece
MESSAGES = 300  # of a simulated run


# ---- What is sent ----


@cache
def runs() -> list[tuple[str, Deployment, list[bytes]]]:
    """A simulated run of each scheme: its deployment, and the packets of its line."""
    found = []
    for number, name in enumerate(names()):
        deployment = described(
            7, 3, 32, {"scheme": name, "receipts": number % 2}, motes=4, data_bytes=2, tinyos=1 + number % 2
        )
        world = world_of(Spec.parse(f"simulate@?messages={MESSAGES}"), deployment)
        line = serial_line(trace_of(generate(world), deployment))
        decoder = FrameDecoder()
        found.append((name, deployment, [packet for _, raw in line for packet in decoder.feed(raw)]))
    return found


def forged(draw: random.Random, layout: DataLayout, motes: int) -> bytes:
    """A frame by somebody who knows the layout: any record or data message, with any values."""
    if draw.random() < 0.5:
        record = draw.choice(RECORDS)
        values = {
            one.name: draw.choice((draw.choice(one.range), one.range[0], one.range[-1]))
            for one in members(record)
        }
        return encode_packet(encode_message(record(**values), layout))
    payload = draw.randbytes(draw.choice(list(layout.items_in)))
    if draw.random() < 0.8:  # one of the motes
        payload = (
            draw.randrange(motes).to_bytes(layout.source_bytes, layout.byteorder)
            + payload[layout.source_bytes :]
        )
    source = 5 if layout.tinyos == 2 else None
    return encode_packet(ActiveMessage(layout.tinyos, 0xFFFF, layout.group, layout.am_type, payload, source))


def changed(draw: random.Random, packet: bytes) -> bytes:
    raw = bytearray(packet)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    return bytes(raw)


def stormy(draw: random.Random, packets: list[bytes], layout: DataLayout, motes: int) -> Iterator[bytes]:
    """The packets of a line, as somebody who wants to do harm, and a bad day, make them."""
    kept: list[bytes] = []
    late: list[bytes] = []
    harm = draw.choice((0.02, 0.1, 0.4))
    for packet in packets:
        kept.append(packet)
        if draw.random() >= harm:
            yield packet
        else:
            match draw.randrange(8):
                case 0:
                    pass  # lost
                case 1:
                    yield from (packet, packet)
                case 2:
                    yield from (packet, draw.choice(kept))  # replayed
                case 3:
                    late.append(packet)
                case 4:
                    yield changed(draw, packet)
                case 5:
                    yield packet[: draw.randrange(len(packet) + 1)]
                case 6:
                    yield from (packet, *(forged(draw, layout, motes) for _ in range(draw.randrange(1, 6))))
                case _:
                    yield draw.randbytes(draw.randrange(60))
        if late and draw.random() < 0.2:
            yield late.pop(draw.randrange(len(late)))


# ---- The decoder ----


def outcome(read: Callable[[bytes], Any], packet: bytes) -> object:
    try:
        return read(packet)
    except PacketError as error:
        return str(error)


def line_bytes(draw: random.Random, packets: list[bytes]) -> bytes:
    """Frames on a line that is not always good."""
    raw = bytearray(b"".join(map(encode_frame, packets)))
    for _ in range(draw.choice((0, 1, 5, len(raw) // 20))):
        place = draw.randrange(len(raw))
        match draw.randrange(4):
            case 0:
                raw[place] ^= 1 << draw.randrange(8)
            case 1:
                del raw[place : place + draw.randrange(20)]
            case 2:
                raw[place:place] = draw.randbytes(draw.randrange(20))
            case _:
                raw[place:place] = bytes([draw.choice((0x7E, 0x7D))]) * draw.randrange(1, 4)
        if not raw:
            break
    return bytes(raw)


def decode(draw: random.Random, count: int) -> tuple[int, list[str]]:
    """So many packets through the decoder, quickly and plainly; how many, and where they differ."""
    done, faults = 0, []
    while done < count:
        name, deployment, packets = draw.choice(runs())
        layout, reader = layout_of(deployment), MessageReader(layout_of(deployment))
        some = list(stormy(draw, draw.choices(packets, k=30), layout, deployment.network.motes))
        raw, decoder = line_bytes(draw, [packet for packet in some if len(packet) > 1]), FrameDecoder()
        found: list[bytes] = []
        for piece in cut(draw, raw):
            found += decoder.feed(piece)
        if found != FrameDecoder().feed(raw):
            faults.append(f"{name}: {raw.hex()} reads otherwise in pieces")
        for packet in found + some:
            done += 1
            quick, plain = outcome(read_packet, packet), outcome(decode_packet, packet)
            if quick != plain:
                faults.append(f"{name}: packet {packet.hex()}: {quick} instead of {plain}")
            elif isinstance(quick, ActiveMessage) and reader.read(quick) != decode_message(quick, layout):
                faults.append(f"{name}: message {packet.hex()} is read in two ways")
    return done, faults


def cut(draw: random.Random, raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        size = draw.choice((1, 3, 50, 1000))
        yield raw[at : at + size]
        at += size


# ---- Stations ----


def lines(draw: random.Random, packets: Iterator[bytes]) -> Iterator[Line]:
    """Packets as they come up lines of one or two gateways, which now and then are lost, by a wall clock that jumps."""
    mono, wall, gateways = 10**9, 1_700_000_000 * 10**9, draw.choice((1, 2))
    for packet in packets:
        step = draw.choice((0, 1, 10**5, 10**7, 10**7)) if draw.random() < 0.999 else draw.randrange(10**12)
        mono += step
        wall += step if draw.random() < 0.999 else draw.randrange(-(10**12), 10**12)
        gateway = draw.randrange(gateways)
        if draw.random() < 0.002:
            yield Gap(gateway, mono, wall, False, "lost")
            yield Gap(gateway, mono, wall, True, "")
        yield Arrival(gateway, mono, wall, packet)


def observe(draw: random.Random, count: int) -> tuple[str, int, list[str]]:
    """A station on a hostile line: which scheme, how many lines it took, and what was wrong."""
    name, deployment, packets = draw.choice(runs())
    layout, station = layout_of(deployment), Station(deployment)
    start = draw.randrange(len(packets))
    line = packets[start:] + packets[:start]
    books, done, faults = Books(layout), 0, []
    try:
        for one in lines(draw, stormy(draw, (line * 40)[:count], layout, deployment.network.motes)):
            done += 1
            for happening in station.take(one):
                books.take(happening)
            if done % 500 == 0:
                station.snapshot(one.mono_ns)
        for happening in station.finish():
            books.take(happening)
        list(summary(station.snapshot(station.timeline.mono_ns)))
        faults += books.faults
        if books.delivered + books.discarded != books.arrived:
            faults.append(
                f"{books.arrived} arrived, {books.delivered} delivered, {books.discarded} discarded"
            )
    except Exception as error:
        faults.append(f"line {done}: {error!r}")
    return name, done, [f"{name}: {fault}" for fault in faults]


class Books:
    """What a station told of: each message leaves once, after it came, and everything can be shown."""

    def __init__(self, layout: DataLayout) -> None:
        self.arrived = self.delivered = self.discarded = 0
        self.faults: list[str] = []
        self._layout = layout
        self._left: set[int] = set()

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Arrived):
            self.arrived += isinstance(happening.message, Data) and not happening.copy
        elif isinstance(happening, Delivered):
            self.delivered += 1
            if happening.number in self._left or happening.number > self.arrived:
                self.faults.append(f"{happening.name} left twice, or before it came")
            self._left.add(happening.number)
        self.discarded += isinstance(happening, Discarded)
        row_of(happening, self._layout)
        json.dumps(to_plain(happening, self._layout), default=str)


def piece(number: int, frames: int = FRAMES) -> Piece:
    draw = draw_of("py_fuzz", number)
    if number % 2:
        name, done, faults = observe(draw, frames)
        return Piece(
            f"station, {name}", {"executions": done}, [f"piece {number}: {fault}" for fault in faults]
        )
    done, faults = decode(draw, frames)
    return Piece("decoder", {"executions": done}, [f"piece {number}: {fault}" for fault in faults])


SEARCH = Search("py_fuzz", "executions", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
