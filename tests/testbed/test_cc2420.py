"""The testbed's CC2420 against its data sheet: every time to the nanosecond, every pin, every wrong use."""

import math
from collections.abc import Callable
from ctypes import c_double
from itertools import pairwise

import pytest

from tests.testbed.air import (
    BYTE,
    CHANNEL_26,
    FSCTRL,
    FSMSTATE,
    IOCFG0,
    IOCFG1,
    MAIN,
    MANFIDH,
    MANFIDL,
    MDMCTRL0,
    MDMCTRL1,
    MS,
    PLAIN,
    RSSI,
    RXCTRL0,
    RXCTRL1,
    SACK,
    SACKPEND,
    SFLUSHRX,
    SFLUSHTX,
    SNOP,
    SRFOFF,
    SRXON,
    STXCAL,
    STXON,
    STXONCCA,
    SXOSCOFF,
    SXOSCON,
    SYNCWORD,
    TXCTRL,
    US,
    Air,
    MakeAir,
    fcs,
    frame,
)

XOSC, UNDERFLOW, TX_ACTIVE, LOCK, RSSI_VALID = 0x40, 0x20, 0x08, 0x04, 0x02
TURNAROUND, SYNC = 192 * US, 160 * US
BODY = b"\x41\x88\x07\x22\x00\xff\xff\x01\x00hello"


@pytest.fixture
def air(make_air: MakeAir) -> Air:
    """Two chips that hear each other well; the second listens, the first is ready to."""
    air = make_air()
    air.gains(-60)
    air.chips[1].listen()
    air.chips[0].listen()
    return air


@pytest.fixture
def alone(make_air: MakeAir) -> Air:
    """One chip, without supply."""
    return make_air(nodes=1)


# --- starting ---


def test_oscillator_takes_860_us(alone: Air) -> None:
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


def test_every_state_has_its_time(alone: Air) -> None:
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


def test_crystal_error_shifts_every_time(make_air: MakeAir) -> None:
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


def test_reset_values(alone: Air) -> None:
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
def test_reset_forgets(alone: Air, how: str) -> None:
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


def test_reset_pin_may_be_low_from_the_start(alone: Air) -> None:
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


def test_reset_by_register_alone(alone: Air) -> None:
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


def test_register_accesses_may_follow_one_another(alone: Air) -> None:
    chip = alone.chips[0]
    chip.power_up()
    chip.access(TXCTRL, 0xA0, 0xE3, SYNCWORD, 0x12, 0x34, SXOSCON)
    answer = chip.access(0x40 | TXCTRL, 0, 0, 0x40 | SYNCWORD, 0, 0)
    assert (answer[1:3], answer[4:6]) == (b"\xa0\xe3", b"\x12\x34")
    alone.run(860 * US)
    assert chip.status == XOSC
    assert chip.access(0x40 | TXCTRL, 0)[1] == 0xA0  # half of it
    assert alone.faults() == []


def test_ram(alone: Air) -> None:
    chip = alone.chips[0]
    chip.start()
    chip.write_ram(0x160, bytes(range(12)))
    assert chip.read_ram(0x160, 12) == bytes(range(12))
    assert chip.access(0x80 | 0x68, 0x80, 0xAA, 0xBB)[2:] == b"\x08\x09"  # a write gives what was there
    assert chip.read_ram(0x168, 2) == b"\xaa\xbb"
    chip.fill(b"\x05abc")
    assert chip.read_ram(0, 4) == b"\x05abc"
    assert alone.faults() == []


# --- sending ---


@pytest.mark.parametrize(("txctrl", "turnaround"), [(0xA0FF, 192 * US), (0x80FF, 128 * US)])
@pytest.mark.parametrize("preamble", [1, 2, 15])
def test_times_of_a_frame(air: Air, txctrl: int, turnaround: int, preamble: int) -> None:
    chip = air.chips[0]
    chip.write(TXCTRL, txctrl)
    chip.write(MDMCTRL0, PLAIN & ~15 | preamble)
    strobe = chip.send(BODY)
    assert chip.status & TX_ACTIVE
    air.run(10 * MS)
    (signal,) = air.ends()
    assert signal.start == strobe + turnaround
    assert signal.data == signal.start + (preamble + 3) * BYTE
    assert signal.to == signal.data + len(frame(BODY)) * BYTE
    assert (signal.bytes, signal.broken, signal.dbm) == (frame(BODY), False, 0)
    assert air.edges(0, "SFD") == [signal.data, signal.to]
    assert air.outcomes(1) == ["received"]


def test_states_on_the_way(air: Air) -> None:
    chip = air.chips[0]
    strobe = chip.send(BODY)
    end = strobe + TURNAROUND + SYNC + len(frame(BODY)) * BYTE
    seen = []
    for time in (
        strobe,
        strobe + TURNAROUND,
        strobe + TURNAROUND + SYNC,
        end,
        end + TURNAROUND,
        end + 320 * US,
    ):
        air.run_to(time)
        seen.append((chip.read(FSMSTATE), chip.status))
    sending = XOSC | TX_ACTIVE
    assert seen == [
        (32, sending),
        (34, sending | LOCK),
        (37, sending | LOCK),
        (2, XOSC),
        (3, XOSC | LOCK),
        (3, XOSC | LOCK | RSSI_VALID),
    ]
    chip.strobe(SRFOFF)
    chip.strobe(STXCAL)
    assert chip.status == XOSC
    air.run(TURNAROUND)
    assert chip.status == XOSC | LOCK


