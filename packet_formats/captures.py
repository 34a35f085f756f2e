"""Recorded captures of a serial line: raw bytes, hex text of serial frames, or the lines of a `Listen` tool.

Or packets, one a line in hex, from the type byte on and without framing, as a log keeps them.

`Listen` prints each TinyOS message as one line of hex, without framing and often with the whole message
buffer: header, 29 bytes of data whatever the length, and two bytes that say whether the radio's CRC was good.
Old captures hold lines that were cut off, or that ran together. Damage is reported and skipped; a packet is
recovered from a damaged line only if its whole header was seen on a clean line of the capture.
"""

from __future__ import annotations

import codecs
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packet_formats.framing import FLAG, MIN_BYTES, FrameCounters, FrameDecoder
from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.phrases import many
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_am, decode_packet

FORMATS = ("serial", "hex", "listen", "packets")
HEADER = 5  # of a 1.x message: address, type, group, length
HEADER_2X = 8
BUFFER = HEADER + PAYLOAD_LIMIT[1]
CRC_GOOD = b"\x01\x00"
PIECE = 4096
MOST = 1 << 30  # bytes of a capture: two days of a line that is never idle; all of it is read at once
_HEX = frozenset("0123456789abcdefABCDEF \t")
_SPACE = frozenset(b"\t\n\v\f\r")


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """A packet, and the line it stood on (0 in binary input)."""

    packet: ActiveMessage | Ack
    line: int = 0


@dataclass(frozen=True, slots=True)
class CaptureFault:
    """Something that was skipped, or recovered, and why. Faults of one `kind` differ only in details.

    `alien` says that nothing on the line looked like this format.
    """

    reason: str
    line: int = 0
    kind: str = ""
    alien: bool = False

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


def unzipped(raw: bytes) -> tuple[bytes, CaptureFault | None]:
    """The content of a gzip file up to its first damage; other bytes come back as they are.

    A few kilobytes may unpack to more than any memory holds, so at most `MOST` bytes are read.
    """
    content = bytearray()
    while raw.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(wbits=31)
        try:
            for at in range(0, len(raw), PIECE):  # in pieces, so that damage costs at most one
                content += member.decompress(raw[at : at + PIECE])  # at most a thousand times as long
                if len(content) > MOST:
                    return bytes(content[:MOST]), CaptureFault(
                        f"unpacks to more than {MOST >> 20} MB: the rest is not read"
                    )
        except zlib.error as error:
            return bytes(content), CaptureFault(f"damaged gzip file: {error}")
        if not member.eof:
            return bytes(content), CaptureFault("the gzip file was cut off")
        raw = member.unused_data
    return bytes(content) + raw, None


def detect(raw: bytes) -> str:
    """The format of a capture: binary, or the text format that reads most of it."""
    lines = [line for _, line in _hex_lines(raw) if isinstance(line, bytes)] if _is_text(raw) else []
    if not lines:
        return "serial"
    decoder = FrameDecoder()
    decoder.feed(b"".join(lines))
    counters, shape = decoder.counters, _shape(lines)
    clean = sum(len(line) for line in lines if shape in _shapes(line))
    framed = sum(len(line) for line in lines if _is_framed(line))
    frames = max(framed, counters.good + 2 * counters.frames)
    if sum(len(line) for line in lines if _is_packet(line)) > max(frames, clean):
        return "packets"
    return "hex" if frames and frames >= clean else "listen"


def _is_packet(line: bytes) -> bool:
    try:
        decode_packet(line)
    except PacketError:
        return False
    return True


def _is_framed(line: bytes) -> bool:
    """Whether a line is one or more serial frames, with a good CRC or not.

    The second byte of a message to 007e, the serial line's own address, is 0: no packet type.
    """
    return len(line) >= MIN_BYTES + 2 and line[0] == line[-1] == FLAG and line[1] != 0


def _is_text(raw: bytes) -> bool:
    """Whether this is UTF-8 without control characters; a serial stream nearly always holds a zero byte."""
    sample = raw[:65536]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return all(byte >= 0x20 or byte in _SPACE for byte in sample)


