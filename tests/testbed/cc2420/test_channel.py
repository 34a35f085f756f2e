"""The channel as the testbed's CC2420 finds it: chance, collisions, strength, and whether it is clear."""

import math
from ctypes import c_double
from itertools import pairwise

import pytest

from tests.testbed.air import (
    BODY,
    BYTE,
    IOCFG1,
    MDMCTRL0,
    MS,
    PLAIN,
    RSSI,
    RSSI_VALID,
    SFLUSHRX,
    SRFOFF,
    SRXON,
    STXONCCA,
    SXOSCON,
    SYNC,
    TURNAROUND,
    TX_ACTIVE,
    US,
    MakeAir,
    frame,
)


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


def test_reception_rate_against_strength(make_air):
    """Monotonic; half at about 1 dB over noise; about one in a hundred lost at -95 dBm, the sheet's sensitivity."""
    strengths = [-103, -99, -98, -97, -96, -95, -94, -90]
    rates = [rate(make_air, dbm) for dbm in strengths]
    assert all(worse <= better + 0.05 for worse, better in pairwise(rates)), rates
    assert rates[0] == 0
    assert rates[1] < 0.3
    assert 0.3 < rates[3] < 0.9
    assert rates[5] >= 0.96
    assert rates[-1] == 1


def test_symbol_errors_follow_the_standard(make_air):
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
def test_collision_in_mid_frame(make_air, other, first, second):
    air = make_air(nodes=1)
    air.chips[0].listen()
    air.inject(air.now + MS, frame(bytes(120)), -60)
    air.inject(air.now + 2 * MS, frame(bytes(80)), other)
    air.run(10 * MS)
    air.tidy(2**64 - 1)
    assert sorted(air.outcomes()) == sorted([first, second])


@pytest.mark.parametrize(("stronger", "caught"), [(10, 40), (4, 36), (0, 0)])
def test_capture(make_air, stronger, caught):
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


def test_link_that_loses(air):
    air.library.ether_set_delivery(air.ether, 0, 1, c_double(0.5))
    for _ in range(100):
        air.chips[0].send(BODY)
        air.run(3 * MS)
        air.chips[1].drain(1)
        air.chips[1].strobe(SFLUSHRX)
    assert set(air.outcomes(1)) == {"received", "lost"}
    assert 30 <= air.outcomes(1).count("lost") <= 70


@pytest.mark.parametrize(("dbm", "least", "most"), [(-98, 48, 52), (-93, 75, 85), (-80, 110, 110)])
def test_correlation(make_air, dbm, least, most):
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


# --- strength, and whether it is clear ---


def test_rssi(air):
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


def test_cca_follows_energy(air):
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
def test_cca_hysteresis_does_not_depend_on_when_it_is_read(air, loud):
    """Between the two levels the pin stays what it was, although it was not read before."""
    start = air.now + MS
    if loud:
        air.jam(start, start + MS, -70)
    air.jam(start + MS // 2, start + 9 * MS, -78.05)
    air.run_to(start + 5 * MS)
    assert air.chips[1].cca() is not loud


@pytest.mark.parametrize(
    ("mode", "during_frame", "during_noise"), [(1, True, False), (2, False, True), (3, False, False)]
)
def test_cca_modes(air, mode, during_frame, during_noise):
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


def test_cca_threshold(air):
    receiver = air.chips[1]
    air.jam(air.now, air.now + 5 * MS, -70)
    air.run(MS)
    assert not receiver.cca()
    receiver.write(RSSI, 0xF000)  # -16 - 45 dBm
    assert receiver.cca()


def test_cca_pin_can_show_the_oscillator(alone):
    chip = alone.chips[0]
    chip.power_up()
    chip.write(IOCFG1, 24)
    chip.strobe(SXOSCON)
    assert not chip.cca()
    alone.run(860 * US)
    assert chip.cca()
    assert alone.faults() == []


def test_stxoncca(air):
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


def test_stxoncca_waits_until_cca_is_valid(air):
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


# --- cost, and the same run twice ---


def test_silence_costs_nothing_and_a_frame_little(make_air):
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


def test_same_seed_same_run(make_air):
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
