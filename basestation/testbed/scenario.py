"""A scenario: a whole run as plain values, and as the text that the engine reads (firmware/testbed/scenario.c).

All random values are drawn here from the seed, for each node separately: one more node changes no other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packet_formats.deployment import Deployment

PPM = 50.0  # crystals are this good or better
RADIO_PPM = 40.0  # the limit of IEEE 802.15.4
START_SPREAD = 2.0  # seconds within which nodes are switched on
CLOCKS = 1.0  # seconds between two readings of all clocks


class ScenarioError(ValueError):
    """A run is impossible; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A variable that clock lines show."""

    name: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Port:
    """A UART open to other programs: on a TCP port (0: any free one), on a pty linked from a path, or both."""

    tcp: int | None = 0
    pty: Path | None = None


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    board: str
    image: Path
    start: float
    main_ppm: float
    crystal_ppm: float
    radio_ppm: float
    recorder: int | None = None
    watches: tuple[Watch, ...] = ()
    port: Port | None = None
    unwired: tuple[str, ...] = ()  # pins of the radio
    sensor_board: str = ""


@dataclass(frozen=True, slots=True)
class ScenarioNetwork:
    """The nodes of a run that belong to one deployment: those of motes 0, 1, ... and of its gateways."""

    deployment: Deployment
    motes: tuple[int, ...]
    gateways: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.deployment.network.name

    @property
    def nodes(self) -> tuple[int, ...]:
        return self.motes + self.gateways

    def node_of(self, identity: int) -> int | None:
        """The node that has this id; gateways have ids from the deployment's number of motes up."""
        gateway = identity - self.deployment.network.motes
        if 0 <= gateway < len(self.gateways):
            return self.gateways[gateway]
        return self.motes[identity] if 0 <= identity < len(self.motes) else None

    def id_of(self, node: int) -> int:
        if node in self.motes:
            return self.motes.index(node)
        return self.deployment.network.motes + self.gateways.index(node)

    @property
    def root(self) -> int | None:
        return self.node_of(self.deployment.clock.root)


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    nodes: tuple[EmulatedNode, ...]
    gains: Mapping[tuple[int, int], float]
    deliveries: Mapping[tuple[int, int], float] = field(default_factory=dict)
    noise: Mapping[int, float] = field(default_factory=dict)
    readings: Path | None = None  # a file of noise readings for all nodes, each from its own place on
    clocks: float = CLOCKS
    measure: float = 0.0
    states: float = 0.0  # seconds between two lines on states; one comes at the end in any case
    pace: float = 0.0
    wait: bool = False  # for a client at each TCP port
    script: tuple[str, ...] = ()  # lines that begin with `at`
    end: float | None = None

    def text(self) -> str:
        return "\n".join([*self._head(), *self._nodes(), *self._ether(), *self.script, *self._tail(), ""])

    def _head(self) -> Iterator[str]:
        yield f"seed {self.seed}"
        yield f"nodes {len(self.nodes)}"
        yield f"clocks {_number(self.clocks)}"
        if self.measure:
            yield f"measure {_number(self.measure)}"
        if self.states:
            yield f"states {_number(self.states)}"
        yield f"pace {_number(self.pace)}"
        if self.wait:
            yield "wait"

    def _nodes(self) -> Iterator[str]:
        for number, node in enumerate(self.nodes):
            errors = " ".join(map(_number, (node.start, node.main_ppm, node.crystal_ppm, node.radio_ppm)))
            yield f"node {number} {node.board} {errors} {_path(node.image)}"
            if node.recorder is not None:
                yield f"recorder {number} {node.recorder}"
            for watch in node.watches:
                yield f"watch {number} {watch.name} {watch.address} {watch.size}"
            for pin in node.unwired:
                yield f"unwired {number} {pin}"
            if node.sensor_board:
                yield f"sensors {number} {node.sensor_board}"
            if node.port is not None:
                tcp = "-" if node.port.tcp is None else node.port.tcp
                pty = "-" if node.port.pty is None else _path(node.port.pty)
                yield f"port {number} {tcp} {pty}"

    def _ether(self) -> Iterator[str]:
        for (a, b), db in sorted(self.gains.items()):
            yield f"gain {a} {b} {_number(db)}"
        for (a, b), p in sorted(self.deliveries.items()):
            if p < 1:
                yield f"deliver {a} {b} {_number(p)}"
        for node, dbm in sorted(self.noise.items()):
            yield f"noise {node} {_number(dbm)}"
        if self.readings is not None:
            for node in range(len(self.nodes)):
                start = random.Random(f"{self.seed} noise {node}").randrange(100_000)
                yield f"readings {node} {start} {_path(self.readings)}"

    def _tail(self) -> Iterator[str]:
        if self.end is not None:
            yield f"end {_number(self.end)}"


def drawn(seed: int, number: int, board: str, image: Path) -> EmulatedNode:
    """Draw a node's crystal errors and the moment it is switched on."""
    chance = random.Random(f"{seed} node {number}")
    main, crystal = (round(chance.uniform(-PPM, PPM), 3) for _ in range(2))
    radio = round(chance.uniform(-RADIO_PPM, RADIO_PPM), 3)
    return EmulatedNode(board, image, round(chance.uniform(0, START_SPREAD), 6), main, crystal, radio)


def _number(value: float) -> str:
    """The number as text, without an exponent and without trailing zeros."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


def _path(path: Path) -> str:
    """The path as text; it is the rest of its line, where # begins a comment."""
    text = str(path.absolute())
    if any(character in text for character in "#\n\r") or text != text.strip():
        raise ScenarioError(f"{text!r}: a path here must not hold # or a line's end, or end with a space")
    return text
