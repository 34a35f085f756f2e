"""The testbed's CC1000 reports each use that its data sheet does not allow, and no other."""

import pytest

from tests.testbed.air import MS, US
from tests.testbed.cc1000.bench import (
    CAL,
    MAIN,
    PA_POW,
    RECEIVE,
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


# What is reported, and the steps that lead to it: registers are written, `run` waits for microseconds.
MISUSES = [
    ("before the crystal had started", "power, MAIN 3A, MAIN 39, run 1900, PA_POW 0, MAIN 11"),
    ("before the bias had settled", "on, PA_POW 0, MAIN 39, run 150, MAIN 11"),
    ("before the PLL had settled", "start, MAIN E1, run 240, PA_POW 0F"),
    ("PA_POW was not 0 while receiving", "start, MAIN E1, run 250, PA_POW 0F, run 1000, MAIN 11"),
    ("receiver and transmitter were on at once", "start, MAIN 01"),
    (
        "power was on the antenna on a frequency that was not calibrated",
        "start, FREQ_1C 86, MAIN E1, run 250, PA_POW 0F",
    ),
    (
        "power was on the antenna on a frequency that was not calibrated",
        "on, configure, MAIN 39, run 200, calibrate, MAIN E1, run 250, PA_POW 0F",
    ),
    ("data were taken on a frequency that was not calibrated", "start, FREQ_0A 01, run 1000"),
    ("ended before it was complete", "start, MAIN 11, CAL A6, run 20000, CAL 26"),
    ("changed during a calibration", "start, CAL A6, run 1000, MAIN E1"),
    ("calibration was started with power on the antenna", "start, MAIN E1, run 250, PA_POW 01, CAL A6"),
    ("with the synthesizer off", "on, CAL A6"),
    ("RESET_N was 0", "on, MAIN 3A, PA_POW 0"),
    ("while crystal, bias or synthesizer were off", "start, MAIN 15"),
]
REGISTERS = {"MAIN": MAIN, "PA_POW": PA_POW, "CAL": CAL, "FREQ_0A": 0x03, "FREQ_1C": 0x06}


def misuse(b: Bench, steps: str) -> None:
    for what, *value in map(str.split, steps.split(",")):
        match what:
            case "power":
                b.do("power 0 1")
            case "on":
                b.switch_on(0)
            case "start":
                b.start(0)
            case "configure":
                b.configure(0)
            case "calibrate":
                b.calibrate(0, RECEIVE)
            case "run":
                b.run_for(int(value[0]) * US)
            case register:
                b.write(0, REGISTERS[register], int(value[0], 16))


@pytest.mark.parametrize(("what", "steps"), MISUSES)
def test_misuse_is_reported_once(bench, what, steps):
    b = bench()
    misuse(b, steps)
    misuse(b, steps)
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