@pytest.mark.parametrize(
    ("level", "dbm"),
    [(31, 0), (27, -1), (23, -3), (19, -5), (15, -7), (11, -10), (7, -15), (3, -25), (5, -20)],
)
def test_power_levels(air: Air, level: int, dbm: float) -> None:
    air.chips[0].write(TXCTRL, 0xA0E0 | level)
    air.chips[0].send(BODY)
    air.run(5 * MS)
    assert air.ends()[0].dbm == dbm
    assert air.chips[1].drain(len(frame(BODY)))[-2] == 256 + dbm - 60 + 45


def test_sent_again_without_being_written_again(air: Air) -> None:
    chip = air.chips[0]
    chip.send(BODY)
    air.run(5 * MS)
    chip.strobe(STXON)
    air.run(5 * MS)
    chip.send(b"\x01\x08\x01another")  # the FIFO starts anew by itself
    air.run(5 * MS)
    assert [one.bytes for one in air.ends()] == [frame(BODY), frame(BODY), frame(b"\x01\x08\x01another")]
    assert air.faults() == []


def test_byte_is_taken_when_its_turn_comes(air: Air) -> None:
    """What is written into RAM before that is sent, with a right check sum; what comes later is not."""
    chip = air.chips[0]
    strobe = chip.send(BODY)
    tenth = strobe + TURNAROUND + SYNC + 10 * BYTE
    air.run_to(tenth - 1)
    chip.write_ram(10, b"JOL")
    air.run(1)
    chip.write_ram(10, b"x")
    air.run(5 * MS)
    assert air.ends()[0].bytes == frame(BODY.replace(b"hel", b"JOL"))
    assert air.outcomes(1) == ["received"]
    assert air.faults() == []


def test_fifo_may_be_filled_while_it_is_emptied(air: Air) -> None:
    chip = air.chips[0]
    data = frame(BODY)[:-2]
    chip.strobe(STXON)
    air.run(TURNAROUND)
    chip.fill(data[:6])
    air.run(SYNC + 5 * BYTE)
    chip.fill(data[6:])
    air.run(5 * MS)
    assert air.ends()[0].bytes == frame(BODY)
    assert air.faults() == []


def test_without_autocrc_the_fifo_holds_it(air: Air) -> None:
    for chip in air.chips:
        chip.write(MDMCTRL0, PLAIN & ~0x20)
    air.chips[0].fill(frame(BODY))
    air.chips[0].strobe(STXON)
    air.run(5 * MS)
    assert air.ends()[0].bytes == frame(BODY)
    assert air.chips[1].drain(len(frame(BODY))) == frame(BODY)


@pytest.mark.parametrize("there", [0, 4])
def test_underflow(air: Air, there: int) -> None:
    chip = air.chips[0]
    if there:
        chip.fill(frame(BODY)[:there])
    strobe = chip.air.now
    chip.strobe(STXON)
    air.run(5 * MS)
    (signal,) = air.ends()
    assert (signal.broken, signal.bytes) == (True, frame(BODY)[:there])
    assert signal.to == strobe + TURNAROUND + SYNC + there * BYTE
    assert air.faults() == ["TX underflow" if there else "sent with an empty TX FIFO"]
    assert chip.status == XOSC | UNDERFLOW
    assert chip.read(FSMSTATE) == 56
    chip.strobe(SFLUSHTX)
    assert chip.status == XOSC
    air.run(TURNAROUND)
    assert chip.status & LOCK
    assert air.outcomes(1) == ["damaged"]


@pytest.mark.parametrize("when", [0, TURNAROUND - 1, TURNAROUND + 1, TURNAROUND + SYNC + 3 * BYTE + 1])
def test_breaking_off(air: Air, when: int) -> None:
    chip = air.chips[0]
    strobe = chip.send(BODY)
    air.run(when)
    chip.strobe(SRFOFF)
    assert chip.status == XOSC
    air.run(60 * MS)
    (signal,) = air.ends()
    assert signal.broken
    assert signal.to == max(strobe + when, signal.start)
    assert air.outcomes(1) == (["damaged"] if when >= TURNAROUND else [])
    assert chip.air.pins(0, "SFD")[1:] == [(strobe + when, "SFD", 0)] * (when > TURNAROUND + SYNC)


@pytest.mark.parametrize("how", ["supply", "vreg", "resetn"])
def test_sender_that_dies(air: Air, how: str) -> None:
    strobe = air.chips[0].send(BODY)
    air.run(TURNAROUND + SYNC + 5 * BYTE + 1)
    getattr(air.chips[0], how)(0)
    air.run(5 * MS)
    (signal,) = air.ends()
    assert (signal.broken, signal.to) == (True, strobe + TURNAROUND + SYNC + 5 * BYTE + 1)
    assert air.outcomes(1) == ["damaged"]
    assert air.chips[1].drain(len(frame(BODY)))[-1] < 0x80


# --- receiving ---


