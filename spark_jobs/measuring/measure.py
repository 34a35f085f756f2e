"""Measures one part of a trace under all configurations. The counts of all parts add up.

The segment is read and judged once; each stamp is ordered once; each policy and phi is then one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from basestation.causality import kernels
from basestation.causality.kernels import segment_pairs
from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.violations import Violations
from basestation.traces.present import present
from basestation.traces.schema import messages_schema
from spark_jobs.traces.files import TraceFiles
from spark_jobs.traces.segments import Part, TraceSegment, View, load

Ints = NDArray[Any]


@dataclass(frozen=True, slots=True)
class StampReading:
    """A stamp as the observer would have read it: from the trace's own columns, or from a file with the same rows.

    It has `entries` entries of kn, each up to `entry_max`. Without `carries_c`, c is 0.
    """

    stamps: Path | None
    carries_c: bool
    entries: int
    entry_max: int
    epsilon: int
    delta: int

    @property
    def columns(self) -> list[str]:
        return ["stamp.r", "stamp.c", *(["stamp.kn"] if self.entries else [])]


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """A part of a trace, and each reading with its policies. Every task also measures arrival order."""

    part: Part
    readings: tuple[tuple[StampReading, tuple[PolicyChoice, ...]], ...]
    ties: Ties = "sequence"
    whole: Mapping[tuple[StampReading, PolicyChoice], Path] = field(default_factory=dict)
    """The files of what was delivered over the whole trace, by policies that no part alone can follow."""
    played: tuple[Path, ...] = ()
    """The same for rules of other stamps."""


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """A delivery by the ledger. Its wait depends on all that came before, so one task does the whole trace."""

    trace: TraceFiles
    reading: StampReading
    delivery: PolicyChoice
    ties: Ties
    path: Path


# The columns of `Tally.blocks`.
IN_BLOCK = ("delivered", "pairs", "backward", "forward", "any", "related_pairs", "ticks")


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of one delivery over some parts. `held[t]` messages were held t ticks.

    `blocks` has a row for each block of time, with the counts of `IN_BLOCK`; `ticks` is the sum of the holds.
    """

    told: bool
    held: Ints
    late: int
    blocks: Ints

    @property
    def violations(self) -> Violations | None:
        """The violations of all blocks; None if nobody knows what happened before what."""
        return Violations(*self.blocks.sum(axis=0)[:-1].tolist()) if self.told else None

    def __add__(self, other: Tally) -> Tally:
        held, late = self.held + other.held, self.late + other.late
        return Tally(self.told, held, late, self.blocks + other.blocks)

    @property
    def delivered(self) -> int:
        return int(self.held.sum())

    @property
    def hold_mean(self) -> float:
        return int((self.held * np.arange(len(self.held))).sum()) / self.delivered if self.delivered else 0.0

    def hold_percentile(self, percent: float) -> float:
        """The percentile of the holds, interpolated as numpy does."""
        if not self.delivered:
            return 0.0
        place = (self.delivered - 1) * (percent / 100)
        up_to = np.cumsum(self.held)
        low, high = (int(np.searchsorted(up_to, int(at), "right")) for at in (place, np.ceil(place)))
        part = place - int(place)
        return float(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)


