"""Counts one part of a trace under all configurations, and writes deliveries that need the whole trace.

The segment is read and judged once; each stamp is ordered once; each policy and phi is then one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.analysis.deliveries import (
    Delivery,
    Left,
    StampReading,
    Stamps,
    arrived,
    by_ledger,
    stamps_of,
    timed,
)
from basestation.analysis.tally import Fields, Judge, Measured
from basestation.analysis.view import View
from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from basestation.traces.present import present
from basestation.traces.schema import messages_schema
from spark_jobs.storage import parquet
from spark_jobs.traces.segments import Part, load_judged, whole
from spark_jobs.traces.trace_files import TraceFiles, located

Ints = NDArray[Any]


Work = Mapping[StampReading | None, Sequence[Delivery]]
"""What to count, by stamp; None: without one."""


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """A part of a trace, and the deliveries to count there."""

    part: Part
    work: Work
    ties: Ties = "sequence"

    @property
    def trace(self) -> TraceFiles:
        return self.part.segment.trace

    def load(self, *more: str) -> View:
        return self.part.load(["sequence", *more, *_own_columns(self.work)])


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """A delivery by the ledger. Its wait depends on all messages before, so one task does the whole trace."""

    trace: TraceFiles
    reading: StampReading
    policy: PolicyChoice
    path: Path
    ties: Ties


def measure(task: MeasureTask) -> Measured:
    """Count one part under every delivery."""
    view, found = task.load(), Measured({}, {})
    with located(task.trace.folder):
        judge = Judge(task.part.context, view)
        for reading, several in task.work.items():
            stamps = None
            if reading is not None:
                stamps = read_stamps(task.trace, view, reading, task.ties)
                found.fields[reading] = Fields.of(view, reading, stamps)
            for one in several:
                found.tallies[one] = judge.tally(delivered(view, one, stamps))
    return found


def delivered(view: View, delivery: Delivery, stamps: Stamps | None) -> Left:
    """How a view's rows leave."""
    if delivery.path is not None:
        return of_whole(delivery.path, view)
    if delivery.reading is None or delivery.policy is None or stamps is None:
        return arrived(view)
    return timed(view, delivery.reading, stamps, delivery.policy)


def read_stamps(trace: TraceFiles, view: View, reading: StampReading, ties: Ties) -> Stamps:
    """The stamps of a view's rows, which has the trace's own columns."""
    if reading.stamps is None:
        return stamps_of(view, reading, view.table, trace.layout.stamp.entries, ties)
    return stamps_of(
        view, reading, _rows_of(reading.stamps, view.rows, reading.columns), reading.entries, ties
    )


def _own_columns(readings: Iterable[StampReading | None]) -> list[str]:
    return [name for one in readings if one is not None and one.stamps is None for name in one.columns]


def _rows_of(path: Path, rows: Ints, columns: list[str]) -> pa.Table:
    """The rows with these numbers, which must be in ascending order."""
    with parquet(path) as file:
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        low = int(np.searchsorted(starts, rows[0], "right")) - 1 if len(rows) else 0
        high = int(np.searchsorted(starts, rows[-1], "right")) if len(rows) else 0
        table = file.read_row_groups(list(range(low, high)), columns=columns, use_threads=False)
        table = present(table, columns, messages_schema())
    if len(rows) and int(rows[-1] - rows[0]) + 1 == len(rows):
        return table.slice(int(rows[0] - starts[low]), len(rows))
    return table.take(pa.array(rows - starts[low]))


def deliver_whole(task: LedgerTask) -> None:
    """Deliver by a ledger over the whole trace."""
    trace, reading = task.trace, task.reading
    view = load_judged(whole(trace), ["sequence", *_own_columns([reading])])
    with located(trace.folder):
        stamps = read_stamps(trace, view, reading, task.ties)
    order, left, late = by_ledger(view, reading, stamps, task.policy.tolerate)
    write_whole(task.path, trace.rows, view.rows[order], left, late[order])


def write_whole(path: Path, count: int, rows: Ints, left: Ints, late: Ints | int = 0) -> None:
    """Write each row's place in the order of delivery, the tick in which it left, and whether it came late. `rows` are
    in the order of delivery."""
    found = np.zeros((3, count), np.int64)
    found[0, rows], found[1, rows], found[2, rows] = np.arange(len(rows)), left, late
    found.tofile(path)


def of_whole(path: Path, view: View) -> Left:
    """How a view's rows leave in a delivery over the whole trace."""
    # Plain numbers: numpy's own files have a header in Python's syntax, and Python 3.11 can't parse it in two threads.
    found = np.memmap(path, np.int64, "r").reshape(3, -1)[:, view.rows]
    order = np.argsort(found[0])
    return Left(order, found[1][order], int(found[2, view.own].sum()))
