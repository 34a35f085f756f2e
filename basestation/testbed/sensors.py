"""Turns a CSV of sensor readings into the engine's `at` lines.

time,mote,sensor,value
0,3,light,700
12.5,3,light,120
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from packet_formats.phrases import did_you_mean
from packet_formats.values import SENSORS

from .scenario import ScenarioNetwork

COLUMNS = ("time", "mote", "sensor", "value")
CHANNELS = tuple("01234567")
TOP = 1023  # of the converter
LATEST = 1e6  # seconds


class SensorsError(ValueError):
    """A file of readings is impossible; the message names the line and the reason."""


def load(path: Path, networks: Sequence[ScenarioNetwork]) -> tuple[str, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return parse(file, networks, str(path))
    except OSError as error:
        raise SensorsError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SensorsError(f"{path}: not UTF-8 text") from None


def parse(
    lines: Iterable[str], networks: Sequence[ScenarioNetwork], origin: str = "sensors"
) -> tuple[str, ...]:
    """The `at` lines, in the order of their times. `network`, a fifth column, may name a deployment."""
    rows = csv.DictReader(lines, skipinitialspace=True, restval="", strict=True)
    names = tuple(rows.fieldnames or ())
    if set(names) - {"network"} != set(COLUMNS):
        raise SensorsError(f"{origin}: the first line must be {','.join(COLUMNS)}; it is {','.join(names)!r}")
    try:
        found = [_line(row, networks, f"{origin}, line {rows.line_num}") for row in rows]
    except csv.Error as error:
        raise SensorsError(f"{origin}: {error}") from None
    return tuple(line for _, line in sorted(found, key=lambda item: item[0]))


def _line(row: dict[str, str], networks: Sequence[ScenarioNetwork], place: str) -> tuple[float, str]:
    if None in row:
        raise SensorsError(f"{place}: more values than columns")
    network = _network(row.get("network", ""), networks, place)
    at = _number(row["time"], LATEST, f"{place}: time")
    mote = _whole(row["mote"], len(network.motes) - 1, f"{place}: mote")
    value = _whole(row["value"], TOP, f"{place}: value")
    _refuse_missing(row["sensor"], network, place)
    return at, f"at {at:.9f} sense {network.motes[mote]} {row['sensor']} {value}"


def _network(name: str, networks: Sequence[ScenarioNetwork], place: str) -> ScenarioNetwork:
    for network in networks:
        if name in ("", network.name):
            return network
    raise SensorsError(f"{place}: no network {name!r}")


def _refuse_missing(sensor: str, network: ScenarioNetwork, place: str) -> None:
    """A sensor that the deployment's sensor board lacks would never be read."""
    board = network.deployment.network.sensor_board
    has = [name for name, known in SENSORS.items() if board in known.boards]
    if sensor not in CHANNELS and sensor not in has:
        there = ", ".join(has) if board else "no sensor board"
        raise SensorsError(
            f"{place}: no sensor {sensor!r}: {network.name} has {there}, and channels 0 to 7"
            f"{did_you_mean(sensor, has)}"
        )


def _number(text: str, most: float, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SensorsError(f"{place} {text!r} is not a number") from None
    if not 0 <= value <= most:
        raise SensorsError(f"{place} {text} must be from 0 to {most:g}")
    return value


def _whole(text: str, most: int, place: str) -> int:
    value = _number(text, most, place)
    if value != int(value):
        raise SensorsError(f"{place} {text} must be a whole number")
    return int(value)
