"""Delays as a real network, or the testbed, showed them, to be drawn from in place of the paper's law.

A row is what became of one message. Rows are drawn whole: copies of a message are not independent, since those who hear
the same broadcast have it at the same moment, and a relay's copy follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.causality.stream import Int64

LOST = -1.0

Row = tuple[float, ...]


class FlatDelays(NamedTuple):
    """For the kernel: mote i's rows are at begins[i] to begins[i + 1]."""

    begins: Int64
    rows: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredDelays:
    """For each mote, its messages: after how many ticks each mote had it, and last the observer; `LOST` if never."""

    rows: tuple[tuple[Row, ...], ...]

    @property
    def motes(self) -> int:
        return len(self.rows)

    def arrays(self) -> FlatDelays:
        return FlatDelays(
            begins=np.cumsum([0, *map(len, self.rows)], dtype=np.int64),
            rows=np.array([row for rows in self.rows for row in rows], dtype=np.float64),
        )


def none_measured(motes: int) -> FlatDelays:
    return FlatDelays(np.zeros(motes + 1, np.int64), np.zeros((0, motes + 1)))
