"""The charge of a run: the time of each node's parts in each state, times their currents (`packet_formats.power`).

The engine counts the times of the emulated chips. Only the currents are estimates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from packet_formats import power
from packet_formats.deployment import Deployment

from .scenario import ScenarioNetwork
from .truth_log import States

NS = 1e9
ON_AIR = ("calibrating", "receiving", "sending")  # what a duty cycle counts


JOINING = 150.0  # seconds in which the motes of a network with a schedule join


@dataclass(frozen=True, slots=True)
class Battery:
    """The cells, the second from which their charge is counted (motes first have to join), and the current of a whole
    board asleep, which differs most from board to board."""

    mah: float = power.CELLS_MAH
    since: float = 0.0
    asleep_ma: float = power.ASLEEP_MA


TWO_CELLS = Battery()


@dataclass(frozen=True, slots=True)
class NodeEnergy:
    """The current of a node while it had power."""

    id: int
    seconds: float
    ma: float  # mean
    duty: float  # share of the time with the radio's receiver or transmitter on
    days: float
    parts: dict[str, float]  # mean mA of each part in each state
    starts: dict[str, float]  # a second: of the processor's oscillator after power-save, of the radio's


@dataclass(frozen=True, slots=True)
class NetworkEnergy:
    """The motes' mean, the mote that lasts least, and all motes. Gateways are on mains and listed apart."""

    mah: float
    since: float
    ma: float
    duty: float
    days: float  # at the mean current
    worst: int  # id
    worst_days: float
    parts: dict[str, float]
    motes: tuple[NodeEnergy, ...]
    gateways: tuple[NodeEnergy, ...]


def charge(states: States, currents: power.Currents) -> dict[str, float]:
    """The charge in mA*ns of each part in each state since the run began."""
    found = {f"processor_{name}": ns * currents.processor[name].ma for name, ns in states.processor.items()}
    found |= {f"radio_{name}": ns * currents.radio[name].ma for name, ns in states.radio.items()}
    found["leds"] = sum(states.leds.values()) * currents.led.ma
    found["sensors"] = sum(ns * currents.sensors[name].ma for name, ns in states.sensors.items())
    found["board"] = _powered(states) * currents.board.ma
    return found


def _powered(states: States) -> int:
    return states.t - states.processor.get("off", 0)


def node_energy(
    identity: int, before: States | None, after: States, deployment: Deployment, battery: Battery
) -> NodeEnergy:
    """The current of a node between two lines of states; `before` is None for the beginning of the run."""
    network = deployment.network
    currents = power.currents(network.board, network.band, battery.asleep_ma)
    spent, starts = charge(after, currents), after.starts
    on_air, powered = _on_air(after), _powered(after)
    if before is not None:
        earlier = charge(before, currents)
        spent = {name: value - earlier.get(name, 0.0) for name, value in spent.items()}
        starts = {name: count - before.starts[name] for name, count in starts.items()}
        on_air, powered = on_air - _on_air(before), powered - _powered(before)
    parts = {name: value / powered for name, value in spent.items() if value > 0}
    ma = sum(parts.values())
    return NodeEnergy(
        identity,
        powered / NS,
        ma,
        on_air / powered,
        power.days(ma, battery.mah),
        parts,
        {name: count * NS / powered for name, count in starts.items()},
    )


def _on_air(states: States) -> int:
    return sum(states.radio.get(name, 0) for name in ON_AIR)


class StatesLog:
    """The first counted and the last line of states of each node."""

    def __init__(self, battery: Battery) -> None:
        self.battery = battery
        self._first: dict[int, States] = {}
        self._last: dict[int, States] = {}

    def take(self, states: States) -> None:
        if states.t >= self.battery.since * NS:
            self._first.setdefault(states.node, states)
            self._last[states.node] = states

    def energy_of(self, network: ScenarioNetwork) -> NetworkEnergy | None:
        """None if none of its motes had power in the time that counts."""
        motes = self._nodes(network, network.motes)
        if not motes:
            return None
        worst = min(motes, key=lambda mote: mote.days)
        ma = fmean(mote.ma for mote in motes)
        return NetworkEnergy(
            mah=self.battery.mah,
            since=self.battery.since,
            ma=ma,
            duty=fmean(mote.duty for mote in motes),
            days=power.days(ma, self.battery.mah),
            worst=worst.id,
            worst_days=worst.days,
            parts=_mean(mote.parts for mote in motes),
            motes=motes,
            gateways=self._nodes(network, network.gateways),
        )

    def _nodes(self, network: ScenarioNetwork, nodes: Sequence[int]) -> tuple[NodeEnergy, ...]:
        found = []
        for node in nodes:
            last = self._last.get(node)
            before = self._first.get(node) if self.battery.since > 0 else None
            if last is not None and _powered(last) > (0 if before is None else _powered(before)):
                found.append(node_energy(network.id_of(node), before, last, network.deployment, self.battery))
        return tuple(found)


def _mean(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    count = 0
    for one in parts:
        count += 1
        for name, ma in one.items():
            sums[name] += ma
    return {name: total / count for name, total in sums.items()}
