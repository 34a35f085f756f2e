"""Reads the truth log into typed events. docs/reference/testbed.md explains each line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class TruthError(ValueError):
    """A log cannot be read; the message names the line and the reason."""


@dataclass(frozen=True, slots=True)
class Start:
    t: int
    seed: int
    nodes: int
    version: int


@dataclass(frozen=True, slots=True)
class PortOpened:
    t: int
    node: int
    tcp: int | None
    pty: str | None


@dataclass(frozen=True, slots=True)
class Power:
    t: int
    node: int
    on: bool


@dataclass(frozen=True, slots=True)
class SensorSupply:
    """A program switched a sensor's supply on or off."""

    t: int
    node: int
    sensor: str
    on: bool


@dataclass(frozen=True, slots=True)
class Reset:
    t: int
    node: int
    cause: str


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event of a flight recorder. `kind` is boot, send, receive, unmerged, relay, late or epoch."""

    t: int
    node: int
    number: int
    kind: str
    peer: int
    sequence: int
    tick: int


@dataclass(frozen=True, slots=True)
class Missed:
    t: int
    node: int
    count: int


@dataclass(frozen=True, slots=True)
class Signal:
    """A carrier from `begin` to `to`, with its bytes from `data` on; `node` is None for an injected one."""

    t: int
    number: int
    node: int | None
    khz: int
    dbm: float
    begin: int
    data: int
    to: int
    broken: bool
    bytes: bytes


@dataclass(frozen=True, slots=True)
class ReceptionOutcome:
    t: int
    signal: int
    node: int
    outcome: str
    dbm: float | None


@dataclass(frozen=True, slots=True)
class Uart:
    t: int
    node: int
    bytes: bytes


@dataclass(frozen=True, slots=True)
class Leds:
    t: int
    node: int
    lit: int


@dataclass(frozen=True, slots=True)
class ClockSample:
    """A node's clocks. `crystal` is cycles since power-on in 1/65536; `watch` is the watched memory by name.

    Timer 0's count goes on every `divider` cycles, as the `prescaler` says.
    """

    t: int
    node: int
    crystal: int
    tcnt0: int
    watch: dict[str, bytes]
    divider: int = 1
    prescaler: int = 0


@dataclass(frozen=True, slots=True)
class ProgramUse:
    """The resources that a program used: stack in bytes, the rest in CPU cycles; `handlers` are by interrupt vector."""

    t: int
    node: int
    stack: int
    cycles: int
    awake: int
    masked: int
    spi: int
    handlers: dict[int, int]


@dataclass(frozen=True, slots=True)
class States:
    """The time of a node's parts in each of their states since the run began, in ns (LEDs and sensors: on), and the
    number of starts of its processor's and its radio's oscillator."""

    t: int
    node: int
    processor: dict[str, int]
    radio: dict[str, int]
    leds: dict[str, int]
    sensors: dict[str, int]
    starts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Peek:
    t: int
    node: int
    address: int
    bytes: bytes


@dataclass(frozen=True, slots=True)
class DriverFault:
    t: int
    node: int
    what: str


@dataclass(frozen=True, slots=True)
class Script:
    t: int
    line: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    t: int
    reason: str
    slices: int
    seconds: float | None = None


Event = (
    Start | PortOpened | Power | SensorSupply | Reset | RecordedEvent | Missed | Signal | ReceptionOutcome | Uart | Leds
    | ClockSample | ProgramUse | States | Peek | DriverFault | Script | RunEnd
)  # fmt: skip

EVENTS: dict[str, type[Event]] = {
    "start": Start,
    "port": PortOpened,
    "power": Power,
    "supply": SensorSupply,
    "reset": Reset,
    "recorder": RecordedEvent,
    "missed": Missed,
    "signal": Signal,
    "outcome": ReceptionOutcome,
    "uart": Uart,
    "leds": Leds,
    "clock": ClockSample,
    "measured": ProgramUse,
    "states": States,
    "peek": Peek,
    "fault": DriverFault,
    "script": Script,
    "end": RunEnd,
}


def read(path: Path) -> Iterator[Event]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from parse(lines, str(path))


def parse(lines: Iterable[str], origin: str = "truth") -> Iterator[Event]:
    for number, line in enumerate(lines, start=1):
        try:
            yield event_of(_object(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TruthError(f"{origin}, line {number}: {_why(error)}") from None


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not all(
        isinstance(found.get(name, 0), int | None) for name in ("t", "node")
    ):
        raise ValueError("not an event")
    return found


def event_of(members: dict[str, Any]) -> Event:
    """Make an event of `members`, which is emptied."""
    kind = EVENTS[members.pop("is")]
    if "bytes" in members:
        members["bytes"] = bytes.fromhex(members["bytes"])
    if kind is Signal:
        members["begin"] = members.pop("from")
    elif kind is ClockSample:
        members["watch"] = {name: bytes.fromhex(raw) for name, raw in members["watch"].items()}
    elif kind is ProgramUse:
        members["handlers"] = {int(vector): cycles for vector, cycles in members["handlers"].items()}
    return kind(**members)


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is not known or missing"
    return str(error)
