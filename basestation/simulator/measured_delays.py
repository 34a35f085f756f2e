"""Measured delays of a real network or the testbed, to draw from instead of the paper's law.

A row is the fate of one message. A row is drawn as a whole, because the copies of a message are not independent: all
receivers of a broadcast have it at the same moment, and a relay's copy follows.
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
    """The delays as arrays for the kernel: mote i's rows are at begins[i] to begins[i + 1]."""

    begins: Int64
    rows: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredDelays:
    """The delays of each mote's messages, in ticks, to each mote and last to the observer; `LOST` if never received."""

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
