"""The testbed's CC2420 refuses frames for others and acknowledges those for itself, as IEEE 802.15.4 has it."""

import pytest

from tests.testbed.air import (
    BYTE,
    IOCFG0,
    MDMCTRL0,
    MS,
    PLAIN,
    SACK,
    SACKPEND,
    SRFOFF,
    STXON,
    SYNC,
    TURNAROUND,
    US,
    Air,
    frame,
)

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
def test_address_recognition(air, body, extra, beacons, taken):
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


def test_refused_frame_passes_by(air):
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


def test_fifop_waits_for_the_address(air):
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


def test_acknowledgement(air):
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


def test_acknowledgement_that_is_broken_off(air):
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
def test_no_acknowledgement(air, why):
    acknowledging(air)
    body = data_to(
        PAN, b"\x06\x00" if why == "other address" else SHORT, 0x8841 if why == "not asked for" else 0x8861
    )
    data = frame(body)
    air.inject(air.now + MS, data[:-1] + b"\0" if why == "bad check sum" else data, -60)
    air.run(9 * MS)
    assert [one.node for one in air.ends()] == [-1]


def test_sack_and_sackpend(air):
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
