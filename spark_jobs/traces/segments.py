"""Cuts a trace into segments with a halo, so that the counts of all segments add up exactly.

No message is held longer than the *horizon*, so its fate depends only on arrivals within two horizons. A survey of the
arrivals finds what reaches further and gives it to each segment: stragglers, and how many sends of each mote arrived.
docs/algorithms.md, "A trace in segments", has the proof.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.causality.kernels import segment_pairs
from basestation.traces.schema import LATER, UnevenRow, matrix_of
from spark_jobs.engine import Spread
from spark_jobs.traces.files import TraceFault, TraceFiles, read_rows

Ints = NDArray[Any]
ROWS = 1_000_000  # of a segment: enough that its halo costs little
MOST_SENDS = 1 << 27  # of a mote: ten a second for five months. Which of them arrived is kept in memory
MOST_REACH = 1 << 20  # ticks ahead of the observer: holds are counted tick by tick, in memory
BLOCKS, BLOCK_HORIZONS = 64, 4  # at most so many blocks of time, each of at least so many horizons
MOST_CLOCK = 1 << 60  # beyond it sums of times would not be numbers any more
TIMES = ["clock", "heard", "batch", "in_sync", "source"]


@dataclass(frozen=True, slots=True)
class TraceSegment:
    """The rows `first` to `last` (exclusive) of a trace."""

    trace: TraceFiles
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class View:
    """A segment with its halo. Its own rows are `first` to `last` of the table, which begins at `start` of the trace.

    Messages out of sync are left out: every policy delivers them at once, and they are in no pair.
    """

    trace: TraceFiles
    table: pa.Table
    rows: Ints  # their numbers in the trace
    clock: Ints
    first: int
    last: int
    out_of_sync: int

    def column(self, name: str) -> Ints:
        return _numbers(self.table, name)

    def vectors(self, motes: int) -> Ints:
        """How many messages of each mote led to a message; where all that may have is wanted, those."""
        sure = self.matrix(self.table["vector"], motes, "bytes of its vector clock")
        if LATER not in self.table.column_names or self.table[LATER].null_count == len(sure):
            return sure
        most = self.table[LATER]
        more = self.matrix(most, motes, f"bytes of its {LATER}")
        return np.where(most.is_null().to_numpy()[:, None], sure, more)

    def matrix(self, column: pa.ChunkedArray, width: int, what: str) -> Ints:
        """A column of equally long rows of integers."""
        try:
            return matrix_of(column, width)
        except UnevenRow as fault:
            raise TraceFault(f"{self.trace.folder}: row {self.rows[fault.row]}: {what}: {fault}") from None


def cut(trace: TraceFiles, parts: int = 1, rows: int = ROWS) -> list[TraceSegment]:
    """Cut into equally long segments of about `rows` rows, the same number for each of `parts` workers."""
    count = max(1, -(-trace.rows // rows))
    count = min(-(-count // parts) * parts, max(1, trace.rows))
    borders = [trace.rows * i // count for i in range(count + 1)]
    return cut_at(trace, borders[1:-1])


def cut_at(trace: TraceFiles, borders: Iterable[int]) -> list[TraceSegment]:
    """Cut at these rows; empty segments are left out."""
    places = [0, *sorted(set(borders)), trace.rows]
    return [TraceSegment(trace, a, b) for a, b in pairwise(places) if b > a]


def load(segment: TraceSegment, columns: Sequence[str], before: int, after: int) -> View:
    """Read a segment with all that arrived up to `before` ticks before its first and `after` after its last row."""
    trace, groups = segment.trace, segment.trace.groups()
    wanted = [*dict.fromkeys([*TIMES, *columns])]
    starts = [first for first, _, _ in groups]
    low, high = bisect_right(starts, segment.first) - 1, bisect_right(starts, segment.last - 1)
    low, high = max(0, low - (before > 0)), min(len(groups), high + (after > 0))
    table = read_rows(trace, groups[low:high], wanted)
    clock = _clock(table, trace, starts[low])
    earliest = int(clock[segment.first - starts[low]]) - before
    latest = int(clock[segment.last - 1 - starts[low]]) + after
    more = 1
    while (short := low > 0 and clock[0] >= earliest) or (high < len(groups) and clock[-1] <= latest):
        if short:
            further = read_rows(trace, groups[max(0, low - more) : low], wanted)
            table, low = pa.concat_tables([further, table]), max(0, low - more)
        else:
            further = read_rows(trace, groups[high : high + more], wanted)
            table, high = pa.concat_tables([table, further]), min(len(groups), high + more)
        clock = _clock(table, trace, starts[low])
        more *= 2
    begin, end = np.searchsorted(clock, earliest, "left"), np.searchsorted(clock, latest, "right")
    return _in_sync(segment, table.slice(begin, end - begin), clock[begin:end], starts[low] + int(begin))


def _in_sync(segment: TraceSegment, table: pa.Table, clock: Ints, start: int) -> View:
    kept = _numbers(table, "in_sync")
    rows = start + np.arange(len(kept))
    if not kept.all():
        table, clock, rows = table.filter(table["in_sync"]), clock[kept], rows[kept]
    first, last = np.searchsorted(rows, [segment.first, segment.last]).tolist()
    return View(segment.trace, table, rows, clock, first, last, segment.last - segment.first - (last - first))


def _clock(table: pa.Table, trace: TraceFiles, start: int) -> Ints:
    """The observer's clock at each arrival; if none was noted, the time at which the message was heard."""
    clock, heard = table["clock"], _numbers(table, "heard")
    if clock.null_count == len(table):
        out = heard
    elif clock.null_count:
        out = np.where(clock.is_null().to_numpy(), heard, clock.fill_null(0).to_numpy())
    else:
        out = clock.to_numpy()
    if len(out) and max(abs(int(out.min())), abs(int(out.max()))) > MOST_CLOCK:
        raise TraceFault(f"{trace.folder}: the observer's clock says {max(out, key=abs)}, which is no time")
    falls = np.flatnonzero(out[1:] < out[:-1])
    if len(falls):
        raise TraceFault(
            f"{trace.folder}: row {start + int(falls[0]) + 1}: the observer's clock runs backwards"
        )
    return out


