"""The messages of fixed form, each described once. Standard library only.

The construct definitions, the numpy dtypes and the C header are all derived from these dataclasses.

- Integers are little-endian on TinyOS 1.x and big-endian on 2.x; every record fits the payload of both.
- Ids have 16 bits here, whatever the width of `source` in data messages.
- Times are 32-bit network time in cycles of the 32768 Hz crystal, so that tick = time >> tick_log2; they mean
  something only within one root epoch.
- Counters count since boot and wrap; the reader unwraps them.
- In a network with a key some records travel sealed, with a MIC (see `packet_formats.seal`): health has it in place
  of `layout`, the others behind their last integer. `mic` is then its bytes, and else empty. Bits 3 to 7 of the flags
  of beacons, heard and idle records then are the round of their time: how often it has come round in this epoch.
- In a network with a schedule some records have a tail, behind all else (`DataLayout.tail`): `tail` is its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar

RSSI_UNKNOWN = -128  # in a heard record
BATTERY_STEP_MV, NO_HOPS = 20, 255  # in a health record
MIC_BYTES = 4  # of a network with a key
# Bits of the network time that a MIC leaves out: of data without a clock, and of a command's number.
# A command waits at the gateway for a window: its number must not come round meanwhile (512 s).
UNCLOCKED_SHIFT, COMMAND_SHIFT = 19, 8
# With a key: how often the 32 bits of time have wrapped in this epoch, and the place of that count in the flags.
ROUND_BITS, ROUND_SHIFT = 5, 3


class Reason(IntEnum):
    """Why a frame was not read. Every reason but OK means: another layout or another application."""

    OK = 0
    PACKET = 1  # no message: unknown packet type, another TinyOS version, or a wrong length in the header
    GROUP = 2
    TYPE = 3
    LENGTH = 4
    SPARE = 5  # a padding bit after the stamp is set
    VALUE = 6  # a value too large for its field (bytes packing)


@dataclass(frozen=True, slots=True)
class Member:
    """One integer of a record: its type (`u8`, `i8`, `u16`, `u32`), its place in bytes, and what it means."""

    name: str
    type: str
    offset: int
    doc: str

    @property
    def size(self) -> int:
        return int(self.type[1:]) // 8

    @property
    def signed(self) -> bool:
        return self.type[0] == "i"

    @property
    def range(self) -> range:
        span = 1 << int(self.type[1:])
        return range(-span // 2, span // 2) if self.signed else range(span)


def _integer(type_: str, doc: str) -> Any:
    return field(metadata={"type": type_, "doc": doc})


class TimeFlags:
    """The bits of a record's flags about its time."""

    __slots__ = ()
    flags: int

    @property
    def in_sync(self) -> bool:
        return bool(self.flags & 1)

    @property
    def round(self) -> int:
        """Of the time, in a network with a key."""
        return self.flags >> ROUND_SHIFT


@dataclass(frozen=True, slots=True)
class Beacon(TimeFlags):
    """Time sync: the network time at `sender` when this frame left it. `time` is last, so that a radio driver
    can fill it in while the frame's first bytes are already on the air."""

    AM_TYPE: ClassVar[int] = 0x70
    sender: int = _integer("u16", "its sender")
    root: int = _integer("u16", "driver of the network's time: the root or its successor")
    epoch: int = _integer("u8", "root epoch: a new one starts a new time; stamps are cleared")
    sequence: int = _integer("u16", "the driver's beacon number; motes forward each once")
    hops: int = _integer("u8", "of the sender from the driver, 0 at the driver")
    flags: int = _integer("u8", "bit 0: the sender is in sync")
    error: int = _integer("u8", "the sender's estimated error in cycles, 255: or more")
    time: int = _integer("u32", "network time at the frame's start-of-frame delimiter")
    tail: bytes = b""  # which messages the root has heard: firmware/net/repair.h


# Never changed, but not frozen: each frame makes some, and frozen dataclasses take seven times as long.
@dataclass(slots=True, unsafe_hash=True)
class Heard(TimeFlags):
    """Gateway to host, just before each frame that it hands up: when and how the gateway heard that frame."""

    AM_TYPE: ClassVar[int] = 0x71
    gateway: int = _integer("u16", "which gateway heard the frame")
    epoch: int = _integer("u8", "root epoch of the time")
    sequence: int = _integer("u8", "counts records, to find those lost on the line")
    lost: int = _integer("u16", "records dropped with their frames before this one; 65535: or more")
    flags: int = _integer("u8", "bit 0: the gateway is in sync; bit 1: it is the root; bit 2: lqi is known")
    rssi: int = _integer("i8", "received strength in dBm, -128: not known")
    lqi: int = _integer("u8", "link quality as the CC2420 gives it")
    check: int = _integer("u16", "CRC-16, as on the line, of the next frame's payload")
    time: int = _integer("u32", "network time at the frame's start-of-frame delimiter")


