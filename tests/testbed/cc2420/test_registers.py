"""The testbed's CC2420 against its data sheet: its start, its states and their times, its registers and its RAM."""

import pytest

from tests.testbed.air import (
    BYTE,
    FSCTRL,
    IOCFG0,
    MAIN,
    MANFIDH,
    MANFIDL,
    MDMCTRL0,
    MDMCTRL1,
    MS,
    RSSI,
    RXCTRL0,
    RXCTRL1,
    SRFOFF,
    SRXON,
    SXOSCOFF,
    SXOSCON,
    SYNCWORD,
    TURNAROUND,
    TXCTRL,
    US,
    XOSC,
)


def test_oscillator_takes_860_us(alone):
    chip = alone.chips[0]
    chip.power_up()
    assert chip.status == 0
    chip.strobe(SXOSCON)
    alone.run(860 * US - 1)
    assert chip.status == 0
    alone.run(1)
    assert chip.status == XOSC
    chip.strobe(SXOSCOFF)
    assert chip.status == 0
    assert alone.faults() == []


def test_every_state_has_its_time(alone):
    """Of a chip that is started, sends once, and is switched off step by step."""
    air, chip = alone, alone.chips[0]
    air.run(MS)
    begun = air.now
    chip.start()
    started = air.now
    air.run(3 * MS)
    chip.strobe(SRXON)
    air.run(5 * MS)
    chip.send(bytes(10))
    air.run(4 * MS)
    chip.strobe(SRFOFF)
    air.run(2 * MS)
    chip.strobe(SXOSCOFF)
    air.run(6 * MS)
    chip.vreg(0)
    air.run(7 * MS)
    on_air, turnaround = (5 + 1 + 12) * BYTE, 192 * US
    found = chip.spent()
    assert found == {
        "off": begun + 7 * MS,
        "down": started - begun - 860 * US + 6 * MS,
        "starting": 860 * US,
        "idle": 3 * MS + 2 * MS,
        "calibrating": 3 * turnaround,
        "receiving": 5 * MS + 4 * MS - on_air - 3 * turnaround,
        "sending": on_air,
    }
    assert sum(found.values()) == air.now


def test_crystal_error_shifts_every_time(make_air):
    air = make_air(ppm=40)
    air.gains(-60)
    air.chips[1].listen()
    air.chips[0].listen()
    strobe = air.chips[0].send(bytes(100))
    air.run(5 * MS)
    (signal,) = air.ends()
    byte = round(BYTE / 1.00004)
    assert signal.start == strobe + round(TURNAROUND / 1.00004)
    assert signal.to == signal.data + 103 * byte
    assert air.outcomes(1) == ["received"]


def test_reset_values(alone):
    chip = alone.chips[0]
    chip.power_up()
    values = {
        MAIN: 0xF800,
        MDMCTRL0: 0x0AE2,
        MDMCTRL1: 0,
        RSSI: 0xE080,
        SYNCWORD: 0xA70F,
        TXCTRL: 0xA0FF,
        RXCTRL0: 0x12E5,
        RXCTRL1: 0x0A56,
        FSCTRL: 0x4165,
        0x19: 0x03C4,
        IOCFG0: 0x0040,
        MANFIDL: 0x233D,
        MANFIDH: 0x3000,
    }
    assert {at: chip.read(at) for at in values} == values
    assert alone.faults() == []


@pytest.mark.parametrize("how", ["pin", "register", "vreg", "supply"])
def test_reset_forgets(alone, how):
    chip = alone.chips[0]
    chip.listen()
    chip.write(TXCTRL, 0xA0E3)
    chip.write_ram(0x168, b"\x34\x12")
    if how == "register":
        chip.write(MAIN, 0)
        chip.write(MAIN, 0xF800)
    else:
        pin = {"pin": chip.resetn, "vreg": chip.vreg, "supply": chip.supply}[how]
        pin(0)
        pin(1)
        alone.run(600 * US)
        chip.resetn(0)
        chip.resetn(1)
    assert chip.status == 0
    assert chip.read(TXCTRL) == 0xA0FF
    chip.strobe(SXOSCON)
    alone.run(860 * US)
    assert chip.read_ram(0x168, 2) == (b"\x34\x12" if how in ("pin", "register") else b"\0\0")
    assert alone.faults() == []


def test_reset_pin_may_be_low_from_the_start(alone):
    chip = alone.chips[0]
    chip.supply(1)
    chip.csn(1)
    chip.resetn(0)
    chip.vreg(1)
    alone.run(600 * US)
    chip.resetn(1)
    chip.strobe(SXOSCON)
    alone.run(860 * US)
    assert chip.status == XOSC
    assert alone.faults() == []


def test_reset_only_by_register(alone):
    chip = alone.chips[0]
    chip.supply(1)
    chip.csn(1)
    chip.resetn(1)
    chip.vreg(1)
    alone.run(600 * US)
    chip.write(MAIN, 0)
    chip.write(MAIN, 0xF800)
    chip.strobe(SXOSCON)
    assert alone.faults() == []


def test_register_accesses_may_follow_one_another(alone):
    chip = alone.chips[0]
    chip.power_up()
    chip.access(TXCTRL, 0xA0, 0xE3, SYNCWORD, 0x12, 0x34, SXOSCON)
    answer = chip.access(0x40 | TXCTRL, 0, 0, 0x40 | SYNCWORD, 0, 0)
    assert (answer[1:3], answer[4:6]) == (b"\xa0\xe3", b"\x12\x34")
    alone.run(860 * US)
    assert chip.status == XOSC
    assert chip.access(0x40 | TXCTRL, 0)[1] == 0xA0  # half of it
    assert alone.faults() == []


def test_ram(alone):
    chip = alone.chips[0]
    chip.start()
    chip.write_ram(0x160, bytes(range(12)))
    assert chip.read_ram(0x160, 12) == bytes(range(12))
    assert chip.access(0x80 | 0x68, 0x80, 0xAA, 0xBB)[2:] == b"\x08\x09"  # a write gives what was there
    assert chip.read_ram(0x168, 2) == b"\xaa\xbb"
    chip.fill(b"\x05abc")
    assert chip.read_ram(0, 4) == b"\x05abc"
    assert alone.faults() == []
