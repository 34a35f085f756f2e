"""Damaged memory on the real images: the network recovers, and a driver that could not go on starts anew."""

import subprocess
from dataclasses import replace

import pytest

from basestation.testbed.judge import judge
from basestation.testbed.truth_log import RecordedEvent, Reset
from tools import stabilize
from tools.stabilize import SETTINGS, TrialSettings

RATE = 4.0  # the same image for all tests of a stamp
SMALL = TrialSettings("micaz", 3, RATE, (6.0, 8.0), 22.0, 5.0, messages=200)
FIRST = 6  # seconds: the first variable is damaged
NS = 1_000_000_000


@pytest.fixture(scope="module", autouse=True)
def _tools(require_tool):
    for tool in ("gcc", "make", "pkg-config", "avr-gcc"):
        require_tool(tool)
    if subprocess.run(["pkg-config", "--exists", "simavr", "libelf"], check=False).returncode != 0:
        require_tool("libsimavr-dev and libelf-dev")


def assert_recovered(outcome):
    assert outcome.recovered, stabilize.line_of(outcome)
    assert set(outcome.resets) <= {outcome.node}


@pytest.mark.parametrize("number", [2, *(pytest.param(number, marks=pytest.mark.wide) for number in (5, 9))])
def test_a_network_recovers(number):
    assert_recovered(stabilize.run(SMALL, 1, number))


@pytest.mark.wide
@pytest.mark.parametrize("number", [2, 5])
def test_a_network_with_barrier_stamps_recovers(number):
    assert_recovered(stabilize.run(replace(SMALL, scheme="barrier"), 1, number))


@pytest.mark.wide
@pytest.mark.parametrize("number", range(20))
def test_a_larger_network_recovers(number):
    assert_recovered(stabilize.run(SETTINGS["micaz"], 3, number))


# Variables, and what each of their bytes becomes.
DAMAGE = {
    "micaz": {"cc2420_mode": 0, "timer_laps": 0xF9, "users": 0, "periods": 0xF9, "resting": 0},
    "mica2": {"cc1000_mode": 0, "tx": 0xF9, "rx": 0xF9, "users": 0, "not_periods": 0xF9},
}


@pytest.mark.parametrize("board", ["micaz", "mica2"])
def test_drivers_that_could_not_go_on_start_anew(board, tmp_path):
    """One variable of each mote, each next one's a second later."""
    damage = DAMAGE[board]
    made = stabilize.bench(TrialSettings(board, len(damage), RATE if board == "micaz" else 0.5, (0, 0), 0, 0))
    script = [poke(made, mote, name, damage[name]) for mote, name in enumerate(damage)]
    events = made.run(1, tuple(script), 18.0, tmp_path)
    restarts = {
        event.node: event.t / NS for event in events if isinstance(event, Reset) and event.t > FIRST * NS
    }
    assert list(restarts) == list(made.network.motes)
    for mote, name in enumerate(damage):
        assert 0 < restarts[mote] - (FIRST + mote) < 2.5, name
        assert sends_of(mote, events)[-1] > 14, name


def test_a_barrier_s_wrong_memory_does_not_last(tmp_path):
    """All of the stamp's state in each mote, one after the other: order is as before within 3 (delta + epsilon)."""
    values = (0xFF, 0x00, 0x5A, 0x80, 0x01)
    made = stabilize.bench(TrialSettings("micaz", len(values), RATE, (0, 0), 0, 0, scheme="barrier"))
    script = [poke(made, mote, "stamp", value) for mote, value in enumerate(values)]
    events = made.run(1, tuple(script), 16.0, tmp_path)
    assert not [event for event in events if isinstance(event, Reset) and event.t > FIRST * NS]
    (report,) = judge(events, [made.network]).networks
    assert report.delivered.related > 5_000
    clock = made.network.deployment.clock
    healed = FIRST + len(values) - 1 + 3 * (clock.delta + clock.epsilon) * clock.tick_seconds
    assert (report.delivered.last_inverted or 0) < healed
    for mote in range(len(values)):
        assert sends_of(mote, events)[-1] > 15


def sends_of(mote, events):
    recorded = [event for event in events if isinstance(event, RecordedEvent) and event.node == mote]
    return [event.t / NS for event in recorded if event.kind == "send"]


def poke(made, mote, name, value):
    known = made.programs.mote.variables()
    ((address, size),) = [where for symbol, where in known.items() if symbol.partition(".")[0] == name]
    return f"at {FIRST + mote} poke {mote} {address} {bytes([value] * size).hex()}"
