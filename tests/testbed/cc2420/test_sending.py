"""The testbed's CC2420 sends: every time to the nanosecond, every byte, and what breaks a frame off."""

import pytest

from tests.testbed.air import (
    BODY,
    BYTE,
    FSMSTATE,
    LOCK,
    MDMCTRL0,
    MS,
    PLAIN,
    RSSI_VALID,
    SFLUSHTX,
    SRFOFF,
    STXCAL,
    STXON,
    SYNC,
    TURNAROUND,
    TX_ACTIVE,
    TXCTRL,
    UNDERFLOW,
    US,
    XOSC,
    fcs,
    frame,
)


def test_fcs_of_a_frame_that_was_seen():
    assert fcs(bytes.fromhex("4188002200ffff01003f060001")).hex() == "d777"


@pytest.mark.parametrize(("txctrl", "turnaround"), [(0xA0FF, 192 * US), (0x80FF, 128 * US)])
@pytest.mark.parametrize("preamble", [1, 2, 15])
def test_times_of_a_frame(air, txctrl, turnaround, preamble):
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


def test_states_on_the_way(air):
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
def test_power_levels(air, level, dbm):
    air.chips[0].write(TXCTRL, 0xA0E0 | level)
    air.chips[0].send(BODY)
    air.run(5 * MS)
    assert air.ends()[0].dbm == dbm
    assert air.chips[1].drain(len(frame(BODY)))[-2] == 256 + dbm - 60 + 45


def test_sent_again_without_being_written_again(air):
    chip = air.chips[0]
    chip.send(BODY)
    air.run(5 * MS)
    chip.strobe(STXON)
    air.run(5 * MS)
    chip.send(b"\x01\x08\x01another")  # the FIFO starts anew by itself
    air.run(5 * MS)
    assert [one.bytes for one in air.ends()] == [frame(BODY), frame(BODY), frame(b"\x01\x08\x01another")]
    assert air.faults() == []


def test_byte_is_taken_when_its_turn_comes(air):
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


def test_fifo_may_be_filled_while_it_is_emptied(air):
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


def test_without_autocrc_the_fifo_holds_it(air):
    for chip in air.chips:
        chip.write(MDMCTRL0, PLAIN & ~0x20)
    air.chips[0].fill(frame(BODY))
    air.chips[0].strobe(STXON)
    air.run(5 * MS)
    assert air.ends()[0].bytes == frame(BODY)
    assert air.chips[1].drain(len(frame(BODY))) == frame(BODY)


@pytest.mark.parametrize("there", [0, 4])
def test_underflow(air, there):
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
def test_breaking_off(air, when):
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
def test_sender_that_dies(air, how):
    strobe = air.chips[0].send(BODY)
    air.run(TURNAROUND + SYNC + 5 * BYTE + 1)
    getattr(air.chips[0], how)(0)
    air.run(5 * MS)
    (signal,) = air.ends()
    assert (signal.broken, signal.to) == (True, strobe + TURNAROUND + SYNC + 5 * BYTE + 1)
    assert air.outcomes(1) == ["damaged"]
    assert air.chips[1].drain(len(frame(BODY)))[-1] < 0x80