def test_pins_and_bytes_of_a_frame(air: Air) -> None:
    strobe = air.chips[0].send(BODY)
    data = strobe + TURNAROUND + SYNC
    length = len(frame(BODY))
    air.run(5 * MS)
    end = data + length * BYTE
    assert air.pins(1) == [(data, "SFD", 1), (data + BYTE, "FIFO", 1), (end, "FIFOP", 1), (end, "SFD", 0)]
    received = air.chips[1].drain(length)
    assert received[:-2] == frame(BODY)[:-2]
    assert received[-2] == 256 - 60 + 45
    assert received[-1] == 0x80 | 110
    assert [one[1:] for one in air.pins(1)[4:]] == [("FIFOP", 0), ("FIFO", 0)]
    assert air.faults() == []


def test_bytes_come_one_by_one(air: Air) -> None:
    """Each is there one byte after it began at the sender."""
    data = air.now + TURNAROUND + SYNC
    air.chips[0].send(BODY)
    receiver = air.chips[1]
    for at, byte in enumerate(frame(BODY)[:-2]):
        air.run_to(data + (at + 1) * BYTE)
        assert receiver.drain(1)[0] == byte
    fifo = air.edges(1, "FIFO")
    assert fifo[::2] == [data + (at + 1) * BYTE for at in range(len(frame(BODY)) - 2)]
    assert air.faults() == []


def test_fifop_threshold(air: Air) -> None:
    receiver = air.chips[1]
    receiver.write(IOCFG0, 3)
    data = air.chips[0].send(BODY) + TURNAROUND + SYNC
    air.run(5 * MS)
    assert air.edges(1, "FIFOP") == [data + 4 * BYTE]
    length = len(frame(BODY))
    receiver.drain(length - 4)
    assert len(air.edges(1, "FIFOP")) == 1
    receiver.drain(1)
    assert len(air.edges(1, "FIFOP")) == 2


def test_fifop_threshold_counts_what_waits(air: Air) -> None:
    receiver = air.chips[1]
    length = len(frame(BODY))
    receiver.write(IOCFG0, length + 5)
    air.chips[0].send(BODY)
    air.run(5 * MS)
    receiver.drain(1)
    data = air.chips[0].send(BODY) + TURNAROUND + SYNC
    air.run(5 * MS)
    assert air.edges(1, "FIFOP")[2:] == [data + 7 * BYTE]


def test_polarities(air: Air) -> None:
    receiver = air.chips[1]
    receiver.write(IOCFG0, 0x0780 | 0x7F)
    assert [one[1:] for one in air.pins(1)] == [("FIFO", 1), ("FIFOP", 1), ("SFD", 1)]
    assert not receiver.cca()
    air.chips[0].send(BODY)
    air.run(5 * MS)
    assert [one[1:] for one in air.pins(1)[3:]] == [("SFD", 0), ("FIFO", 0), ("FIFOP", 0), ("SFD", 1)]


def test_two_frames_wait(air: Air) -> None:
    """FIFOP falls with the first byte that is read and does not come back for the second frame."""
    for number in (1, 2):
        air.chips[0].send(BODY + bytes([number]))
        air.run(5 * MS)
    length = len(frame(BODY)) + 1
    first = air.chips[1].drain(length)
    assert [one[2] for one in air.pins(1, "FIFOP")] == [1, 0]
    assert [one[2] for one in air.pins(1, "FIFO")] == [1]
    second = air.chips[1].drain(length)
    assert (first[-3], second[-3]) == (1, 2)


def test_overflow(air: Air) -> None:
    """FIFO low and FIFOP high until SFLUSHRX; what is in it can be read; what comes in the meantime is lost."""
    sender, receiver = air.chips
    long = bytes(60)
    for _ in range(2):
        sender.send(long)
        air.run(5 * MS)
    data = sender.send(long) + TURNAROUND + SYNC
    air.run(5 * MS)
    assert air.outcomes(1) == ["received", "received", "overflow"]
    overflow = data + (128 - 2 * 63 + 1) * BYTE
    assert air.pins(1)[-2:] == [(overflow, "FIFO", 0), (overflow, "SFD", 0)]
    assert air.pins(1, "FIFOP")[-1][2] == 1
    assert receiver.read(FSMSTATE) == 17
    sender.send(long)
    air.run(5 * MS)
    assert air.outcomes(1)[3:] == ["overflow"]
    assert receiver.drain(63)[:61] == frame(long)[:61]
    assert (air.pins(1, "FIFO")[-1][2], air.pins(1, "FIFOP")[-1][2]) == (0, 1)
    receiver.strobe(SFLUSHRX)
    assert air.pins(1, "FIFOP")[-1][2] == 0
    sender.send(long)
    air.run(5 * MS)
    assert air.outcomes(1)[4:] == ["received"]
    assert air.faults() == []


def test_flush_ends_a_frame(air: Air) -> None:
    sender, receiver = air.chips
    sender.send(BODY)
    air.run(TURNAROUND + SYNC + 5 * BYTE)
    receiver.drain(1)
    receiver.strobe(SFLUSHRX)
    air.run(5 * MS)
    assert air.outcomes(1) == ["deaf"]
    assert [one[1:] for one in air.pins(1)] == [("SFD", 1), ("FIFO", 1), ("FIFO", 0), ("SFD", 0)]
    sender.send(BODY)
    air.run(5 * MS)
    assert air.outcomes(1) == ["deaf", "received"]


