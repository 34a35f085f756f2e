"""Counts causality violations in an order of delivery, exactly.

A pair is violated if send(a) -> send(b), both are delivered, and b comes first. The causes of b from one mote are that
mote's sends up to a number in b's vector clock. So a table of the latest delivery among each mote's first i sends shows
at once whether any cause from that mote came after b; a walk backwards then finds each. No window is assumed: the count
is exact even for a trace that breaks G1 and G2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .truth import Send, sends_per_mote

NEVER = -1


@dataclass(frozen=True, slots=True)
class Violations:
    """The counts over the delivered messages; `percent` gives the figures by name."""

    delivered: int
    pairs: int
    backward: int
    forward: int
    any: int
    related_pairs: int

    def percent(self) -> dict[str, float]:
        """The figures in per cent. `mean` is the paper's and the default; `related` is of causally related pairs."""
        of = _percent_of(self.delivered)
        return {
            "pairs": of(self.pairs),
            "backward": of(self.backward),
            "forward": of(self.forward),
            "mean": of((self.backward + self.forward) / 2),
            "any": of(self.any),
            "related": _percent_of(self.related_pairs)(self.pairs),
        }


def count_violations(order: Sequence[Send]) -> Violations:
    """Count the violations among messages in their order of delivery, each delivered once."""
    return find_violations(order)[0]


def find_violations(order: Sequence[Send]) -> tuple[Violations, set[tuple[int, int]]]:
    """The counts, and the messages in a violation as (source, index)."""
    motes = len(order[0].vector) if order else 0
    position = _positions(order, motes)
    latest = [list(accumulate(row, max)) for row in position]
    arrived = [list(accumulate(int(p != NEVER) for p in row)) for row in position]
    overtaken: set[tuple[int, int]] = set()
    hasty: set[tuple[int, int]] = set()
    pairs = related = 0
    for place, send in enumerate(order):
        for mote, known in enumerate(send.vector):
            causes = known - (mote == send.source)
            related += arrived[mote][causes]
            while latest[mote][causes] > place:
                if position[mote][causes] > place:
                    pairs += 1
                    overtaken.add((mote, causes))
                    hasty.add((send.source, send.index))
                causes -= 1
    either = overtaken | hasty
    return Violations(len(order), pairs, len(overtaken), len(hasty), len(either), related), either


def _positions(order: Sequence[Send], motes: int) -> list[list[int]]:
    """For each mote, the place of its i-th send in the order of delivery; entry 0 means "no send"."""
    position = [[NEVER] * (count + 1) for count in sends_per_mote(order, motes)]
    for place, send in enumerate(order):
        position[send.source][send.index] = place
    return position


def _percent_of(whole: int) -> Callable[[float], float]:
    return lambda part: 100.0 * part / whole if whole else 0.0
