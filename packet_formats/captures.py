"""Recorded captures of a serial line: raw bytes, hex text of serial frames, or the lines of a `Listen` tool.

`Listen` prints each TinyOS message as one line of hex, without framing and often with the whole message
buffer: header, 29 bytes of data whatever the length, and two bytes that say whether the radio's CRC was good.
Old captures hold lines that were cut off, or that ran together. What is damaged is reported and passed over;
a packet is recovered from a damaged line only if its whole header was seen on a clean line of the capture.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from packet_formats.framing import FrameDecoder
from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_am, decode_packet

FORMATS = ("serial", "hex", "listen")
HEADER = 5  # of a 1.x message: address, type, group, length
BUFFER = HEADER + PAYLOAD_LIMIT[1]
CRC_GOOD = b"\x01\x00"
PIECE = 4096
_HEX = frozenset("0123456789abcdefABCDEF \t")
_SPACE = frozenset(b"\t\n\v\f\r")


@dataclass(frozen=True, slots=True)
class Found:
    """A packet, and the line it stood on (0 in binary input)."""

    packet: ActiveMessage | Ack
    line: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was passed over, or recovered, and why."""

    reason: str
    line: int = 0

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


def unzipped(raw: bytes) -> tuple[bytes, Fault | None]:
    """The content of a gzip file, or the bytes themselves; of a damaged one what comes before the damage."""
    content = bytearray()
    while raw.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(wbits=31)
        try:
            for at in range(0, len(raw), PIECE):  # in pieces, so that damage costs no more than one
                content += member.decompress(raw[at : at + PIECE])
        except zlib.error as error:
            return bytes(content), Fault(f"damaged gzip file: {error}")
        if not member.eof:
            return bytes(content), Fault("the gzip file was cut off")
        raw = member.unused_data
    return bytes(content) + raw, None


def detect(raw: bytes) -> str:
    """Which of `FORMATS` this is: binary, or the text that more of it can be read as."""
    lines = [line for _, line in _hex_lines(raw) if isinstance(line, bytes)] if _is_text(raw) else []
    if not lines:
        return "serial"
    decoder = FrameDecoder()
    decoder.feed(b"".join(lines))
    clean = sum(len(line) for line in lines if _clean(line) is not None)
    return "hex" if decoder.counters.good > clean else "listen"


def _is_text(raw: bytes) -> bool:
    """UTF-8 without control characters; a serial stream nearly always holds a zero byte."""
    sample = raw[:65536]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return all(byte >= 0x20 or byte in _SPACE for byte in sample)


def read(raw: bytes, form: str) -> Iterator[Found | Fault]:
    """Every packet of a capture in order, and every fault where it was met."""
    if form == "serial":
        yield from _serial([(0, raw)])
    elif form == "hex":
        yield from _serial(_hex_lines(raw))
    else:
        yield from _listen(raw)


def _hex_lines(raw: bytes) -> list[tuple[int, bytes | str]]:
    """Numbered lines as bytes, or as the reason why a line is not hex; blank lines are left out."""
    lines: list[tuple[int, bytes | str]] = []
    for number, line in enumerate(raw.splitlines(), 1):
        text = line.decode("ascii", "replace").strip()
        if not text:
            continue
        try:
            lines.append((number, bytes.fromhex(text)))
        except ValueError:
            what = "truncated within a byte" if set(text) <= _HEX else "not hex"
            shown = text if len(text) <= 40 else text[:37] + "..."
            lines.append((number, f"{what}, passed over: {shown!r}"))
    return lines


def _serial(pieces: list[tuple[int, bytes]] | list[tuple[int, bytes | str]]) -> Iterator[Found | Fault]:
    decoder = FrameDecoder()
    for line, piece in pieces:
        if isinstance(piece, str):
            yield Fault(piece, line)
            continue
        for packet in decoder.feed(piece):
            try:
                yield Found(decode_packet(packet), line)
            except PacketError as error:
                yield Fault(str(error), line)
    decoder.close()
    for name, drop in decoder.counters.drops().items():
        if drop.count:
            yield Fault(f"{_DROPPED[name]}: {drop.count} times, {drop.bytes} bytes")


