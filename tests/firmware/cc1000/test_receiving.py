"""The CC1000 driver receives: frames at every bit offset, damaged ones, noise."""

import ctypes
import itertools
import random

import pytest

from packet_formats.framing import crc16
from tests.firmware.cc1000.radio import BYTE_NS, CYCLE_NS, PREAMBLE, SYNC


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("invert", [True, False], ids=["inverted", "upright"])
def test_a_frame_at_every_bit_offset(radio, offset, invert):
    rng = random.Random(offset)
    for data in (b"", b"\x01", bytes(range(0x80, 0x80 + radio.limit))):
        radio.hear(rng.randbytes(30), offset, invert)
        began = radio.ns
        radio.hear(radio.air(data, dest=0x1234, kind=0xF4), offset, invert)
        radio.silence(3)
        heard = radio.heard()[-1]
        assert bytes(heard.message.data[: heard.message.length]) == data
        message = heard.message
        assert (message.dest, message.type, message.group) == (0x1234, 0xF4, 0x7D)
        assert message.source == (0 if radio.version == 1 else 0x0102)
        assert heard.lqi == 0
        # Time of the sync word's end, to a cycle; the first of `stream`'s bits came `offset` bits into the byte.
        end = began + (PREAMBLE + 2 + offset / 8) * BYTE_NS
        assert heard.time == pytest.approx(end / CYCLE_NS, abs=1)
    assert radio.counters() == {"heard": 3, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}


@pytest.mark.parametrize("preamble", [3, 4, 6, 28, 300])
def test_preambles_of_all_lengths(radio, preamble):
    for offset in range(8):
        radio.hear(b"\x00\x00" + radio.air(b"hello", preamble), offset)
        radio.silence(2)
    assert radio.payloads() == [b"hello"] * 8


def test_a_preamble_with_wrong_bits(radio):
    air = bytearray(radio.air(b"hello", 12))
    air[1] ^= 0x10
    air[7] ^= 0x04
    radio.hear(bytes(air), 3)
    radio.silence(2)
    assert radio.payloads() == [b"hello"]


def test_vector_of_tinyos_2(boot):
    """A frame that a TinyOS 2 mote is known to send: the header without the dispatch byte, CRC over header and data."""
    radio = boot(2)
    assert radio.start()
    frame = bytes.fromhex("ffff0001022206") + bytes([0x00, 0x01])
    radio.hear(b"\xaa" * 7 + SYNC + frame + crc16(frame).to_bytes(2, "little"), 5)
    radio.silence(2)
    message = radio.heard()[0].message
    assert (message.dest, message.source, message.type, message.group, message.length) == (
        0xFFFF,
        1,
        6,
        0x22,
        2,
    )


def test_strength(radio):
    """-49.2 dBm - 51.3 dB/V with a supply of 3 V."""
    for value, dbm in ((0, -49), (200, -79), (400, -109), (1023, -127)):
        radio.set("rssi", value, ctypes.c_uint16)
        radio.hear(radio.air(b"x"), 2)
        radio.silence(2)
        assert radio.heard()[-1].rssi == pytest.approx(dbm, abs=1)
    radio.set("answers_rssi", 0)
    radio.hear(radio.air(b"x"), 2)
    radio.silence(2)
    assert radio.heard()[-1].rssi == -128


def test_bad_crc(radio):
    air = radio.air(b"sixteen bytes of")
    start = PREAMBLE + 2
    length_at = start + 4
    wrong = [place for place in range(start, len(air)) if place != length_at]
    for count, place in enumerate(wrong, 1):
        broken = bytearray(air)
        broken[place] ^= 1 << place % 8
        radio.hear(bytes(broken), place % 8)
        radio.silence(2)
        assert radio.counters()["crc"] == count
    assert radio.heard() == []
    radio.hear(air, 1)
    radio.silence(1)
    assert radio.payloads() == [b"sixteen bytes of"]


def test_a_truncated_frame_becomes_noise_and_the_next_is_heard(radio):
    air = radio.air(bytes(range(20)))
    rng = random.Random(1)
    for cut in range(PREAMBLE + 2, len(air)):
        radio.hear(air[:cut] + rng.randbytes(len(air) + 40), cut % 8)
        counted = sum(radio.counters().values())
        assert counted <= cut - PREAMBLE - 1
    assert radio.heard() == []
    radio.hear(air, 4)
    radio.silence(2)
    assert radio.payloads() == [bytes(range(20))]


@pytest.mark.parametrize("length", [30, 31, 64, 128, 255])
def test_a_length_over_the_limit(radio, length):
    frame = bytearray(radio.frame(b"x"))
    frame[4] = length
    radio.hear(b"\xaa" * 8 + SYNC + bytes(frame), 6)
    assert radio.counters()["garbage"] == 1
    radio.hear(radio.air(b"next"), 2)
    radio.silence(1)
    assert radio.payloads() == [b"next"]


def test_the_limit_itself(boot):
    for version, limit in ((1, 29), (2, 28)):
        radio = boot(version)
        assert radio.start()
        radio.hear(radio.air(bytes(limit)))
        radio.hear(radio.air(bytes(limit + 1)))
        radio.silence(1)
        assert radio.payloads() == [bytes(limit)]
        assert radio.counters()["garbage"] == 1


def test_frames_back_to_back_while_the_loop_is_busy(radio):
    """Two frames wait for the loop; a third is an overrun; the loop finds the two in order."""
    frames = [radio.air(bytes([number] * 9), 6) + b"\x00\x00" for number in range(4)]
    radio.hear(b"".join(frames[:3]), 3, service=False)
    radio.silence(0)
    assert radio.counters() == {"heard": 2, "crc": 0, "overrun": 1, "garbage": 0, "restarts": 0}
    radio.c.host_service()
    assert radio.payloads() == [bytes([0] * 9), bytes([1] * 9)]
    radio.hear(b"".join(frames), 7)
    radio.silence(1)
    assert radio.payloads()[2:] == [bytes([number] * 9) for number in range(4)]
    assert all(a.time < b.time for a, b in itertools.pairwise(radio.heard()))


def test_noise(radio):
    """Ten seconds of noise, and streams that nearly are frames: nothing is heard, and a frame after it is."""
    rng = random.Random(7)
    radio.take(rng.randbytes(24_000))
    radio.take(b"\xaa" * 500 + b"\x55" * 501)
    radio.take((b"\xaa\xaa\xaa\x33\xcc" + b"\xff" * 3) * 50)
    radio.take(bytes(range(256)) * 4)
    assert radio.heard() == []
    radio.hear(radio.air(b"after"), 5)
    radio.silence(1)
    assert radio.payloads() == [b"after"]
