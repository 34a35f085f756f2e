"""The true happened-before relation between sends, by vector clocks.

It serves to judge the stamps and is never used for delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Send:
    """A send event: its mote, its index among that mote's sends (from 1), and how many sends of each mote led to it."""

    source: int
    index: int
    vector: tuple[int, ...]


class VectorTruth:
    """A vector clock for each mote. It counts sends only: receives carry knowledge but need no number."""

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
    """The number of sends of each mote, among these sends and all that they count."""
    return [max((send.vector[mote] for send in sends), default=0) for mote in range(motes)]
