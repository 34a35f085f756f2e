"""The CC1000 driver starts its chip, stops it, starts it anew when it is stuck, and calibrates it again."""

import ctypes

import pytest

from tests.firmware.cc1000.radio import (
    CAL,
    CURRENT,
    FAILED,
    LOCK,
    MAIN,
    PA_POW,
    SENT,
    TEST4,
    Radio,
)

# What registers 01 to 13 hold after the start. 2.x: as seen from TinyOS (FREQ_A, FREQ_B, FSEP, MODEM0).
REGISTERS = {
    1: "58 00 00 57 F6 85 03 55 44 02 00 60 90 26 00 6F 55 70 01",
    2: "51 00 00 50 F7 4F 03 0E 44 02 00 58 90 26 00 6F 55 70 01",
}


def bits(value: int, count: int = 8) -> list[int]:
    return [value >> place & 1 for place in reversed(range(count))]


def edges_of(address: int, value: int, write: bool) -> str:
    """The edges of one access from all wires high to all wires high; a level that stays gives no edge."""
    edges, level = ["l"], 1
    for bit in [*bits(address, 7), int(write)]:
        if bit != level:
            edges.append("D" if bit else "d")
            level = bit
        edges += ["c", "C"]
    if not write:
        edges.append("I")
    edges.append("L")
    for bit in bits(value):
        if write and bit != level:
            edges.append("D" if bit else "d")
            level = bit
        edges += ["c", "C"]
    if not write:
        edges.append("i")
    if not level:
        edges.append("D")
    return "".join(edges)


@pytest.mark.parametrize(
    ("address", "value"), [(0x00, 0x11), (0x42, 0x3F), (0x0E, 0xA6), (0x7F, 0x00), (0x00, 0xFF)]
)
def test_every_edge_of_a_write_and_a_read(boot, address, value):
    radio = boot(1)
    radio.c.cc1000_write(address, value)
    assert radio.edges() == edges_of(address, value, write=True)
    assert radio.registers[address] == value
    assert [access[1:] for access in radio.accesses()] == [("write", address, value)]

    radio = boot(2)
    radio.registers[address] = value
    assert radio.c.cc1000_read(address) == value
    assert radio.edges() == edges_of(address, value, write=False)


@pytest.mark.parametrize("version", [1, 2])
def test_start_writes_what_the_data_sheet_asks_in_its_order(boot, version):
    radio = boot(version)
    assert radio.start()
    accesses = radio.accesses()
    writes = radio.writes()
    assert radio.edges() == "".join(edges_of(a, v, how == "write") for _, how, a, v in accesses)

    # Reset, crystal; all registers while the synthesizer is off; bias; then calibration.
    assert writes[:2] == [(MAIN, 0x3A), (MAIN, 0x3B)]
    bias = writes.index((MAIN, 0x39))
    settings = dict(writes[2:bias])
    assert len(settings) == bias - 2
    assert MAIN not in settings
    assert writes[bias + 1 :] == [
        *[(CURRENT, 0x44), (PA_POW, 0x00), (MAIN, 0x11), (CAL, 0xA6), (CAL, 0x26)],
        *[(MAIN, 0xE1), (CURRENT, 0x81), (PA_POW, 0x00), (CAL, 0xA6), (CAL, 0x26)],
        *[(CURRENT, 0x44), (PA_POW, 0x00), (MAIN, 0x11)],
    ]
    expected = dict(enumerate(bytes.fromhex(REGISTERS[version]), 1)) | {TEST4: 0x3F}
    assert {address: radio.registers[address] for address in expected} == expected
    assert set(settings) | {MAIN, CURRENT, CAL} == set(expected) | {MAIN}

    # Times: 2 ms for the crystal, 200 us for the bias, 26 ms each calibration and at most a poll more.
    at = [ns for ns, how, _, _ in accesses if how == "write"]
    assert at[2] - at[1] >= 2_000_000
    assert at[bias + 1] - at[bias] >= 200_000
    starts = [i for i, write in enumerate(writes) if write == (CAL, 0xA6)]
    for start in starts:
        assert 26_000_000 <= at[start + 1] - at[start] <= 26_400_000
    assert radio.ns < 60_000_000
    # Last of all, 250 us after: is the PLL locked?
    assert accesses[-1][1:] == ("read", LOCK, 0x93)
    assert accesses[-1][0] - at[-1] >= 250_000
    assert radio.running() == {"spi_on": 1, "watched": 1, "powered": 1, "drives": 0}


def test_frequencies(boot):
    for version, channel, refdiv in ((1, 433.002e6, 12), (2, 434.845e6, 11)):
        radio = boot(version)
        assert radio.start()
        unit = 14.7456e6 / refdiv / 16384
        word_a = int.from_bytes(bytes(radio.registers[1:4]))
        word_b = int.from_bytes(bytes(radio.registers[4:7]))
        separation = int.from_bytes(bytes(radio.registers[7:9])) * unit
        assert radio.registers[0x0C] >> 3 == refdiv
        assert (word_a + 8192) * unit - 150e3 == pytest.approx(channel, abs=300)
        assert (word_b + 8192) * unit + separation / 2 == pytest.approx(channel, abs=300)
        assert separation == pytest.approx(64e3, abs=100)