@pytest.mark.parametrize(("late", "outcome"), [(0, "received"), (1, "deaf")])
def test_receiver_must_hear_the_end_of_the_preamble(air: Air, late: int, outcome: str) -> None:
    """It calibrates for twelve symbols and needs four before the end of the delimiter."""
    sender, receiver = air.chips
    receiver.strobe(SRFOFF)
    data = sender.send(BODY) + TURNAROUND + SYNC
    air.run_to(data - 64 * US - TURNAROUND + late)
    receiver.strobe(SRXON)
    air.run(5 * MS)
    assert air.outcomes(1) == [outcome]


def test_deaf_for_a_turnaround_after_sending(air: Air) -> None:
    sender, receiver = air.chips
    sender.send(BODY)
    air.run(TURNAROUND + SYNC + len(frame(BODY)) * BYTE)
    air.inject(air.now + TURNAROUND + 64 * US - 1, frame(BODY), -60)
    air.run(5 * MS)
    assert air.outcomes(0) == ["deaf"]
    assert air.outcomes(1) == ["received", "received"]
    sender.send(BODY)
    air.inject(air.now + 300 * US, frame(BODY), -60)
    air.run(5 * MS)
    assert air.outcomes(0) == ["deaf", "sending"]
    assert receiver.status == XOSC | LOCK | RSSI_VALID


def test_channels(air: Air) -> None:
    sender, receiver = air.chips
    sender.write(FSCTRL, 0x4000 | 432)
    sender.send(BODY)
    air.run(5 * MS)
    receiver.write(FSCTRL, 0x4000 | 432)
    sender.send(BODY)
    air.run(5 * MS)
    receiver.strobe(SRFOFF)  # the synthesizer follows when it is calibrated
    receiver.strobe(SRXON)
    sender.send(BODY)
    air.run(5 * MS)
    assert air.ends()[0].khz == CHANNEL_26
    assert air.outcomes(1) == ["deaf", "deaf", "received"]


def test_other_channel_while_busy(air: Air) -> None:
    air.chips[0].send(bytes(60))
    air.inject(air.now + MS, frame(BODY), -50, khz=CHANNEL_26)
    air.run(9 * MS)
    assert air.outcomes(1) == ["deaf", "received"]


def test_sync_word(air: Air) -> None:
    sender, receiver = air.chips
    sender.write(SYNCWORD, 0xB80F)
    sender.send(BODY)
    air.run(5 * MS)
    receiver.write(SYNCWORD, 0xB80F)
    sender.send(BODY)
    air.run(5 * MS)
    assert air.outcomes(1) == ["weak", "received"]


@pytest.mark.parametrize("length", [0, 1, 2, 127])
def test_odd_lengths(air: Air, length: int) -> None:
    data = bytes([length]) + bytes(length)
    air.inject(air.now + MS, data, -60)
    air.run(10 * MS)
    for node in (0, 1):
        assert len(air.edges(node, "SFD")) == 2
        assert air.edges(node, "SFD")[1] - air.edges(node, "SFD")[0] == (length + 1) * BYTE
        assert air.pins(node, "FIFOP")[-1][2] == 1
        assert air.chips[node].drain(length + 1)[0] == length


def test_bad_check_sum(air: Air) -> None:
    bad = bytearray(frame(BODY))
    bad[-1] ^= 1
    air.inject(air.now + MS, bytes(bad), -60)
    air.run(5 * MS)
    assert air.outcomes(1) == ["damaged"]
    assert air.chips[1].drain(len(bad))[-1] == 110


def test_strobe_in_mid_reception(air: Air) -> None:
    """STXON does not ask whether a frame is coming in. What came of it stays in the FIFO."""
    air.chips[0].send(BODY)
    air.run(TURNAROUND + SYNC + 5 * BYTE)
    strobe = air.chips[1].send(BODY)
    air.run(5 * MS)
    assert air.outcomes(1) == ["sending"]
    assert air.edges(1, "SFD")[1] == strobe
    assert air.chips[1].drain(5) == frame(BODY)[:5]
    assert air.ends()[1].bytes == frame(BODY)


def test_carriers_without_bytes_are_no_frames(air: Air) -> None:
    for number in range(40):
        air.jam(air.now + number * MS, air.now + number * MS + 100 * US, -90)
    air.run(100 * MS)
    air.chips[0].send(BODY)
    air.run(5 * MS)
    assert air.outcomes() == ["received"]


# --- chance and collisions ---


def rate(make_air: MakeAir, dbm: float, tries: int = 200, length: int = 20) -> float:
    """Of good receptions at this strength over noise of -98 dBm."""
    air = make_air(nodes=1, seed=int(1000 - dbm * 10))
    air.chips[0].listen()
    for _ in range(tries):
        air.inject(air.now + MS, frame(bytes(length - 2)), dbm)
        air.run(3 * MS)
        air.chips[0].drain(1)
        air.chips[0].strobe(SFLUSHRX)
    air.tidy(2**64 - 1)
    assert len(air.outcomes()) == tries
    return air.outcomes().count("received") / tries


def test_reception_rate_against_strength(make_air: MakeAir) -> None:
    """Monotonic; half at about 1 dB over noise; about one in a hundred lost at -95 dBm, the sheet's sensitivity."""
    strengths = [-103, -99, -98, -97, -96, -95, -94, -90]
    rates = [rate(make_air, dbm) for dbm in strengths]
    assert all(worse <= better + 0.05 for worse, better in pairwise(rates)), rates
    assert rates[0] == 0
    assert rates[1] < 0.3
    assert 0.3 < rates[3] < 0.9
    assert rates[5] >= 0.96
    assert rates[-1] == 1


