"""What may be asked of a comparison, on whatever command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from basestation.simulator.options import WorldOptions

from .catalogue import FOREVER
from .measure import sweep

SWEPT = {
    "motes": "Number of motes, n; may be repeated, as the next four.",
    "loss": "Chance that a copy is lost on a hop.",
    "rate": "Chance that a mote sends when its clock ticks.",
    "epsilon": "Largest difference of two clocks, in ticks (G1).",
    "delta": "Longest delay of a message, in ticks (G2).",
}
FIXED = {
    "messages": "How many messages are sent in each network.",
    "seed": "The first network's; the others have the next ones.",
    "delay_law": "Mean delay of a message: delta/2 or delta/4.",
    "recipients": "Who gets a message: every peer, or one of them.",
    "delay": "One delay for all copies of a message, or one for each.",
    "delay_clock": "The clock that delays run in.",
    "reception": "All that is due in one event at the next tick; one event each; or each at once.",
    "g2": "Delays as drawn; or a reception that G2 does not allow is a loss.",
}
QUICK = {"messages": 2000}  # the objects are slow


def default(name: str) -> Any:
    return QUICK.get(name, getattr(WorldOptions(), name))


def networks(given: Mapping[str, Any]) -> list[WorldOptions]:
    """All combinations of what is swept, which is given as sequences, with what is fixed."""
    base = WorldOptions(**{name: given[name] for name in FIXED})
    axes: dict[str, Sequence[Any]] = {name: list(dict.fromkeys(given[name])) for name in SWEPT}
    return sweep(base, axes)


def give_up_ticks(text: str) -> int:
    """`ValueError` unless it is a number of ticks, or never."""
    if text == "never":
        return FOREVER
    ticks = int(text) if text.isdecimal() else -1
    if ticks < 0:
        raise ValueError(f"{text!r} is neither a number of ticks nor never")
    return ticks
