"""The testbed's ether: strengths, sums, collisions, and one outcome for every signal at every node in reach."""

import math
from ctypes import c_bool, c_double

import pytest

from tests.testbed.air import BYTE, CHANNEL_26, MS, NEVER, US, Fault, Outcome, frame

NOISE = -98.0


def dbm_sum(*dbm: float) -> float:
    return 10 * math.log10(sum(10 ** (one / 10) for one in dbm))


@pytest.fixture
def air(make_air):
    """Four nodes without chips."""
    return make_air(nodes=4, chips=0)


# --- strength ---


def test_gain_is_of_one_direction(air):
    air.gain(0, 1, -60)
    there, back = air.begin(0, 0, dbm=-3), air.begin(1, 0)
    assert air.library.ether_dbm(air.ether, there, 1) == -63
    assert air.library.ether_dbm(air.ether, back, 0) == -math.inf
    assert air.library.ether_dbm(air.ether, there, 0) == -math.inf
    assert air.library.ether_dbm(air.ether, there, 2) == -math.inf


def test_cut_and_heal(air):
    air.gain(0, 1, -60)
    air.library.ether_cut(air.ether, 0, 1, c_bool(True))
    assert air.library.ether_dbm(air.ether, air.begin(0, 0), 1) == -math.inf
    air.library.ether_cut(air.ether, 0, 1, c_bool(False))
    assert air.library.ether_dbm(air.ether, air.begin(0, 0), 1) == -60


def test_power_is_a_sum_in_milliwatts(air):
    air.gain(0, 2, -80)
    air.gain(1, 2, -83)
    assert air.power(2, 0) == pytest.approx(NOISE)
    one, other = air.begin(0, 100), air.begin(1, 200)
    assert air.power(2, 99) == pytest.approx(NOISE)
    assert air.power(2, 100) == pytest.approx(dbm_sum(NOISE, -80))
    assert air.power(2, 200) == pytest.approx(dbm_sum(NOISE, -80, -83))
    assert air.power(2, 200, CHANNEL_26) == pytest.approx(NOISE)
    assert air.power(3, 200) == pytest.approx(NOISE)
    air.end(one, 300)
    air.end(other, 400)
    assert air.power(2, 300) == pytest.approx(dbm_sum(NOISE, -83))
    assert air.power(2, 400) == pytest.approx(NOISE)


def test_frequencies_that_differ_by_a_rounding_are_the_same(air):
    air.gain(0, 1, -60)
    air.begin(0, 0, khz=433_002)
    assert air.power(1, 0, 433_010) > -61
    assert air.power(1, 0, 433_100) == pytest.approx(NOISE)


def test_noise(air):
    air.noise(1, -90)
    assert air.power(1, 0) == pytest.approx(-90)
    air.readings(1, [-95, -80, -70], start=1)
    powers = [air.power(1, time) for time in (0, MS - 1, MS, 2 * MS, 3 * MS, 4 * MS)]
    assert powers == pytest.approx([-80, -80, -70, -95, -80, -70])
    assert air.power(0, 0) == pytest.approx(NOISE)


def test_mean_power(air):
    air.gain(0, 1, -60)
    air.readings(1, [-90, -70])
    air.end(air.begin(0, 3 * MS), 3 * MS + 100 * US)
    assert air.mean_power(1, MS - 100 * US, MS + 100 * US) == pytest.approx(
        dbm_sum(-90, -70) - 10 * math.log10(2)
    )
    quarter = 10 * math.log10(4)
    assert air.mean_power(1, 3 * MS, 3 * MS + 400 * US) == pytest.approx(dbm_sum(-70, -60 - quarter))


# --- disturbance ---


def test_sinr_is_the_worst_of_the_interval(air):
    for sender, db in ((0, -60), (1, -70), (2, -75)):
        air.gain(sender, 3, db)
    wanted = air.begin(0, 0)
    air.end(air.begin(1, 1000), 2000)
    air.begin(2, 1500)
    assert air.sinr(wanted, 3, 0, 1000) == pytest.approx(-60 - NOISE)
    assert air.sinr(wanted, 3, 0, 1001) == pytest.approx(-60 - dbm_sum(NOISE, -70))
    assert air.sinr(wanted, 3, 0, 5000) == pytest.approx(-60 - dbm_sum(NOISE, -70, -75))
    assert air.sinr(wanted, 3, 1600, 5000) == pytest.approx(-60 - dbm_sum(NOISE, -70, -75))
    assert air.sinr(wanted, 3, 2000, 5000) == pytest.approx(-60 - dbm_sum(NOISE, -75))


def test_sinr_sees_every_reading_of_noise(air):
    air.gain(0, 1, -60)
    air.readings(1, [-95, -95, -70, -95])
    wanted = air.begin(0, 0)
    assert air.sinr(wanted, 1, 0, 2 * MS) == pytest.approx(35)
    assert air.sinr(wanted, 1, 0, 2 * MS + 1) == pytest.approx(10)
    assert air.sinr(wanted, 1, 3 * MS, 4 * MS) == pytest.approx(35)


