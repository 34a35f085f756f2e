"""The format of a journal file: a header, then records, each with a mark, a check sum and a number.

    file     magic 8 | version u16 | 0 u16 | length u32 | crc32 u32 | header, JSON
    record   mark 4 | crc32 u32 | number u64 | length u16 | kind u8 | gateway u8 | mono_ns i64 | wall_ns i64 | payload

Integers are little-endian. A record's check sum covers everything after it. The mark lets a reader find the next intact
record after damage; the number tells how many were lost there. `docs/reference/formats.md` explains the payloads.

In version 2 check sums begin with the run's salt, a random number of its header. What comes by radio can't know it, so
a payload can't hold a record. Version 1 is the same with a salt of 0, and without end marks.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from basestation.arrivals import Arrival, Gap, Line, LineCount, PolicyChange
from packet_formats.schemes import policies

from .decision import GUESSED, LONG_BYTES, NO_TIME, SHORT_BYTES, WIRE, Fate, Noted, rows_of, unpacked

VERSION = 2
FILE_MAGIC = b"\x89CWJ\r\n\x1a\n"  # a copy made in text mode is no longer one
RECORD_MARK = b"\xd7\x1e\xb2\x6c"
PAYLOAD_LIMIT = 0xFFFF
MOST_SOURCES = 256  # a record names its gateway in a byte
MICS = ("", "absent", "checked", "unchecked")
ODD = "backslashreplace"  # for file names that are not text

_FILE = struct.Struct("<8sHHII")
_RECORD = struct.Struct("<4sIQHBBqq")
# A record's head from its number on: what the check sum covers, with the payload.
_BODY = struct.Struct("<QHBBqq")
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


class JournalError(Exception):
    """A journal that can't be written or read. The message says what is wrong and what to do."""


class RecordKind(IntEnum):
    FRAME = 1  # a packet as it came
    GAP = 2  # the line was lost, or is back
    CLOCK = 3  # as older versions wrote it, in place of decisions; no reader needs it
    COUNTERS = 4  # where a source's bytes went so far
    NOTE = 5  # something for people
    POLICY = 6  # another policy was chosen, and how far deliveries had got then
    LOST = 7  # how many records before this one could not be written, and why
    END = 8  # a mark behind the last record of a segment: no reader gets it as a record
    DECISION = 9  # what the station made of an earlier frame of the same segment


class Ending(IntEnum):
    """How a segment ended: the content of its end mark."""

    GOES_ON = 0  # in the next segment
    CLOSED = 1  # the run ended in order
    INTERRUPTED = 2  # the writer was stopped here, says the recovery
    CUT = 3  # a repair found no end, though the writer had not been interrupted: records may be missing


@dataclass(frozen=True, slots=True)
class Header:
    """The description of the run, in each segment, so that one segment is enough to read it."""

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
    salt: int = 0  # what its check sums begin with; 0: not known
    decider: int = 0  # the version of the rules by which frames were decided; 0: the log has no decisions
    mics: str = ""  # whether the station could check MICs: absent, checked or unchecked
    rebuilt: bool = False  # by a repair, which knew the records alone: what else the header told is lost
    more: dict[str, Any] = field(default_factory=dict)  # keys of a later version, kept and not understood


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
        said = self.plain()
        unread, slept_ns = said.get("unread", -1), said.get("slept_ns", 0)
        suspended_ns = said.get("suspended_ns", 0)
        if not all(map(_is_count, (unread, slept_ns, suspended_ns))):
            return None
        return LineCount(self.gateway, self.mono_ns, self.wall_ns, unread, slept_ns, suspended_ns)

    def lost(self) -> tuple[int, str]:
        """How many records before this one were lost, and why."""
        said = self.plain()
        count, reason = said.get("records"), said.get("reason")
        if type(count) is not int or not 0 < count <= self.number or not isinstance(reason, str):
            raise JournalError("a lost record that does not say how many, and why")
        return count, readable(reason)

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

    def decision(self) -> NDArray[np.void]:
        """A decision record's content, a row of `DECISION`; `JournalError` if it is invalid."""
        if len(self.payload) not in (SHORT_BYTES, LONG_BYTES):
            raise JournalError(f"a decision record has {SHORT_BYTES} or {LONG_BYTES} bytes")
        row = rows_of([self.payload], [self.number])
        if row["fate"][0] >= Fate.UNDECIDED:
            raise JournalError("a decision record whose fate is not known")
        return row


def readable(text: str) -> str:
    """The text with what can't be printed or stored (halves of characters) written out."""
    return text.encode(errors=ODD).decode()


def encode_header(header: Header) -> bytes:
    plain = {"format": VERSION, **{name: getattr(header, name) for name in _KNOWN}, **header.more}
    for name in ("tolerate", "salt", "decider", "mics", "rebuilt"):  # left out where there is none
        if not plain[name] and (name != "tolerate" or plain[name] is None):
            del plain[name]
    body = json.dumps(plain, ensure_ascii=False).encode(errors=ODD)
    return _FILE.pack(FILE_MAGIC, VERSION, 0, len(body), crc32(body)) + body