def test_symbol_errors_follow_the_standard(make_air: MakeAir) -> None:
    """BER = 8/15 of it; a value from the curve in annex E, and the limits."""
    error = make_air(nodes=1, chips=0).library.ieee_symbol_error

    def ber(db: float) -> float:
        return float(error(c_double(db))) * 8 / 15

    ratio = 10 ** (1 / 10)
    exact = sum((-1) ** k * math.comb(16, k) * math.exp(20 * ratio * (1 / k - 1)) for k in range(2, 17)) / 30
    assert ber(1) == pytest.approx(exact, rel=1e-9)
    assert ber(-40) == pytest.approx(0.5, abs=0.01)
    assert ber(6) == 0


@pytest.mark.parametrize(
    ("other", "first", "second"),
    [
        (-80, "received", "busy"),  # the first is 20 dB stronger
        (-65, "received", "busy"),
        (-60, "damaged", "busy"),
        (-40, "damaged", "busy"),  # a receiver does not let go of a frame
    ],
)
def test_collision_in_mid_frame(make_air: MakeAir, other: float, first: str, second: str) -> None:
    air = make_air(nodes=1)
    air.chips[0].listen()
    air.inject(air.now + MS, frame(bytes(120)), -60)
    air.inject(air.now + 2 * MS, frame(bytes(80)), other)
    air.run(10 * MS)
    air.tidy(2**64 - 1)
    assert sorted(air.outcomes()) == sorted([first, second])


@pytest.mark.parametrize(("stronger", "caught"), [(10, 40), (4, 36), (0, 0)])
def test_capture(make_air: MakeAir, stronger: int, caught: int) -> None:
    """Two frames at the same time: the one that is stronger by more than about 3 dB gets through, the other never."""
    air = make_air(nodes=1)
    air.chips[0].listen()
    got = 0
    for _ in range(40):
        air.inject(air.now + MS, frame(b"\x41\x88" + b"w" * 20), -60)
        air.inject(air.now + MS, frame(b"\x41\x88" + b"s" * 20), -60 + stronger)
        air.run(3 * MS)
        got += air.chips[0].drain(4)[3:4] == b"s"
        air.chips[0].strobe(SFLUSHRX)
    air.tidy(2**64 - 1)
    received = air.outcomes().count("received")
    assert received >= caught if caught else received <= 14
    assert not caught or got >= caught


def test_link_that_loses(air: Air) -> None:
    air.library.ether_set_delivery(air.ether, 0, 1, c_double(0.5))
    for _ in range(100):
        air.chips[0].send(BODY)
        air.run(3 * MS)
        air.chips[1].drain(1)
        air.chips[1].strobe(SFLUSHRX)
    assert set(air.outcomes(1)) == {"received", "lost"}
    assert 30 <= air.outcomes(1).count("lost") <= 70


@pytest.mark.parametrize(("dbm", "least", "most"), [(-98, 48, 52), (-93, 75, 85), (-80, 110, 110)])
def test_correlation(make_air: MakeAir, dbm: float, least: int, most: int) -> None:
    air = make_air(nodes=1)
    air.chips[0].listen()
    while "received" not in air.outcomes():
        air.chips[0].drain(1)
        air.chips[0].strobe(SFLUSHRX)
        air.inject(air.now + MS, frame(b"123"), dbm)
        air.run(3 * MS)
    rssi, last = air.chips[0].drain(6)[-2:]
    assert last & 0x80
    assert least <= last & 0x7F <= most
    assert rssi == round(10 * math.log10(10 ** (dbm / 10) + 10**-9.8)) + 45 + 256


# --- the channel ---


def test_rssi(air: Air) -> None:
    receiver = air.chips[1]
    assert receiver.read(RSSI) == 0xE000 | 256 - 98 + 45
    start = air.now + MS
    air.jam(start, start + MS, -50)
    air.run_to(start + 64 * US)
    assert receiver.read(RSSI) & 255 == 256 - 53 + 45  # half of the eight symbols
    air.run_to(start + 128 * US)
    assert receiver.read(RSSI) & 255 == 256 - 50 + 45
    receiver.strobe(SRFOFF)
    assert receiver.read(RSSI) & 255 == 0x80
    receiver.strobe(SRXON)
    air.run(TURNAROUND + 128 * US - 1)
    assert receiver.read(RSSI) & 255 == 0x80
    assert not receiver.status & RSSI_VALID
    air.run(1)
    assert receiver.status & RSSI_VALID
    assert receiver.read(RSSI) & 255 == 256 - 50 + 45


def test_cca_follows_energy(air: Air) -> None:
    """Busy at -77 dBm on average over eight symbols, clear 2 dB below that."""
    receiver = air.chips[1]
    start = air.now + MS
    assert receiver.cca()
    air.jam(start, start + MS, -74)
    busy = 128 * US * (10**-7.7 - 10**-9.8) / 10**-7.4
    air.run_to(start + int(busy) - 10)
    assert receiver.cca()
    air.run(20)
    assert not receiver.cca()
    clear = 128 * US * (1 - (10**-7.9 - 10**-9.8) / 10**-7.4)
    air.run_to(start + MS + int(clear) - 10)
    assert not receiver.cca()
    air.run(20)
    assert receiver.cca()


