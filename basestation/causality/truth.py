"""The true happened-before relation between sends, by vector clocks.

Kept beside the stamps to judge them, never used for delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Send:
    """A send event: its mote, which send of that mote it is (from 1), and how many sends of each mote led to it."""

    source: int
    index: int
    vector: tuple[int, ...]


class VectorTruth:
    """One vector clock a mote. Only sends are counted: receives carry knowledge but need no number of their own."""

    def __init__(self, motes: int) -> None:
        self._known = [[0] * motes for _ in range(motes)]

    def on_send(self, mote: int) -> Send:
        known = self._known[mote]
        known[mote] += 1
        return Send(mote, known[mote], tuple(known))

    def on_receive(self, mote: int, sends: Iterable[Send]) -> None:
        for send in sends:
            self._known[mote] = [max(pair) for pair in zip(self._known[mote], send.vector, strict=True)]


def sends_per_mote(sends: Sequence[Send], motes: int) -> list[int]:
    """How far each mote's numbering goes, over these sends and all that they know of."""
    return [max((send.vector[mote] for send in sends), default=0) for mote in range(motes)]
