"""Serial framing: flags, escapes and a CRC around each packet, as TinyOS sends them.

    7E | packet, with 7E and 7D escaped | CRC-16, low byte first, escaped likewise | 7E

A flag byte stands nowhere else, so the decoder judges what lies between two flags as a whole. That is why it
gives the same frames and the same counters however the byte stream was cut into chunks.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from dataclasses import dataclass, field

FLAG = 0x7E
ESCAPE = 0x7D
FLIP = 0x20
MIN_BYTES = 4  # packet type, one byte, CRC: the shortest packet is an acknowledgement
MAX_BYTES = 256  # unescaped, CRC included

_FLAG, _ESCAPE = bytes([FLAG]), bytes([ESCAPE])
_FLAG_ESCAPED, _ESCAPE_ESCAPED = bytes([ESCAPE, FLAG ^ FLIP]), bytes([ESCAPE, ESCAPE ^ FLIP])
_SPECIAL = re.compile(rb"[\x7d\x7e]")
_ESCAPED = re.compile(rb"\x7d.", re.DOTALL)
_MEANT = {bytes([ESCAPE, byte]): bytes([byte ^ FLIP]) for byte in range(256)}  # by an escape


def crc16(data: bytes) -> int:
    """The CRC of the serial line: polynomial 0x1021, initial value 0, most significant bit first."""
    return crc_hqx(data, 0)


def encode_frame(packet: bytes) -> bytes:
    """The bytes on the line for a packet, given from its type byte on."""
    if not MIN_BYTES - 2 <= len(packet) <= MAX_BYTES - 2:
        raise ValueError(f"a packet has {MIN_BYTES - 2}..{MAX_BYTES - 2} bytes, not {len(packet)}")
    body = packet + crc16(packet).to_bytes(2, "little")
    return _FLAG + _SPECIAL.sub(lambda match: bytes([ESCAPE, match[0][0] ^ FLIP]), body) + _FLAG


@dataclass(slots=True)
class Drop:
    """How often something was dropped for one reason, and how many raw bytes of the line were lost."""

    count: int = 0
    bytes: int = 0

    def add(self, raw_bytes: int) -> None:
        self.count += 1
        self.bytes += raw_bytes


@dataclass(slots=True)
class FrameCounters:
    """Counts where every byte went: `fed` equals flags + good + all drops + what the decoder still holds."""

    fed: int = 0
    flags: int = 0
    frames: int = 0
    good: int = 0  # raw bytes, escapes included, of the frames handed on
    noise: Drop = field(default_factory=Drop)  # before the first flag
    short: Drop = field(default_factory=Drop)  # fewer than 4 bytes between flags
    crc: Drop = field(default_factory=Drop)
    escape: Drop = field(default_factory=Drop)  # an escape followed by a flag
    long: Drop = field(default_factory=Drop)  # more than 256 bytes between flags
    partial: Drop = field(default_factory=Drop)  # no flag came before the stream ended

    def drops(self) -> dict[str, Drop]:
        names = ("noise", "short", "crc", "escape", "long", "partial")
        return {name: getattr(self, name) for name in names}

    @property
    def dropped_bytes(self) -> int:
        return sum(drop.bytes for drop in self.drops().values())


class FrameDecoder:
    """Takes bytes and gives packets. `feed` takes chunks of any size; `close`, once, counts an unfinished frame."""

    def __init__(self) -> None:
        self.counters = FrameCounters()
        self._in_sync = False
        self._held = bytearray()
        self._overrun = 0  # raw bytes of a frame already known to be too long, counted and not kept

    @property
    def pending(self) -> int:
        """Raw bytes received since the last flag."""
        return len(self._held) + self._overrun

    def feed(self, chunk: bytes) -> list[bytes]:
        """The packets completed by this chunk, each from its type byte on, without its CRC."""
        self.counters.fed += len(chunk)
        first, *others = bytes(chunk).split(_FLAG)
        self._hold(first)
        if not others:
            return []
        self.counters.flags += len(others)
        *pieces, rest = others
        found = [self._end(), *[self._packet(piece) for piece in pieces if piece]]
        self._hold(rest)
        return [packet for packet in found if packet is not None]

    def close(self) -> None:
        """End the stream: count the bytes that no flag ended."""
        if self.pending:
            drop = self.counters.partial if self._in_sync else self.counters.noise
            drop.add(self.pending)
        self._reset()

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        # Twice the limit of raw bytes cannot unescape to less than the limit; noise is only counted.
        room = 2 * MAX_BYTES + 1 - len(self._held) if self._in_sync else 0
        self._held += piece[:room]
        self._overrun += len(piece) - len(piece[:room])

    def _end(self) -> bytes | None:
        """A flag: what was held is over."""
        raw, size, was_in_sync = bytes(self._held), self.pending, self._in_sync
        self._in_sync = True
        self._reset()
        if not size:
            return None
        if was_in_sync and len(raw) == size:
            return self._packet(raw)
        (self.counters.long if was_in_sync else self.counters.noise).add(size)
        return None

    def _packet(self, raw: bytes) -> bytes | None:
        """The packet in the bytes between two flags; None where there is none, which is counted."""
        body = _unescaped(raw) if ESCAPE in raw else raw
        if fault := self._fault(raw, body):
            fault.add(len(raw))
            return None
        self.counters.frames += 1
        self.counters.good += len(raw)
        return body[:-2]

    def _fault(self, raw: bytes, body: bytes) -> Drop | None:
        """The counter of the reason why a packet is lost, if it is."""
        if len(body) > MAX_BYTES:
            return self.counters.long
        if raw[-1] == ESCAPE and _ends_in_escape(raw):
            return self.counters.escape
        if len(body) < MIN_BYTES:
            return self.counters.short
        return None if crc16(body[:-2]) == body[-2] | body[-1] << 8 else self.counters.crc

    def _reset(self) -> None:
        self._held.clear()
        self._overrun = 0


def _unescaped(raw: bytes) -> bytes:
    body = raw.replace(_FLAG_ESCAPED, _FLAG).replace(_ESCAPE_ESCAPED, _ESCAPE)
    if len(body) + raw.count(ESCAPE) == len(raw):
        return body
    return _ESCAPED.sub(lambda match: _MEANT[match[0]], raw)  # other bytes are escaped as well


def _ends_in_escape(raw: bytes) -> bool:
    """Whether the last byte is an escape, and not itself escaped by the one before."""
    return (len(raw) - len(raw.rstrip(b"\x7d"))) % 2 == 1