@dataclass(frozen=True, slots=True)
class Fields:
    """The use of a stamp's fields by the messages that arrived: saturated stamps, and the largest values."""

    saturated: int
    max_c: int
    max_kn: int

    def __add__(self, other: Fields) -> Fields:
        return Fields(
            self.saturated + other.saturated,
            max(self.max_c, other.max_c),
            max(self.max_kn, other.max_kn),
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """The tally of arrival order and, for each reading, the use of its fields and a tally for each delivery; then the
    tallies of what was `played`."""

    arrival: Tally
    readings: tuple[tuple[Fields, tuple[Tally, ...]], ...]
    played: tuple[Tally, ...] = ()

    def __add__(self, other: Measured) -> Measured:
        both = zip(self.readings, other.readings, strict=True)
        return Measured(
            self.arrival + other.arrival,
            tuple(
                (f + g, tuple(a + b for a, b in zip(ours, theirs, strict=True)))
                for (f, ours), (g, theirs) in both
            ),
            tuple(a + b for a, b in zip(self.played, other.played, strict=True)),
        )


def measure(task: MeasureTask) -> Measured:
    """Count one part under every reading and delivery."""
    own_columns = [reading.columns for reading, _ in task.readings if reading.stamps is None]
    told = task.part.segment.trace.truth_columns if task.part.sends is not None else []
    columns = dict.fromkeys(["sequence", *told, *(name for names in own_columns for name in names)])
    halo = 2 * task.part.horizon
    view = load(task.part.segment, list(columns), halo, halo)
    judge = Judge(task.part, view)
    arrival = judge.tally(np.arange(len(view.rows)), view.clock, 0)
    return Measured(
        arrival,
        tuple(_reading(task, view, judge, reading, deliveries) for reading, deliveries in task.readings),
        tuple(judge.tally(*of_whole(path, view)) for path in task.played),
    )


def deliver_whole(task: LedgerTask) -> None:
    """Write each row's place in the order of delivery, the tick in which it left, and whether it came late."""
    reading, trace = task.reading, task.trace
    columns = reading.columns if reading.stamps is None else []
    view = load(TraceSegment(trace, 0, trace.rows), ["sequence", *columns], 0, 0)
    r, c, kn = stamps_of(view, reading)
    rank = rank_of(view, r, c, kn, task.ties)
    alpha, most = (task.delivery.tolerate or 0.0) / 100, reading.epsilon + reading.delta
    order, left, late = kernels.ledger_order(rank, r + c, view.clock, alpha, most)
    found = np.zeros((3, trace.rows), np.int64)
    found[0, view.rows[order]] = np.arange(len(order))
    found[1, view.rows[order]] = left
    found[2, view.rows] = late
    found.tofile(task.path)


def of_whole(path: Path, view: View) -> tuple[Ints, Ints, int]:
    """The order in which a view's rows left, when each did, and how many of its own rows came late."""
    # Plain numbers: numpy's own files have a header in Python's syntax, and Python 3.11 can't parse it in two threads.
    found = np.memmap(path, np.int64, "r").reshape(3, -1)[:, view.rows]
    order = np.argsort(found[0])
    return order, found[1][order], int(found[2, view.first : view.last].sum())


def rank_of(view: View, r: Ints, c: Ints, kn: Ints, ties: Ties) -> Ints:
    """Each row's place in the order of the stamps."""
    last = view.column("sequence") if ties == "sequence" else np.zeros(len(r), np.int64)
    rank: Ints = kernels.ranks(r, c, kn, view.column("source"), last)
    return rank


def _reading(
    task: MeasureTask, view: View, judge: Judge, reading: StampReading, deliveries: Sequence[PolicyChoice]
) -> tuple[Fields, tuple[Tally, ...]]:
    r, c, kn = stamps_of(view, reading)
    rank = rank_of(view, r, c, kn, task.ties)
    own = slice(view.first, view.last)
    fields = Fields(
        saturated=int(np.count_nonzero((kn[own] == reading.entry_max).any(axis=1))),
        max_c=int(c[own].max(initial=0)),
        max_kn=int(kn[own].max(initial=0)),
    )
    made = [
        of_whole(path, view)
        if (path := task.whole.get((reading, one)))
        else deliver(view, reading, (r, c), rank, one)
        for one in deliveries
    ]
    return fields, tuple(judge.tally(*one) for one in made)


def deliver(
    view: View, reading: StampReading, stamps: tuple[Ints, Ints], rank: Ints, delivery: PolicyChoice
) -> tuple[Ints, Ints, int]:
    """The order in which a view's rows leave by a timed policy, when each does, and how many of its own came late."""
    own, (r, c) = slice(view.first, view.last), stamps
    phi = 100 if delivery.policy == "causal" else delivery.phi
    due_at, _ = kernels.due_ticks(r, c, view.clock, phi, reading.epsilon, reading.delta)
    late = int(np.count_nonzero(view.clock[own] > due_at[own] - (phi > 0)))
    ordered = kernels.cbd_order if delivery.policy == "cbd" else kernels.dapw_order
    return *ordered(rank, due_at, view.clock), late


def stamps_of(view: View, reading: StampReading) -> tuple[Ints, Ints, Ints]:
    """(r, c, kn) of a view's rows."""
    table = view.table if reading.stamps is None else _rows_of(reading.stamps, view.rows, reading.columns)
    count = len(view.rows)
    r = table["stamp.r"].to_numpy()
    c = table["stamp.c"].to_numpy().astype(np.int64) if reading.carries_c else np.zeros(count, np.int64)
    kn = np.zeros((count, reading.entries), np.uint16)
    if reading.entries:
        told = view.trace.layout.stamp.entries if reading.stamps is None else reading.entries
        recorded = view.matrix(table["stamp.kn"], told, "entries of its stamp")
        np.minimum(recorded[:, : reading.entries], reading.entry_max, out=kn, casting="unsafe")
    return r, c, kn


def _rows_of(path: Path, rows: Ints, columns: list[str]) -> pa.Table:
    """The rows with these numbers, which must be in ascending order."""
    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        low = int(np.searchsorted(starts, rows[0], "right")) - 1 if len(rows) else 0
        high = int(np.searchsorted(starts, rows[-1], "right")) if len(rows) else 0
        table = file.read_row_groups(list(range(low, high)), columns=columns, use_threads=False)
        table = present(table, columns, messages_schema())
    if len(rows) and int(rows[-1] - rows[0]) + 1 == len(rows):
        return table.slice(int(rows[0] - starts[low]), len(rows))
    return table.take(pa.array(rows - starts[low]))


class Judge:
    """The counts that do not depend on the delivery: far pairs, related pairs, and each mote's sends in order."""

    def __init__(self, part: Part, view: View) -> None:
        self._part, self._view = part, view
        self._own = slice(view.first, view.last)
        self._block = part.block_of(view.clock)
        self._cuts = np.searchsorted(self._block[self._own], np.arange(len(part.begins) + 1))
        self._before = np.zeros((len(part.begins), len(IN_BLOCK)), np.int64)
        self._before[:, 0] = np.diff(self._cuts)
        if part.sends is None:
            return
        motes = part.segment.trace.motes
        source, vectors = view.column("source").astype(np.int64), view.vectors(motes)
        late = np.isin(view.rows, part.stragglers.row)
        self._arrivals = segment_pairs.arrivals(source, vectors, view.clock, late)
        self._overtaken, self._hasty = late.copy(), np.zeros(len(source), np.bool_)
        self._count_far(vectors[self._own])
        known = [part.sends.up_to(mote, vectors[self._own, mote]) for mote in range(motes)]
        self._before[:, 5] = self._by_block(np.sum, np.sum(known, axis=0) - 1)

    def _by_block(self, count: Callable[[Ints], Any], values: Ints) -> list[Any]:
        return [count(values[a:b]) for a, b in pairwise(self._cuts.tolist())]

    def _count_far(self, vectors: Ints) -> None:
        late, own = self._part.stragglers, self._own
        if not len(late):
            return
        order = np.lexsort((late.index, late.source))
        row_of = np.concatenate(([0], np.cumsum(np.bincount(late.source, minlength=vectors.shape[1]))))
        which = row_of, late.index[order], late.clock[order]
        clock, horizon, hasty = self._view.clock[own], self._part.horizon, self._hasty[own]
        segment_pairs.count_far(vectors, clock, horizon, *which, hasty, self._block[own], self._before[:, 1])

    def tally(self, order: Ints, left: Ints, late: int) -> Tally:
        view, horizon, blocks = self._view, self._part.horizon, self._before.copy()
        held = segment_pairs.hold_histogram(
            order, left, view.clock, view.first, view.last, horizon, self._block, blocks[:, 6]
        )
        if told := self._part.sends is not None:
            overtaken, hasty = self.flags(order, left, blocks[:, 1])
            for column, flags in ((2, overtaken), (3, hasty), (4, overtaken | hasty)):
                blocks[:, column] = self._by_block(np.count_nonzero, flags)
        return Tally(told, held, late, blocks)

    def flags(self, order: Ints, left: Ints, pairs: Ints) -> tuple[Ints, Ints]:
        """Which of the part's own messages came after one of their effects, and which before one of their causes."""
        view = self._view
        overtaken, hasty = self._overtaken.copy(), self._hasty.copy()
        where = self._part.horizon, view.first, view.last
        segment_pairs.count_near(order, left, self._arrivals, *where, overtaken, hasty, self._block, pairs)
        return overtaken[self._own], hasty[self._own]


def total(parts: Iterable[Measured]) -> Measured:
    """The sum over all parts of the trace."""
    found = list(parts)
    whole = found[0]
    for part in found[1:]:
        whole = whole + part
    return whole
