"""A segment of a trace with its halo, as arrays. A fault names the row (`TraceError`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.traces.files import TraceError
from basestation.traces.schema import LATER, UnevenRow, matrix_of

Ints = NDArray[Any]
MOST_CLOCK = 1 << 60  # beyond it sums of times would not be numbers any more


@dataclass(frozen=True, slots=True)
class View:
    """The rows of a segment and of its halo, of which `first` to `last` are its own.

    Messages out of sync are left out: every policy delivers them at once, and they are in no pair. Where causes are
    read, messages without known causes are left out too; of the segment's own rows there were `unknown` of them.
    """

    table: pa.Table
    rows: Ints  # their numbers in the trace
    clock: Ints
    first: int
    last: int
    unknown: int = 0

    @property
    def own(self) -> slice:
        return slice(self.first, self.last)

    def column(self, name: str) -> Ints:
        values: Ints = self.table[name].to_numpy()
        return values

    def vectors(self, motes: int) -> Ints:
        """How many messages of each mote led to a message; where all that may have is wanted, those."""
        sure = self.matrix(self.table["vector"], motes, "bytes of its vector clock")
        if LATER not in self.table.column_names or self.table[LATER].null_count == len(sure):
            return sure
        most = self.table[LATER]
        more = self.matrix(most, motes, f"bytes of its {LATER}")
        return np.where(most.is_null().to_numpy()[:, None], sure, more)

    @property
    def unsure(self) -> int:
        """How many of its own rows may have more causes than are known, where those are read."""
        if LATER not in self.table.column_names:
            return 0
        return (
            self.last
            - self.first
            - int(self.table[LATER].slice(self.first, self.last - self.first).null_count)
        )

    def matrix(self, column: pa.ChunkedArray, width: int, what: str) -> Ints:
        """A column of equally long rows of integers."""
        try:
            return matrix_of(column, width)
        except UnevenRow as fault:
            raise TraceError(f"row {self.rows[fault.row]}: {what}: {fault}") from None

    def refuse(self, wrong: Ints, what: str) -> None:
        """Name the first row that is wrong, if there is one."""
        if len(found := np.flatnonzero(wrong)):
            raise TraceError(f"row {self.rows[found[0]]}: {what}")


def view_of(table: pa.Table, clock: Ints, start: int, first: int, last: int, with_causes: bool) -> View:
    """A table that begins at row `start` of the trace, for the rows from `first` to `last` of the trace."""
    kept = table["in_sync"].to_numpy()
    rows, unknown = start + np.arange(len(kept)), 0
    if with_causes and table["vector"].null_count:
        told = table["vector"].is_valid().to_numpy()
        unknown = int((kept & ~told)[first - start : last - start].sum())
        kept = kept & told
    if not kept.all():
        table, clock, rows = table.filter(pa.array(kept)), clock[kept], rows[kept]
    begin, end = np.searchsorted(rows, [first, last]).tolist()
    return View(table, rows, clock, begin, end, unknown)


def clock_of(table: pa.Table, start: int) -> Ints:
    """The observer's clock at each arrival; if none was noted, the time at which the message was heard."""
    noted: Ints = table["heard"].to_numpy()
    clock = table["clock"]
    if not clock.null_count:
        noted = clock.to_numpy()
    elif clock.null_count < len(table):
        noted = np.where(clock.is_null().to_numpy(), noted, clock.fill_null(0).to_numpy())
    if len(noted) and max(abs(int(noted.min())), abs(int(noted.max()))) > MOST_CLOCK:
        raise TraceError(f"the observer's clock says {max(noted, key=abs)}, which is no time")
    if len(falls := np.flatnonzero(noted[1:] < noted[:-1])):
        raise TraceError(f"row {start + int(falls[0]) + 1}: the observer's clock runs backwards")
    return noted
