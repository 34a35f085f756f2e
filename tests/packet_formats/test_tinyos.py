"""TinyOS packets of both versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats.framing import FrameDecoder
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_am, decode_packet, encode_packet
from tests.packet_formats.strategies import packets


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (
            "7e4500ffff000102220600012dac7e",
            ActiveMessage(2, 0xFFFF, 0x22, 6, b"\0\1", source=1),
        ),
        ("7e43053a087e", Ack(2, 5)),
        ("7e42ffff047d5d04040001003d0e7e", ActiveMessage(1, 0xFFFF, 0x7D, 4, bytes([4, 0, 1, 0]))),
        ("7e42ffff047d5d03040100f0e67e", ActiveMessage(1, 0xFFFF, 0x7D, 4, bytes([4, 1, 0]))),
        ("7e4011dc0f7e", Ack(1, 0x11)),
    ],
)
def test_packets_seen_on_a_wire(frame: str, expected: ActiveMessage | Ack) -> None:
    (packet,) = FrameDecoder().feed(bytes.fromhex(frame))
    assert decode_packet(packet) == expected


def test_addresses_are_little_endian_on_1_and_big_endian_on_2() -> None:
    assert (
        encode_packet(ActiveMessage(1, 0x0102, 3, 4, b"x")).hex() == "42" + "0201" + "04" + "03" + "01" + "78"
    )
    assert encode_packet(ActiveMessage(2, 0x0102, 3, 4, b"x", source=0x0506)).hex() == "45000102050601030478"


@given(st.binary(max_size=60))
def test_any_bytes_are_read_exactly_or_refused(raw: bytes) -> None:
    try:
        packet = decode_packet(raw)
    except PacketError:
        return
    assert encode_packet(packet) == raw


@given(packets().filter(lambda packet: isinstance(packet, ActiveMessage)), st.integers(1, 5))
def test_header_and_length_at_odds_are_refused(packet: ActiveMessage, by: int) -> None:
    raw = encode_packet(packet)
    with pytest.raises(PacketError):
        decode_packet(raw + bytes(by))
    if packet.data:
        with pytest.raises(PacketError, match="header says"):
            decode_packet(raw[:-1])


@pytest.mark.parametrize(("tinyos", "limit"), [(1, 29), (2, 28)])
def test_oversize_is_refused_both_ways(tinyos: int, limit: int) -> None:
    source = 0 if tinyos == 2 else None
    raw = encode_packet(ActiveMessage(tinyos, 0, 0, 0, bytes(limit), source))
    with pytest.raises(PacketError, match=f"over the {limit}"):
        encode_packet(ActiveMessage(tinyos, 0, 0, 0, bytes(limit + 1), source))
    longer = bytearray(raw + b"\0")
    longer[5 if tinyos == 1 else 6] += 1
    with pytest.raises(PacketError, match=f"over the {limit}"):
        decode_packet(bytes(longer))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty packet"),
        (b"\x46\0\0", "unknown packet type 46"),
        (b"\x40\1\2", "2 bytes"),
        (b"\x43", "before its token"),
        (b"\x44", "before its token"),
        (b"\x42\xff\xff", "header alone has 5"),
        (b"\x45\x01\xff\xff\0\0\0\x22\6", "dispatch byte 01"),
    ],
)
def test_why_bytes_are_no_packet(raw: bytes, reason: str) -> None:
    with pytest.raises(PacketError, match=reason):
        decode_packet(raw)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (ActiveMessage(1, 0x10000, 0, 0, b""), "dest"),
        (ActiveMessage(1, 0, 256, 0, b""), "group"),
        (ActiveMessage(1, 0, 0, -1, b""), "type"),
        (ActiveMessage(1, 0, 0, 0, b"", source=1), "no source"),
        (ActiveMessage(2, 0, 0, 0, b"", source=0x10000), "source"),
        (ActiveMessage(1, 0, 0, 0, b"", kind="data-ack"), "token"),
        (ActiveMessage(1, 0, 0, 0, b"", token=1), "token"),
        (Ack(1, 256), "token"),
    ],
)
def test_packets_that_are_not_encoded(packet: ActiveMessage | Ack, reason: str) -> None:
    with pytest.raises(PacketError, match=reason):
        encode_packet(packet)


def test_a_message_without_its_packet_type() -> None:
    assert decode_am(1, bytes.fromhex("7e00137d0200ff")).data == b"\0\xff"
