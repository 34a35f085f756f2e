"""Short runs to be shown, and a stand-in for a station that goes on."""

from __future__ import annotations

from collections.abc import Callable

from basestation.live.counters import Snapshot
from basestation.live.happenings import (
    Happening,
)
from basestation.live.station import Station
from packet_formats.deployment import CRYSTAL_HZ
from tests.live.world import MS, TICK, Gateway, Motes, arrival, deployment, health, play

SETUP = deployment(policy="cbd", phi=100)
START = 100 * CRYSTAL_HZ


def busy(policy: str = "cbd") -> tuple[Station, list[Happening], int]:
    """A short run with something of everything, the last messages still held."""
    station, motes, gateway = Station(SETUP, policy, 100), Motes(SETUP, START), Gateway(SETUP)
    station.add_gateway(0, "serial@/dev/ttyUSB1:micaz")
    heard = []
    for number in range(40):
        at = START + number * 6 * TICK
        heard.append((at + (9 if number % 2 == 0 else 1) * TICK, motes.send(number % 4, at, (0, 1, 2, 3))))
    for cycles, data in sorted(heard, key=lambda item: item[0]):
        gateway.hear(data, cycles)
    found = play(station, gateway.out)
    now = gateway.last_ns + MS
    found += station.take(arrival(b"\x99\x00", now))
    found += station.take(arrival(health(2, START, SETUP, layout=5), now))
    return station, found, now


def waiting() -> tuple[Station, list[Happening], int]:
    """A short run under a rule that waits by name: 1#0 is final, 0#2 waits for 0#1, and 0#3 for both."""
    station, motes, gateway = Station(SETUP, "sequence"), Motes(SETUP, START), Gateway(SETUP)
    for number, mote in enumerate((0, 0, 0, 0, 1)):
        data = motes.send(mote, START + number * TICK)
        if number != 1:
            gateway.hear(data, START + (number + 2) * TICK)
    return station, play(station, gateway.out), gateway.last_ns


class FakeStage:
    def __init__(self, run: Callable[[], tuple[Station, list[Happening], int]]) -> None:
        self.station, self.found, self.mono_ns = run()

    def snapshot(self) -> Snapshot:
        return self.station.snapshot(self.mono_ns)

    def set_policy(self, name: str, phi: int, tolerate: float | None = None) -> None:
        self.station.set_policy(name, phi, tolerate)