def _numbers(table: pa.Table, name: str) -> Ints:
    values: Ints = table[name].to_numpy()
    return values


@dataclass(frozen=True, slots=True)
class Stragglers:
    """The arrivals that come more than a horizon after one of their effects."""

    row: Ints
    source: Ints
    index: Ints
    clock: Ints

    def where(self, chosen: Ints) -> Stragglers:
        return Stragglers(self.row[chosen], self.source[chosen], self.index[chosen], self.clock[chosen])

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def together(cls, several: Sequence[Stragglers]) -> Stragglers:
        empty = np.zeros(0, np.int64)
        lists = [[getattr(one, name) for one in several] for name in cls.__dataclass_fields__]
        return cls(*(np.concatenate([empty, *each]).astype(np.int64) for each in lists))


NO_STRAGGLERS = Stragglers.together([])


@dataclass(frozen=True, slots=True)
class Sends:
    """A set of each mote's sends in a range: bit i stands for send `first` + i."""

    before: Ints  # how many there are below the range
    first: Ints
    bits: tuple[bytes, ...]

    def up_to(self, mote: int, counts: Ints) -> Ints:
        """The number of a mote's sends up to each of these numbers, which are not below the range - 1."""
        bits = np.unpackbits(np.frombuffer(self.bits[mote], np.uint8))
        total = self.before[mote] + np.concatenate(([0], np.cumsum(bits, dtype=np.int64)))
        most: Ints = total[counts - self.first[mote] + 1]
        return most


@dataclass(frozen=True, slots=True)
class SegmentTruth:
    """The findings of a survey on happened-before in a segment's own rows, with one number for each mote."""

    # (thresholds + 1, motes): the most sends counted by arrivals before each threshold, and by all.
    known: Ints
    earliest: Ints  # of the mote's own sends that arrived here
    fewest: Ints  # sends counted by any arrival here
    most: Ints
    sends: Sends
    messages: int
    stragglers: Stragglers


