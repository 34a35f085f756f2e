"""The testbed's CC1000 against its data sheet: its registers, its states, and the times of both."""

import pytest

from tests.testbed.air import MS, RADIO_STATES, US
from tests.testbed.cc1000.bench import (
    BIT,
    CAL,
    LOCK,
    MAIN,
    PA_POW,
    RECEIVE,
    TINYOS_1,
    TINYOS_2,
    TRANSMIT,
    Bench,
    frame,
    on_air,
)


def test_every_state_has_its_time(bench):
    """Of a chip that is started, sends once, and is switched off: what its driver waits, and the data sheet's times."""
    b = bench()
    b.run_for(5 * MS)
    b.start(0)
    sends = b.now + MS
    b.do(f"send 0 {sends} {on_air(frame())}")
    b.run_for(40 * MS)
    stopped = b.now
    b.write(0, MAIN, 0x3F)
    b.run_for(7 * MS)
    b.do("spent 0")
    result = b.finish()
    (spent,) = result.of("spent")
    found = dict(zip(RADIO_STATES, map(int, spent[1:]), strict=True))
    (signal,) = result.signals
    calibration = int(34e6 * 1e6 / (14745600 / 12))
    powered = sends + 251 * US
    assert found == {
        "off": 5 * MS,
        "down": 7 * MS,
        "starting": 2 * MS,
        "idle": 200 * US,
        # In receiving mode; in sending mode, without power, until it listens again; before and after it sends.
        "calibrating": calibration + 28 * MS + 250 * US + 251 * US + 250 * US,
        "receiving": 28 * MS - calibration + 750 * US + MS + stopped - signal.end - 250 * US,
        "sending": signal.end - powered,
    }
    assert sum(found.values()) == b.now


def test_registers_after_reset_and_as_written(bench):
    b = bench()
    b.switch_on(0)
    b.do(*(f"read 0 {address:x}" for address in (0x01, 0x02, 0x03, 0x07, 0x08, 0x0B, 0x0C, 0x0E, 0x11, 0x42)))
    b.write(0, 0x42, 0x3F)
    b.write(0, 0x01, 0x58)
    b.do("read 0 42", "read 0 1", "read 0 0")
    b.write(0, MAIN, 0x3A)
    b.do("read 0 42", "read 0 1")
    reads = b.finish().reads
    assert reads[:10] == [0x75, 0xA0, 0xCB, 0x00, 0x59, 0x0F, 0x10, 0x05, 0x24, 0x25]
    assert reads[10:13] == [0x3F, 0x58, 0x3B]
    assert reads[13:] == [0x25, 0x75]


def test_power_off_forgets(bench):
    b = bench()
    b.start(0)
    b.do("power 0 0", "read 0 11", "power 0 1", "read 0 11", "read 0 0")
    assert b.finish().reads == [0, 0x24, 0x3F]  # without power nothing drives the pin


@pytest.mark.parametrize(("preset", "khz"), [(TINYOS_1, 433002), (TINYOS_2, 434845)])
def test_frequency_words_of_both_tinyos(bench, preset, khz):
    b = bench(2)
    b.start(0, 1, preset=preset)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert [signal.khz for signal in result.signals] == [khz]
    assert result.outcomes == {(0, 1): "received"}
    assert result.frames(1) == [frame()[:-2]]


def test_the_two_tinyos_do_not_hear_each_other(bench):
    b = bench(2)
    b.start(0, preset=TINYOS_1)
    b.start(1, preset=TINYOS_2)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert result.outcomes == {(0, 1): "deaf"}
    assert result.frames(1) == result.frames(1, inverted=False) == []


def test_oscillator_below_the_channel_does_not_invert(bench):
    """433.002 MHz - 150 kHz: (word + 8192) * 1.2288 MHz / 16384."""
    word = round((433002 - 150) * 1000 / (14745600 / 12) * 16384) - 8192
    below = tuple(word.to_bytes(3, "big"))
    b = bench(2)
    b.start(0)
    b.start(1, preset=(below, *TINYOS_1[1:]))
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert result.frames(1, inverted=False) == [frame()[:-2]]
    assert result.frames(1) == []