def header_size(raw: bytes) -> int:
    """Where a segment's records begin, by the first bytes of it; 0 if these are none of a segment."""
    if len(raw) < _FILE.size or not raw.startswith(FILE_MAGIC):
        return 0
    return int(_FILE.size + _FILE.unpack_from(raw)[3])


def decode_header(raw: bytes) -> tuple[Header | None, int]:
    """A segment's header and where its records begin; None and 0 if it is damaged.

    `JournalError` for a file of another version, and for a header that is intact and makes no sense.
    """
    if len(raw) < _FILE.size or not raw.startswith(FILE_MAGIC):
        return None, 0
    _, version, _, length, crc = _FILE.unpack_from(raw)
    end = _FILE.size + length
    body = raw[_FILE.size : end]
    if len(body) < length or crc32(body) != crc:
        return None, 0
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise JournalError("its header is no JSON") from None
    if not isinstance(said, dict):
        raise JournalError("its header's JSON is no object")
    stated = said.pop("format", None)  # what the check sum covers; the number before it may be damaged
    if type(stated) is not int or stated != VERSION:
        raise JournalError(f"journal format {_short(stated)}, this version reads format {VERSION}")
    if version != stated:
        return None, 0
    return _checked(said), end


def _checked(said: dict[str, Any]) -> Header:
    """The header that this JSON means; `JournalError` names the key that means nothing."""
    known = {name: said[name] for name in _KNOWN if name in said}
    for name, (good, what) in _KNOWN.items():
        if name not in known and name in _REQUIRED:
            raise JournalError(f"its header has no {name}")
        if name in known and not good(known[name]):
            raise JournalError(f"its header makes no sense: {name} = {_short(known[name])} is no {what}")
    plain: dict[str, Any] = {
        name: readable(value) if isinstance(value, str) else value for name, value in known.items()
    }
    plain["sources"] = tuple(map(readable, plain["sources"]))
    return Header(**plain, more={readable(name): said[name] for name in said if name not in known})


def _short(value: object) -> str:
    text = readable(repr(value))
    return text if len(text) <= 40 else text[:37] + "..."


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 255 and not any(map(_is_control, value))


