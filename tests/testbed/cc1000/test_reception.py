"""What the testbed's CC1000 hears: bits, strengths, and what the truth says of a signal."""

import math
from collections import Counter

import pytest

from tests.testbed.air import MS, US
from tests.testbed.cc1000.bench import (
    BIT,
    MAIN,
    RECEIVE,
    TRANSMIT,
    MakeBench,
    frame,
    on_air,
)


@pytest.mark.few(3)
@pytest.mark.parametrize("offset", range(0, 417, 29))
def test_bits_are_found_at_any_phase(bench, offset):
    """The receiver's bytes begin anywhere in the sender's; its bits come to lie on theirs."""
    b = bench(2)
    b.start(0)
    b.run_for(offset * US)
    b.start(1)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert result.frames(1) == [frame()[:-2]]
    assert result.outcomes == {(0, 1): "received"}
    (signal,) = result.signals
    during = [byte.at for byte in result.heard(1) if signal.start + 2 * MS < byte.at < signal.end]
    phases = [((at - signal.data) / BIT) % 1 for at in during]
    assert all(min(phase, 1 - phase) < 0.01 for phase in phases)


def test_two_bits_lie_between_the_senders_byte_and_the_receivers(bench):
    """One in each modem."""
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(b'')}")
    b.run_for(20 * MS)
    result = b.finish()
    (signal,) = result.signals
    sync = signal.bytes.index(b"\x33\xcc")
    bits = "".join(f"{byte.value ^ 0xFF:08b}" for byte in result.heard(1))
    last = bits.find(f"{0xAA33CC:024b}") + 24  # bits until the sync word's end
    byte = result.heard(1)[last // 8]
    end = byte.at - (8 - last % 8) * BIT
    sent = next(
        b.at
        for b in result.heard(0)
        if abs(b.at - (signal.data - BIT + (sync + 2) * signal.byte_ns)) < 1 * US
    )
    assert end - sent == pytest.approx(2 * BIT, abs=1.5 * US)


@pytest.mark.parametrize("ppm", [(100, -100), (-100, 100)])
def test_crystals_that_differ(bench, ppm):
    b = bench(2)
    b.do(f"ppm 0 {ppm[0]}", f"ppm 1 {ppm[1]}")
    b.start(0, 1)
    for i in range(20):
        b.do(f"send 0 {b.now} {on_air(frame(bytes([i]) * 29))}")
        b.run_for(40.123 * MS)
    result = b.finish()
    assert result.frames(1) == [frame(bytes([i]) * 29)[:-2] for i in range(20)]
    assert set(result.outcomes.values()) == {"received"}


def outcomes_at(bench: MakeBench, dbm: float, count: int = 200) -> Counter[str]:
    """Of frames of this strength in noise of -105 dBm. What the truth says must be what a program finds."""
    b = bench(2, gain=dbm)
    b.start(0, 1)
    for i in range(count):
        b.do(f"send 0 {b.now} {on_air(frame(bytes([i]) * 10))}")
        b.run_for(20.123 * MS)
    result = b.finish()
    assert len(result.outcomes) == count
    received = [signal.number for signal in result.signals if result.outcomes[signal.number, 1] == "received"]
    assert result.frames(1) == [frame(bytes([number]) * 10)[:-2] for number in received]
    return Counter(result.outcomes.values())


@pytest.mark.wide
def test_reception_against_noise(bench):
    """p(bit wrong) = exp(-SINR) / 2, the receiver's own noise of -110.9 dBm included."""
    noise = 10 ** (-105 / 10) + 10 ** (-110.9 / 10)
    bits = 8 * (2 + len(frame(bytes(10))))
    for dbm in (-97, -96, -95):
        wrong = math.exp(-(10 ** (dbm / 10)) / noise) / 2
        expected = (1 - wrong) ** bits
        got = outcomes_at(bench, dbm)["received"] / 200
        assert got == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 200)), dbm
    assert outcomes_at(bench, -92)["received"] == 200
    assert outcomes_at(bench, -104)["weak"] >= 195