@pytest.mark.parametrize("loud", [True, False])
def test_cca_hysteresis_does_not_depend_on_who_looks_when(air: Air, loud: bool) -> None:
    """Between the two levels it stays what it was, although nobody looked before."""
    start = air.now + MS
    if loud:
        air.jam(start, start + MS, -70)
    air.jam(start + MS // 2, start + 9 * MS, -78.05)
    air.run_to(start + 5 * MS)
    assert air.chips[1].cca() is not loud


@pytest.mark.parametrize(
    ("mode", "during_frame", "during_noise"), [(1, True, False), (2, False, True), (3, False, False)]
)
def test_cca_modes(air: Air, mode: int, during_frame: bool, during_noise: bool) -> None:
    receiver = air.chips[1]
    receiver.write(MDMCTRL0, PLAIN & ~0xC0 | mode << 6)
    air.gain(0, 1, -85)  # below the threshold
    air.chips[0].send(BODY)
    air.run(TURNAROUND + SYNC + 5 * BYTE)
    assert receiver.cca() == during_frame
    air.run(5 * MS)
    assert receiver.cca()
    air.jam(air.now, air.now + MS, -50)
    air.run(500 * US)
    assert receiver.cca() == during_noise


def test_cca_threshold(air: Air) -> None:
    receiver = air.chips[1]
    air.jam(air.now, air.now + 5 * MS, -70)
    air.run(MS)
    assert not receiver.cca()
    receiver.write(RSSI, 0xF000)  # -16 - 45 dBm
    assert receiver.cca()


def test_cca_pin_can_show_the_oscillator(alone: Air) -> None:
    chip = alone.chips[0]
    chip.power_up()
    chip.write(IOCFG1, 24)
    chip.strobe(SXOSCON)
    assert not chip.cca()
    alone.run(860 * US)
    assert chip.cca()
    assert alone.faults() == []


def test_stxoncca(air: Air) -> None:
    sender = air.chips[0]
    air.jam(air.now, air.now + 5 * MS, -50)
    air.run(MS)
    sender.fill(frame(BODY)[:-2])
    sender.strobe(STXONCCA)
    assert not sender.status & TX_ACTIVE
    air.run(5 * MS)
    assert air.ends() == [one for one in air.ends() if one.node == -1]
    sender.strobe(STXONCCA)
    assert sender.status & TX_ACTIVE
    air.run(5 * MS)
    assert [one.bytes for one in air.ends() if one.node == 0] == [frame(BODY)]
    assert air.faults() == []


def test_stxoncca_waits_until_cca_is_valid(air: Air) -> None:
    sender = air.chips[0]
    sender.fill(frame(BODY)[:-2])
    sender.strobe(SRFOFF)
    sender.strobe(SRXON)
    air.run(320 * US - 1)
    sender.strobe(STXONCCA)
    assert not sender.status & TX_ACTIVE
    air.run(1)
    sender.strobe(STXONCCA)
    assert sender.status & TX_ACTIVE
    assert air.faults() == []


# --- addresses and acknowledgements ---

FILTER = PLAIN | 0x0800
PAN, SHORT, LONG = b"\x22\x00", b"\x05\x00", bytes(range(8))
COORDINATOR, RESERVED, BEACONS = 0x1000, 0x2000, 0x0800


def data_to(pan: bytes, address: bytes, fcf: int = 0x8841) -> bytes:
    return fcf.to_bytes(2, "little") + b"\x07" + pan + address + b"\x09\x00payload"


@pytest.mark.parametrize(
    ("body", "extra", "beacons", "taken"),
    [
        (data_to(PAN, SHORT), 0, 0, True),
        (data_to(PAN, b"\x06\x00"), 0, 0, False),
        (data_to(PAN, b"\xff\xff"), 0, 0, True),
        (data_to(b"\x23\x00", SHORT), 0, 0, False),
        (data_to(b"\xff\xff", SHORT), 0, 0, True),
        (data_to(PAN, LONG, 0x8C41), 0, 0, True),
        (data_to(PAN, LONG[::-1], 0x8C41), 0, 0, False),
        (data_to(PAN, SHORT, 0x8441), 0, 0, False),  # reserved addressing modes
        (data_to(PAN, SHORT, 0x4841), 0, 0, False),
        (b"\x01\x80\x07" + PAN + b"\x09\x00", 0, 0, False),  # only a source
        (b"\x01\x80\x07" + PAN + b"\x09\x00", COORDINATOR, 0, True),
        (b"\x01\x80\x07\x23\x00\x09\x00", COORDINATOR, 0, False),
        (b"\x00\x80\x07" + PAN + b"\x09\x00", 0, 0, True),  # a beacon
        (b"\x00\x80\x07\x23\x00\x09\x00", 0, 0, False),
        (b"\x00\x80\x07\x23\x00\x09\x00", 0, BEACONS, True),
        (b"\x02\x00\x07", 0, 0, True),  # an acknowledgement
        (data_to(PAN, SHORT, 0x8843), 0, 0, True),  # a command
        (data_to(PAN, SHORT, 0x8844), 0, 0, False),  # reserved type
        (data_to(b"\x23\x00", SHORT, 0x8844), RESERVED, 0, True),
        (b"\x41", 0, 0, False),  # too short
    ],
)
def test_address_recognition(air: Air, body: bytes, extra: int, beacons: int, taken: bool) -> None:
    receiver = air.chips[1]
    receiver.write_ram(0x160, LONG + PAN + SHORT)
    receiver.write(MDMCTRL0, FILTER | extra)
    receiver.write(IOCFG0, 0x007F | beacons)
    air.chips[0].send(body)
    air.run(5 * MS)
    assert air.outcomes(1) == ["received" if taken else "refused"]
    assert [one[2] for one in air.pins(1, "FIFO")] == ([1] if taken else [1, 0])
    assert len(air.edges(1, "FIFOP")) == taken
    assert air.faults() == []


def test_refused_frame_passes_by(air: Air) -> None:
    """SFD falls and its bytes go once the address is known, earlier ones stay; the search waits for its end."""
    receiver = air.chips[1]
    receiver.write_ram(0x160, LONG + PAN + SHORT)
    receiver.write(MDMCTRL0, FILTER)
    air.chips[0].send(data_to(PAN, SHORT))
    air.run(5 * MS)
    other = data_to(PAN, b"\x06\x00") + bytes(40)
    air.gain(0, 1, -90)  # not to be found by its energy
    data = air.chips[0].send(other) + TURNAROUND + SYNC
    end = data + len(frame(other)) * BYTE
    air.inject(end - 64 * US, frame(data_to(PAN, SHORT)), -30)
    air.run_to(end - 1000 * US)
    assert not receiver.cca()  # it is still a frame
    air.run(9 * MS)
    assert air.outcomes(1) == ["received", "refused", "busy"]
    assert air.edges(1, "SFD")[2:] == [data, data + 8 * BYTE]
    receiver.drain(len(frame(data_to(PAN, SHORT))))
    assert air.pins(1, "FIFO")[-1][2] == 0


def test_fifop_waits_for_the_address(air: Air) -> None:
    receiver = air.chips[1]
    receiver.write_ram(0x160, LONG + PAN + SHORT)
    receiver.write(MDMCTRL0, FILTER)
    receiver.write(IOCFG0, 2)
    data = air.chips[0].send(data_to(PAN, SHORT)) + TURNAROUND + SYNC
    air.run(5 * MS)
    assert air.edges(1, "FIFOP") == [data + 8 * BYTE]


def acknowledging(air: Air) -> None:
    for chip in air.chips:
        chip.write_ram(0x160, LONG + PAN + SHORT)
    air.chips[1].write(MDMCTRL0, FILTER | 0x10)
    air.chips[0].write(MDMCTRL0, PLAIN)


def test_acknowledgement(air: Air) -> None:
    """Twelve symbols after the last one, with the frame's number; the FIFO to be sent is not touched."""
    acknowledging(air)
    air.chips[1].fill(frame(b"\x41\x88mine")[:-2])
    air.chips[0].send(data_to(PAN, SHORT, 0x8861))
    air.run(2 * MS)
    sent, ack = air.ends()
    assert ack.node == 1
    assert ack.bytes == frame(b"\x02\x00\x07")
    assert ack.start == sent.to + TURNAROUND
    assert ack.data == ack.start + SYNC
    assert air.edges(1, "SFD") == [sent.data, sent.to, ack.data, ack.to]
    assert air.outcomes(0) == ["received"]
    air.run(MS)
    air.chips[1].strobe(STXON)
    air.run(5 * MS)
    assert air.ends()[-1].bytes == frame(b"\x41\x88mine")
    assert air.faults() == []


def test_acknowledgement_that_is_broken_off(air: Air) -> None:
    acknowledging(air)
    receiver = air.chips[1]
    receiver.fill(frame(b"\x41\x88mine")[:-2])
    air.chips[0].send(data_to(PAN, SHORT, 0x8861))
    air.run(2 * TURNAROUND + 2 * SYNC + len(frame(data_to(PAN, SHORT))) * BYTE + US)
    receiver.strobe(SRFOFF)
    receiver.strobe(STXON)
    air.run(5 * MS)
    assert [one.bytes for one in air.ends()[1:]] == [b"\x05", frame(b"\x41\x88mine")]
    assert air.faults() == []


@pytest.mark.parametrize("why", ["not asked for", "other address", "bad check sum"])
def test_no_acknowledgement(air: Air, why: str) -> None:
    acknowledging(air)
    body = data_to(
        PAN, b"\x06\x00" if why == "other address" else SHORT, 0x8841 if why == "not asked for" else 0x8861
    )
    data = frame(body)
    air.inject(air.now + MS, data[:-1] + b"\0" if why == "bad check sum" else data, -60)
    air.run(9 * MS)
    assert [one.node for one in air.ends()] == [-1]


def test_sack_and_sackpend(air: Air) -> None:
    for chip in air.chips:
        chip.write_ram(0x160, LONG + PAN + SHORT)
    for strobe in (SACKPEND, SACK):
        air.chips[0].send(data_to(PAN, SHORT))
        air.run(TURNAROUND + SYNC + 5 * BYTE)
        air.chips[1].strobe(strobe)
        air.run(5 * MS)
    sent = air.ends()
    assert [one.bytes for one in sent[1::2]] == [frame(b"\x12\x00\x07"), frame(b"\x02\x00\x07")]
    assert sent[1].start == sent[0].to + TURNAROUND
    air.chips[1].write(MDMCTRL0, FILTER | 0x10)
    air.chips[1].strobe(SACKPEND)  # now: after the frame; and the flag stays
    strobe = air.now
    air.run(5 * MS)
    assert air.ends()[4].start == strobe + TURNAROUND
    air.chips[0].send(data_to(PAN, SHORT, 0x8861))
    air.run(5 * MS)
    assert air.ends()[-1].bytes == frame(b"\x12\x00\x07")


# --- wrong use ---


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


def fifo_without_oscillator(air: Air) -> None:
    chip = air.chips[0]
    chip.power_up()
    chip.fill(b"\x05")


def ram_without_oscillator(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].write_ram(0x168, b"\0")


def reserved_register(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].write(0x35, 1)


def reserved_ram(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].read_ram(0x16F, 2)


def read_only(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].write(MANFIDL, 1)
    assert air.chips[0].read(MANFIDL) == 0x233D


def broken_write(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].access(TXCTRL, 0)
    assert air.chips[0].read(TXCTRL) == 0xA0FF


def encryption(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].strobe(0x0E)


def serial_mode(air: Air) -> None:
    air.chips[0].power_up()
    air.chips[0].write(MDMCTRL1, 0x0500 | 2 << 2)


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


def ram_for_fifo(air: Air) -> None:
    air.chips[0].start()
    air.chips[0].write_ram(0, b"\x05")


def hungry(air: Air) -> None:
    air.chips[0].listen()
    air.chips[0].drain(1)
    assert air.faults() == []
    air.chips[0].strobe(SNOP)


def very_hungry(air: Air) -> None:
    air.chips[0].listen()
    air.chips[0].drain(2)


def flush_unread(air: Air) -> None:
    air.chips[0].listen()
    air.inject(air.now + MS, frame(BODY), -60)
    air.run(5 * MS)
    air.chips[0].strobe(SFLUSHRX)


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        (no_supply, "SPI access without supply"),
        (regulator, "SPI access before the regulator is steady"),
        (held, "SPI access while held in reset"),
        (no_reset, "started without a reset after VREG_EN"),
        (deselected, "SPI byte while CSn is high"),
        (strobe_without_oscillator, "strobe without a stable oscillator"),
        (fifo_without_oscillator, "FIFO or RAM access without a stable oscillator"),
        (ram_without_oscillator, "FIFO or RAM access without a stable oscillator"),
        (reserved_register, "access to a reserved address"),
        (reserved_ram, "access to a reserved address"),
        (read_only, "write to a register that can only be read"),
        (broken_write, "register write broken off"),
        (encryption, "use of what is not modelled: encryption, a test mode, a test output"),
        (serial_mode, "use of what is not modelled: encryption, a test mode, a test output"),
        (sends_twice, "STXON or STXONCCA while sending"),
        (cca_while_deaf, "STXONCCA while the receiver is off"),
        (full_tx, "more bytes than the TX FIFO holds"),
        (impossible_length, "sent a frame with an impossible length"),
        (ram_for_fifo, "RAM write into the TX FIFO where no byte is"),
        (hungry, "read from an empty RX FIFO"),
        (very_hungry, "read from an empty RX FIFO"),
        (flush_unread, "SFLUSHRX without a byte read before"),
    ],
)
def test_wrong_use_is_reported_once(alone: Air, misuse: Callable[[Air], None], words: str) -> None:
    misuse(alone)
    assert alone.faults() == [words]
    alone.chips[0].strobe(SNOP)
    assert alone.faults().count(words) == 1