def _is_control(char: str) -> bool:
    return ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_sources(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_SOURCES and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < -NO_TIME


def _is_share(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 100  # type: ignore[operator]


# Each key of a header, what its value has to be, and that in a word.
_KNOWN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "run": (lambda value: _is_name(value) and value != "", "name"),
    "site": (_is_name, "name"),
    "deployment": (_is_text, "text"),
    "sources": (_are_sources, f"list of at most {MOST_SOURCES} texts"),
    "started_wall_ns": (_is_count, "time"),
    "segment": (_is_count, "number"),
    "first": (_is_count, "number"),
    "policy": (_is_name, "name"),  # it may be a plug-in's that is not here
    "phi": (lambda value: type(value) is int and _is_share(value), "per cent"),
    "allowance_ns": (lambda value: value is None or _is_count(value), "time"),
    "tolerate": (lambda value: value is None or _is_share(value), "per cent"),
    "salt": (lambda value: type(value) is int and 0 < value < 1 << 32, "salt"),
    "decider": (_is_count, "number"),
    "mics": (lambda value: value in MICS, "one of " + ", ".join(MICS[1:])),
    "rebuilt": (lambda value: type(value) is bool, "yes or no"),
}
_REQUIRED = ("run", "site", "deployment", "sources", "started_wall_ns", "segment", "first", "salt")


def encode_record(record: Record, salt: int = 0) -> bytes:
    number, kind, gateway, mono_ns, wall_ns, payload = record
    if len(payload) > PAYLOAD_LIMIT:
        raise JournalError(f"{len(payload)} bytes in one record, the most is {PAYLOAD_LIMIT}")
    body = _BODY.pack(number, len(payload), kind, gateway, mono_ns, wall_ns) + payload
    return RECORD_MARK + crc32(body, salt).to_bytes(4, "little") + body


def end_mark(number: int, how: Ending, mono_ns: int, wall_ns: int, salt: int) -> bytes:
    """The end of a segment, behind which no record of it comes: `number` is the one of the record to follow."""
    return encode_record(Record(number, RecordKind.END, 0, mono_ns, wall_ns, bytes([how])), salt)


def lost_payload(count: int, reason: str) -> bytes:
    return json.dumps({"records": count, "reason": readable(reason)[:200]}).encode()


def line_payload(line: Line) -> tuple[RecordKind, bytes]:
    if isinstance(line, Arrival):
        return RecordKind.FRAME, line.packet
    return RecordKind.GAP, bytes([line.back]) + line.reason.encode(errors=ODD)[: PAYLOAD_LIMIT - 1]


def change_payload(change: PolicyChange, clock: int | None) -> bytes:
    said: dict[str, Any] = {"policy": change.policy, "phi": change.phi, "clock": clock}
    return json.dumps(said | _tolerance(change.tolerate)).encode()


def _tolerance(tolerate: float | None) -> dict[str, float]:
    """The key of a tolerance, left out where there is none: versions without a ledger read what they always read."""
    return {} if tolerate is None else {"tolerate": tolerate}


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes in a segment that is not a record."""

    at: int
    length: int
    reason: str


class End(NamedTuple):
    """A segment's end mark: where it is, and the number that the next record was to have."""

    at: int
    number: int
    how: int  # an `Ending`; what a later version says may be another


@dataclass(frozen=True, slots=True)
class Scan:
    """The places of the intact records of a segment, and the damage between them. A torn tail begins at `end`.

    `mark` is the end mark; None: the segment is being written, or was interrupted.
    """

    starts: list[int]
    damages: list[Damage]
    end: int
    mark: End | None = None


Walk = Callable[[bytes, int, int, int], tuple[list[int], int, int]]


def walk_intact(raw: bytes, at: int, last: int, salt: int = 0) -> tuple[list[int], int, int]:
    """The intact records from `at` on without a break, where they end, and the number of the last (or `last`)."""
    starts: list[int] = []
    view, size = memoryview(raw), len(raw)
    unpack, head = _RECORD.unpack_from, _RECORD.size
    while at + head <= size:
        mark, crc, number, length, _, _, _, _ = unpack(raw, at)
        end = at + head + length
        if mark != RECORD_MARK or end > size or not last < number < -NO_TIME:
            break
        if crc32(view[at + _COVERED_FROM : end], salt) != crc:
            break
        starts.append(at)
        last, at = number, end
    return starts, at, last


def scan(raw: bytes, at: int, walk: Walk = walk_intact, salt: int = 0) -> Scan:
    """Walk over a segment from `at` on and check every record; after damage, look for the next intact one."""
    starts: list[int] = []
    damages: list[Damage] = []
    good, last = at, -1
    while at >= 0:
        found, end, newest = walk(raw, at, last, salt)
        if found:
            if at != good:
                damages.append(Damage(good, at - good, _why(raw, good, last, salt)))
            starts += found
            good, last = end, newest
        at = raw.find(RECORD_MARK, end + 1)
    mark = _end_at(raw, starts[-1]) if starts and salt else None
    return Scan(starts[:-1] if mark else starts, damages, good, mark)


def _end_at(raw: bytes, at: int) -> End | None:
    _, _, number, length, kind, _, _, _ = _RECORD.unpack_from(raw, at)
    if kind != RecordKind.END or not length:
        return None
    return End(at, number, raw[at + _RECORD.size])


def _why(raw: bytes, at: int, last: int, salt: int) -> str:
    """The reason why no record begins at `at`."""
    if len(raw) - at < _RECORD.size:
        return "a record that was cut off"
    mark, crc, number, length, _, _, _, _ = _RECORD.unpack_from(raw, at)
    if mark != RECORD_MARK:
        return "no record begins here"
    if at + _RECORD.size + length > len(raw):
        return "a record that was cut off"
    if crc32(raw[at + _COVERED_FROM : at + _RECORD.size + length], salt) != crc:
        return "a record with a wrong check sum"
    if number >= -NO_TIME:
        return "a record whose number no run reaches"
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

    def odd_decisions(self) -> Records:
        """Decision records of a wrong length."""
        noted = self.of_kind(RecordKind.DECISION)
        return noted.chosen(~np.isin(noted.head["length"], (SHORT_BYTES, LONG_BYTES)))

    def decisions(self) -> NDArray[np.void]:
        """The content of all decision records, as rows of `DECISION`; those of a wrong length are left out."""
        noted = self.of_kind(RecordKind.DECISION)
        lengths = noted.head["length"]
        noted = noted.chosen((lengths == SHORT_BYTES) | (lengths == LONG_BYTES))
        rows = np.zeros(len(noted), WIRE)
        rows["clock"] = NO_TIME  # the short form has none
        plain = rows.view(np.uint8).reshape(-1, LONG_BYTES)
        for size in (SHORT_BYTES, LONG_BYTES):
            mine = noted.head["length"] == size
            at = noted.starts[mine] + HEAD.itemsize
            plain[mine, :size] = (
                _anywhere(self.raw, np.dtype((np.void, size)))[at].view(np.uint8).reshape(-1, size)
            )
        return unpacked(rows, noted.head["number"])

    def noted(self) -> dict[int, Noted]:
        """What a replay takes from the decisions, by the frame's number."""
        rows = self.decisions()
        rows = rows[(rows["clock"] != NO_TIME) | (rows["bits"] & GUESSED != 0)]
        columns = (rows[name].tolist() for name in ("frame", "clock", "heard", "bits"))
        return {
            frame: Noted(
                None if clock == NO_TIME else clock, heard if bits & GUESSED and heard != NO_TIME else None
            )
            for frame, clock, heard, bits in zip(*columns, strict=True)
        }


def _anywhere(raw: NDArray[np.uint8], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Values of this kind at every byte, of which some may be one."""
    return np.ndarray(max(len(raw) - kind.itemsize + 1, 0), kind, raw, strides=(1,))