def read(raw: bytes, form: str) -> Iterator[CapturedPacket | CaptureFault]:
    """Every packet of a capture in order, and every fault where it was met."""
    if form == "serial":
        yield from _serial([(0, raw)])
    elif form == "hex":
        yield from _serial(_hex_lines(raw))
    elif form == "packets":
        yield from _packets(raw)
    else:
        yield from _listen(raw)


def lines_read(items: Iterable[CapturedPacket | CaptureFault]) -> tuple[int, int]:
    """How many lines of text gave a packet, and how many were not in this format at all."""
    items = list(items)
    good = {item.line for item in items if isinstance(item, CapturedPacket)}
    return len(good), len(
        {item.line for item in items if isinstance(item, CaptureFault) and item.alien} - good
    )


def no_capture(items: Sequence[CapturedPacket | CaptureFault], form: str) -> str | None:
    """The reason if most lines are not packets. A few lines of any digits look like a packet by chance."""
    good, alien = lines_read(items)
    if alien <= good:
        return None
    first = next(item for item in items if isinstance(item, CaptureFault) and item.alien)
    return f"no capture: {alien} of {many(good + alien, 'line')} can't be read as {form}; {first}"


def _hex_lines(raw: bytes) -> list[tuple[int, bytes | CaptureFault]]:
    """Each line's number, and its bytes or why it is not hex; blank lines are left out."""
    lines: list[tuple[int, bytes | CaptureFault]] = []
    for number, line in enumerate(raw.splitlines(), 1):
        text = line.decode("ascii", "replace").strip()
        if not text:
            continue
        try:
            lines.append((number, bytes.fromhex(text)))
        except ValueError:
            what = "truncated within a byte" if set(text) <= _HEX else "not hex"
            shown = text if len(text) <= 40 else text[:37] + "..."
            lines.append((number, CaptureFault(f"{what}, skipped: {shown!r}", number, what, alien=True)))
    return lines


def _serial(pieces: Sequence[tuple[int, bytes | CaptureFault]]) -> Iterator[CapturedPacket | CaptureFault]:
    decoder, line = FrameDecoder(), 0
    reported: Counter[str] = Counter()
    for line, piece in pieces:
        if isinstance(piece, CaptureFault):
            yield piece
            continue
        for packet in decoder.feed(piece):
            try:
                yield CapturedPacket(decode_packet(packet), line)
            except PacketError as error:
                yield CaptureFault(str(error), line, "no packet")
        if line:
            yield from _drops(decoder.counters, reported, line)
    decoder.close()
    yield from _drops(decoder.counters, reported, line)


def _packets(raw: bytes) -> Iterator[CapturedPacket | CaptureFault]:
    for number, line in _hex_lines(raw):
        if isinstance(line, CaptureFault):
            yield line
            continue
        try:
            yield CapturedPacket(decode_packet(line), number)
        except PacketError as error:
            yield CaptureFault(str(error), number, "no packet", alien=True)


def _drops(counters: FrameCounters, reported: Counter[str], line: int) -> Iterator[CaptureFault]:
    """Faults for the drops since the last call: on a line of text, or in all of a binary stream."""
    for name, drop in counters.drops().items():
        count, size = drop.count - reported[name], drop.bytes - reported[name + " bytes"]
        reported[name], reported[name + " bytes"] = drop.count, drop.bytes
        what = _DROPPED[name]
        if count:
            often = "" if line and count == 1 else f"{many(count, 'time')}, "
            yield CaptureFault(f"{what}: {often}{many(size, 'byte')} skipped", line, what)


_DROPPED = {
    "noise": "bytes before the first flag",
    "short": "fewer than 4 bytes between flags",
    "crc": "bad CRC",
    "escape": "an escape followed by a flag",
    "long": "more than 256 bytes between flags",
    "partial": "a frame that did not end",
}


def _listen(raw: bytes) -> Iterator[CapturedPacket | CaptureFault]:
    lines = _hex_lines(raw)
    shape = _shape([line for _, line in lines if isinstance(line, bytes)])
    clean = [line for _, line in lines if isinstance(line, bytes) and shape in _shapes(line)]
    headers = {line[:HEADER] for line in clean} if shape != "2.x" else set()
    for number, line in lines:
        if isinstance(line, CaptureFault):
            yield line
        elif shape in _shapes(line):
            yield CapturedPacket(_message(line, shape), number)
        else:
            yield from _damaged(line, number, shape, headers)


