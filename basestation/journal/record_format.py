"""The format of a journal file: a header, then records, each with a mark, a check sum and a number.

    file     magic 8 | version u16 | 0 u16 | length u32 | crc32 u32 | header, JSON
    record   mark 4 | crc32 u32 | number u64 | length u16 | kind u8 | gateway u8 | mono_ns i64 | wall_ns i64 | payload

Integers are little-endian. A record's check sum covers everything after it. The mark lets a reader find the next intact
record after damage; the number tells how many were lost there. `docs/formats.md` explains the payloads.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from basestation.arrivals import Arrival, Gap, Line, LineCount, PolicyChange
from packet_formats.schemes import policies

VERSION = 1
FILE_MAGIC = b"\x89CWJ\r\n\x1a\n"  # a copy made in text mode is no longer one
RECORD_MARK = b"\xd7\x1e\xb2\x6c"
PAYLOAD_LIMIT = 0xFFFF
ODD = "backslashreplace"  # for names of files that are no text

_FILE = struct.Struct("<8sHHII")
_RECORD = struct.Struct("<4sIQHBBqq")
# A record's head from its number on: what the check sum covers, with the payload.
_BODY = struct.Struct("<QHBBqq")
_CLOCK = struct.Struct("<Qqq")
_COVERED_FROM = _RECORD.size - _BODY.size
HEAD = np.dtype(
    [
        ("mark", "V4"),
        ("crc", "<u4"),
        ("number", "<u8"),
        ("length", "<u2"),
        ("kind", "u1"),
        ("gateway", "u1"),
        ("mono_ns", "<i8"),
        ("wall_ns", "<i8"),
    ]
)
CLOCK = np.dtype([("number", "<u8"), ("clock", "<i8"), ("heard", "<i8")])
NO_TIME = -(1 << 63)


class JournalError(Exception):
    """A journal that can't be written or read. The message says what is wrong and what to do."""


class RecordKind(IntEnum):
    FRAME = 1  # a packet as it came
    GAP = 2  # the line was lost, or is back
    CLOCK = 3  # the observer's clock when it took an earlier frame, and when that was heard
    COUNTERS = 4  # where a source's bytes went so far
    NOTE = 5  # something for people
    POLICY = 6  # another policy was chosen, and how far deliveries had got then


@dataclass(frozen=True, slots=True)
class Header:
    """The description of the run in each segment, so that a segment can be read alone."""

    run: str
    site: str
    deployment: str  # deployment.toml as text, empty when the network is not known
    sources: tuple[str, ...]
    started_wall_ns: int
    segment: int
    first: int  # number of its first record
    policy: str = ""  # what the run began with; empty: what the deployment says
    phi: int = 100
    allowance_ns: int | None = None
    tolerate: float | None = None  # the ledger's, in per cent; absent under other policies


