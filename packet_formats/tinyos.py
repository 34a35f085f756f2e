"""TinyOS packets on the serial line, versions 1.x and 2.x.

A packet is a type byte, a token if an acknowledgement is wanted, and a message. The type byte gives the
version. The two versions order and size the message header differently, and only 2.x names the sender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from construct import Byte, Bytes, Const, ConstructError, Int16ub, Int16ul, Struct, Terminated, this

from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.phrases import many

BROADCAST = 0xFFFF

# packet type byte -> (TinyOS version, kind)
PACKET_TYPES = {
    0x40: (1, "ack"),
    0x41: (1, "data-ack"),
    0x42: (1, "data"),
    0x43: (2, "ack"),
    0x44: (2, "data-ack"),
    0x45: (2, "data"),
}
TYPE_OF = {value: key for key, value in PACKET_TYPES.items()}

MESSAGE: dict[int, Any] = {
    1: Struct(
        "dest" / Int16ul,
        "type" / Byte,
        "group" / Byte,
        "length" / Byte,
        "data" / Bytes(this.length),
        Terminated,
    ),
    2: Struct(
        "dispatch" / Const(b"\x00"),
        "dest" / Int16ub,
        "source" / Int16ub,
        "length" / Byte,
        "group" / Byte,
        "type" / Byte,
        "data" / Bytes(this.length),
        Terminated,
    ),
}


class PacketError(ValueError):
    """Some bytes are not a packet, or a packet must not be sent."""


# Never changed, but not frozen: each frame makes some, and frozen dataclasses take seven times as long.
@dataclass(slots=True, unsafe_hash=True)
class ActiveMessage:
    """One message; `source` is None on 1.x, `token` is None unless an acknowledgement is wanted."""

    tinyos: int
    dest: int
    group: int
    type: int
    data: bytes
    source: int | None = None
    kind: str = "data"
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement: the packet with this token had a good CRC. It does not mean that it was delivered."""

    tinyos: int
    token: int


def decode_packet(packet: bytes) -> ActiveMessage | Ack:
    """Decode a packet, given from its type byte on as `FrameDecoder` gives it."""
    if not packet or packet[0] not in PACKET_TYPES:
        raise PacketError(f"unknown packet type {packet[:1].hex() or '(empty packet)'}")
    tinyos, kind = PACKET_TYPES[packet[0]]
    if kind == "data":
        return decode_am(tinyos, packet[1:])
    if len(packet) < 2:
        raise PacketError("the packet ends before its token")
    if kind == "ack":
        if len(packet) != 2:
            raise PacketError(f"an acknowledgement has 2 bytes, not {len(packet)}")
        return Ack(tinyos, packet[1])
    return decode_am(tinyos, packet[2:], kind, packet[1])


def encode_packet(packet: ActiveMessage | Ack) -> bytes:
    if isinstance(packet, Ack):
        return bytes([TYPE_OF[packet.tinyos, "ack"], _byte("token", packet.token)])
    head = [TYPE_OF[packet.tinyos, packet.kind]]
    if packet.kind == "data-ack":
        head.append(_byte("token", packet.token))
    elif packet.token is not None:
        raise PacketError("only a packet that wants an acknowledgement has a token")
    return bytes(head) + encode_am(packet)


def decode_am(tinyos: int, raw: bytes, kind: str = "data", token: int | None = None) -> ActiveMessage:
    """Decode a message, given from its header on (2.x: dispatch byte) as a serial forwarder hands it over."""
    try:
        parsed = MESSAGE[tinyos].parse(raw)
    except ConstructError as error:
        raise PacketError(f"not a TinyOS {tinyos} message: {_why(tinyos, raw)}") from error
    if parsed.length > PAYLOAD_LIMIT[tinyos]:
        raise PacketError(f"{parsed.length} data bytes, over the {PAYLOAD_LIMIT[tinyos]} of TinyOS {tinyos}")
    source = parsed.source if tinyos == 2 else None
    return ActiveMessage(tinyos, parsed.dest, parsed.group, parsed.type, parsed.data, source, kind, token)


def encode_am(message: ActiveMessage) -> bytes:
    """The inverse of `decode_am`. It refuses an oversize message, which gateways would send out corrupt."""
    limit = PAYLOAD_LIMIT[message.tinyos]
    if len(message.data) > limit:
        raise PacketError(f"{len(message.data)} data bytes, over the {limit} of TinyOS {message.tinyos}")
    if message.tinyos == 1 and message.source is not None:
        raise PacketError("a TinyOS 1 message has no source")
    fields = {
        "dest": _bounded("dest", message.dest, 0xFFFF),
        "source": _bounded("source", message.source or 0, 0xFFFF),
        "group": _byte("group", message.group),
        "type": _byte("type", message.type),
        "length": len(message.data),
        "data": message.data,
    }
    return bytes(MESSAGE[message.tinyos].build(fields))


def _why(tinyos: int, raw: bytes) -> str:
    header, length_at = (5, 4) if tinyos == 1 else (8, 5)
    if len(raw) < header:
        return f"{many(len(raw), 'byte')}, the header alone has {header}"
    if tinyos == 2 and raw[0]:
        return f"dispatch byte {raw[0]:02x}, not 00"
    return f"its header says {many(raw[length_at], 'data byte')}, found {len(raw) - header}"


def _byte(name: str, value: int | None) -> int:
    return _bounded(name, value, 0xFF)


def _bounded(name: str, value: int | None, most: int) -> int:
    if value is None or not 0 <= value <= most:
        raise PacketError(f"{name} = {value} is outside 0..{most}")
    return value
