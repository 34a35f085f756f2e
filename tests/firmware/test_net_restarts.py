"""A node that restarts again and again waits longer each time; its memory outlasts the resets."""

import ctypes
from collections.abc import Iterable
from enum import IntEnum

import pytest

from packet_formats.deployment import Deployment
from packet_formats.records import StartCause
from tests.firmware.net_world import HZ, library

BAD = (StartCause.BROWN_OUT, StartCause.WATCHDOG, StartCause.DAMAGE, StartCause.JUMP)
WANTED = (StartCause.POWER_ON, StartCause.BUTTON, StartCause.DEBUGGER, StartCause.COMMAND)


class Starts:
    """restarts.c in one memory, which no reset clears."""

    def __init__(self, deployment: Deployment) -> None:
        self.c = ctypes.CDLL(str(library(deployment, "mote")))
        self.c.clock_now.restype = ctypes.c_uint32
        self.begin(StartCause.POWER_ON)

    def word(self, name: str) -> int:
        return int(ctypes.c_uint32.in_dll(self.c, name).value)

    def begin(self, cause: IntEnum) -> float:
        """Seconds that a start waits; it pats the watchdog each second at least."""
        ctypes.c_uint8.in_dll(self.c, "host_cause").value = cause
        before, waits, pats = self.c.clock_now(), self.word("host_waits"), self.word("host_pats")
        self.c.restart_backoff_wait()
        waited = (self.c.clock_now() - before) % (1 << 32) / HZ
        assert waited <= self.word("host_waits") - waits == self.word("host_pats") - pats
        return waited

    def runs(self, seconds: float) -> None:
        now = self.c.clock_now()
        self.c.restart_backoff_step(ctypes.c_uint32(now + int(seconds * HZ)))


@pytest.fixture
def starts(meadow):
    return Starts(meadow)


def waits(starts: Starts, causes: Iterable[StartCause]) -> list[float]:
    return [starts.begin(cause) for cause in causes]


@pytest.mark.parametrize("cause", BAD)
def test_each_restart_of_a_row_waits_twice_as_long(starts, cause):
    assert waits(starts, [cause] * 15) == [0, 0, *(2**i for i in range(11)), 1024, 1024]


@pytest.mark.parametrize("cause", WANTED)
def test_a_wanted_start_does_not_wait(starts, cause):
    assert waits(starts, [StartCause.WATCHDOG] * 5)[-1] == 4
    assert waits(starts, [cause, StartCause.WATCHDOG, StartCause.WATCHDOG, StartCause.WATCHDOG]) == [
        0,
        0,
        0,
        1,
    ]


def test_a_node_that_ran_for_a_minute_is_well(starts):
    assert waits(starts, [StartCause.BROWN_OUT] * 5)[-1] == 4
    starts.runs(59)
    assert starts.begin(StartCause.BROWN_OUT) == 8
    starts.runs(80)
    assert waits(starts, [StartCause.BROWN_OUT] * 4) == [0, 0, 0, 1]