def test_sensitivity_is_the_data_sheets(bench):
    """Without noise from outside: one bit in a thousand wrong at -103 dBm."""
    b = bench(2, gain=-103)
    b.do("noise 1 -140")
    b.start(0, 1)
    for i in range(100):
        b.do(f"send 0 {b.now} {on_air(frame(bytes([i]) * 29))}")
        b.run_for(30 * MS)
    outcomes = Counter(b.finish().outcomes.values())
    assert outcomes["received"] / 100 == pytest.approx(0.999 ** (8 * (2 + 36)), abs=0.16)


@pytest.mark.parametrize(("stronger", "expected"), [(0, "none"), (3, "none"), (12, "stronger")])
def test_capture(bench, stronger, expected):
    """Two at once: the stronger is understood if it is so by enough."""
    b = bench(3)
    b.do(f"gain 1 2 {-60 + stronger}")
    b.start(0, 1, 2)
    for _ in range(20):
        b.do(
            f"send 0 {b.now} {on_air(frame(b'weaker...'))}",
            f"send 1 {b.now + 131 * US} {on_air(frame(b'stronger.'))}",
        )
        b.run_for(40 * MS)
    result = b.finish()
    at_2 = {
        sender: Counter(result.outcomes[s.number, 2] for s in result.signals if s.node == sender)
        for sender in (0, 1)
    }
    if expected == "none":
        assert result.frames(2) == []
        assert at_2[0]["received"] == at_2[1]["received"] == 0
    else:
        assert result.frames(2) == [frame(b"stronger.")[:-2]] * 20
        assert (at_2[0], at_2[1]) == (Counter(busy=20), Counter(received=20))


def test_late_and_stronger_spoils_the_first(bench):
    """A program that is in one frame does not find another's beginning, however strong."""
    b = bench(3)
    b.do("gain 1 2 -40")
    b.start(0, 1, 2)
    b.do(f"send 0 {b.now} {on_air(frame(bytes(29)))}", f"send 1 {b.now + 6 * MS} {on_air(frame(bytes(29)))}")
    b.run_for(40 * MS)
    result = b.finish()
    by_sender = {signal.node: result.outcomes[signal.number, 2] for signal in result.signals}
    assert by_sender == {0: "damaged", 1: "busy"}


# --- RSSI ---


@pytest.mark.parametrize("dbm", [-30, -50, -60, -80, -95])
def test_rssi_volts(bench, dbm):
    b = bench()
    b.start(0)
    b.do("rssi 0", f"jam {b.now + 200 * US} {b.now + 10 * MS} 433002 {dbm}")
    b.run_for(1 * MS)
    b.do("rssi 0")
    b.run_for(20 * MS)
    b.do("rssi 0")
    b.write(0, MAIN, TRANSMIT)
    b.run_for(MS)
    b.do("rssi 0")
    before, during, after, sending = b.finish().millivolts
    total = 10 * math.log10(10 ** (dbm / 10) + 10 ** (-105 / 10))
    assert before == after == round((105 - 49.2) / 51.3 * 1000)
    assert during == pytest.approx(max(0, (-total - 49.2) / 51.3 * 1000), abs=1)
    assert sending == 0


def test_rssi_settles_within_a_fraction_of_a_millisecond(bench):
    b = bench()
    b.start(0)
    b.do(f"jam {b.now + 160 * US} {b.now + 10 * MS} 433002 -60")
    b.run_for(160 * US)
    for _ in range(6):
        b.do("rssi 0")
        b.run_for(50 * US)
    volts = b.finish().millivolts
    assert volts == sorted(volts, reverse=True)
    assert volts[0] == 1088
    assert volts[1] < 1088
    assert volts[4] == volts[5] == 211


def test_quiet_pin_never_above_1200_mv(bench):
    b = bench()
    b.do("noise 0 -130")
    b.start(0)
    b.do("rssi 0")
    assert b.finish().millivolts == [1200]


