"""Frames on the air, both ways, and capture files."""

import io
import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from packet_formats.air import air_format, fcs
from packet_formats.boards import CC1000, CC2420, RADIOS
from packet_formats.framing import crc16
from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.pcap import write_packets
from packet_formats.tinyos import ActiveMessage

each_radio = pytest.mark.parametrize("radio", RADIOS.values(), ids=lambda radio: radio.chip)
short = st.integers(0, 0xFFFF)
byte = st.integers(0, 0xFF)


@st.composite
def messages(draw) -> ActiveMessage:
    tinyos = draw(st.sampled_from([1, 2]))
    data = draw(st.binary(max_size=PAYLOAD_LIMIT[tinyos]))
    source = draw(short) if tinyos == 2 else None
    return ActiveMessage(tinyos, draw(short), draw(byte), draw(byte), data, source)


def test_the_check_sum_is_that_of_a_recorded_frame():
    seen = bytes.fromhex("4188002200ffff01003f060001")  # from an unmodified TinyOS mote
    assert fcs(seen).to_bytes(2, "little").hex() == "d777"
    assert air_format(CC2420).frame(ActiveMessage(2, 0xFFFF, 0x22, 6, b"\x00\x01", 1))[:-2] == seen


@pytest.mark.parametrize(
    ("radio", "tinyos", "text"),
    [
        (CC2420, 1, "0108 07 ffff 3412 80 7d 0102"),
        (CC2420, 2, "4188 07 7d00 3412 7856 3f 80 0102"),
        (CC1000, 1, "3412 80 7d 02 0102"),
        (CC1000, 2, "1234 5678 02 7d 80 0102"),
    ],
)
def test_the_header_of_every_radio_and_version(radio, tinyos, text):
    source = 0x5678 if tinyos == 2 else None
    message = ActiveMessage(tinyos, 0x1234, 0x7D, 0x80, b"\x01\x02", source)
    frame = air_format(radio).frame(message, 7)
    assert frame[:-2] == bytes.fromhex(text)
    assert len(frame) == radio.header[tinyos] + len(message.data) + 2


def begins_with_a_frame(frame):
    """By chance the start of a CC1000's frame of TinyOS 2 is one of TinyOS 1."""
    end = 5 + frame[4]
    return crc16(frame[:end]) == int.from_bytes(frame[end : end + 2], "little")


@each_radio
@given(message=messages(), number=byte)
def test_frames_and_signals_are_read_back(radio, message, number):
    air = air_format(radio)
    frame = air.frame(message, number)
    signal = air.signal(frame)
    assume(radio is CC2420 or message.tinyos == 1 or not begins_with_a_frame(frame))
    assert air.find(signal) == frame
    assert air.read(frame, message.tinyos) == message
    assert air.find(signal[:-5]) is None
    assert signal[air.delimiter_end(signal) :].startswith(signal[:1] if radio is CC2420 else frame)


@given(message=messages(), at=st.integers(0, 200), flip=st.integers(1, 255))
def test_a_frame_with_a_wrong_byte_is_not_read(message, at, flip):
    frame = bytearray(air_format(CC2420).frame(message))
    frame[at % len(frame)] ^= flip
    assert air_format(CC2420).read(bytes(frame), message.tinyos) is None
    body = air_format(CC1000).frame(message)
    wrong = bytearray(body)
    wrong[at % len(body)] ^= flip
    assert air_format(CC1000).find(air_format(CC1000).signal(bytes(wrong))) != bytes(wrong)


@each_radio
@given(raw=st.binary(max_size=80), tinyos=st.sampled_from([1, 2]))
def test_any_bytes_are_taken(radio, raw, tinyos):
    air = air_format(radio)
    for frame in (air.find(raw), raw):
        found = None if frame is None else air.read(frame, tinyos)
        assert found is None or found.tinyos == tinyos


def test_a_capture_byte_by_byte():
    file = io.BytesIO()
    assert write_packets(file, 195, [(7, b"ab"), (3_000_000_005, b"")]) == 2
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 195)
    first, second = struct.pack("<IIII", 0, 7, 2, 2) + b"ab", struct.pack("<IIII", 3, 5, 0, 0)
    assert file.getvalue() == head + first + second