@dataclass(frozen=True, slots=True)
class Survey:
    """The findings of a survey. `reach` is the most that a clock known to an arrival is ahead of the observer's."""

    arrived: int
    out_of_sync: int
    reach: int
    truth: SegmentTruth | None


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """The task of a survey. Later segments need what is known before `thresholds` (ticks); `known` came before the
    halo."""

    segment: TraceSegment
    horizon: int
    thresholds: tuple[int, ...]
    known: Ints


def survey(task: SurveyTask) -> Survey:
    """Survey one segment's arrivals, without their stamps."""
    segment, trace = task.segment, task.segment.trace
    view = load(
        segment, ["stamp.r", "stamp.c", *trace.truth_columns], task.horizon if trace.has_truth else 0, 0
    )
    own = slice(view.first, view.last)
    _check(view, trace)
    lead = 2 * trace.deployment.clock.epsilon  # of any stamp's clock that the run may be stamped with again
    ahead = (
        np.maximum(view.column("heard") + lead, view.column("stamp.r") + view.column("stamp.c"))[own]
        - view.clock[own]
    )
    reach = int(ahead.max(initial=lead))
    if reach > MOST_REACH:
        row = view.rows[own][int(np.argmax(ahead))]
        raise TraceFault(
            f"{trace.folder}: row {row}: its stamp is {reach} ticks ahead of the observer's clock: no wait is so long"
        )
    return Survey(
        arrived=segment.last - segment.first,
        out_of_sync=view.out_of_sync,
        reach=reach,
        truth=_truth(task, view) if trace.has_truth else None,
    )


def _check(view: View, trace: TraceFiles) -> None:
    """Refuse values that make no sense, and name the row."""
    source, batch = view.column("source"), view.column("batch")
    strangers = np.flatnonzero((source < 0) | (source >= trace.motes))
    if len(strangers):
        at = int(strangers[0])
        raise TraceFault(
            f"{trace.folder}: row {view.rows[at]}: mote {source[at]}, but the deployment has {trace.motes} motes"
        )
    same = batch[1:] == batch[:-1]
    wrong = np.flatnonzero((batch[1:] < batch[:-1]) | same & (view.clock[1:] != view.clock[:-1]))
    if len(wrong):
        row = view.rows[int(wrong[0]) + 1]
        raise TraceFault(f"{trace.folder}: row {row}: batches are not in order, or one spans several ticks")


def _truth(task: SurveyTask, view: View) -> SegmentTruth:
    trace, own = task.segment.trace, slice(view.first, view.last)
    vectors, source = view.vectors(trace.motes), view.column("source")
    index = vectors[np.arange(len(source)), source]
    _check_vectors(view, trace, vectors, index)
    late = segment_pairs.find_stragglers(
        source, index, vectors, view.clock, view.first, view.last, task.horizon, task.known
    )
    rows = np.flatnonzero(late)
    mine, clock = vectors[own], view.clock[own]
    ends = [*np.searchsorted(clock, task.thresholds, "left").tolist(), len(mine)]
    nothing = np.zeros(trace.motes, np.int32)
    never = np.iinfo(np.int32).max
    earliest = np.full(trace.motes, never, np.int32)
    np.minimum.at(earliest, source[own], index[own])
    return SegmentTruth(
        known=np.array([mine[:end].max(axis=0, initial=0) if end else nothing for end in ends]),
        earliest=earliest,
        fewest=mine.min(axis=0, initial=never),
        most=mine.max(axis=0, initial=0),
        sends=_sends(source[own], index[own], trace.motes),
        messages=len(mine),
        stragglers=Stragglers(view.rows[rows], source[rows], index[rows], view.clock[rows]),
    )