# --- outcomes ---


def test_one_outcome_for_each_node_in_reach(bench):
    """0 sends; 1 receives, 2 is off, 3 is too weak, 4 has no luck, 5 sends itself, 6 is out of reach."""
    b = bench(7)
    b.do("gain 0 3 -107", "gain 0 6 -150", "deliver 0 4 0")
    b.do(*(f"gain 5 {i} -150" for i in range(7)))
    b.start(0, 1, 2, 3, 4, 5, 6)
    b.do("power 2 0")
    b.do(f"send 5 {b.now} {on_air(frame(bytes(29)))}", f"send 0 {b.now + 3 * MS} {on_air(frame(bytes(10)))}")
    b.run_for(60 * MS)
    result = b.finish()
    number = next(signal.number for signal in result.signals if signal.node == 0)
    said = {node: outcome for (signal, node), outcome in result.outcomes.items() if signal == number}
    assert said == {1: "received", 2: "deaf", 3: "weak", 4: "lost", 5: "sending"}


def test_radio_that_starts_to_listen_too_late_is_deaf(bench):
    b = bench(2)
    b.start(0, 1)
    b.write(1, MAIN, 0x3F)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(5 * MS)
    b.write(1, MAIN, RECEIVE)
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): "deaf"}


@pytest.mark.parametrize(("after", "outcome"), [(2, "deaf"), (8, "deaf"), (17, "received")])
def test_radio_that_stops_listening_is_deaf_unless_it_had_all(bench, after, outcome):
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(after * MS)
    b.write(1, MAIN, 0x3F)
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): outcome}


def test_sender_that_loses_power_breaks_its_signal_off(bench):
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(10 * MS)
    b.do("power 0 0")
    b.run_for(40 * MS)
    result = b.finish()
    assert [signal.broken for signal in result.signals] == [True]
    assert result.outcomes == {(0, 1): "damaged"}


@pytest.mark.parametrize(("flush", "outcome"), [(0, "damaged"), (1, "received")])
def test_last_bit_stays_in_the_modulator(bench, flush, outcome):
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(frame(), flush)}")
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): outcome}


def test_short_frame_is_soon_over(bench):
    """A program that has had a short frame finds the next one's beginning."""
    b = bench(3)
    b.start(0, 1, 2)
    b.do(f"send 0 {b.now} {on_air(frame(b''))}")
    b.run_for(9 * MS)
    b.do(f"send 1 {b.now} {on_air(frame(b''))}")
    b.run_for(40 * MS)
    result = b.finish()
    assert [result.outcomes[signal.number, 2] for signal in result.signals] == ["received"] * 2
    assert result.frames(2) == [frame(b"")[:-2]] * 2


def test_wrong_check_sum_is_damage(bench):
    """A byte that the program gave too late spoils the frame at every receiver, however strong."""
    spoilt = bytearray(frame())
    spoilt[9] ^= 0x10
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(bytes(spoilt))}")
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): "damaged"}


def test_frame_from_outside(bench):
    b = bench(2)
    b.start(0, 1)
    b.do(
        f"inject {b.now + MS} 433002 -70 {on_air(frame())}",
        f"jam {b.now + 40 * MS} {b.now + 60 * MS} 433002 -70",
    )
    b.run_for(100 * MS)
    result = b.finish()
    assert result.outcomes == {(0, 0): "received", (0, 1): "received"}
    assert result.frames(0) == result.frames(1) == [frame()[:-2]]


def test_same_seed_same_run(bench):
    def run(seed: int) -> list[list[str]]:
        b = bench(4, seed=seed, gain=-94)
        b.start(0, 1, 2, 3)
        for i in range(12):
            b.do(f"send {i % 3} {b.now + i * 17 * US} {on_air(frame(bytes([i]) * 10))}")
            b.run_for(9 * MS)
        b.run_for(40 * MS)
        return b.finish().lines

    assert run(1) == run(1)
    assert run(1) != run(2)