class Record(NamedTuple):
    number: int
    kind: int
    gateway: int
    mono_ns: int
    wall_ns: int
    payload: bytes

    def line(self) -> Line | None:
        """The frame or gap in this record; None if it holds something else."""
        if self.kind == RecordKind.FRAME:
            return Arrival(self.gateway, self.mono_ns, self.wall_ns, self.payload)
        if self.kind == RecordKind.GAP:
            return Gap(self.gateway, self.mono_ns, self.wall_ns, self.payload[:1] != b"\0", self.text(1))
        return None

    def change(self) -> tuple[PolicyChange, int | None]:
        """A policy record's content, and the observer's clock then (in cycles). `JournalError` if it is invalid."""
        said = self.plain()
        policy, phi, clock, tolerate = (said.get(name) for name in ("policy", "phi", "clock", "tolerate"))
        if policy not in policies():
            raise JournalError("a policy record that names no policy")
        if type(phi) is not int or not 0 <= phi <= 100:
            raise JournalError("a policy record whose phi is no per cent")
        if tolerate is not None and (type(tolerate) not in (int, float) or not 0 <= tolerate <= 100):
            raise JournalError("a policy record whose tolerance is no per cent")
        if clock is not None and (type(clock) is not int or abs(clock) >= -NO_TIME):
            raise JournalError("a policy record whose clock is no time")
        return PolicyChange(self.mono_ns, self.wall_ns, policy, phi, tolerate), clock

    def line_count(self) -> LineCount | None:
        """A look at a live line; None if these counters are of a recording, or of a log from before looks were kept."""
        unread = self.plain().get("unread")
        return LineCount(self.gateway, self.mono_ns, self.wall_ns, unread) if type(unread) is int else None

    def plain(self) -> dict[str, Any]:
        """The content of a record that holds JSON; `JournalError` if it holds something else."""
        try:
            said = json.loads(self.payload)
        except (ValueError, RecursionError):
            raise JournalError(f"a {RecordKind(self.kind).name.lower()} record that is no JSON") from None
        if not isinstance(said, dict):
            raise JournalError(f"a {RecordKind(self.kind).name.lower()} record whose JSON is no object")
        return said

    def text(self, at: int = 0) -> str:
        return self.payload[at:].decode("utf-8", "replace")

    def clock(self) -> tuple[int, int, int | None]:
        """A clock record's content: the frame's number, the observer's clock, and when the frame was heard."""
        if len(self.payload) != _CLOCK.size:
            raise JournalError(f"a clock record has {_CLOCK.size} bytes")
        number, clock, heard = _CLOCK.unpack(self.payload)
        return number, clock, None if heard == NO_TIME else heard


def encode_header(header: Header) -> bytes:
    plain = {"format": VERSION, **asdict(header)}
    del plain["tolerate"]
    plain |= _tolerance(header.tolerate)
    body = json.dumps(plain, ensure_ascii=False).encode(errors=ODD)
    return _FILE.pack(FILE_MAGIC, VERSION, 0, len(body), crc32(body)) + body


def decode_header(raw: bytes) -> tuple[Header | None, int]:
    """A segment's header and where its records begin; None and 0 if it is damaged.

    `JournalError` for a file of another version.
    """
    if len(raw) < _FILE.size or not raw.startswith(FILE_MAGIC):
        return None, 0
    _, version, _, length, crc = _FILE.unpack_from(raw)
    end = _FILE.size + length
    body = raw[_FILE.size : end]
    if len(body) < length or crc32(body) != crc:
        return None, 0
    fields: dict[str, Any] = json.loads(body)
    said = fields.pop("format", VERSION)  # what the check sum covers; the number before it may be damaged
    if said != VERSION:
        raise JournalError(f"journal format {said}, this version reads format {VERSION}")
    if version != said:
        return None, 0
    return Header(**fields | {"sources": tuple(fields["sources"])}), end


def encode_record(record: Record) -> bytes:
    number, kind, gateway, mono_ns, wall_ns, payload = record
    if len(payload) > PAYLOAD_LIMIT:
        raise JournalError(f"{len(payload)} bytes in one record, the most is {PAYLOAD_LIMIT}")
    body = _BODY.pack(number, len(payload), kind, gateway, mono_ns, wall_ns) + payload
    return RECORD_MARK + crc32(body).to_bytes(4, "little") + body


def line_payload(line: Line) -> tuple[RecordKind, bytes]:
    if isinstance(line, Arrival):
        return RecordKind.FRAME, line.packet
    return RecordKind.GAP, bytes([line.back]) + line.reason.encode(errors=ODD)[: PAYLOAD_LIMIT - 1]


def clock_payload(number: int, clock: int, heard: int | None) -> bytes:
    return _CLOCK.pack(number, clock, NO_TIME if heard is None else heard)


def change_payload(change: PolicyChange, clock: int | None) -> bytes:
    said: dict[str, Any] = {"policy": change.policy, "phi": change.phi, "clock": clock}
    return json.dumps(said | _tolerance(change.tolerate)).encode()


