"""Hostile frames for the Python decoder and for whole stations: no exception, no message twice, every byte counted.

Two kinds of pieces take turns, over all schemes, each without and with a key. The decoder gets lines of noise, cut and
changed frames; its quick reading must give what the plain definitions give. A station, with any policy that its scheme
allows, gets the line of a simulated run in which frames are lost, doubled, replayed, put in another order, changed, and
joined by frames that somebody made up who knows the layout; with a key also by frames of a mote that has the key and
lies. What a station with a key delivers must be by somebody who has it. Every fourth piece of a station also shows
everything that happens, as a row and as JSON: that takes as long as the station itself.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from basestation.arrivals import Arrival, Gap, Line
from basestation.live.happenings import Arrived, Delivered, Discarded, Happening
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from basestation.sources.base import Spec
from basestation.sources.simulated_source import world_of
from basestation.views.lines import row_of, summary
from basestation.views.ndjson import to_plain
from packet_formats.deployment import Deployment, from_dict
from packet_formats.fast_read import MessageReader, read_packet
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.keys import Key
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, Message, Unknown, decode_message, encode_message
from packet_formats.records import SEALED, Record, members, records_of
from packet_formats.schemes import LEDGER, descriptor, names, phi_refusal
from packet_formats.seal import Seal
from packet_formats.tinyos import ActiveMessage, PacketError, decode_packet, encode_packet
from tests.firmware.cores import described
from tests.soak.running import Piece, Search, draw_of

AIM = 10_000_000
FRAMES = 10_000  # of a piece
MESSAGES = 1_500  # of a simulated run
SHOWN = 4  # of four pieces of a station one shows everything
KEY = Key(bytes(range(16)))
SECURITY = {"mic": 4, "key": "site.key"}


# ---- What is sent ----


class Run(NamedTuple):
    """A simulated run: its scheme, its deployment, and the packets of its line."""

    scheme: str
    deployment: Deployment
    packets: list[bytes]

    @property
    def layout(self) -> DataLayout:
        return layout_of(self.deployment)

    @property
    def motes(self) -> int:
        return self.deployment.network.motes


@cache
def run_of(scheme: str, keyed: bool) -> Run:
    number = names().index(scheme)
    plain = described(
        7,
        3,
        32,
        {"scheme": scheme, "receipts": number % 2},
        motes=4,
        data_bytes=2,
        tinyos=1 + number // 2 % 2,
    )
    deployment = replace(from_dict(plain.to_dict() | {"security": SECURITY}), key=KEY) if keyed else plain
    world = world_of(Spec.parse(f"simulate@?messages={MESSAGES}"), deployment)
    decoder = FrameDecoder()
    line = serial_line(trace_of(generate(world), deployment))
    return Run(scheme, deployment, [packet for _, raw in line for packet in decoder.feed(raw)])


def any_run(draw: random.Random) -> Run:
    return run_of(draw.choice(names()), draw.random() < 0.5)


def any_policy(draw: random.Random, deployment: Deployment) -> Deployment:
    """The deployment with another policy that its scheme allows."""
    policy = draw.choice(descriptor(deployment.stamp.scheme).policies)
    phi = draw.choice((0, 50, 100)) if phi_refusal(policy) is None else 100
    tolerate = draw.choice((0.0, 5.0)) if policy == LEDGER else None
    return replace(
        deployment, observer=replace(deployment.observer, policy=policy, phi=phi, tolerate=tolerate)
    )


class Forger:
    """Somebody who knows the layout: any record or data message, with any values.

    In a network with a key half of his data messages have a right MIC: he took a mote. `sealed` remembers those.
    """

    def __init__(self, draw: random.Random, run: Run) -> None:
        self.sealed: set[Data] = set()
        self.now: tuple[int, int] = 0, 0  # epoch and cycles of the network's time
        self._draw, self._run, self._layout = draw, run, run.layout
        self._seal = Seal(run.deployment.key, run.layout) if run.deployment.key is not None else None

    def packet(self) -> bytes:
        if self._draw.random() < 0.5:
            return encode_packet(encode_message(self._record(), self._layout))
        return encode_packet(self._data())

    def _record(self) -> Record:
        draw, (type_, record) = self._draw, self._draw.choice(_kinds(self._layout.mic))
        values = {
            name: draw.choice((draw.choice(values), values[0], values[-1]))
            for name, values in _ranges(type_, self._layout.mic)
        }
        sealed = self._layout.mic and record in SEALED
        return record(**values, **({"mic": draw.randbytes(self._layout.mic)} if sealed else {}))

    def _data(self) -> ActiveMessage:
        return self._noise() if self._draw.random() < 0.5 else self._lie()

    def _noise(self) -> ActiveMessage:
        """A payload of a right length."""
        draw, layout = self._draw, self._layout
        payload = draw.randbytes(draw.choice(list(layout.items_in)))
        if draw.random() < 0.8:  # one of the motes
            mote = draw.randrange(self._run.motes)
            payload = mote.to_bytes(layout.source_bytes, layout.byteorder) + payload[layout.source_bytes :]
        source = 5 if layout.tinyos == 2 else None
        return ActiveMessage(layout.tinyos, 0xFFFF, layout.group, layout.am_type, payload, source)

    def _lie(self) -> ActiveMessage:
        """A message in which every value is allowed."""
        draw, layout = self._draw, self._layout
        fields = layout.stamp.fields_of(draw.choice(list(layout.items_in.values())))
        own = draw.randrange(self._run.motes), draw.randrange(256)
        received = [(draw.randrange(self._run.motes), draw.randrange(256)) for _ in range(layout.receipts)]
        message = Data(
            *own,
            tuple(draw.choice((draw.randint(0, field.top), 0, field.top)) for field in fields),
            in_sync=draw.random() < 0.9,
            saturated=draw.random() < 0.1,
            complete=draw.random() < 0.5,
            boot=draw.choice((0, 0, 0, draw.randrange(8))),
            receipts=tuple(one for one in received if one != own),  # it would read as an unused slot
            data=draw.randbytes(layout.data_bytes),
            mic=draw.randbytes(layout.mic),
        )
        if self._seal is None or draw.random() < 0.5:
            return encode_message(message, layout)
        frame = self._seal.sealed_data(replace(message, mic=b""), *self.now)
        self.sealed.add(_without_hops(decode_message(frame, layout)))
        return frame


def _without_hops(message: Message | Unknown) -> Data:
    """A data message but for what every relay changes."""
    assert isinstance(message, Data)
    return replace(message, hops=0)


@cache
def honest(scheme: str) -> frozenset[Data]:
    """What the motes of a run with a key sent."""
    run = run_of(scheme, True)
    frames = [packet for packet in map(decode_packet, run.packets) if isinstance(packet, ActiveMessage)]
    sent = [decode_message(frame, run.layout) for frame in frames if frame.type == run.layout.am_type]
    return frozenset(map(_without_hops, sent))


@cache
def _kinds(mic: int) -> list[tuple[int, type[Record]]]:
    return list(records_of(mic).items())


@cache
def _ranges(type_: int, mic: int) -> list[tuple[str, range]]:
    return [(one.name, one.range) for one in members(records_of(mic)[type_])]


def forged(draw: random.Random, run: Run) -> bytes:
    """One frame of an attacker who knows the layout."""
    return Forger(draw, run).packet()


def changed(draw: random.Random, packet: bytes) -> bytes:
    raw = bytearray(packet)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    return bytes(raw)


def stormy(draw: random.Random, packets: Iterable[bytes], forger: Forger) -> Iterator[bytes]:
    """The packets of a line after an attacker and random faults."""
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
                    yield from (packet, *(forger.packet() for _ in range(draw.randrange(1, 6))))
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


def decode(draw: random.Random, count: int) -> tuple[int, int, list[str]]:
    """So many packets through the decoder, quickly and plainly; how many, how many with a key, where they differ."""
    done, keyed, faults = 0, 0, []
    while done < count:
        run = any_run(draw)
        before, layout, reader = done, run.layout, MessageReader(run.layout)
        some = list(stormy(draw, draw.choices(run.packets, k=100), Forger(draw, run)))
        raw, decoder = line_bytes(draw, [packet for packet in some if len(packet) > 1]), FrameDecoder()
        found: list[bytes] = []
        for piece in cut(draw, raw):
            found += decoder.feed(piece)
        if found != FrameDecoder().feed(raw):
            faults.append(f"{run.scheme}: {raw.hex()} reads otherwise in pieces")
        for packet in found + some:
            done += 1
            quick, plain = outcome(read_packet, packet), outcome(decode_packet, packet)
            if quick != plain:
                faults.append(f"{run.scheme}: packet {packet.hex()}: {quick} instead of {plain}")
            elif isinstance(quick, ActiveMessage) and reader.read(quick) != decode_message(quick, layout):
                faults.append(f"{run.scheme}: message {packet.hex()} is read in two ways")
        keyed += done - before if layout.mic else 0
    return done, keyed, faults


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


def observe(draw: random.Random, count: int, shown: bool) -> tuple[Run, int, list[str]]:
    """A station on a hostile line: of which run, how many lines it took, and what was wrong."""
    run = any_run(draw)
    deployment = any_policy(draw, run.deployment)
    station, forger = Station(deployment), Forger(draw, run)
    start = draw.randrange(len(run.packets))
    line = run.packets[start:] + run.packets[:start]
    by = None if run.deployment.key is None else [honest(run.scheme), forger.sealed]
    books, done, faults = Books(run.layout, shown, by), 0, []
    try:
        for one in lines(draw, stormy(draw, (line * (1 + count // len(line)))[:count], forger)):
            done += 1
            forger.now = station.timeline.network_time(one.mono_ns) or forger.now
            for happening in station.take(one):
                books.take(happening)
            if done % 500 == 0:
                station.snapshot(one.mono_ns)
        for happening in station.finish():
            books.take(happening)
        list(summary(station.snapshot(station.timeline.mono_ns)))
        faults += books.wrong()
    except Exception as error:
        faults.append(f"line {done}: {error!r}")
    policy = deployment.observer.policy
    return run, done, [f"{run.scheme}, {policy}: {fault}" for fault in faults]


class Books:
    """A station's happenings: each message leaves once, after it came, and everything can be shown.

    `shown`: whether everything is shown. `by`: what those sent who have the network's key, if there is one.
    """

    def __init__(
        self, layout: DataLayout, shown: bool = True, by: Sequence[AbstractSet[Data]] | None = None
    ) -> None:
        self.arrived = self.delivered = self.discarded = 0
        self._faults: list[str] = []
        self._layout, self._shown, self._by = layout, shown, by
        self._left: set[int] = set()

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Arrived):
            self.arrived += isinstance(happening.message, Data) and not happening.copy
        elif isinstance(happening, Delivered):
            self.delivered += 1
            if happening.number in self._left or happening.number > self.arrived:
                self._faults.append(f"{happening.name} left twice, or before it came")
            self._left.add(happening.number)
            if self._by is not None and not any(_without_hops(happening.data) in sent for sent in self._by):
                self._faults.append(f"{happening.name} is by nobody who has the key: {happening.data}")
        self.discarded += isinstance(happening, Discarded)
        if self._shown:
            row_of(happening, self._layout)
            json.dumps(to_plain(happening, self._layout), default=str)

    def wrong(self) -> list[str]:
        """What was wrong, when the station has finished."""
        if self.delivered + self.discarded == self.arrived:
            return self._faults
        said = f"{self.arrived} arrived, {self.delivered} delivered, {self.discarded} discarded"
        return [*self._faults, said]


def piece(number: int, frames: int = FRAMES) -> Piece:
    draw = draw_of("py_fuzz", number)
    if number % 2:
        run, done, faults = observe(draw, frames, shown=number // 2 % SHOWN == 0)
        row, keyed = f"station, {run.scheme}", done if run.layout.mic else 0
    else:
        row, (done, keyed, faults) = "decoder", decode(draw, frames)
    counts = {"executions": done, "with_a_key": keyed}
    return Piece(row, counts, [f"piece {number}: {fault}" for fault in faults])


SEARCH = Search("py_fuzz", "executions", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
