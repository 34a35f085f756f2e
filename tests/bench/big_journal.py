"""Writes journals of any length, a million records a second: what a base station would have written, for benches.

    python -m tests.bench.big_journal FOLDER --records 50000000

One simulated network is played over and over, each time later. Numbers, times and check sums are those of a real
journal, and segments end where the writer ends them. From play to play time goes on by whole turns of the stamp's
clock, and each mote boots. The data of a message ends with the number of the play: with the same bytes it would be a
replay.

A frame is three records: the heard record, the frame, and the station's decision. Some messages come twice, over
another relay; motes send beacons and health messages.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from basestation.causality.boots import BOOTS
from basestation.journal.decision import (
    DECIDER,
    FRAME_NUMBERS,
    FRESH,
    IN_SYNC,
    LONG_BYTES,
    PAIRED,
    REBOOTED,
    SHORT_BYTES,
    WIRE,
    Fate,
)
from basestation.journal.reader import SUFFIX
from basestation.journal.record_format import (
    HEAD,
    RECORD_MARK,
    Ending,
    Header,
    RecordKind,
    encode_header,
    end_mark,
)
from basestation.journal.writer import SEGMENT_BYTES
from basestation.observer import PATIENCE
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, build_scheme, generate
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.framing import crc16
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import Beacon, Health, Heard, size
from packet_formats.schemes import descriptor
from packet_formats.tinyos import BROADCAST, ActiveMessage, encode_packet

WORLD = WorldOptions(messages=50_000, rate=0.004, loss=0.02)  # a message a second from each of ten motes
WALL_NS = 1_700_000_000_000_000_000
BEACON_S, HEALTH_S = 10, 60
COPIED = 0.1  # of the messages
SALT = 0x0C0FFEE0  # the same in each: benches are repeated
COVERED_FROM = 8  # of a record: its check sum covers the rest
PLACES = 3  # heard record, frame, decision
ROUND = 256  # of the sequence field
WRAP = 1 << 32  # of the wire's times
TURN_BYTES = 2  # of a message's data
WIDTH = 48  # bytes that any packet fits in

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Arrivals:
    """Frames that a gateway hears, a row each."""

    cycles: Ints  # when it was heard, from the play's beginning
    kind: Bytes  # the active message type
    payload: Bytes
    length: Bytes
    ahead: Ints  # a beacon's or health message's own time, against when it was heard
    first: NDArray[np.bool_]  # a message that is no copy
    source: Ints  # of a message; -1: it is none
    sequence: Ints  # of a message, unwrapped

    def __len__(self) -> int:
        return len(self.cycles)

    def chosen(self, rows: NDArray[Any]) -> Self:
        return type(self)(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @classmethod
    def in_order(cls, *parts: Self) -> Self:
        columns = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)
        }
        return cls(**columns).chosen(np.argsort(columns["cycles"], kind="stable"))


@dataclass(frozen=True)
class Play:
    """One play of the network: what is heard, and the cycles from its beginning to that of the next."""

    deployment: Deployment
    layout: DataLayout
    arrivals: Arrivals
    turn: int
    opens: NDArray[np.bool_]  # the first message of each mote
    numbers: Ints  # by how much each mote's numbers rise from play to play

    @property
    def records(self) -> int:
        return PLACES * len(self.arrivals)


_CRC16_OF_BYTE = np.array([crc16(bytes([byte])) for byte in range(256)], np.uint16)


def _payload_crc16(frames: Frames) -> NDArray[np.uint16]:
    """The `framing.crc16` of every payload."""
    crc = np.zeros(len(frames), np.uint16)
    for column in range(frames.payload.shape[1]):
        high = (crc >> np.uint16(8)).astype(np.uint8)
        stepped = crc << np.uint16(8) ^ _CRC16_OF_BYTE[high ^ frames.payload[:, column]]
        crc = np.where(column < frames.length, stepped, crc)
    return crc


def play_of(world: WorldOptions = WORLD, scheme: str = "kn") -> Play:
    build = build_scheme if descriptor(scheme).is_ordered else build_named
    deployment = deployment_for(world, build(world, scheme), "cbd", 100)
    layout, clock = layout_of(deployment), deployment.clock
    random = np.random.default_rng(world.seed)
    messages = _messages(trace_of(generate(world), deployment).messages, layout, clock.tick_log2)
    copies = messages.chosen(random.random(len(messages)) < COPIED)
    copies.payload[:, layout.flags_at] ^= 1 << bulk.HOPS_SHIFT
    late = random.integers(1, clock.delta << clock.tick_log2, len(copies))
    copies = replace(copies, cycles=copies.cycles + late, first=np.zeros(len(copies), np.bool_))
    end = int(max(messages.cycles[-1], copies.cycles.max(initial=0)))
    beacons = _regular(Beacon, world.motes + 1, BEACON_S, end, layout)
    beacons.ahead[:] = random.integers(-1, 2, len(beacons)) * (clock.epsilon << clock.tick_log2) // 4
    healths = _regular(Health, world.motes, HEALTH_S, end, layout)
    healths.ahead[:] = -random.integers(1, clock.delta << clock.tick_log2, len(healths))
    silence = (PATIENCE + 1) * (clock.delta + 2 * clock.epsilon) << clock.tick_log2
    lap = layout.stamp.modulus << clock.tick_log2
    arrivals = Arrivals.in_order(messages, copies, beacons, healths)
    opens = np.zeros(len(arrivals), np.bool_)
    opens[[int(np.argmax(arrivals.source == mote)) for mote in range(world.motes)]] = True
    last = [int(messages.sequence[messages.source == mote].max(initial=-1)) for mote in range(world.motes)]
    rise = ((np.array(last) + 1) // ROUND + 2) * ROUND
    return Play(deployment, layout, arrivals, -(-(end + silence) // lap) * lap, opens, rise)


def _messages(table: Any, layout: DataLayout, shift: int) -> Arrivals:
    payloads = Frames.of_payload_list(table["payload"].to_pylist(), layout)
    count = len(payloads)
    return Arrivals(
        cycles=table["heard"].to_numpy() << shift,
        kind=payloads.type,
        payload=_wide(payloads.payload),
        length=payloads.length,
        ahead=np.zeros(count, np.int64),
        first=np.ones(count, np.bool_),
        source=table["source"].to_numpy().astype(np.int64),
        sequence=table["sequence"].to_numpy(),
    )


def _regular(
    record: type[Beacon | Health], senders: int, every_s: int, end: int, layout: DataLayout
) -> Arrivals:
    """A message of fixed form from each sender in turn, each once in `every_s`."""
    step = every_s * CRYSTAL_HZ // senders
    count = end // step
    rows = np.zeros(count, bulk.record_dtype(record, layout.byteorder))
    number, sender = np.divmod(np.arange(count), senders)
    rows["flags"] = 1
    rows["sender" if record is Beacon else "source"] = sender
    rows["sequence" if record is Beacon else "sent"] = number
    payload = rows.view(np.uint8).reshape(count, -1)
    return Arrivals(
        cycles=np.arange(1, count + 1) * step,
        kind=np.full(count, record.AM_TYPE, np.uint8),
        payload=_wide(payload),
        length=np.full(count, payload.shape[1], np.uint8),
        ahead=np.zeros(count, np.int64),
        first=np.zeros(count, np.bool_),
        source=np.full(count, -1),
        sequence=np.zeros(count, np.int64),
    )


def _wide(payload: Bytes) -> Bytes:
    return np.pad(payload, ((0, 0), (0, 29 - payload.shape[1])))


# ---- Records ----


@dataclass(frozen=True)
class Written:
    """Records as bytes: where each begins, and which of them may be a segment's first."""

    raw: bytes
    starts: Ints
    opens: NDArray[np.bool_]


