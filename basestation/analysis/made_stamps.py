"""Stamps that a trace did not record, made from the motes' events, batch by batch. The motes' state goes on from one
batch to the next. The stamps are exact if the table of events is complete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.causality import kernels
from basestation.causality.kernels import stamping
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import MERGE, RECEIVE, SEND, Stream
from basestation.simulator.engine import NO_CORRUPTION
from basestation.simulator.results import Observed
from basestation.traces.files import TraceError
from basestation.traces.numbers import not_in_a_row, numbered_by
from basestation.traces.schema import KINDS, UnevenRow, matrix_of

Ints = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Events:
    """Some events in their order, with their kinds as the kernels have them."""

    kind: Ints
    mote: Ints
    clock: Ints
    source: Ints
    number: Ints
    by: str  # the column that `number` is

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Events:
        sends = pc.equal(batch["kind"].cast(pa.string()), KINDS[0]).to_numpy(zero_copy_only=False)
        ends = batch["ends"].to_numpy(zero_copy_only=False)
        kind = np.where(sends, SEND, np.where(ends, RECEIVE, MERGE)).astype(np.int8)
        by = numbered_by(batch)
        mote, clock, source, number = (_column(batch, name) for name in ("mote", "clock", "source", by))
        return cls(kind, mote, clock, source, number, by)


def _column(batch: pa.RecordBatch, name: str) -> Ints:
    values: Ints = batch[name].to_numpy(zero_copy_only=False)
    return values.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How many messages each mote sent, from which number on; all of them are numbered mote by mote. `by` is the column
    of events and messages that has these numbers."""

    first: Ints
    counts: Ints
    by: str

    @property
    def messages(self) -> int:
        return int(self.counts.sum())

    def of(self, mote: Ints, number: Ints) -> Ints:
        _check_motes(mote, len(self.counts))
        place = number - self.first[mote]
        if ((place < 0) | (place >= self.counts[mote])).any():
            raise TraceError("a message was received that nobody sent")
        begins = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        return np.asarray(begins[mote] + place, np.int64)


def _check_motes(mote: Ints, motes: int) -> None:
    if (mote >= motes).any():
        raise TraceError(f"mote {mote.max()}, but the deployment has {motes} motes")


def numbers_of(batches: Iterable[Events], motes: int) -> Numbers:
    """Count the sends of each mote, and check that each counts on from its first."""
    first, counts, by = np.zeros(motes, np.int64), np.zeros(motes, np.int64), ""
    for events in batches:
        sends, by = events.kind == SEND, events.by
        mote, number = events.mote[sends], events.number[sends]
        _check_motes(mote, motes)
        if (mote != events.source[sends]).any():
            raise TraceError("a mote sent in the name of another")
        for one in np.unique(mote).tolist():
            mine = number[mote == one]
            first[one] = first[one] if counts[one] else mine[0]
            if not np.array_equal(mine, first[one] + counts[one] + np.arange(len(mine))):
                raise not_in_a_row(one, by)
            counts[one] += len(mine)
    return Numbers(first, counts, by)


def stamp(
    batches: Iterable[Events], numbers: Numbers, scheme: TimedScheme, stamps: tuple[Ints, Ints, Ints]
) -> Ints:
    """Run a scheme over all events; (r, c, kn) of all that was sent go into `stamps`. How many stamps were bounded, and
    how many unwraps were wrong."""
    stamps[1][:] = -1  # not sent yet
    program = getattr(stamping, scheme.kernel or "")
    state = stamping.start_motes(len(numbers.counts), program, scheme.entries, scheme.entry_max)
    widths = scheme.epsilon, scheme.lead, scheme.modulus, scheme.entry_max
    counted = scheme.count == "events", scheme.carry == "sum"
    fault = NO_CORRUPTION.offset, NO_CORRUPTION.c, NO_CORRUPTION.kn
    noticed = np.zeros(2, np.int64)
    for events in batches:
        rows = events.kind, events.mote, events.clock, numbers.of(events.source, events.number)
        *new, unsent = stamping.stamp_more(*rows, state, *stamps, program, *widths, *counted, *fault)
        if unsent:
            raise TraceError("a message was received before it was sent")
        noticed += new
    return noticed


def observe(message: Ints, heard: Ints, scheme: TimedScheme, stamps: tuple[Ints, Ints, Ints]) -> Observed:
    """The stamps of these messages as the observer reads them."""
    r, c, kn, bounded, wrong = kernels.observe_stamps(message, heard, *stamps, scheme.lead, scheme.modulus)
    return Observed(r, c, kn, int(bounded), int(wrong))


def differing(
    made: pa.StructArray, recorded: pa.Table, entries: int, first: int, settled: Ints | None = None
) -> int:
    """Count the recorded stamps that did not come out again. The first is in row `first` of the trace.

    A mote out of sync has a clock of its own that no event shows; its messages are not ordered. Entries count in rows
    that are `settled`.
    """
    try:
        kn = matrix_of(recorded["stamp.kn"], entries)
    except UnevenRow as fault:
        raise TraceError(f"row {first + fault.row}: entries of its stamp: {fault}") from None
    wrong = (matrix_of(pa.chunked_array([made.field("kn")]), entries) != kn).any(axis=1)
    if settled is not None:
        wrong &= settled
    for name in ("r", "c"):
        wrong |= made.field(name).to_numpy() != recorded[f"stamp.{name}"].to_numpy()
    return int((wrong & recorded["in_sync"].to_numpy()).sum())


def settled(stream: Stream, in_sync: Ints, boot: Ints, ticks: int) -> Ints:
    """Which arrivals were sent when no mote had gained the time in the last `ticks`, so far as arrivals show. A mote
    that reboots gains the time anew."""
    at, source = stream.sent_at[stream.arrival_message], stream.sent_by[stream.arrival_message]
    found = np.ones(len(at), np.bool_)
    for mote in range(stream.motes if ticks else 0):
        since = stream.sent_at[stream.sent_by == mote].min(initial=at.max(initial=0))
        was = None  # the boot of its message before, if that was in sync
        for row in sorted(np.flatnonzero(source == mote), key=stream.arrival_message.__getitem__):
            if in_sync[row] and was != boot[row]:
                found &= (at < since) | (at > at[row] + ticks)
            since, was = at[row], boot[row] if in_sync[row] else None
    return found