def test_a_calibration_that_missed_is_repeated_once(boot):
    radio = boot(1)
    radio.set("locks", 0)
    assert radio.start()
    assert radio.writes().count((CAL, 0xA6)) == 4
    assert radio.writes()[-1] == (MAIN, 0x11)


@pytest.mark.parametrize(("name", "value"), [("present", 0), ("calibration_us", 0)])
def test_a_chip_that_does_not_answer(boot, name, value):
    radio = boot(2)
    radio.set(name, value, ctypes.c_uint32 if name == "calibration_us" else ctypes.c_uint8)
    assert not radio.start()
    assert 68_000_000 <= radio.ns <= 150_000_000
    assert radio.writes()[-2:] == [(PA_POW, 0x00), (MAIN, 0x3F)]
    assert not any(radio.running().values())
    assert not radio.send(b"")


def test_stop(radio):
    assert radio.send(b"abc")
    radio.c.radio_stop()
    assert radio.registers[MAIN] == 0x3F
    assert not any(radio.running().values())
    radio.c.host_service()
    assert [result for result, _ in radio.sent()] == [FAILED]
    assert not radio.send(b"abc")
    assert radio.start()
    radio.silence(20)
    assert radio.send(b"abc")
    radio.go()
    assert [result for result, _ in radio.sent()] == [FAILED, SENT]


# A chip that misbehaves.


def test_a_radio_that_stops_clocking_is_started_anew(radio):
    assert radio.send(b"lost")
    for _ in range(3):
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.counters()["restarts"] == 1
    assert [result for result, _ in radio.sent()] == [FAILED]
    assert radio.writes()[-1] == (MAIN, 0x11)
    radio.silence(20)
    radio.hear(radio.air(b"back"), 1)
    radio.silence(1)
    assert radio.payloads() == [b"back"]
    assert radio.send(b"again")
    radio.go()
    assert [result for result, _ in radio.sent()] == [FAILED, SENT]


def test_a_radio_that_stops_in_the_middle_of_a_send(radio):
    assert radio.send(b"cut short")
    while radio.registers[PA_POW] == 0:
        radio.byte(0)
    radio.take(bytes(15))
    for _ in range(3):
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.registers[PA_POW] == 0
    assert not radio.get("drives")
    assert [result for result, _ in radio.sent()] == [FAILED]


def test_a_dead_radio_is_not_started_all_the_time(radio):
    radio.set("calibration_us", 0, ctypes.c_uint32)
    for _ in range(600):
        radio.c.host_watch()
        radio.c.host_service()
    assert 5 <= radio.counters()["restarts"] <= 16


def test_bytes_keep_the_watch_quiet(radio):
    for _ in range(20):
        radio.silence(1)
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.counters()["restarts"] == 0


def calibrations(radio: Radio, seconds: int) -> list[int]:
    """The seconds in which the PLL is calibrated, once for receiving and once for sending."""
    found = []
    for second in range(seconds):
        before = len(radio.writes())
        for _ in range(10):
            radio.silence(3)
            radio.c.host_watch()
            radio.c.host_service()
        count = radio.writes()[before:].count((CAL, 0xA6))
        assert count in (0, 2)
        found += [second] * (count // 2)
        radio.set("access_count", 0, ctypes.c_uint32)
        radio.set("edge_count", 0, ctypes.c_uint32)
    return found


def test_a_lost_lock_is_calibrated_and_a_wrong_lock_bit_does_not_deafen(radio):
    """At once, then after pauses that double while it does not help; a lock found ends that."""
    assert calibrations(radio, 5) == []
    radio.set("locks", 0)
    assert calibrations(radio, 40) == [0, 2, 6, 14, 30]
    radio.set("locks", 1)
    assert calibrations(radio, 3) == []
    radio.set("locks", 0)
    assert calibrations(radio, 2) == [0]
    radio.set("locks", 1)
    radio.silence(5)
    radio.hear(radio.air(b"still there"))
    radio.silence(1)
    assert radio.payloads() == [b"still there"]
    assert radio.counters()["restarts"] == 0


def test_the_pll_is_calibrated_again_when_the_temperature_may_have_changed(radio):
    assert calibrations(radio, 2 * 1800 + 10) == [1799, 3599]


def test_no_calibration_while_a_send_waits(radio):
    radio.set("locks", 0)
    radio.set("rssi", 100, ctypes.c_uint16)  # the channel is busy
    assert radio.send(b"first", deadline=radio.cycles + 3 * 32768)
    before = radio.writes().count((CAL, 0xA6))
    for _ in range(15):
        radio.silence(1)
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.writes().count((CAL, 0xA6)) == before
    radio.set("rssi", 400, ctypes.c_uint16)
    radio.go()
    radio.silence(4)
    assert [result for result, _ in radio.sent()] == [SENT]
    assert calibrations(radio, 1) == [0]


# For the mote.
