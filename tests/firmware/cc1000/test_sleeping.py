"""The CC1000 driver of a deployment with a schedule: it sleeps, wakes, and sends at its time."""

import ctypes

import pytest

from tests.firmware.cc1000.radio import (
    BUSY,
    CAL,
    CURRENT,
    MAIN,
    PA_POW,
    SCHEDULED,
    SENT,
    TEST4,
    Radio,
)

WAKE_TIME, TURN = 112, 16


@pytest.fixture
def sleeper(boot):
    radio = boot(SCHEDULED)
    radio.c.radio_wake.restype = radio.c.radio_busy.restype = radio.c.radio_sound.restype = ctypes.c_bool
    assert radio.start()
    radio.silence(20)
    return radio


def wake(radio: Radio) -> int:
    """The cycles it took, with nothing but the steps of waking in between."""
    begin = radio.cycles
    assert not radio.c.radio_wake()
    radio.c.host_after()
    radio.c.host_after()
    for _ in range(2):
        assert not radio.c.radio_wake()
        radio.silence(1)
    assert radio.c.radio_wake()
    return radio.cycles - begin


def nap(radio: Radio, seconds: float) -> None:
    radio.set("ns", radio.ns + round(seconds * 1e9), ctypes.c_uint64)


def test_asleep_it_keeps_its_registers_and_lets_the_processor_sleep(sleeper):
    before = list(sleeper.registers)
    sleeper.c.radio_sleep()
    assert sleeper.registers[MAIN] == 0x3F
    assert not any(sleeper.running().values())
    assert sleeper.c.radio_sound()
    assert not sleeper.send(b"abc")
    assert not sleeper.c.radio_busy()
    changed = {address for address in range(128) if sleeper.registers[address] != before[address]}
    assert changed == {MAIN}


def test_a_wake_does_not_calibrate(sleeper):
    sleeper.c.radio_sleep()
    nap(sleeper, 3)
    count = len(sleeper.writes())
    assert wake(sleeper) <= WAKE_TIME
    assert sleeper.writes()[count:] == [
        (MAIN, 0x3B),  # crystal
        (MAIN, 0x39),  # bias
        (CURRENT, sleeper.registers[CURRENT]),
        (PA_POW, 0),
        (MAIN, 0x11),
    ]
    assert sleeper.c.radio_sound()
    sleeper.hear(sleeper.air(b"good morning"))
    sleeper.silence(1)
    assert sleeper.payloads() == [b"good morning"]
    assert sleeper.send(b"abc")
    sleeper.go()
    assert [result for result, _ in sleeper.sent()] == [SENT]
    assert sleeper.counters()["restarts"] == 0


def test_a_chip_that_forgot_its_registers_is_started_anew(sleeper):
    sleeper.c.radio_sleep()
    sleeper.registers[TEST4] = 0x25  # as after a reset
    sleeper.c.radio_wake()
    sleeper.c.host_after()
    sleeper.c.host_after()
    sleeper.c.host_service()
    assert sleeper.registers[TEST4] == 0x3F
    assert sleeper.counters()["restarts"] == 1
    sleeper.silence(20)
    assert sleeper.c.radio_wake()


def test_a_pll_that_does_not_lock_is_calibrated(sleeper):
    sleeper.c.radio_sleep()
    sleeper.set("locks", 0)
    wake(sleeper)
    assert sleeper.writes().count((CAL, 0xA6)) == 4  # two at the start
    sleeper.set("locks", 1)
    sleeper.silence(4)
    sleeper.c.radio_sleep()
    wake(sleeper)
    assert sleeper.writes().count((CAL, 0xA6)) == 4


def test_it_is_calibrated_hourly_in_the_middle_of_a_long_sleep(sleeper):
    sleeper.c.radio_sleep()
    nap(sleeper, 3590)
    wake(sleeper)
    sleeper.c.radio_sleep()
    nap(sleeper, 1)  # the loop wakes every second
    sleeper.c.radio_service()
    nap(sleeper, 15)
    wake(sleeper)
    assert sleeper.writes().count((CAL, 0xA6)) == 2, "not in a short sleep, and not when it wakes"
    sleeper.c.radio_sleep()
    for _ in range(20):
        nap(sleeper, 1)
        sleeper.c.radio_service()
    assert sleeper.writes().count((CAL, 0xA6)) == 4
    assert sleeper.registers[MAIN] == 0x3F
    assert not any(sleeper.running().values())
    wake(sleeper)


def test_it_wakes_many_times(sleeper):
    for _ in range(100):
        sleeper.c.radio_sleep()
        nap(sleeper, 0.05)
        wake(sleeper)
        assert sleeper.c.radio_sound()
        sleeper.silence(5)
        sleeper.set("edge_count", 0, ctypes.c_uint32)
    assert sleeper.writes().count((CAL, 0xA6)) == 2
    assert sleeper.counters()["restarts"] == 0


# At its time.


def appoint(radio: Radio, ahead: int) -> int:
    when = radio.cycles + ahead
    assert radio.c.host_send_at(b"now", 3, ctypes.c_uint32(when))
    return when


@pytest.mark.parametrize("ahead", [20, 40, 100, 3000])
def test_a_frame_begins_at_its_time(sleeper, ahead):
    when = appoint(sleeper, ahead)
    while sleeper.registers[PA_POW] == 0:
        sleeper.silence(1)
        assert sleeper.cycles < when + 100
    on = [
        ns for ns, how, address, value in sleeper.accesses() if (address, how) == (PA_POW, "write") and value
    ]
    late = on[-1] * 32768 / 1e9 - when - TURN
    assert -9 < late < 3, "registers are written more quickly here than in a mote"
    sleeper.go()
    assert [result for result, _ in sleeper.sent()] == [SENT]


def test_it_looks_at_the_channel_once(sleeper):
    sleeper.set("rssi", 100, ctypes.c_uint16)
    when = appoint(sleeper, 200)
    sleeper.go()
    assert [result for result, _ in sleeper.sent()] == [BUSY]
    assert sleeper.cycles < when + 30
    assert not any(value for address, value in sleeper.writes() if address == PA_POW)


def test_a_loop_that_comes_too_late_sends_nothing(sleeper):
    appoint(sleeper, 100)
    sleeper.take(bytes(20), service=False)
    sleeper.c.host_service()
    assert [result for result, _ in sleeper.sent()] == [BUSY]


def test_busy_while_a_frame_comes_in(sleeper):
    assert not sleeper.c.radio_busy()
    sleeper.hear(b"\xaa\xaa")
    assert sleeper.c.radio_busy()
    sleeper.silence(6)
    assert not sleeper.c.radio_busy()
    assert not sleeper.c.host_send_at(b"now", 3, ctypes.c_uint32(sleeper.cycles + 20000))