def records_of(play: Play, turn: int, number: int) -> Written:
    """The records of one play, the first of which gets this number."""
    arrivals, layout = play.arrivals, play.layout
    cycles = arrivals.cycles + turn * play.turn
    payload = _with_times(arrivals, cycles, layout)
    _put_turn(payload, arrivals, turn, layout)
    numbers = number + np.arange(PLACES * len(arrivals)).reshape(-1, PLACES)
    content = np.zeros((len(arrivals), PLACES, WIDTH), np.uint8)
    lengths = np.zeros(numbers.shape, np.int64)
    check = _payload_crc16(replace(Frames.of_payloads(payload, layout), length=arrivals.length))
    heard = _heard(layout, cycles, check, turn * len(arrivals), play.deployment.network.motes)
    kinds = np.full(len(arrivals), Heard.AM_TYPE, np.uint8)
    heard_lengths = np.full(len(arrivals), size(Heard), np.uint8)
    wire = heard.view(np.uint8).reshape(len(heard), -1)
    lengths[:, 0] = _put_packets(content[:, 0], kinds, wire, heard_lengths, layout)
    lengths[:, 1] = _put_packets(content[:, 1], arrivals.kind, payload, arrivals.length, layout)
    decided = _decided(play, turn, cycles, heard)
    decided["frame"] = numbers[:, 1] % FRAME_NUMBERS
    content[:, 2, :LONG_BYTES] = decided.view(np.uint8).reshape(-1, LONG_BYTES)
    lengths[:, 2] = np.where(arrivals.source >= 0, LONG_BYTES, SHORT_BYTES)
    head = np.zeros(numbers.shape, HEAD)
    head["mark"], head["number"], head["length"] = np.void(RECORD_MARK), numbers, lengths
    head["kind"] = [RecordKind.FRAME, RecordKind.FRAME, RecordKind.DECISION]
    head["mono_ns"] = (cycles * 1_953_125 // 64)[:, None]  # 32768 cycles are a second
    head["wall_ns"] = WALL_NS + head["mono_ns"]
    opens = np.broadcast_to([True, True, False], numbers.shape)
    return _checked(head.reshape(-1), content.reshape(-1, WIDTH), lengths.reshape(-1), opens.reshape(-1))


def _decided(play: Play, turn: int, cycles: Ints, heard: NDArray[np.void]) -> NDArray[np.void]:
    """What a station that does not wait would decide on the frames of a play."""
    arrivals, rows = play.arrivals, np.zeros(len(cycles), WIRE)
    ours, opens = arrivals.source >= 0, play.opens[: len(cycles)]
    for name in ("gateway", "flags", "epoch", "rssi", "lqi"):
        rows[name] = heard[name]
    rows["bits"], rows["heard"] = PAIRED, cycles
    rows["fate"] = np.where(arrivals.first, Fate.MESSAGE, np.where(ours, Fate.DUPLICATE, Fate.RECORD))
    rows["clock"], rows["sequence"], rows["life"] = cycles, arrivals.sequence, turn
    above = turn * play.numbers[arrivals.source]
    rows["number"] = np.where(arrivals.first, above + arrivals.sequence + 1, 0)
    rows["marks"] = IN_SYNC + opens * (FRESH + REBOOTED * (turn > 0))
    return rows


def _with_times(arrivals: Arrivals, cycles: Ints, layout: DataLayout) -> Bytes:
    """The payloads, with the present time in those that carry it."""
    payload = arrivals.payload.copy()
    for record in (Beacon, Health):
        mine = np.flatnonzero(arrivals.kind == record.AM_TYPE)
        rows = np.ascontiguousarray(payload[mine, : size(record)]).view(
            bulk.record_dtype(record, layout.byteorder)
        )
        rows["time"] = ((cycles + arrivals.ahead)[mine] % WRAP)[:, None]
        payload[mine, : size(record)] = rows.view(np.uint8)
    return payload


def _put_turn(payload: Bytes, arrivals: Arrivals, turn: int, layout: DataLayout) -> None:
    """The boot, and a part of the data, distinguish plays."""
    mine = np.flatnonzero(arrivals.source >= 0)
    payload[mine, layout.flags_at] |= turn % BOOTS << bulk.BOOT_SHIFT
    for place, byte in enumerate(turn.to_bytes(TURN_BYTES, "big")):
        payload[mine, arrivals.length[mine] - TURN_BYTES + place] = byte


def _heard(
    layout: DataLayout, cycles: Ints, check: NDArray[np.uint16], before: int, gateway: int
) -> NDArray[np.void]:
    rows = np.zeros(len(cycles), bulk.record_dtype(Heard, layout.byteorder))
    rows["gateway"], rows["flags"], rows["check"], rows["time"] = gateway, 7, check, cycles % WRAP
    rows["sequence"] = (before + np.arange(len(cycles))) % 256
    rows["rssi"], rows["lqi"] = -50 - cycles % 40, 90 + cycles % 16
    return rows


def _put_packets(rows: Bytes, kinds: Bytes, payload: Bytes, length: Bytes, layout: DataLayout) -> Ints:
    """Fill in packets, and return their lengths."""
    source = BROADCAST if layout.tinyos == 2 else None
    for kind, each in np.unique(np.stack((kinds, length), axis=1), axis=0).tolist():
        mine = np.flatnonzero((kinds == kind) & (length == each))
        empty = ActiveMessage(layout.tinyos, BROADCAST, layout.group, kind, bytes(each), source)
        head = encode_packet(empty)[:-each]
        rows[mine, : len(head)] = np.frombuffer(head, np.uint8)
        rows[mine, len(head) : len(head) + each] = payload[mine, :each]
    return len(head) + length.astype(np.int64)


def _checked(head: NDArray[np.void], content: Bytes, lengths: Ints, opens: NDArray[np.bool_]) -> Written:
    """The records end to end, with their check sums."""
    rows = np.concatenate((head.view(np.uint8).reshape(len(head), -1), content), axis=1)
    ends = np.cumsum(HEAD.itemsize + lengths)
    starts = ends - HEAD.itemsize - lengths
    flat = rows[np.arange(rows.shape[1]) < (HEAD.itemsize + lengths)[:, None]]
    view = memoryview(flat.tobytes())
    places = zip((starts + COVERED_FROM).tolist(), ends.tolist(), strict=True)
    sums = np.array([crc32(view[begin:end], SALT) for begin, end in places], "<u4")
    flat[(starts + COVERED_FROM - 4)[:, None] + np.arange(4)] = sums.view(np.uint8).reshape(-1, 4)
    return Written(flat.tobytes(), starts, opens)


# ---- Files ----


class Segments:
    """The files of a journal, each begun where the writer would begin it."""

    def __init__(self, folder: Path, header: Header, segment_bytes: int) -> None:
        folder.mkdir(parents=True)
        self._folder, self._header, self._full = folder, header, segment_bytes
        self.records = self.segments = 0
        self._open()

    def _open(self) -> None:
        content = encode_header(replace(self._header, segment=self.segments, first=self.records))
        self._file = (self._folder / f"{self.segments:06d}{SUFFIX}").open("wb")
        self._file.write(content)
        self._size, self._first = len(content), self.records
        self.segments += 1

    def write(self, written: Written) -> None:
        at, count = 0, len(written.starts)
        places = np.append(written.starts, len(written.raw))
        while at < count:
            full = self._size + places[:-1] - places[at] >= self._full
            full &= written.opens & (np.arange(count) >= at)
            if self.records == self._first:
                full[at] = False
            end = int(np.argmax(full)) if full.any() else count
            self._file.write(written.raw[places[at] : places[end]])
            self._size += int(places[end] - places[at])
            self.records += end - at
            at = end
            if at < count:
                self._end(Ending.GOES_ON)
                self._open()

    def close(self) -> None:
        self._end(Ending.CLOSED)

    def _end(self, how: Ending) -> None:
        self._file.write(end_mark(self.records, how, 0, WALL_NS, SALT))
        self._file.close()


def write_big_journal(
    folder: Path,
    records: int,
    play: Play | None = None,
    *,
    run: str = "big",
    site: str = "bench",
    segment_bytes: int = SEGMENT_BYTES,
) -> int:
    """Write a journal of at most this many records, less than a frame fewer, and return their number."""
    play = play or play_of()
    header = Header(
        run=run,
        site=site,
        deployment=play.deployment.to_toml(),
        sources=("bench",),
        started_wall_ns=WALL_NS,
        segment=0,
        first=0,
        salt=SALT,
        decider=DECIDER,
        mics="absent",
    )
    segments, turn = Segments(folder, header, segment_bytes), 0
    while (left := records - segments.records) >= PLACES:
        shorter = play
        if left < play.records:
            shorter = replace(play, arrivals=play.arrivals.chosen(np.arange(left // PLACES)))
        segments.write(records_of(shorter, turn, segments.records))
        turn += 1
    segments.close()
    return segments.records


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.big_journal", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--scheme", default="kn")
    asked = parser.parse_args()
    begun = time.perf_counter()
    count = write_big_journal(
        asked.folder, asked.records, play_of(scheme=asked.scheme), run=asked.folder.name
    )
    print(f"{count:,} records in {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