def _tolerance(tolerate: float | None) -> dict[str, float]:
    """The key of a tolerance, left out where there is none: versions without a ledger read what they always read."""
    return {} if tolerate is None else {"tolerate": tolerate}


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes in a segment that is no record."""

    at: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    """The places of the intact records of a segment, and the damage between them. A torn tail begins at `end`."""

    starts: list[int]
    damages: list[Damage]
    end: int


Walk = Callable[[bytes, int, int], tuple[list[int], int, int]]


def walk_intact(raw: bytes, at: int, last: int) -> tuple[list[int], int, int]:
    """The intact records from `at` on without a break, where they end, and the number of the last (or `last`)."""
    starts: list[int] = []
    view, size = memoryview(raw), len(raw)
    unpack, head = _RECORD.unpack_from, _RECORD.size
    while at + head <= size:
        mark, crc, number, length, _, _, _, _ = unpack(raw, at)
        end = at + head + length
        if mark != RECORD_MARK or end > size or number <= last:
            break
        if crc32(view[at + _COVERED_FROM : end]) != crc:
            break
        starts.append(at)
        last, at = number, end
    return starts, at, last


def scan(raw: bytes, at: int, walk: Walk = walk_intact) -> Scan:
    """Walk over a segment from `at` on and check every record; after damage, look for the next intact one."""
    starts: list[int] = []
    damages: list[Damage] = []
    good, last = at, -1
    while at >= 0:
        found, end, newest = walk(raw, at, last)
        if found:
            if at != good:
                damages.append(Damage(good, at - good, _why(raw, good, last)))
            starts += found
            good, last = end, newest
        at = raw.find(RECORD_MARK, end + 1)
    return Scan(starts, damages, good)


def _why(raw: bytes, at: int, last: int) -> str:
    """The reason why no record begins at `at`."""
    if len(raw) - at < _RECORD.size:
        return "a record that was cut off"
    mark, crc, number, length, _, _, _, _ = _RECORD.unpack_from(raw, at)
    if mark != RECORD_MARK:
        return "no record begins here"
    if at + _RECORD.size + length > len(raw):
        return "a record that was cut off"
    if crc32(raw[at + _COVERED_FROM : at + _RECORD.size + length]) != crc:
        return "a record with a wrong check sum"
    return f"record {number} comes after record {last}"


@dataclass(frozen=True, slots=True)
class Records:
    """Many records as arrays: their heads as an array of `HEAD`, their payloads as places in `raw`."""

    raw: NDArray[np.uint8]
    head: NDArray[np.void]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, raw: bytes, starts: list[int]) -> Records:
        buffer = np.frombuffer(raw, np.uint8)
        at = np.array(starts, np.int64)
        return cls(buffer, _anywhere(buffer, HEAD)[at], at)

    def __len__(self) -> int:
        return len(self.head)

    def __iter__(self) -> Iterator[Record]:
        raw = self.raw.tobytes()
        columns = [
            self.head[name].tolist() for name in ("number", "kind", "gateway", "mono_ns", "wall_ns", "length")
        ]
        for start, number, kind, gateway, mono_ns, wall_ns, length in zip(
            self.starts.tolist(), *columns, strict=True
        ):
            at = start + HEAD.itemsize
            yield Record(number, kind, gateway, mono_ns, wall_ns, raw[at : at + length])

    def chosen(self, which: NDArray[Any] | slice) -> Records:
        return Records(self.raw, self.head[which], self.starts[which])

    def of_kind(self, kind: RecordKind) -> Records:
        return self.chosen(self.head["kind"] == kind)

    def payloads(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All payloads joined, and their lengths."""
        lengths = self.head["length"].astype(np.int64)
        before = np.cumsum(lengths) - lengths
        at = np.repeat(self.starts + HEAD.itemsize - before, lengths) + np.arange(int(lengths.sum()))
        return self.raw[at], lengths

    def clocks(self) -> NDArray[np.void]:
        """The content of all clock records, as rows of `CLOCK`."""
        noted = self.of_kind(RecordKind.CLOCK)
        if np.any(noted.head["length"] != CLOCK.itemsize):
            raise JournalError(f"a clock record has {CLOCK.itemsize} bytes")
        return _anywhere(self.raw, CLOCK)[noted.starts + HEAD.itemsize]


def _anywhere(raw: NDArray[np.uint8], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Values of this kind at every byte, of which some may be one."""
    return np.ndarray(max(len(raw) - kind.itemsize + 1, 0), kind, raw, strides=(1,))
