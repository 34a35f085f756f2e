"""The testbed's CC2420 receives: every pin, every byte, and what it does not hear."""

import pytest

from tests.testbed.air import (
    BODY,
    BYTE,
    CHANNEL_26,
    FSCTRL,
    FSMSTATE,
    IOCFG0,
    LOCK,
    MS,
    RSSI_VALID,
    SFLUSHRX,
    SRFOFF,
    SRXON,
    SYNC,
    SYNCWORD,
    TURNAROUND,
    US,
    XOSC,
    frame,
)


def test_pins_and_bytes_of_a_frame(air):
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


def test_bytes_come_one_by_one(air):
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


def test_fifop_threshold(air):
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


def test_fifop_threshold_counts_what_waits(air):
    receiver = air.chips[1]
    length = len(frame(BODY))
    receiver.write(IOCFG0, length + 5)
    air.chips[0].send(BODY)
    air.run(5 * MS)
    receiver.drain(1)
    data = air.chips[0].send(BODY) + TURNAROUND + SYNC
    air.run(5 * MS)
    assert air.edges(1, "FIFOP")[2:] == [data + 7 * BYTE]


def test_polarities(air):
    receiver = air.chips[1]
    receiver.write(IOCFG0, 0x0780 | 0x7F)
    assert [one[1:] for one in air.pins(1)] == [("FIFO", 1), ("FIFOP", 1), ("SFD", 1)]
    assert not receiver.cca()
    air.chips[0].send(BODY)
    air.run(5 * MS)
    assert [one[1:] for one in air.pins(1)[3:]] == [("SFD", 0), ("FIFO", 0), ("FIFOP", 0), ("SFD", 1)]


def test_two_frames_wait(air):
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


def test_overflow(air):
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


def test_flush_ends_a_frame(air):
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
def test_receiver_must_hear_the_end_of_the_preamble(air, late, outcome):
    """It calibrates for twelve symbols and needs four before the end of the delimiter."""
    sender, receiver = air.chips
    receiver.strobe(SRFOFF)
    data = sender.send(BODY) + TURNAROUND + SYNC
    air.run_to(data - 64 * US - TURNAROUND + late)
    receiver.strobe(SRXON)
    air.run(5 * MS)
    assert air.outcomes(1) == [outcome]


def test_deaf_for_a_turnaround_after_sending(air):
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


def test_channels(air):
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


def test_other_channel_while_busy(air):
    air.chips[0].send(bytes(60))
    air.inject(air.now + MS, frame(BODY), -50, khz=CHANNEL_26)
    air.run(9 * MS)
    assert air.outcomes(1) == ["deaf", "received"]


def test_sync_word(air):
    sender, receiver = air.chips
    sender.write(SYNCWORD, 0xB80F)
    sender.send(BODY)
    air.run(5 * MS)
    receiver.write(SYNCWORD, 0xB80F)
    sender.send(BODY)
    air.run(5 * MS)
    assert air.outcomes(1) == ["weak", "received"]


@pytest.mark.parametrize("length", [0, 1, 2, 127])
def test_odd_lengths(air, length):
    data = bytes([length]) + bytes(length)
    air.inject(air.now + MS, data, -60)
    air.run(10 * MS)
    for node in (0, 1):
        assert len(air.edges(node, "SFD")) == 2
        assert air.edges(node, "SFD")[1] - air.edges(node, "SFD")[0] == (length + 1) * BYTE
        assert air.pins(node, "FIFOP")[-1][2] == 1
        assert air.chips[node].drain(length + 1)[0] == length


def test_bad_check_sum(air):
    bad = bytearray(frame(BODY))
    bad[-1] ^= 1
    air.inject(air.now + MS, bytes(bad), -60)
    air.run(5 * MS)
    assert air.outcomes(1) == ["damaged"]
    assert air.chips[1].drain(len(bad))[-1] == 110


def test_strobe_in_mid_reception(air):
    """STXON does not ask whether a frame is coming in. What came of it stays in the FIFO."""
    air.chips[0].send(BODY)
    air.run(TURNAROUND + SYNC + 5 * BYTE)
    strobe = air.chips[1].send(BODY)
    air.run(5 * MS)
    assert air.outcomes(1) == ["sending"]
    assert air.edges(1, "SFD")[1] == strobe
    assert air.chips[1].drain(5) == frame(BODY)[:5]
    assert air.ends()[1].bytes == frame(BODY)


def test_carriers_without_bytes_are_no_frames(air):
    for number in range(40):
        air.jam(air.now + number * MS, air.now + number * MS + 100 * US, -90)
    air.run(100 * MS)
    air.chips[0].send(BODY)
    air.run(5 * MS)
    assert air.outcomes() == ["received"]