@pytest.mark.parametrize(("pa_pow", "dbm"), [(0x01, -20), (0x08, -6), (0x0F, 0), (0x41, 1), (0xFF, 10)])
def test_output_power(bench, pa_pow, dbm):
    b = bench()
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, pa_pow)
    powered = b.now
    b.run_for(2 * MS)
    b.write(0, PA_POW, 0)
    result = b.finish()
    assert [(s.dbm, s.start, s.end) for s in result.signals] == [(dbm, powered + 160 * US, powered + 2 * MS)]
    assert result.faults == []


# --- times ---


@pytest.mark.parametrize("preset", [TINYOS_1, TINYOS_2])
def test_calibration_takes_its_time(bench, preset):
    """34 ms at a reference of 1 MHz, less at more."""
    b = bench()
    b.switch_on(0)
    b.configure(0, preset)
    b.write(0, LOCK, 0x50)
    b.write(0, MAIN, 0x39)
    b.run_for(200 * US)
    b.write(0, MAIN, RECEIVE)
    b.write(0, CAL, 0xA6)
    begun = b.now
    b.run_for(25 * MS)
    b.do("read 0 e")
    b.run_for(5 * MS)
    b.do("read 0 e", "read 0 d")
    b.write(0, CAL, 0x26)
    result = b.finish()
    assert result.reads == [0xA6, 0xAE, 0x53]
    ((_, at, level),) = result.of("chp")
    assert (int(at) - begun, level) == (pytest.approx(34e6 * preset[3] / 14.7456, abs=2), "1")


def test_pll_locks_after_250_us(bench):
    b = bench()
    b.start(0)
    b.write(0, LOCK, 0x10)
    b.write(0, MAIN, TRANSMIT)
    turned = b.now
    b.do("read 0 d")
    b.run_for(1 * MS)
    b.do("read 0 d")
    result = b.finish()
    assert result.reads == [0x10, 0x13]
    assert [(int(t) - turned, level) for _, t, level in result.of("chp")][-2:] == [(0, "0"), (250 * US, "1")]


def test_bytes_come_at_the_crystals_rate(bench):
    b = bench(3)
    b.do("ppm 0 0", "ppm 1 80", "ppm 2 -80")
    b.start(0, 1, 2)
    b.run_for(1000 * MS)
    result = b.finish()
    for node, ppm in enumerate((0, 80, -80)):
        times = [byte.at for byte in result.heard(node)]
        mean = (times[-1] - times[0]) / (len(times) - 1)
        assert mean / (8 * BIT) == pytest.approx(1 - ppm * 1e-6, abs=1.5e-6)
    assert all(byte.driven for byte in result.heard(0))


def test_without_a_signal_bytes_are_chance(bench):
    b = bench()
    b.start(0)
    b.run_for(2000 * MS)
    values = [byte.value for byte in b.finish().heard(0)]
    ones = sum(value.bit_count() for value in values) / (8 * len(values))
    assert ones == pytest.approx(0.5, abs=0.02)
    assert len(set(values)) == 256


# --- power-down ---


def wake(bench: Bench, node: int) -> None:
    """From power-down, as a driver does that trusts the calibration."""
    bench.write(node, MAIN, 0x3B)
    bench.run_for(2 * MS)
    bench.write(node, MAIN, 0x39)
    bench.run_for(200 * US)
    bench.write(node, MAIN, RECEIVE)
    bench.run_for(MS)


def test_power_down_keeps_registers_and_calibration(bench):
    b = bench(2)
    b.start(0, 1)
    b.write(1, MAIN, 0x3F)
    b.run_for(50 * MS)
    wake(b, 1)
    b.do("read 1 d", f"send 0 {b.now} {on_air(frame())}")
    b.run_for(60 * MS)
    result = b.finish()
    assert result.faults == []
    assert result.reads[0] & 1, "the PLL is in lock"
    assert result.frames(1) == [frame()[:-2]]


def test_a_reset_loses_the_calibration_and_so_nothing_is_heard(bench):
    b = bench(2)
    b.start(0, 1)
    b.write(1, MAIN, 0x3E)
    b.write(1, MAIN, 0x3F)
    b.configure(1)
    b.run_for(50 * MS)
    wake(b, 1)
    b.do("read 1 d", f"send 0 {b.now} {on_air(frame())}")
    b.run_for(60 * MS)
    result = b.finish()
    assert result.faults == ["cc1000: data were taken on a frequency that was not calibrated"]
    assert not result.reads[0] & 1
    assert result.frames(1) == []