def test_other_frequency_does_not_disturb(air):
    air.gain(0, 2, -60)
    air.gain(1, 2, -20)
    wanted = air.begin(0, 0)
    air.begin(1, 10, khz=CHANNEL_26)
    assert air.sinr(wanted, 2, 0, 1000) == pytest.approx(-60 - NOISE)


def test_injected_and_jamming_are_heard_everywhere(air):
    air.inject(MS, frame(b"hello"), -70)
    air.jam(0, 2 * MS, -80)
    for node in range(4):
        assert air.power(node, MS) == pytest.approx(dbm_sum(NOISE, -70, -80))
        assert air.power(node, 2 * MS - 1) == pytest.approx(dbm_sum(NOISE, -80))
    air.tidy(3 * MS)
    first, second = air.ends()
    assert (first.node, first.bytes, first.to) == (-1, frame(b"hello"), MS + 8 * BYTE)
    assert (second.node, second.bytes, second.data) == (-1, b"", NEVER)


# --- chance ---


@pytest.mark.parametrize(("probability", "least", "most"), [(0.0, 0, 0), (0.3, 220, 380), (1.0, 1000, 1000)])
def test_delivery(air, probability, least, most):
    air.gain(0, 1, -60)
    air.library.ether_set_delivery(air.ether, 0, 1, c_double(probability))
    signal = air.begin(0, 0)
    assert least <= sum(air.library.ether_delivers(air.ether, signal, 1) for _ in range(1000)) <= most


def test_chance_is_the_seeds_and_each_nodes_own(make_air):
    def draws(seed: int, others: int, node: int) -> list[bool]:
        air = make_air(nodes=3, chips=0, seed=seed)
        for receiver in (1, 2):
            air.gain(0, receiver, -60)
            air.library.ether_set_delivery(air.ether, 0, receiver, c_double(0.5))
        signal = air.begin(0, 0)
        for _ in range(others):
            air.library.ether_delivers(air.ether, signal, 3 - node)
        return [bool(air.library.ether_delivers(air.ether, signal, node)) for _ in range(64)]

    assert draws(1, 0, 1) == draws(1, 17, 1)
    assert draws(1, 0, 1) != draws(2, 0, 1)
    assert draws(1, 0, 1) != draws(1, 0, 2)


# --- bookkeeping ---


def test_busy(air):
    signal = air.begin(0, 1000 * US)
    assert not air.busy(0, 1000 * US)
    assert air.busy(0, 1000 * US + 1)
    assert air.busy(5000 * US, 5001 * US)
    air.end(signal, 2000 * US)
    assert air.busy(1999 * US, 5000 * US)
    assert not air.busy(2000 * US, 5000 * US)
    air.jam(2000 * US, 9000 * US, -50)
    assert not air.busy(2000 * US, 5000 * US)


def test_every_signal_has_one_outcome_at_every_radio_in_reach(make_air):
    """A radio that is off does not say so: it was deaf. No radio, no gain, too weak: nothing."""
    air = make_air(nodes=6, chips=4)
    for receiver, db in ((1, -60), (2, -60), (3, -111), (5, -60)):
        air.gain(0, receiver, db)
    air.chips[1].listen()
    air.chips[0].listen()
    air.chips[0].send(b"hello")
    air.run(5 * MS)
    assert [one.node for one in air.events if isinstance(one, Outcome)] == [1]
    air.run(60 * MS)
    found = {one.node: one.outcome for one in air.events if isinstance(one, Outcome)}
    assert found == {1: "received", 2: "deaf"}
    assert len(air.outcomes()) == 2


def test_the_end_of_a_run_settles_all(make_air):
    air = make_air(nodes=2, chips=2)
    air.gain(0, 1, -60)
    air.end(air.begin(0, 0), MS)
    lasting = air.begin(0, 2 * MS)
    air.tidy(MS + 50 * MS)
    assert air.outcomes() == []
    air.tidy(NEVER)
    assert air.outcomes() == ["deaf"]
    assert len(air.ends()) == 1
    air.end(lasting, 3 * MS)
    air.tidy(NEVER)
    assert air.outcomes() == ["deaf", "deaf"]


def test_what_never_was_on_the_air_has_no_outcome(make_air):
    air = make_air(nodes=2, chips=2)
    air.gain(0, 1, -60)
    air.end(air.begin(0, MS), MS // 2, broken=True)
    air.tidy(NEVER)
    assert air.outcomes() == []
    assert [(one.start, one.to, one.broken) for one in air.ends()] == [(MS, MS, True)]
    assert air.power(1, MS) == pytest.approx(NOISE)


def test_too_many_signals_at_once(air):
    signals = [air.begin(0, 0) for _ in range(513)]
    assert [signal.value is None for signal in signals] == [False] * 512 + [True]
    for signal in signals[:-1]:
        air.end(signal, 1)
    air.tidy(MS)
    assert air.begin(0, 0).value is None
    air.tidy(52 * MS)
    assert air.begin(0, 0).value is not None
    assert not [one for one in air.events if isinstance(one, Fault)]
