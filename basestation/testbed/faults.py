"""Turns a TOML timeline of faults into the engine's `at` lines.

[[fault]]
at = 12.5
do = "kill"
mote = 3
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packet_formats.boards import CHANNEL_KHZ
from packet_formats.deployment import Deployment
from packet_formats.phrases import did_you_mean

from .scenario import ScenarioNetwork

RESTART_SECONDS = 1.0
FRAME_DBM = -60.0  # how strongly every node hears an injected frame by default
JAM_DBM = -50.0


class FaultError(ValueError):
    """A timeline is impossible; the message names the fault and the reason."""


def carrier_khz(deployment: Deployment) -> int:
    """The frequency of the network's radios."""
    return deployment.network.carrier_khz


@dataclass(frozen=True, slots=True)
class _FaultKind:
    """A kind of fault: its required keys, its optional keys, and the function that makes its lines."""

    needs: tuple[str, ...]
    may: tuple[str, ...]
    lines: Callable[[_Fault], list[str]]


class _Fault:
    """One entry of the timeline. Each reader refuses a wrong value and names the place."""

    def __init__(self, place: str, entry: Mapping[str, Any], networks: Sequence[ScenarioNetwork]) -> None:
        self._place, self._entry, self._networks = place, entry, networks

    def wrong(self, reason: str) -> FaultError:
        return FaultError(f"{self._place}: {reason}")

    def has(self, key: str) -> bool:
        return key in self._entry

    def number(self, key: str, least: float, most: float, default: float | None = None) -> float:
        value = self._entry.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.wrong(f"{key} = {value!r} must be a number from {least:g} to {most:g}")
        return float(value)

    def whole(self, key: str, least: int, most: int) -> int:
        value = self.number(key, least, most)
        if value != int(value):
            raise self.wrong(f"{key} = {value!r} must be a whole number")
        return int(value)

    def bytes(self, key: str) -> str:
        value = self._entry[key]
        try:
            raw = bytes.fromhex(value)
        except (TypeError, ValueError):
            raise self.wrong(f"{key} = {value!r} must be hex digits, two to a byte") from None
        if not raw:
            raise self.wrong(f"{key} is empty")
        return raw.hex()

    def network(self) -> ScenarioNetwork:
        if not self.has("network"):
            return self._networks[0]
        name = self._entry["network"]
        for network in self._networks:
            if network.name == name:
                return network
        names = [network.name for network in self._networks]
        raise self.wrong(f"no network {name!r}; known: {', '.join(names)}{did_you_mean(name, names)}")

    def mote(self) -> int:
        return self._node(self._entry["mote"])

    def pair(self) -> tuple[int, int]:
        value = self._entry["between"]
        if not isinstance(value, list) or len(value) != 2:
            raise self.wrong(f'between = {value!r} must be two motes, as in [3, 4] or [3, "gateway"]')
        a, b = (self._node(item) for item in value)
        if a == b:
            raise self.wrong(f"between = {value!r} names one node twice")
        return a, b

    def _node(self, value: object) -> int:
        """The node of a mote's id, or of "root", "gateway", "gateway 1"."""
        network = self.network()
        node: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            node = network.node_of(value)
        elif value == "root":
            node = network.root
        elif isinstance(value, str) and value.split()[:1] == ["gateway"]:
            number = value.removeprefix("gateway").strip() or "0"
            if number.isdecimal() and int(number) < len(network.gateways):
                node = network.gateways[int(number)]
        if node is None:
            last = len(network.motes) - 1
            known = f'motes 0 to {last}, "root", "gateway" (or "gateway 1", ...)'
            raise self.wrong(f"no mote {value!r} in {network.name}: there are {known}")
        return node

    def khz(self) -> int:
        """The frequency given as `khz` or by `channel`, else the network's own."""
        if self.has("khz") and self.has("channel"):
            raise self.wrong("give khz or channel, not both")
        if self.has("khz"):
            return self.whole("khz", 300_000, 2_500_000)
        if self.has("channel"):
            return CHANNEL_KHZ[self.whole("channel", min(CHANNEL_KHZ), max(CHANNEL_KHZ))]
        return carrier_khz(self.network().deployment)

    @property
    def at(self) -> float:
        return self.number("at", 0, 1e6)

    def line(self, *words: object, later: float = 0.0) -> str:
        return " ".join(["at", _seconds(self.at + later), *map(str, words)])


