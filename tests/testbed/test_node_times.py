"""Clocks read from memory: the firmware's arithmetic, and who is how far from whom."""

import ctypes
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.testbed.node_times import LINE, local_time, readings, shown, skew_of
from basestation.testbed.truth_log import ClockSample, Leds, Power, Reset
from packet_formats import cheader
from packet_formats.deployment import load
from tests.testbed.worlds import SECOND, network

LINES = """
#include "net/network_time.c"
void put(uint32_t local, uint32_t network, uint16_t part, int16_t skew, int32_t behind, uint32_t since, uint8_t slew)
{
    lines[0] = (line_t){local, network, part, skew, behind, since, slew};
}
"""
words = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def network_time(root, require_tool, tmp_path_factory):
    """network_time.c for this machine, its lines written from outside."""
    folder = tmp_path_factory.mktemp("network_time")
    source, library = folder / "lines.c", folder / "lines.so"
    source.write_text(LINES)
    (folder / "causeway_layout.h").write_text(cheader.render(load(root / "examples/micaz.toml")))
    include = (
        "-I",
        folder,
        "-I",
        root / "firmware",
        "-I",
        root / "firmware/net",
        "-I",
        root / "firmware/core",
    )
    subprocess.run([require_tool("gcc"), "-shared", "-fPIC", *include, "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.network_time_shown.restype = ctypes.c_uint32
    return loaded


@given(
    start=words,
    time=words,
    part=st.integers(0, 65535),
    skew=st.integers(-3400, 3400),
    behind=st.integers(-100_000, 100_000),
    before=st.integers(0, 1 << 14),
    slew=st.sampled_from([1, 6]),
    elapsed=st.integers(-1000, 1 << 22),
)
def test_the_arithmetic_is_the_firmwares(
    network_time, start, time, part, skew, behind, before, slew, elapsed
):
    since = (start - 256 * before) % 2**32
    local = (start + elapsed) % 2**32
    network_time.put(start, time, part, skew, behind, since, slew)
    lines = bytes(LINE.size) + LINE.pack(start, time, part, skew, behind, since, slew)
    told = network_time.network_time_shown(ctypes.c_uint32(local))
    assert shown(lines, 1, local) == told
    with_rounds = bytes(LINE.size + 1) + lines[LINE.size :] + b"\x05"  # of a network with a key
    assert shown(with_rounds, 1, local) == told


def lit(node, red, t=0):
    return Leds(t, node, 1 if red else 0)


def clock(node, t, ahead=0, epoch=1, low=None):
    """A mote whose clock is `ahead` cycles ahead of true time; started at 0, so that local is true time."""
    local = round(t * 32768 / SECOND)
    watch = {
        "lines": LINE.pack(0, ahead % 2**32, 0, 0, 0, 0, 6) + bytes(LINE.size),
        "current": b"\0",
        "periods": struct.pack("<I", local >> 8),
        "timesync": bytes([epoch]),
    }
    return ClockSample(t, node, local << 16, local & 0xFF if low is None else low, watch)


def in_sync(*nodes):
    return [event for node in nodes for event in (lit(node, True), lit(node, False))]


T = SECOND + SECOND // 256


def test_the_skew_is_the_distance_from_the_root():
    members = network()
    events = [*in_sync(0, 1, 2, 3), clock(0, T, 40), clock(1, T, -30), clock(2, T), clock(3, T, 5)]
    skew = skew_of(list(readings(events)), members)
    assert [(mote.id, mote.worst) for mote in skew.motes] == [(0, 35), (1, -35), (2, -5)]
    assert (skew.readings, skew.root_cycles, skew.spread_cycles) == (4, 35, 70)
    assert (skew.epsilon, skew.beyond, skew.last_beyond) == (3, 0, None)
    assert skew.ticks <= 1


def test_clocks_further_apart_than_epsilon_are_found():
    events = [*in_sync(0, 3), clock(0, T, 5 * 128), clock(3, T), clock(0, 2 * T), clock(3, 2 * T)]
    skew = skew_of(list(readings(events)), network())
    assert (skew.ticks, skew.beyond, skew.last_beyond) == (5, 1, pytest.approx(T / SECOND))


def test_a_mote_is_judged_without_the_root_too():
    events = [*in_sync(0, 1), clock(0, T, 5 * 128), clock(1, T)]
    skew = skew_of(list(readings(events)), network())
    assert (skew.beyond, skew.motes) == (1, ())


def test_only_clocks_in_sync_count():
    out_of_sync = [*in_sync(3), lit(0, True), clock(0, T, 99999), clock(3, T)]
    restarted = [*in_sync(0, 3), Reset(5, 0, "watchdog"), lit(0, False), clock(0, T, 99999), clock(3, T)]
    dead = [*in_sync(0, 3), Power(5, 0, False), clock(0, T, 99999), clock(3, T)]
    for events in (out_of_sync, restarted, dead):
        assert [reading.node for reading in readings(events)] == [3]


def test_times_of_two_epochs_are_not_compared():
    events = [*in_sync(0, 3), clock(0, T, 10**6, epoch=2), clock(3, T, epoch=1)]
    assert skew_of(list(readings(events)), network()).ticks == 0


def test_a_count_that_has_just_come_round_is_passed_over():
    assert list(readings([*in_sync(0), clock(0, T, low=3)])) == []


def test_readings_a_little_apart_are_brought_together():
    events = [*in_sync(0, 3), clock(3, T), clock(0, T + 305_176)]  # ten cycles later
    assert skew_of(list(readings(events)), network()).spread_cycles == pytest.approx(0, abs=0.5)


def asleep(
    ticks: int, counted: int, prescaler: int, *, divider: int = 128, slow: int = 1, asleep: int = 1
) -> ClockSample:
    """A mote with a schedule, in ticks of 128 cycles; `counted` ticks ago its memory was right."""
    watch = {
        "periods": struct.pack("<I", ticks),
        "slow": bytes([slow]),
        "asleep": bytes([asleep]),
        "ticked": bytes([250]),
        "shift": bytes([9]),
    }
    return ClockSample(0, 0, 0, (250 + counted) % 256, watch, divider, prescaler)


def test_a_clock_that_counts_ticks_is_read_with_the_prescaler():
    assert local_time(asleep(1000, 20, 128 * 3 + 77)) == 1020 * 128 + 77
    assert local_time(asleep(2**25 - 1, 1, 0)) == 0
    assert local_time(asleep(4, 0, 5, divider=1, slow=0)) == (4 << 8 | 250) + 9


def test_a_clock_that_changes_is_not_read():
    assert local_time(asleep(1000, 20, 77, divider=1)) is None
    assert local_time(asleep(1000, 20, 77, slow=0)) is None
    assert local_time(asleep(1000, 20, 77, asleep=0)) is None