# A duty travels in 16384ths of the time: up to 31 as they are, above that in 16 steps for each power of two.
DUTY_UNITS, DUTY_STEPS = 1 << 14, 16


def duty_code(share: float) -> int:
    """The byte for a share of time, never 0, which means "not reported"."""
    units, shift = int(share * DUTY_UNITS), 0
    while units >> shift >= 2 * DUTY_STEPS:
        shift += 1
    return max(1, DUTY_STEPS * shift + (units >> shift))


def duty_of(code: int) -> float:
    """The middle of what such a byte stands for; all of the time at most."""
    shift = max(0, code // DUTY_STEPS - 1)
    return min(1.0, ((code - DUTY_STEPS * shift + 0.5) * (1 << shift)) / DUTY_UNITS)


class StartCause(IntEnum):
    """Why a node started, in bits 2 to 5 of its health's flags; the same numbers as in firmware/hal/board.h."""

    UNKNOWN = 0  # older firmware, or a board that does not report the cause
    POWER_ON = 1
    BUTTON = 2
    DEBUGGER = 3
    COMMAND = 4
    BROWN_OUT = 5
    WATCHDOG = 6
    DAMAGE = 7
    JUMP = 8

    @property
    def words(self) -> str:
        return _START_WORDS[self]


_START_WORDS = {
    StartCause.UNKNOWN: "cause not reported",
    StartCause.POWER_ON: "power-on",
    StartCause.BROWN_OUT: "brown-out",
    StartCause.WATCHDOG: "watchdog, its program hung",
    StartCause.BUTTON: "reset button",
    StartCause.DEBUGGER: "debugger",
    StartCause.DAMAGE: "it found its memory damaged",
    StartCause.COMMAND: "command",
    StartCause.JUMP: "its program jumped to its start",
}


@dataclass(frozen=True, slots=True)
class Health:
    """A regular report of each mote and gateway: its id, its build, its counters."""

    AM_TYPE: ClassVar[int] = 0x72
    source: int = _integer("u16", "whose health this is")
    time: int = _integer("u32", "network time of sending")
    epoch: int = _integer("u8", "root epoch of the time")
    flags: int = _integer(
        "u8",
        "bit 0: in sync; bit 1: a root that heard of another; bits 2 to 5: why it started, see below; "
        "bits 6, 7: how many more times it may be passed on, 3: or more",
    )
    boots: int = _integer("u16", "boot count; data messages carry its last 3 bits")
    layout: int = _integer("u32", "layout hash of its build")
    sent: int = _integer("u16", "own messages sent")
    received: int = _integer("u16", "messages of peers received and merged")
    late: int = _integer("u16", "frames dropped: too late for delta")
    relayed: int = _integer("u16", "frames forwarded")
    duplicates: int = _integer("u16", "frames dropped: heard before")
    bounds: int = _integer("u16", "stamps beyond clock + epsilon, cut by the bound")
    battery: int = _integer("u8", "in steps of 20 mV, 0: not measured")
    hops: int = _integer("u8", "from the root when it was last heard of, 255: none known")
    mic: bytes = b""
    tail: bytes = b""  # its duty

    @property
    def in_sync(self) -> bool:
        return bool(self.flags & 1)

    @property
    def battery_mv(self) -> int | None:
        """None: not measured."""
        return self.battery * BATTERY_STEP_MV or None

    @property
    def duty(self) -> float | None:
        """The share of time with its radio on in about the last eight periods; None: not reported."""
        return duty_of(self.tail[0]) if any(self.tail) else None

    @property
    def distance(self) -> int | None:
        """Hops from the time root; None: none known."""
        return None if self.hops == NO_HOPS else self.hops

    @property
    def hops_left(self) -> int:
        """How many more times it may be passed on; 3: or more."""
        return self.flags >> 6

    @property
    def start_cause(self) -> StartCause:
        """Why the node started; an unknown number reads as `UNKNOWN`."""
        number = self.flags >> 2 & 15
        return StartCause(number) if number in _START_WORDS else StartCause.UNKNOWN


@dataclass(frozen=True, slots=True)
class Status:
    """Gateway to host: where frames went, up and down; every kind of drop has its counter."""

    AM_TYPE: ClassVar[int] = 0x73
    gateway: int = _integer("u16", "whose status this is")
    time: int = _integer("u32", "network time of sending")
    epoch: int = _integer("u8", "root epoch of the time")
    boots: int = _integer("u8", "boot count, its low 8 bits")
    heard: int = _integer("u16", "radio frames received with a good CRC")
    forwarded: int = _integer("u16", "of those, handed up the line")
    radio_crc: int = _integer("u16", "radio frames dropped: bad CRC")
    radio_overrun: int = _integer("u16", "radio frames dropped: the radio's own buffer was full")
    foreign: int = _integer("u16", "radio frames dropped: another group or a wrong length")
    up_full: int = _integer("u16", "frames dropped: no room in the queue to the host")
    line_crc: int = _integer("u16", "host packets dropped: bad CRC, broken escape, overrun")
    line_refused: int = _integer("u16", "host packets dropped: unknown type, or over the payload limit")
    down_sent: int = _integer("u16", "host messages put on the air")
    down_full: int = _integer("u16", "host messages dropped: radio queue full, or never a clear channel")


@dataclass(frozen=True, slots=True)
class Downlink:
    """Host to motes: one command, flooded within a hop budget."""

    AM_TYPE: ClassVar[int] = 0x74
    target: int = _integer("u16", "mote id, 65535: all")
    sequence: int = _integer("u16", "command number; a mote obeys and forwards each once")
    hops: int = _integer("u8", "how many more times relays may forward it")
    command: int = _integer("u8", "1 rate, 2 report, 3 blink, 4 reboot")
    argument: int = _integer("u32", "rate: cycles between sends; blink: which LEDs; else 0")
    mic: bytes = b""


class Command(IntEnum):
    RATE = 1
    REPORT = 2
    BLINK = 3
    REBOOT = 4


@dataclass(frozen=True, slots=True)
class Arrived:
    """Gateway to motes: a data message has arrived, so no mote need send it again."""

    AM_TYPE: ClassVar[int] = 0x75
    source: int = _integer("u16", "whose message arrived")
    number: int = _integer(
        "u16", "bits 0-7: its sequence; 8-10: its boot count modulo 8; 11-15: the lowest of the layout's hash"
    )
    mic: bytes = b""


@dataclass(frozen=True, slots=True)
class Proof:
    """Follows a beacon in a network with a key: its MIC, which covers the time that was written while the beacon was
    going out."""

    AM_TYPE: ClassVar[int] = 0x76
    sender: int = _integer("u16", "the beacon's sender")
    sequence: int = _integer("u16", "the beacon's sequence")
    mic: bytes = b""


@dataclass(frozen=True, slots=True)
class Taken:
    """Gateway to motes of a network with a schedule: these data messages are here. Eight in one frame, since motes
    listen only for a short time; free places repeat the last one.

    In a network with a key a message's name is the first two bytes of its MIC, as a little-endian number.
    """

    AM_TYPE: ClassVar[int] = 0x77
    first: int = _integer("u16", "bits 8-15: whose message arrived; 0-7: its sequence")
    second: int = _integer("u16", "as the first")
    third: int = _integer("u16", "as the first")
    fourth: int = _integer("u16", "as the first")
    fifth: int = _integer("u16", "as the first")
    sixth: int = _integer("u16", "as the first")
    seventh: int = _integer("u16", "as the first")
    eighth: int = _integer("u16", "as the first")
    mic: bytes = b""


@dataclass(frozen=True, slots=True)
class Idle(TimeFlags):
    """Gateway to host, where several gateways serve a network and this one has heard nothing for a while: all
    frames that it heard before this time have gone up the line, so messages of other gateways need not wait for it."""

    AM_TYPE: ClassVar[int] = 0x79
    gateway: int = _integer("u16", "whose time this is")
    epoch: int = _integer("u8", "root epoch of the time")
    flags: int = _integer("u8", "bit 0: the gateway is in sync")
    time: int = _integer("u32", "network time up to which everything has gone up")


BUNDLE_TYPE = 0x78  # AM type of two data messages in one frame: messages.parts_of

Record = Beacon | Heard | Health | Status | Downlink | Arrived | Taken | Proof | Idle
RECORDS: tuple[type[Record], ...] = (Beacon, Heard, Health, Status, Downlink, Arrived, Taken, Idle)
SEALED: tuple[type[Health | Downlink | Arrived | Taken | Proof], ...] = (
    Health,
    Downlink,
    Arrived,
    Taken,
    Proof,
)


def records_of(mic: int) -> dict[int, type[Record]]:
    """The records of a network by AM type, for a MIC of `mic` bytes."""
    return {record.AM_TYPE: record for record in ((*RECORDS, Proof) if mic else RECORDS)}


def members(record: type[Record]) -> tuple[Member, ...]:
    """The integers of a record in wire order, without gaps."""
    found, offset = [], 0
    for item in fields(record):
        if item.name in ("mic", "tail"):
            continue
        member = Member(item.name, item.metadata["type"], offset, item.metadata["doc"])
        found.append(member)
        offset += member.size
    return tuple(found)


def size(record: type[Record], mic: int = 0) -> int:
    """Bytes on the wire; `mic`: of the network's MIC."""
    return sum(member.size for member in members(record)) + (mic if record in SEALED[1:] else 0)


def mic_at(record: type[Record]) -> int:
    """Where a sealed record has its MIC."""
    if record is Health:
        return next(member.offset for member in members(Health) if member.name == "layout")
    return size(record)
