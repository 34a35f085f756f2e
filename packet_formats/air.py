"""The frames on the air, written and read as firmware/core/air.c does.

    IEEE 802.15.4, TinyOS 1   01 08 number FF FF dest(LE) type group, data, check sum
    IEEE 802.15.4, TinyOS 2   41 88 number group 00 dest(LE) source(LE) 3F type, data, check sum
    CC1000                    the message as on the serial line (2.x: without its dispatch byte), CRC-16

A *frame* is everything from the header to the check sum, low byte first. A *signal* is a frame and what the radio puts
around it: the length byte of a CC2420; preamble, sync word and flush bytes of a CC1000.
"""

from __future__ import annotations

import struct
from typing import Protocol

from packet_formats.boards import CC1000, Radio
from packet_formats.framing import crc16
from packet_formats.tinyos import BROADCAST, ActiveMessage, PacketError, decode_am, encode_am

CHECK_BYTES = 2

# IEEE 802.15.4: frame control, its bit that asks for an acknowledgement, the 6LoWPAN dispatch byte of TinyOS 2.
CONTROL = {1: 0x0801, 2: 0x8841}
ACK_REQUEST = 0x20
NETWORK = 0x3F
HEADER = {1: struct.Struct("<HBHHBB"), 2: struct.Struct("<HBHHHBB")}

# CC1000: what our driver sends around a frame; the byte that only the serial line has before it; the length's place.
PREAMBLE, SYNC, FLUSH = b"\xaa" * 8, b"\x33\xcc", bytes(2)
DISPATCH = {1: b"", 2: b"\x00"}
LENGTH_AT = 4


class AirFormat(Protocol):
    """One way to put messages on the air."""

    def frame(self, message: ActiveMessage, number: int = 0) -> bytes:
        """The frame of a message. `number` is the radio's own frame number, if its frames have one."""

    def read(self, frame: bytes, tinyos: int) -> ActiveMessage | None:
        """The message in a frame of this TinyOS version; None for anything else."""

    def signal(self, frame: bytes) -> bytes:
        """The bytes of a signal that carries a frame."""

    def find(self, signal: bytes) -> bytes | None:
        """The frame in a signal; None when it is not whole."""

    def delimiter_end(self, signal: bytes) -> int:
        """The number of bytes of a signal up to the end of its start-of-frame delimiter."""


def air_format(radio: Radio) -> AirFormat:
    return _FORMATS[radio.framing]


def fcs(data: bytes) -> int:
    """The check sum of IEEE 802.15.4: polynomial 0x1021, least significant bit first, initial value 0."""
    check = 0
    for byte in data:
        check ^= byte
        for _ in range(8):
            check = check >> 1 ^ (0x8408 if check & 1 else 0)
    return check


class Ieee802154:
    """Data frames with short addresses. On 1.x the PAN is broadcast; on 2.x it is the group, and a sender is given."""

    def frame(self, message: ActiveMessage, number: int = 0) -> bytes:
        control = (CONTROL[message.tinyos], number)
        if message.tinyos == 1:
            header = HEADER[1].pack(*control, BROADCAST, message.dest, message.type, message.group)
        else:
            addresses = (message.group, message.dest, message.source or 0)
            header = HEADER[2].pack(*control, *addresses, NETWORK, message.type)
        body = header + message.data
        return body + fcs(body).to_bytes(CHECK_BYTES, "little")

    def read(self, frame: bytes, tinyos: int) -> ActiveMessage | None:
        header, body = HEADER[tinyos], frame[:-CHECK_BYTES]
        if len(body) < header.size or fcs(body) != int.from_bytes(frame[-CHECK_BYTES:], "little"):
            return None
        control, _, pan, dest, *rest = header.unpack_from(body)
        if control & ~ACK_REQUEST != CONTROL[tinyos]:
            return None
        data = body[header.size :]
        if tinyos == 1:
            type_, group = rest
            return ActiveMessage(1, dest, group, type_, data) if pan == BROADCAST else None
        source, network, type_ = rest
        if pan > 0xFF or network != NETWORK:
            return None
        return ActiveMessage(2, dest, pan, type_, data, source)

    def signal(self, frame: bytes) -> bytes:
        return bytes([len(frame)]) + frame

    def find(self, signal: bytes) -> bytes | None:
        frame = signal[1:]
        return frame if frame and len(frame) == signal[0] else None

    def delimiter_end(self, signal: bytes) -> int:
        return 0


class Cc1000:
    """Frames of a radio that sends plain bytes: the driver adds preamble and sync word."""

    def frame(self, message: ActiveMessage, number: int = 0) -> bytes:
        body = encode_am(message)[len(DISPATCH[message.tinyos]) :]
        return body + crc16(body).to_bytes(CHECK_BYTES, "little")

    def read(self, frame: bytes, tinyos: int) -> ActiveMessage | None:
        try:
            return decode_am(tinyos, DISPATCH[tinyos] + frame[:-CHECK_BYTES])
        except PacketError:
            return None

    def signal(self, frame: bytes) -> bytes:
        return PREAMBLE + SYNC + frame + FLUSH

    def find(self, signal: bytes) -> bytes | None:
        """The frame in a signal: its length gives its end, its CRC the TinyOS version of the sender."""
        frame = signal[self.delimiter_end(signal) :]
        if len(frame) <= LENGTH_AT:
            return None
        for header in CC1000.header.values():
            body = frame[: header + frame[LENGTH_AT]]
            check = frame[len(body) : len(body) + CHECK_BYTES]
            if len(check) == CHECK_BYTES and crc16(body) == int.from_bytes(check, "little"):
                return body + check
        return None

    def delimiter_end(self, signal: bytes) -> int:
        at = signal.find(SYNC)
        return len(signal) if at < 0 else at + len(SYNC)


_FORMATS: dict[str, AirFormat] = {"ieee802154": Ieee802154(), "cc1000": Cc1000()}
