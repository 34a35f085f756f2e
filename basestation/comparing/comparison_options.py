"""The options of a comparison, for all command lines that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from basestation.causality.rules import NEVER
from basestation.simulator.options import MEANINGS, READINGS, WorldOptions

from .comparison import sweep

SWEPT = {
    "motes": "Number of motes, n; may be repeated, like the next four.",
    **{name: MEANINGS[name] for name in ("loss", "rate", "epsilon", "delta")},
}
FIXED = {
    "messages": "How many messages to send in each network.",
    "seed": "Seed of the first network; the others have the numbers after it.",
    **{name: MEANINGS[name] for name in ("gateways", "delay_law", *READINGS)},
}
QUICK = {"messages": 2000}  # the objects are slow


def default(name: str) -> Any:
    return QUICK.get(name, getattr(WorldOptions(), name))


def networks(given: Mapping[str, Any]) -> list[WorldOptions]:
    """The networks for all combinations of the options given as sequences; other options are fixed."""
    base = WorldOptions(**{name: given[name] for name in FIXED})
    axes: dict[str, Sequence[Any]] = {name: list(dict.fromkeys(given[name])) for name in SWEPT}
    return sweep(base, axes)


def give_up_ticks(text: str) -> int:
    """The ticks that a text gives, which is a number or `never`; else `ValueError`."""
    if text == "never":
        return NEVER
    ticks = int(text) if text.isdecimal() else -1
    if ticks < 0:
        raise ValueError(f"{text!r} must be a number of ticks, or never")
    return ticks