def _check_vectors(view: View, trace: TraceFiles, vectors: Ints, index: Ints) -> None:
    for wrong, what in (
        (index < 1, "does not count the message itself"),
        ((vectors < 0).any(axis=1), "counts fewer than no sends"),
        ((vectors > MOST_SENDS).any(axis=1), f"counts more than {MOST_SENDS:,} sends of a mote"),
    ):
        if wrong.any():
            row = view.rows[int(np.argmax(wrong))]
            raise TraceFault(f"{trace.folder}: row {row}: its vector clock {what}")


def _sends(source: Ints, index: Ints, motes: int) -> Sends:
    first, bits = np.ones(motes, np.int64), []
    for mote in range(motes):
        mine = index[source == mote]
        first[mote] = mine.min(initial=np.iinfo(np.int32).max) if len(mine) else 1
        there = np.zeros(int(mine.max() - first[mote]) + 1 if len(mine) else 0, np.bool_)
        there[mine - first[mote]] = True
        bits.append(np.packbits(there).tobytes())
    return Sends(np.zeros(motes, np.int64), first, tuple(bits))


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, with all that counting it alone needs from the rest of the trace."""

    segment: TraceSegment
    horizon: int
    stragglers: Stragglers  # in its view, or later causes of its own rows
    sends: Sends | None  # that arrived, as far as its own rows count
    begins: Ints  # the tick in which each block of time begins, in the whole trace

    def block_of(self, clock: Ints) -> Ints:
        """The block of each arrival; what came before the first block or after the last is in the halo."""
        return np.maximum(np.searchsorted(self.begins, clock, "right") - 1, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A trace ready to be counted in parts."""

    parts: list[Part]
    horizon: int
    arrived: int
    out_of_sync: int


def plan(segments: Sequence[TraceSegment], spread: Spread, longest: int = 0) -> Plan:
    """Survey the trace and plan its parts. The first guess of the horizon is right unless its clocks are broken.

    `longest`: the longest hold, in ticks, of rules other than the timed ones.
    """
    trace = segments[0].trace
    clock = trace.deployment.clock
    horizon = max(clock.delta + 3 * clock.epsilon + 1, longest)
    firsts = [_clock_of(trace, segment.first) for segment in segments]
    while True:
        tasks = _survey_tasks(segments, firsts, horizon)
        surveys: list[Survey] = list(spread(survey, tasks))
        needed = max(one.reach for one in surveys) + clock.delta + clock.epsilon + 1
        if needed <= horizon:
            break
        horizon = needed
    begins = block_begins(firsts[0], _clock_of(trace, trace.rows - 1), horizon)
    parts = [Part(segment, horizon, NO_STRAGGLERS, None, begins) for segment in segments]
    if trace.has_truth:
        parts = _with_truth(parts, _survey_again(tasks, surveys, firsts, spread), firsts)
    return Plan(
        parts=parts,
        horizon=horizon,
        arrived=sum(one.arrived for one in surveys),
        out_of_sync=sum(one.out_of_sync for one in surveys),
    )


