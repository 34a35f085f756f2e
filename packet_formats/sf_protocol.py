"""The serial forwarder protocol, for both ends.

    2.x   each side sends `55 20`
    1.x   each side sends `54 21`, then its platform, 4 bytes, low byte first

and then packets: a length byte from 1 to 255, and that many bytes of message, on 2.x from the dispatch byte on. The
second byte of a greeting is the newest version of the protocol that its sender knows; both sides then use the older of
the two. The oldest version of 1.x, `54 20`, has no platform.
"""

from __future__ import annotations

from packet_formats.boards import BOARDS
from packet_formats.tinyos import TYPE_OF

HELLO = {1: b"T!", 2: b"U "}
PORT = {1: 9001, 2: 9002}
PLATFORM_BYTES = 4
OLDEST = 0x20
HELLO_SECONDS = 5.0

_DATA = {tinyos: TYPE_OF[tinyos, "data"] for tinyos in HELLO}


class ProtocolError(Exception):
    """The other end does not speak the protocol."""


def version_of(hello: bytes) -> int:
    """The TinyOS version that a greeting belongs to."""
    for tinyos, ours in HELLO.items():
        if hello[:1] == ours[:1] and hello[1] >= OLDEST:
            return tinyos
    raise ProtocolError(f"greeted with {hello.hex(' ')}: this is no serial forwarder")


def platform_follows(hello: bytes) -> bool:
    """Whether both sides now send their platform."""
    return version_of(hello) == 1 and hello[1] >= HELLO[1][1]


def platform_bytes(board: str) -> bytes:
    number = BOARDS[board].platform if board in BOARDS else 0
    return number.to_bytes(PLATFORM_BYTES, "little")


def to_packet(tinyos: int, message: bytes) -> bytes:
    """The packet, from its type byte on, of a message that the protocol carried."""
    return bytes([_DATA[tinyos]]) + message


def to_message(tinyos: int, packet: bytes) -> bytes | None:
    """The message in a packet, without its token; None if it has none.

    A packet of the other TinyOS version has none: their messages differ.
    """
    if packet[0] == _DATA[tinyos]:
        message = packet[1:]
    elif packet[0] == TYPE_OF[tinyos, "data-ack"]:
        message = packet[2:]
    else:
        return None
    return message if 1 <= len(message) <= 255 else None


def encode(message: bytes) -> bytes:
    return bytes([len(message)]) + message
