"""The CC1000 driver sends: every byte and time, and when it takes the channel for clear."""

import ctypes
import itertools

import pytest

from tests.firmware.cc1000.radio import (
    BUSY,
    BYTE_NS,
    CURRENT,
    CYCLE_NS,
    FLUSH,
    MAIN,
    PA_POW,
    PREAMBLE,
    SENT,
    SYNC,
)


@pytest.mark.parametrize("length", [0, 1, 11, 28])
def test_every_byte_of_a_frame_sent(radio, length):
    data = bytes(range(0x70, 0x70 + length))
    writes = len(radio.writes())
    assert radio.send(data, dest=0x0203, source=0x0405, type=0x91, group=0x22)
    assert not radio.send(data)
    out = radio.go()
    frame = radio.frame(data, dest=0x0203, source=0x0405, kind=0x91, group=0x22)
    # The byte under way when power came, the preamble, ..., two to flush. All the while the antenna had power.
    assert out == b"\xaa" + b"\xaa" * PREAMBLE + SYNC + frame + bytes(FLUSH)
    assert radio.writes()[writes:] == [
        *[(MAIN, 0xE1), (CURRENT, 0x81), (PA_POW, 0x0F)],
        *[(CURRENT, 0x44), (PA_POW, 0x00), (MAIN, 0x11)],
    ]
    at = [ns for ns, how, _, _ in radio.accesses() if how == "write"][writes:]
    assert at[2] - at[1] >= 250_000
    [(result, time)] = radio.sent()
    assert result == SENT
    # The time is that of the sync word's end: CRC, data, header and flush bytes before the end.
    end = at[3] - (len(frame) + FLUSH) * BYTE_NS
    assert time == pytest.approx(end / CYCLE_NS, abs=2)
    # The air was taken for as long as radio_airtime() says: here power came at a byte's beginning, the worst place.
    assert (at[4] - at[2]) / CYCLE_NS <= radio.c.radio_airtime(length) <= (at[4] - at[2]) / CYCLE_NS + 4

    # And receiving goes on.
    radio.silence(3)
    radio.hear(radio.air(b"heard"), 3)
    radio.silence(1)
    assert radio.payloads() == [b"heard"]


def test_what_one_sends_another_hears_at_the_same_time(boot):
    for version in (1, 2):
        sender, receiver = boot(version), boot(version)
        for one in (sender, receiver):
            assert one.start()
            one.silence(20)
        assert sender.send(b"over there", dest=7)
        out = sender.go()
        # Both clocks run alike: put the receiver's byte grid 3 bits behind the sender's.
        lag = 3
        began = receiver.ns
        receiver.hear(out, lag)
        receiver.silence(1)
        [heard] = receiver.heard()
        assert bytes(heard.message.data[:10]) == b"over there"
        assert heard.message.dest == 7
        place = began + (1 + PREAMBLE + 2 + lag / 8) * BYTE_NS
        assert heard.time == pytest.approx(place / CYCLE_NS, abs=1)


def test_airtime(boot):
    for version, header in ((1, 5), (2, 7)):
        radio = boot(version)
        for length in range(30):
            total = 1 + PREAMBLE + 2 + header + length + 2 + FLUSH
            cycles = radio.c.radio_airtime(length) - 4  # 120 us for power to come and go
            assert cycles - 1 < total * 8 / 19200 * 32768 <= cycles


@pytest.mark.parametrize(("length", "place"), [(4, 0), (14, 10), (28, 24)])
def test_the_stamp_is_filled_while_the_frame_goes_out(radio, length, place):
    assert radio.send(bytes(length), stamp_at=place)
    out = radio.go()[1 + PREAMBLE + 2 : -FLUSH]
    [(result, time)] = radio.sent()
    assert result == SENT
    stamp = (time + 0x12345678).to_bytes(4, "little" if radio.version == 1 else "big")
    assert out == radio.frame(bytes(place) + stamp)


def test_what_is_refused(radio):
    assert not radio.send(bytes(radio.limit + 1))
    assert not radio.send(bytes(255))
    assert not radio.send(bytes(10), stamp_at=7)
    assert radio.send(bytes(radio.limit), stamp_at=radio.limit - 4)
    radio.go()


def test_backoff_is_one_to_eight_bytes(boot):
    waits = []
    for seed in range(60):
        radio = boot(1)
        assert radio.start(seed)
        radio.silence(20)
        assert radio.send(b"")
        began = radio.ns
        while radio.registers[PA_POW] == 0:
            radio.byte(0)
        waits.append(round((radio.ns - began) / BYTE_NS))
    assert min(waits) <= 5
    assert 8 <= max(waits) <= 12
    assert len(set(waits)) > 5