def block_begins(first: int, last: int, horizon: int) -> Ints:
    """Cut the time of a trace into equal blocks that are much longer than the horizon (docs/algorithms.md)."""
    span = last - first + 1
    count = max(1, min(BLOCKS, span // (BLOCK_HORIZONS * horizon)))
    return np.array([first + span * number // count for number in range(count)])


def _clock_of(trace: TraceFiles, row: int) -> int:
    """The clock at one row; only the times of its row group are read."""
    groups = trace.groups()
    at = bisect_right([first for first, _, _ in groups], row) - 1
    table = read_rows(trace, groups[at : at + 1], ["clock", "heard"])
    return int(_clock(table, trace, groups[at][0])[row - groups[at][0]])


def _survey_tasks(segments: Sequence[TraceSegment], firsts: Sequence[int], horizon: int) -> list[SurveyTask]:
    """The tasks of the survey. Before a later segment's halo means before its first tick minus the horizon."""
    nothing = np.zeros(segments[0].trace.motes, np.int32)
    halos = np.unique(np.array(firsts) - horizon)
    tasks = []
    for segment, first, following in zip(segments, firsts, [*firsts[1:], firsts[-1]], strict=True):
        within = halos[(halos > first) & (halos <= following)]
        tasks.append(SurveyTask(segment, horizon, tuple(within.tolist()), nothing))
    return tasks


def _survey_again(
    tasks: Sequence[SurveyTask], surveys: Sequence[Survey], firsts: Sequence[int], spread: Spread
) -> list[SegmentTruth]:
    """The truth of each segment. If a send may be a straggler to what was known long before the segment, which its
    survey could not see, the segment is surveyed again with that knowledge."""
    truths = [one.truth for one in surveys if one.truth is not None]
    known = _known_before(tasks, truths, firsts)
    doubtful = [i for i, truth in enumerate(truths) if (truth.earliest <= known[i]).any()]
    again = spread(survey, [replace(tasks[i], known=known[i]) for i in doubtful])
    for i, one in zip(doubtful, again, strict=True):
        truths[i] = one.truth
    return truths


def _known_before(tasks: Sequence[SurveyTask], truths: Sequence[SegmentTruth], firsts: Sequence[int]) -> Ints:
    """For each segment and mote, the largest number of sends that an arrival before the segment's halo knew of."""
    motes = tasks[0].segment.trace.motes
    known = np.zeros((len(tasks), motes), np.int32)
    most = np.zeros(motes, np.int32)  # of the segments that lie before the halo as a whole
    passed = 0
    for i, task in enumerate(tasks):
        halo = firsts[i] - task.horizon
        while passed < i and firsts[passed + 1] < halo:
            most = np.maximum(most, truths[passed].known[-1])
            passed += 1
        known[i] = most
        for before in range(passed, i):
            if firsts[before] < halo:
                known[i] = np.maximum(known[i], truths[before].known[tasks[before].thresholds.index(halo)])
    return known


def _with_truth(parts: Sequence[Part], truths: Sequence[SegmentTruth], firsts: Sequence[int]) -> list[Part]:
    stragglers = Stragglers.together([truth.stragglers for truth in truths])
    arrived = _arrived(parts[0].segment.trace, truths)
    following = [*firsts[1:], np.iinfo(np.int64).max // 2]
    out = []
    for part, truth, first, end in zip(parts, truths, firsts, following, strict=True):
        halo = 2 * part.horizon + 1
        viewed = (stragglers.clock >= first - halo) & (stragglers.clock <= end + halo)
        causes = (stragglers.clock > first + part.horizon) & (
            stragglers.index <= truth.most[stragglers.source]
        )
        chosen = stragglers.where(np.flatnonzero(viewed | causes))
        out.append(replace(part, stragglers=chosen, sends=_counted_by(truth, arrived)))
    return out


def _arrived(trace: TraceFiles, truths: Sequence[SegmentTruth]) -> list[NDArray[np.bool_]]:
    """The set of each mote's sends that arrived; numbers begin at 1."""
    most = np.max([truth.most for truth in truths], axis=0)
    there = [np.zeros(int(count) + 1, np.bool_) for count in most]
    messages = 0
    for truth in truths:
        for mote, (first, bits) in enumerate(zip(truth.sends.first.tolist(), truth.sends.bits, strict=True)):
            which = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8)))
            there[mote][first + which] = True
        messages += truth.messages
    if sum(int(one.sum()) for one in there) != messages:
        raise TraceFault(f"{trace.folder}: some messages are there twice, by their vector clocks")
    return there


def _counted_by(truth: SegmentTruth, arrived: Sequence[NDArray[np.bool_]]) -> Sends:
    """The sends that arrived and that some, but not all, arrivals of a segment know of."""
    fewest = np.minimum(truth.fewest, truth.most).tolist()
    return Sends(
        before=np.array([int(there[: low + 1].sum()) for there, low in zip(arrived, fewest, strict=True)]),
        first=np.array(fewest) + 1,
        bits=tuple(
            np.packbits(there[low + 1 : high + 1]).tobytes()
            for there, low, high in zip(arrived, fewest, truth.most.tolist(), strict=True)
        ),
    )
