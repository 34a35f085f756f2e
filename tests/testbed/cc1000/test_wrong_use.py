"""The testbed's CC1000 reports each use that its data sheet does not allow, and no other."""

import pytest

from tests.testbed.air import MS, US
from tests.testbed.cc1000.bench import (
    CAL,
    MAIN,
    PA_POW,
    RECEIVE,
    TRANSMIT,
    Bench,
    frame,
    on_air,
)


def test_legal_use_is_silent(bench):
    b = bench(2)
    b.start(0, 1)
    for i in range(3):
        b.do(f"send {i % 2} {b.now} {on_air(frame())}")
        b.run_for(60 * MS)
    b.write(0, PA_POW, 0)
    b.write(0, MAIN, 0x3F)
    b.run_for(MS)
    b.start(0)
    assert b.finish().faults == []


def early_crystal(b: Bench) -> None:
    b.do("power 0 1")
    b.write(0, MAIN, 0x3A)
    b.write(0, MAIN, 0x39)
    b.run_for(1900 * US)
    b.write(0, PA_POW, 0)
    b.write(0, MAIN, RECEIVE)


def early_bias(b: Bench) -> None:
    b.switch_on(0)
    b.write(0, PA_POW, 0)
    b.write(0, MAIN, 0x39)
    b.run_for(150 * US)
    b.write(0, MAIN, RECEIVE)


def early_power(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(240 * US)
    b.write(0, PA_POW, 0x0F)


def turn_with_power(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 0x0F)
    b.run_for(1 * MS)
    b.write(0, MAIN, RECEIVE)


def both_parts(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, 0x01)


def uncalibrated_send(b: Bench) -> None:
    b.start(0)
    b.write(0, 0x06, 0x86)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 0x0F)


def send_calibrated_for_receiving(b: Bench) -> None:
    b.switch_on(0)
    b.configure(0)
    b.write(0, MAIN, 0x39)
    b.run_for(200 * US)
    b.calibrate(0, RECEIVE)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 0x0F)


def uncalibrated_receive(b: Bench) -> None:
    b.start(0)
    b.write(0, 0x03, 0x01)
    b.run_for(1 * MS)


def cut_calibration(b: Bench) -> None:
    b.start(0)
    b.calibrate(0, RECEIVE, 20 * MS)


def disturbed_calibration(b: Bench) -> None:
    b.start(0)
    b.write(0, CAL, 0xA6)
    b.run_for(MS)
    b.write(0, MAIN, TRANSMIT)


def loud_calibration(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 1)
    b.write(0, CAL, 0xA6)


def calibration_of_nothing(b: Bench) -> None:
    b.switch_on(0)
    b.write(0, CAL, 0xA6)


def write_in_reset(b: Bench) -> None:
    b.switch_on(0)
    b.write(0, MAIN, 0x3A)
    b.write(0, PA_POW, 0)


def parts_without_crystal(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, RECEIVE | 0x04)


@pytest.mark.parametrize(
    ("misuse", "what"),
    [
        (early_crystal, "before the crystal had started"),
        (early_bias, "before the bias had settled"),
        (early_power, "before the PLL had settled"),
        (turn_with_power, "PA_POW was not 0 while receiving"),
        (both_parts, "receiver and transmitter were on at once"),
        (uncalibrated_send, "power was on the antenna on a frequency that was not calibrated"),
        (send_calibrated_for_receiving, "power was on the antenna on a frequency that was not calibrated"),
        (uncalibrated_receive, "data were taken on a frequency that was not calibrated"),
        (cut_calibration, "ended before it was complete"),
        (disturbed_calibration, "changed during a calibration"),
        (loud_calibration, "calibration was started with power on the antenna"),
        (calibration_of_nothing, "with the synthesizer off"),
        (write_in_reset, "RESET_N was 0"),
        (parts_without_crystal, "while crystal, bias or synthesizer were off"),
    ],
)
def test_misuse_is_reported_once(bench, misuse, what):
    b = bench()
    misuse(b)
    misuse(b)
    faults = b.finish().faults
    assert sum(what in fault for fault in faults) == 1, faults


def test_going_off_in_a_calibration_is_no_fault(bench):
    """The processor may have been reset."""
    b = bench()
    b.start(0)
    b.do("spi 0 0")
    b.write(0, CAL, 0xA6)
    b.run_for(MS)
    b.write(0, MAIN, 0x3F)
    b.run_for(40 * MS)
    b.do("read 0 e")
    b.start(0)
    result = b.finish()
    assert result.faults == []
    assert result.reads == [0xA6]