def test_a_busy_channel_until_the_deadline(radio):
    radio.silence(200)
    radio.set("rssi", 200, ctypes.c_uint16)
    writes = len(radio.writes())
    deadline = radio.cycles + 3277
    assert radio.send(b"never", deadline)
    assert radio.go() == b""
    assert [result for result, _ in radio.sent()] == [BUSY]
    assert deadline - 40 <= radio.cycles <= deadline + 1
    assert len(radio.writes()) == writes


def test_a_busy_channel_that_clears(radio):
    radio.silence(200)
    radio.set("rssi", 200, ctypes.c_uint16)
    assert radio.send(b"late")
    radio.silence(100)
    assert radio.sent() == []
    assert radio.registers[PA_POW] == 0
    radio.set("rssi", 400, ctypes.c_uint16)
    began = radio.ns
    while radio.registers[PA_POW] == 0:
        radio.byte(0)
    assert radio.ns - began <= 24 * BYTE_NS
    assert radio.go()[: 1 + PREAMBLE + 2].endswith(SYNC)


def test_no_send_while_a_frame_comes_in(radio):
    """However often: what comes in is heard whole, and sent is after it."""
    for number in range(12):
        assert radio.send(b"mine")
        radio.silence(number)
        radio.hear(radio.air(b"theirs" + bytes([number])), number % 8)
        assert radio.registers[PA_POW] == 0 or len(radio.heard()) == number
        if radio.registers[PA_POW] == 0 and len(radio.sent()) == number:
            assert radio.go().endswith(radio.frame(b"mine") + bytes(FLUSH))
        else:
            radio.silence(60)
        assert len(radio.sent()) == number + 1
    assert all(result == SENT for result, _ in radio.sent())


def test_a_slow_loop_finds_the_channel_taken(radio):
    """Clear when last seen, but the loop comes late: then it looks again."""
    assert radio.send(b"mine")
    for _ in range(40):
        radio.byte(0, service=False)
    assert radio.get("events") & 2
    radio.hear(radio.air(b"theirs")[:14], 0, service=False)
    radio.c.host_service()
    assert radio.registers[PA_POW] == 0
    radio.hear(radio.air(b"theirs")[14:], 0)
    assert radio.payloads() == [b"theirs"]
    assert radio.go()


def test_a_slow_loop_finds_the_channel_loud(radio):
    assert radio.send(b"mine")
    for _ in range(40):
        radio.byte(0, service=False)
    radio.set("rssi", 200, ctypes.c_uint16)
    for _ in range(2):
        radio.byte(0, service=False)
    radio.c.host_service()
    assert radio.registers[PA_POW] == 0
    radio.set("rssi", 400, ctypes.c_uint16)
    assert radio.go(60)


def test_five_looks_then_a_pause_of_up_to_sixteen(radio):
    radio.silence(200)
    radio.set("rssi", 200, ctypes.c_uint16)
    assert radio.send(b"never")
    looked = []
    for _ in range(1000):
        before = radio.get("rssi_count", ctypes.c_uint32)
        radio.byte(0)
        looked.append(radio.get("rssi_count", ctypes.c_uint32) > before)
    runs = [(look, len(list(group))) for look, group in itertools.groupby(looked)]
    looks = [length for look, length in runs[1:-1] if look and length > 1]
    pauses = [length for look, length in runs[1:-1] if not look]
    # A pause of one byte joins two looks; a sample of the floor may come just before one.
    assert len(looks) > 40
    assert looks.count(5) > len(looks) / 2
    assert all(length % 5 <= 2 for length in looks)
    assert max(pauses) <= 15
    assert len(set(pauses)) >= 10


def test_a_strength_that_stays_becomes_the_floor(radio):
    radio.set("rssi", 100, ctypes.c_uint16)
    radio.silence(24_000)
    assert radio.send(b"x")
    radio.go(100)
    assert [result for result, _ in radio.sent()] == [SENT]


@pytest.mark.parametrize("value", [0, 1023])
def test_a_converter_that_is_stuck(boot, value):
    radio = boot(1)
    radio.set("rssi", value, ctypes.c_uint16)
    assert radio.start()
    assert radio.send(b"x")
    radio.go(100)
    assert [result for result, _ in radio.sent()] == [SENT]


def test_a_send_from_where_the_last_one_ended(radio):
    radio.set("resend", 1)
    assert radio.send(b"first")
    radio.go()
    out = radio.go()
    assert radio.frame(b"\x07", source=0, kind=9, group=1) in out
    assert [result for result, _ in radio.sent()] == [SENT, SENT]