def test_unflushed_underflow(alone: Air) -> None:
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


def test_one_byte_from_an_empty_fifo_is_right_before_a_flush(alone: Air) -> None:
    """The data sheet asks for it."""
    chip = alone.chips[0]
    chip.listen()
    chip.drain(1)
    chip.strobe(SFLUSHRX)
    chip.strobe(SFLUSHRX)
    assert alone.faults() == []


# --- cost, and the same run twice ---


def test_silence_costs_nothing_and_a_frame_little(make_air: MakeAir) -> None:
    """A receiver needs to be woken for the delimiter, the first byte and the last."""
    air = make_air(nodes=3)
    air.gains(-60)
    for chip in air.chips[1:]:
        chip.listen()
    air.chips[0].start()
    before = air.wakes
    air.run(1000 * MS)
    assert air.wakes == before
    air.chips[0].send(bytes(40))
    air.run(5 * MS)
    sender = 1 + 43 + 1 + 1  # the preamble, each byte, the end, calibration
    assert air.wakes == before + sender + 2 * 3


def test_same_seed_same_run(make_air: MakeAir) -> None:
    def story(seed: int) -> list[object]:
        air = make_air(nodes=3, seed=seed)
        air.gains(-97)
        for chip in air.chips:
            chip.listen()
        for turn in range(60):
            air.chips[turn % 3].send(bytes([turn]) * 30)
            air.run(300 * US if turn % 4 == 0 else 3 * MS)
            for chip in air.chips:
                chip.drain(1)
                chip.strobe(SFLUSHRX)
        return [*air.events]

    first = story(5)
    assert first == story(5)
    assert first != story(6)
    assert {"received", "damaged"} <= {getattr(one, "outcome", "") for one in first}


def test_fcs_of_a_frame_that_was_seen() -> None:
    assert fcs(bytes.fromhex("4188002200ffff01003f060001")).hex() == "d777"
