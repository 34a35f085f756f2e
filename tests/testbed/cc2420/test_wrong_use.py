"""The testbed's CC2420 reports each use that its data sheet does not allow, once."""

import pytest

from tests.testbed.air import (
    BODY,
    MANFIDL,
    MDMCTRL1,
    MS,
    SFLUSHRX,
    SNOP,
    SRXON,
    STXON,
    STXONCCA,
    SXOSCON,
    TXCTRL,
    US,
    XOSC,
    Air,
    Chip,
    frame,
)


def no_supply(air: Air) -> None:
    chip = air.chips[0]
    chip.supply(1)
    chip.csn(1)
    assert chip.access(SNOP) == b"\0"


def regulator(air: Air) -> None:
    chip = air.chips[0]
    chip.supply(1)
    chip.csn(1)
    chip.vreg(1)
    air.run(599 * US)
    assert chip.access(SXOSCON) == b"\0"


def held(air: Air) -> None:
    chip = air.chips[0]
    chip.power_up()
    chip.resetn(0)
    assert chip.access(0x40 | MANFIDL, 0, 0) == b"\0\0\0"


def no_reset(air: Air) -> None:
    chip = air.chips[0]
    chip.supply(1)
    chip.csn(1)
    chip.resetn(1)
    chip.vreg(1)
    air.run(600 * US)
    chip.strobe(SXOSCON)


def deselected(air: Air) -> None:
    chip = air.chips[0]
    chip.power_up()
    for byte in (TXCTRL, 0, 0):
        chip.exchange(byte)
    assert chip.read(TXCTRL) == 0xA0FF


def strobe_without_oscillator(air: Air) -> None:
    chip = air.chips[0]
    chip.power_up()
    chip.strobe(SXOSCON)
    air.run(859 * US)
    chip.strobe(SRXON)
    air.run(MS)
    assert chip.status == XOSC


def read_only(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].write(MANFIDL, 1)
    assert air.chips[0].read(MANFIDL) == 0x233D


def broken_write(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].access(TXCTRL, 0)
    assert air.chips[0].read(TXCTRL) == 0xA0FF


def sends_twice(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].send(BODY)
    air.run(500 * US)
    air.chips[0].strobe(STXON)
    air.run(5 * MS)
    assert [one.bytes for one in air.ends()] == [frame(BODY)]


def cca_while_deaf(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].fill(frame(BODY)[:-2])
    air.chips[0].strobe(STXONCCA)
    air.run(5 * MS)
    assert air.ends() == []


def full_tx(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].fill(bytes(128))
    assert air.faults() == []
    air.chips[0].fill(b"x")


def impossible_length(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].fill(b"\x85\x41\x88\x07")
    air.chips[0].strobe(STXON)
    air.run(5 * MS)
    assert len(air.ends()[0].bytes) == 6


def hungry(air: Air) -> None:
    air.chips[0].listen()
    air.chips[0].drain(1)
    assert air.faults() == []
    air.chips[0].strobe(SNOP)


def flush_unread(air: Air) -> None:
    air.chips[0].listen()
    air.inject(air.now + MS, frame(BODY), -60)
    air.run(5 * MS)
    air.chips[0].strobe(SFLUSHRX)


OSCILLATOR = "FIFO or RAM access without a stable oscillator"
RESERVED = "access to a reserved address"
NOT_MODELLED = "use of a part that is not modelled: encryption, a test mode, a test output"
AT_ONCE = [
    (Chip.power_up, lambda chip: chip.fill(b"\x05"), OSCILLATOR),
    (Chip.power_up, lambda chip: chip.write_ram(0x168, b"\0"), OSCILLATOR),
    (Chip.power_up, lambda chip: chip.write(0x35, 1), RESERVED),
    (Chip.start, lambda chip: chip.read_ram(0x16F, 2), RESERVED),
    (Chip.start, lambda chip: chip.strobe(0x0E), NOT_MODELLED),
    (Chip.power_up, lambda chip: chip.write(MDMCTRL1, 0x0500 | 2 << 2), NOT_MODELLED),
    (Chip.start, lambda chip: chip.write_ram(0, b"\x05"), "RAM write into the TX FIFO where no byte is"),
    (Chip.listen, lambda chip: chip.drain(2), "read from an empty RX FIFO"),
]


@pytest.mark.parametrize(("begin", "misuse", "words"), AT_ONCE)
def test_one_wrong_access_is_reported_once(alone, begin, misuse, words):
    (chip,) = alone.chips
    begin(chip)
    misuse(chip)
    assert alone.faults() == [words]
    chip.strobe(SNOP)
    assert alone.faults().count(words) == 1


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        (no_supply, "SPI access without supply"),
        (regulator, "SPI access before the regulator is steady"),
        (held, "SPI access while held in reset"),
        (no_reset, "started without a reset after VREG_EN"),
        (deselected, "SPI byte while CSn is high"),
        (strobe_without_oscillator, "strobe without a stable oscillator"),
        (read_only, "write to a register that can only be read"),
        (broken_write, "register write broken off"),
        (sends_twice, "STXON or STXONCCA while sending"),
        (cca_while_deaf, "STXONCCA while the receiver is off"),
        (full_tx, "more bytes than the TX FIFO holds"),
        (impossible_length, "sent a frame with an impossible length"),
        (hungry, "read from an empty RX FIFO"),
        (flush_unread, "SFLUSHRX without a byte read before"),
    ],
)
def test_wrong_use_is_reported_once(alone, misuse, words):
    misuse(alone)
    assert alone.faults() == [words]
    alone.chips[0].strobe(SNOP)
    assert alone.faults().count(words) == 1


def test_unflushed_underflow(alone):
    chip = alone.chips[0]
    chip.start()
    chip.strobe(STXON)
    alone.run(MS)
    chip.fill(frame(BODY)[:-2])
    chip.strobe(STXON)
    alone.run(5 * MS)
    unflushed = "TX FIFO written or sent after an underflow, without SFLUSHTX"
    assert alone.faults() == ["sent with an empty TX FIFO", unflushed]
    assert len(alone.ends()) == 1


def test_one_byte_from_an_empty_fifo_is_right_before_a_flush(alone):
    """The data sheet asks for it."""
    chip = alone.chips[0]
    chip.listen()
    chip.drain(1)
    chip.strobe(SFLUSHRX)
    chip.strobe(SFLUSHRX)
    assert alone.faults() == []
