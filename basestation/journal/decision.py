"""The decision: what the station made of a frame. The log keeps it beside the frame; tables are projections of it.

    short    frame u16 | heard i64 | gateway u16 | fate u8 | flags u8 | epoch u8 | rssi i8 | lqi u8 | bits u8
    long     short | clock i64 | sequence i32 | number i32 | life i16 | marks u16

`docs/reference/formats.md` explains the fields. Data messages of our motes and idle records have the long form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from packet_formats.deployment import Deployment
from packet_formats.records import Heard

DECIDER = 1  # raise it with every change of a rule by which the station decides
NO_TIME = -(1 << 63)


class Fate(IntEnum):
    """What became of a frame."""

    MESSAGE = 0  # a row of the table
    RECORD = 1  # a fixed message: heard, beacon, health, status, downlink
    DUPLICATE = 2
    FOREIGN = 3  # another layout or another application
    STRANGER = 4  # a data message whose source is not a mote of the deployment
    UNTIMED = 5  # a data message before the time was known: its stamp can't be read
    NO_MESSAGE = 6  # an acknowledgement, or bytes that are not a packet
    FORGED = 7  # its MIC is wrong
    UNCHECKED = 8  # data whose MIC can't be checked yet
    REPLAYED = 9  # an old message, sent again
    LATE = 10  # its MIC is right, and the message took too long to be of use
    POSED = 11  # a gateway's own record that came by radio
    UNDECIDED = 12  # in tables only: the log has no decision for the frame


# Bits of the short form. UNKNOWN: `heard` is only the time in the heard record.
PAIRED, GUESSED, CHECKED, UNKNOWN = 1, 2, 4, 8
# Marks of the long form.
IN_SYNC, LATE, BOUNDED, DIFFERS, STRAY, FRESH, DISCARDED, REBOOTED = (1 << bit for bit in range(8))

_SHORT = struct.Struct("<HqHBBBbBB")
_LONG = struct.Struct("<HqHBBBbBBqiihH")
_FIELDS = [
    *(("gateway", "<u2"), ("fate", "u1"), ("flags", "u1"), ("epoch", "u1")),
    *(("rssi", "i1"), ("lqi", "u1"), ("bits", "u1"), ("clock", "<i8")),
    *(("sequence", "<i4"), ("number", "<i4"), ("life", "<i2"), ("marks", "<u2")),
]
WIRE = np.dtype([("frame", "<u2"), ("heard", "<i8"), *_FIELDS])
# A decision as readers use it: `frame` is the frame's record number, `time` that of its heard record.
DECISION = np.dtype([("frame", "<u8"), ("heard", "<i8"), ("time", "<u4"), *_FIELDS])
SHORT_BYTES, LONG_BYTES = _SHORT.size, _LONG.size
FRAME_NUMBERS = 1 << 16  # records; a decision follows its frame sooner
MOST_16, MOST_32 = (1 << 15) - 1, (1 << 31) - 1  # larger values are kept as these


class Decision(NamedTuple):
    """`heard` and `clock` are cycles, unwrapped: when the frame was heard, and how far deliveries had got then.

    `number` counts the messages of a mote over all of its boots; 0 for a copy and for a stray. What was sent before the
    first message that was heard of a mote may have a number, a sequence and a life below 0.
    """

    fate: int
    heard: int | None = None
    record: Heard | None = None  # its heard record
    bits: int = 0
    is_long: bool = False
    clock: int | None = None
    sequence: int = 0
    number: int = 0
    life: int = 0
    marks: int = 0

    def encode(self, frame: int) -> bytes:
        """The payload of the record for the frame with this record number."""
        fate, heard, record, bits, is_long, clock, sequence, number, life, marks = self
        frame %= FRAME_NUMBERS
        if record is None:
            said = (frame, NO_TIME if heard is None else heard, 0, fate, 0, 0, 0, 0, bits)
        else:
            bits |= PAIRED
            if heard is None:
                heard, bits = record.time, bits | UNKNOWN
            said = (
                *(frame, heard, record.gateway, fate),
                *(record.flags, record.epoch, record.rssi, record.lqi, bits),
            )
        if not is_long:
            return _SHORT.pack(*said)
        clock = NO_TIME if clock is None else clock
        return _LONG.pack(
            *said, clock, min(sequence, MOST_32), min(number, MOST_32), min(life, MOST_16), marks
        )


class Noted(NamedTuple):
    """What a replay takes from the log instead of from the present: the observer's clock, and a guessed time."""

    clock: int | None = None
    guess: int | None = None


def wrong_length(size: int) -> str | None:
    """What is wrong with a decision of this length; its frame then counts as undecided."""
    if size in (SHORT_BYTES, LONG_BYTES):
        return None
    return f"a decision record of {size} bytes, it has {SHORT_BYTES} or {LONG_BYTES}"


class Decider(NamedTuple):
    """The rules by which frames were decided (0: by none), and what became of their MICs."""

    rules: int
    mics: str


MICS_ABSENT, MICS_CHECKED, MICS_UNCHECKED = "absent", "checked", "unchecked"


def mics_of(deployment: Deployment | None) -> str:
    """Whether a station with this deployment checks MICs, as a header says it."""
    if deployment is None or not deployment.security.mic:
        return MICS_ABSENT
    return MICS_UNCHECKED if deployment.key is None else MICS_CHECKED


# What the short form lacks: no clock, and nothing else.
_REST = NO_TIME.to_bytes(8, "little", signed=True).ljust(LONG_BYTES - SHORT_BYTES, b"\0")


def rows_of(payloads: Iterable[bytes], numbers: Sequence[int]) -> NDArray[np.void]:
    """Payloads of the decision records with these numbers, as rows of `DECISION`."""
    whole = b"".join([raw if len(raw) == LONG_BYTES else raw + _REST for raw in payloads])
    return unpacked(np.frombuffer(whole, WIRE), np.array(numbers, np.uint64))


def unpacked(wire: NDArray[np.void], numbers: NDArray[np.uint64]) -> NDArray[np.void]:
    """Rows of `DECISION` from rows of `WIRE`, and the numbers of the records that hold them. A heard time is congruent
    to the time in the heard record."""
    rows = np.empty(len(wire), DECISION)
    for name in WIRE.names or ():
        rows[name] = wire[name]
    rows["frame"] = numbers - ((numbers - wire["frame"]) & np.uint64(FRAME_NUMBERS - 1))
    paired = wire["bits"] & PAIRED != 0
    rows["time"] = np.where(paired, wire["heard"] & 0xFFFF_FFFF, 0)
    rows["heard"][wire["bits"] & UNKNOWN != 0] = NO_TIME
    return rows


def differing_fields(one: bytes, other: bytes) -> list[str]:
    """The names of the fields in which two payloads differ."""
    rows = rows_of((one, other), (0, 0))
    return [name for name in DECISION.names or () if rows[0][name] != rows[1][name]]
