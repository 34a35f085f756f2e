"""From the bytes of a signal to the message that they carry: firmware/core/air.c the other way round."""

from __future__ import annotations

from packet_formats.framing import crc16
from packet_formats.tinyos import ActiveMessage, PacketError, decode_am

from .truth_log import Signal

SYNC = b"\x33\xcc"
MICA2_BYTE_NS = 8 * 1_000_000_000 / 19_200
_CONTROL = {1: b"\x01\x08", 2: b"\x41\x88"}  # a data frame with short addresses; 2.x: the sender's, too
_ACK_REQUEST = 0x20
_NETWORK = 0x3F


def fcs(data: bytes) -> int:
    """The frame check of IEEE 802.15.4: polynomial 0x1021 reflected, initial value 0."""
    check = 0
    for byte in data:
        check ^= byte
        for _ in range(8):
            check = check >> 1 ^ (0x8408 if check & 1 else 0)
    return check


def frame_of(signal: Signal, board: str) -> bytes | None:
    """The frame with its check sum, without what the chip puts around it; None when it is not whole."""
    if signal.broken:
        return None
    if board == "micaz":
        frame = signal.bytes[1:]
        return frame if frame and len(frame) == signal.bytes[0] else None
    frame = signal.bytes[_after_sync(signal.bytes) :]
    for header, tinyos_length in ((5, 4), (7, 4)):
        end = header + frame[tinyos_length] + 2 if len(frame) > tinyos_length else len(frame) + 1
        if end <= len(frame) and crc16(frame[: end - 2]) == int.from_bytes(frame[end - 2 : end], "little"):
            return frame[:end]
    return None


def delimiter_ns(signal: Signal, board: str) -> int:
    """When the start-of-frame delimiter was over: the moment that time sync speaks of."""
    if board == "micaz":
        return signal.data
    return signal.data + round(_after_sync(signal.bytes) * MICA2_BYTE_NS)


def message_of(signal: Signal, board: str, tinyos: int) -> ActiveMessage | None:
    """The message in a whole frame of this TinyOS version; None for anything else."""
    frame = frame_of(signal, board)
    if frame is None:
        return None
    return _of_micaz(frame, tinyos) if board == "micaz" else _of_mica2(frame, tinyos)


def _of_micaz(frame: bytes, tinyos: int) -> ActiveMessage | None:
    header = 9 if tinyos == 1 else 11
    if len(frame) < header + 2 or fcs(frame[:-2]) != int.from_bytes(frame[-2:], "little"):
        return None
    if bytes([frame[0] & ~_ACK_REQUEST, frame[1]]) != _CONTROL[tinyos]:
        return None
    pan, dest, source = (int.from_bytes(frame[at : at + 2], "little") for at in (3, 5, 7))
    data = frame[header:-2]
    if tinyos == 1:
        return ActiveMessage(1, dest, frame[8], frame[7], data) if pan == 0xFFFF else None
    if pan > 0xFF or frame[9] != _NETWORK:
        return None
    return ActiveMessage(2, dest, pan, frame[10], data, source)


def _of_mica2(frame: bytes, tinyos: int) -> ActiveMessage | None:
    """Behind the sync word stands the message as on the serial line, 2.x without its dispatch byte."""
    try:
        return decode_am(tinyos, frame[:-2] if tinyos == 1 else b"\x00" + frame[:-2])
    except PacketError:
        return None


def _after_sync(raw: bytes) -> int:
    at = raw.find(SYNC)
    return len(raw) if at < 0 else at + len(SYNC)