def _on_mote(verb: str) -> _FaultKind:
    return _FaultKind(("mote",), (), lambda fault: [fault.line(verb, fault.mote())])


def _on_crystal(state: str) -> _FaultKind:
    return _FaultKind(("mote",), (), lambda fault: [fault.line("crystal", fault.mote(), state)])


def _on_link(verb: str) -> _FaultKind:
    return _FaultKind(("between",), (), lambda fault: [fault.line(verb, *fault.pair())])


def _brownout(fault: _Fault) -> list[str]:
    return [fault.line("brownout", fault.mote(), _seconds(fault.number("seconds", 0.001, 3600)))]


def _corrupt(fault: _Fault) -> list[str]:
    return [fault.line("corrupt", fault.mote(), fault.whole("bytes", 1, 4096))]


def _restart(fault: _Fault) -> list[str]:
    pause = fault.number("seconds", 0.001, 1e6, RESTART_SECONDS)
    return [fault.line("off", fault.mote()), fault.line("on", fault.mote(), later=pause)]


def _jam(fault: _Fault) -> list[str]:
    dbm = fault.number("dbm", -120, 30, JAM_DBM)
    return [fault.line("jam", fault.khz(), f"{dbm:g}", _seconds(fault.number("seconds", 0.001, 1e6)))]


def _inject(fault: _Fault) -> list[str]:
    board = fault.network().deployment.network.board
    dbm = fault.number("dbm", -120, 30, FRAME_DBM)
    return [fault.line("inject", fault.khz(), f"{dbm:g}", board, fault.bytes("frame"))]


def _uart(fault: _Fault) -> list[str]:
    return [fault.line("uart", fault.mote(), fault.bytes("bytes"))]


KINDS: dict[str, _FaultKind] = {
    "kill": _on_mote("off"),
    "revive": _on_mote("on"),
    "reset": _on_mote("reset"),
    "restart": _FaultKind(("mote",), ("seconds",), _restart),
    "brownout": _FaultKind(("mote", "seconds"), (), _brownout),
    "corrupt": _FaultKind(("mote", "bytes"), (), _corrupt),
    "stop-crystal": _on_crystal("stop"),
    "run-crystal": _on_crystal("run"),
    "cut": _on_link("cut"),
    "heal": _on_link("heal"),
    "jam": _FaultKind(("seconds",), ("channel", "khz", "dbm"), _jam),
    "inject": _FaultKind(("frame",), ("channel", "khz", "dbm"), _inject),
    "uart": _FaultKind(("mote", "bytes"), (), _uart),
}


def load(path: Path, networks: Sequence[ScenarioNetwork]) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FaultError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FaultError(f"{path}: not UTF-8 text") from None
    return parse(text, networks, str(path))


def parse(text: str, networks: Sequence[ScenarioNetwork], origin: str = "faults") -> tuple[str, ...]:
    """The `at` lines of a timeline, in the order of their times."""
    try:
        timeline = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FaultError(f"{origin}: not TOML: {error}") from None
    entries = timeline.pop("fault", [])
    if timeline or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        odd = ", ".join(timeline) or "fault"
        raise FaultError(f"{origin}: {odd}: a timeline holds only [[fault]] tables")
    lines = []
    for number, entry in enumerate(entries, start=1):
        lines += _lines(f"{origin}, fault {number}", entry, networks)
    return tuple(sorted(lines, key=lambda line: float(line.split()[1])))


def _lines(place: str, entry: dict[str, Any], networks: Sequence[ScenarioNetwork]) -> list[str]:
    fault = _Fault(place, entry, networks)
    for key in ("at", "do"):
        if key not in entry:
            raise fault.wrong(f"{key} is missing")
    do = entry["do"]
    if not isinstance(do, str) or do not in KINDS:
        raise fault.wrong(f"do = {do!r} is not one of {', '.join(KINDS)}{did_you_mean(do, KINDS)}")
    kind = KINDS[do]
    known = ("at", "do", "network", *kind.needs, *kind.may)
    for key in entry:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known: {', '.join(known)}"
            raise fault.wrong(f"{do} has no {key}{hint}")
    for key in kind.needs:
        if key not in entry:
            raise fault.wrong(f"{do} needs {key}")
    return kind.lines(fault)


def _seconds(value: float) -> str:
    if not math.isfinite(value):
        raise FaultError(f"{value} is not a time in seconds")
    return f"{value:.9f}".rstrip("0").rstrip(".")