_DROPPED = {
    "noise": "bytes before the first flag",
    "short": "fewer than 4 bytes between flags",
    "crc": "bad CRC",
    "escape": "an escape followed by a flag",
    "long": "more than 256 bytes between flags",
    "partial": "a frame that did not end",
}


def _listen(raw: bytes) -> Iterator[Found | Fault]:
    lines = _hex_lines(raw)
    headers = {line[:HEADER] for _, line in lines if isinstance(line, bytes) and _is_1x(line)}
    for number, line in lines:
        if isinstance(line, str):
            yield Fault(line, number)
            continue
        packet = _clean(line)
        if packet is not None:
            yield Found(packet, number)
        else:
            yield from _damaged(line, number, headers)


def _clean(line: bytes) -> ActiveMessage | None:
    """The message of a line that holds exactly one."""
    if _is_1x(line):
        return decode_am(1, line[: HEADER + line[4]])
    try:
        return decode_am(2, line)
    except PacketError:
        return None


def _is_1x(line: bytes) -> bool:
    """Header and data, or the whole buffer, with the CRC bytes or without."""
    if len(line) < HEADER or line[4] > PAYLOAD_LIMIT[1]:
        return False
    return len(line) in (HEADER + line[4], BUFFER, BUFFER + 2)


def _damaged(line: bytes, number: int, headers: set[bytes]) -> Iterator[Found | Fault]:
    packets, rest = _run_together(line, headers)
    for packet in packets:
        yield Found(packet, number)
    if packets:
        left = f", {rest} bytes between or after them passed over" if rest else ""
        yield Fault(f"{len(line)} bytes run together: {len(packets)} whole packets recovered{left}", number)
    elif len(line) < HEADER or len(line) < HEADER + line[4]:
        yield Fault(f"truncated, passed over: {len(line)} bytes, {_wanted(line)}", number)
    else:
        yield Fault(f"no message has {len(line)} bytes with a length byte of {line[4]}, passed over", number)


def _wanted(line: bytes) -> str:
    return (
        f"a header alone has {HEADER}"
        if len(line) < HEADER
        else f"its length byte asks for {HEADER + line[4]}"
    )


def _run_together(line: bytes, headers: set[bytes]) -> tuple[list[ActiveMessage], int]:
    """Whole packets in a line that holds more than one, and how many bytes belong to none.

    A whole buffer is known by a header seen before and by the good-CRC bytes at its end, wherever it starts.
    Bare packets have no such end mark: they count only if they fill the line from first byte to last.
    """
    packets, at, rest = [], 0, 0
    while at < len(line):
        if _buffer_at(line, at, headers):
            packets.append(decode_am(1, line[at : at + HEADER + line[at + 4]]))
            at += BUFFER + 2
        else:
            at, rest = at + 1, rest + 1
    return (packets, rest) if packets else (_tiled(line, headers), 0)


def _buffer_at(line: bytes, at: int, headers: set[bytes]) -> bool:
    end = at + BUFFER + 2
    return line[at : at + HEADER] in headers and line[end - 2 : end] == CRC_GOOD and end <= len(line)


def _tiled(line: bytes, headers: set[bytes]) -> list[ActiveMessage]:
    packets, at = [], 0
    while at < len(line):
        end = at + HEADER + (line[at + 4] if at + 4 < len(line) else 0)
        if line[at : at + HEADER] not in headers or end > len(line):
            return []
        packets.append(decode_am(1, line[at:end]))
        at = end
    return packets


class Unwrapper:
    """A 32-bit clock made continuous: each reading is taken as the value nearest to the one before."""

    def __init__(self) -> None:
        self.wraps = 0
        self._last: int | None = None

    def __call__(self, reading: int) -> int:
        if self._last is None:
            self._last = reading
        else:
            step = (reading - self._last + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000
            before, self._last = self._last, self._last + step
            self.wraps += (self._last >> 32) - (before >> 32)
        return self._last