# One line of a capture is a 1.x message buffer (whole, without its CRC bytes, or cut to the message's own
# length) or a 2.x message. One tool printed the whole capture, so only the shape that most lines have counts:
# otherwise a cut-off line could pass for a shorter message.
SHAPES = ("buffer", "buffer, CRC not good", "1.x", "buffer without CRC", "2.x")


def _shapes(line: bytes) -> set[str]:
    """Every shape that this line could have."""
    shapes = set()
    if len(line) >= HEADER and line[4] <= PAYLOAD_LIMIT[1]:
        if len(line) == BUFFER + 2:
            shapes.add("buffer" if line.endswith(CRC_GOOD) else "buffer, CRC not good")
        if len(line) == BUFFER:
            shapes.add("buffer without CRC")
        if len(line) == HEADER + line[4]:
            shapes.add("1.x")
    length = len(line) - HEADER_2X
    if 0 <= length <= PAYLOAD_LIMIT[2] and line[0] == 0 and line[5] == length:
        shapes.add("2.x")
    return shapes


def _shape(lines: list[bytes]) -> str:
    """The shape that most lines have."""
    count = Counter(shape for line in lines for shape in _shapes(line))
    return max(SHAPES, key=lambda shape: count[shape])


def _message(line: bytes, shape: str) -> ActiveMessage:
    return decode_am(2, line) if shape == "2.x" else decode_am(1, line[: HEADER + line[4]])


def _damaged(
    line: bytes, number: int, shape: str, headers: set[bytes]
) -> Iterator[CapturedPacket | CaptureFault]:
    packets, rest = _run_together(line, shape, headers)
    for packet in packets:
        yield CapturedPacket(packet, number)
    if packets:
        left = f", {many(rest, 'byte')} between or after them skipped" if rest else ""
        whole = many(len(packets), "whole packet")
        yield CaptureFault(f"{len(line)} bytes run together: {whole} recovered{left}", number, "run together")
        return
    wanted, size = _wanted(line, shape), many(len(line), "byte")
    if len(line) < wanted:
        reason, kind = f"truncated, skipped: {size} instead of {wanted}", "truncated"
    else:
        kind = "not a message like the capture's others"
        reason = f"skipped: {size}, {kind}"
    yield CaptureFault(reason, number, kind, alien=True)


def _wanted(line: bytes, shape: str) -> int:
    """How many bytes the line should have."""
    if shape.startswith("buffer"):
        return BUFFER if shape == "buffer without CRC" else BUFFER + 2
    header, length_at = (HEADER, 4) if shape == "1.x" else (HEADER_2X, 5)
    return header + line[length_at] if len(line) >= header else header


def _run_together(line: bytes, shape: str, headers: set[bytes]) -> tuple[list[ActiveMessage], int]:
    """The whole packets in a damaged line, where that is safe, and how many of its bytes belong to none.

    A whole buffer, wherever it starts, has a header seen before, the good-CRC bytes at its end, and then the
    line's end or another such header. Packets without such an end mark count only if they fill the line from
    its first byte to its last.
    """
    if shape == "1.x":
        return _tiled(line, headers), 0
    packets, at, rest = [], 0, 0
    while shape == "buffer" and at < len(line):
        if _buffer_at(line, at, headers):
            packets.append(_message(line[at:], shape))
            at += BUFFER + 2
        else:
            at, rest = at + 1, rest + 1
    return packets, rest


def _buffer_at(line: bytes, at: int, headers: set[bytes]) -> bool:
    end = at + BUFFER + 2
    if line[at : at + HEADER] not in headers or end > len(line) or line[end - 2 : end] != CRC_GOOD:
        return False
    follows = line[end : end + HEADER]
    return any(header.startswith(follows) for header in headers)


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
    """Makes a 32-bit clock continuous: each reading is the value nearest to the one before."""

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
