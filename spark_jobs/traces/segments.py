"""Cuts a trace into segments, and surveys them so that each can be counted by itself (`analysis/survey.py`)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from basestation.analysis import survey
from basestation.analysis.facts import Arrivals
from basestation.analysis.survey import Context, Counts, Question, Survey
from basestation.analysis.view import View, clock_of, view_of
from spark_jobs.engines import Spread
from spark_jobs.traces.trace_files import TraceFault, TraceFiles, located, read_rows

ROWS = 1_000_000  # of a segment: enough that its halo costs little
TIMES = ["clock", "heard", "batch", "in_sync", "source"]


@dataclass(frozen=True, slots=True)
class TraceSegment:
    """The rows `first` to `last` (exclusive) of a trace."""

    trace: TraceFiles
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, and the facts about the rest of the trace that it needs."""

    segment: TraceSegment
    context: Context

    def load(self, columns: Iterable[str]) -> View:
        """The segment with its halo, and with the causes of its messages, where known."""
        halo = 2 * self.context.horizon
        return load_judged(self.segment, columns, halo, halo)


@dataclass(frozen=True, slots=True)
class Plan:
    """A trace ready to be counted in parts."""

    parts: list[Part]
    counts: Counts


def cut(trace: TraceFiles, parts: int = 1, rows: int = ROWS) -> list[TraceSegment]:
    """Cut into equally long segments of about `rows` rows, the same number for each of `parts` workers."""
    count = max(1, -(-trace.rows // rows))
    count = min(-(-count // parts) * parts, max(1, trace.rows))
    return cut_at(trace, (trace.rows * i // count for i in range(1, count)))


def cut_at(trace: TraceFiles, borders: Iterable[int]) -> list[TraceSegment]:
    """Cut at these rows; empty segments are left out."""
    places = [0, *sorted(set(borders)), trace.rows]
    return [TraceSegment(trace, a, b) for a, b in pairwise(places) if b > a]


def whole(trace: TraceFiles) -> TraceSegment:
    return TraceSegment(trace, 0, trace.rows)


def load_judged(segment: TraceSegment, columns: Iterable[str], before: int = 0, after: int = 0) -> View:
    """Read a segment with the causes of its messages, where known. Messages without known causes are left out."""
    told = segment.trace.truth_columns
    return load(segment, [*told, *columns], before, after, with_causes=bool(told))


def load(
    segment: TraceSegment,
    columns: Sequence[str],
    before: int = 0,
    after: int = 0,
    *,
    with_causes: bool = False,
) -> View:
    """Read a segment with all that arrived up to `before` ticks before its first and `after` after its last row."""
    trace, groups = segment.trace, segment.trace.groups()
    wanted = [*dict.fromkeys([*TIMES, *columns])]
    starts = [first for first, _, _ in groups]
    low, high = bisect_right(starts, segment.first) - 1, bisect_right(starts, segment.last - 1)
    low, high = max(0, low - (before > 0)), min(len(groups), high + (after > 0))
    table = read_rows(trace, groups[low:high], wanted)
    with located(trace.folder):
        clock = clock_of(table, starts[low])
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
            clock = clock_of(table, starts[low])
            more *= 2
    begin, end = np.searchsorted(clock, [earliest, latest + 1], "left").tolist()
    rows = table.slice(begin, end - begin)
    return view_of(rows, clock[begin:end], starts[low] + begin, segment.first, segment.last, with_causes)


def arrivals_in(trace: TraceFiles) -> Arrivals:
    """The arrivals of a trace in sync. A few columns of the whole run are in memory: 50 bytes a message."""
    if why := trace.why_empty:
        raise TraceFault(why)
    timed = trace.layout.stamp.clock_bits > 0
    view = load(whole(trace), ["boot", "sequence", *(["stamp.r"] if timed else [])])
    if not len(view.clock):
        raise TraceFault(f"{trace.folder}: no message that arrived in this run is in sync")
    delay = np.maximum(view.column("heard") - view.column("stamp.r"), 0) if timed else None
    source, life, sequence = (view.column(name).astype(np.int64) for name in ("source", "boot", "sequence"))
    return Arrivals(trace.motes, source, life, sequence, view.clock, delay)


def survey_segment(task: tuple[TraceSegment, Question]) -> Survey:
    segment, asked = task
    trace = segment.trace
    view = load_judged(segment, ["stamp.r", "stamp.c"], asked.horizon if trace.has_truth else 0)
    clock = trace.deployment.clock
    with located(trace.folder):
        return survey.survey(view, asked, 2 * clock.epsilon, clock.delta + clock.epsilon, trace.has_truth)


def plan(segments: Sequence[TraceSegment], spread: Spread, longest: int = 0) -> Plan:
    """Survey the trace and plan its parts. The first guess of the horizon is right unless its clocks are broken.

    `longest`: the longest hold, in ticks, of rules other than the timed ones.
    """
    trace = segments[0].trace
    clock = trace.deployment.clock
    needed = max(clock.delta + 3 * clock.epsilon + 1, longest)
    firsts = [_clock_at(trace, segment.first) for segment in segments]
    horizon = 0
    while needed > horizon:
        horizon = needed
        asked = survey.questions(firsts, horizon, trace.motes)
        surveys: list[Survey] = list(spread(survey_segment, list(zip(segments, asked, strict=True))))
        needed = max(one.reach for one in surveys) + clock.delta + clock.epsilon + 1
    counts = Counts(*(sum(same) for same in zip(*(one.counts for one in surveys), strict=True)))
    plain = Context(horizon, survey.block_begins(firsts[0], _clock_at(trace, trace.rows - 1), horizon))
    contexts: Iterable[Context] = [plain] * len(segments)
    if trace.has_truth:
        truths = [one.truth for one in surveys if one.truth is not None]
        # A send may be a straggler to sends known long before its segment, which the survey could not see.
        known = survey.known_before(asked, truths, firsts)
        doubtful = [i for i, truth in enumerate(truths) if (truth.sends.first <= known[i]).any()]
        again = [(segments[i], replace(asked[i], known=known[i])) for i in doubtful]
        for i, one in zip(doubtful, spread(survey_segment, again), strict=True):
            truths[i] = one.truth
        with located(trace.folder):
            contexts = list(survey.contexts(plain, truths, firsts, counts.counted))
    return Plan([Part(*part) for part in zip(segments, contexts, strict=True)], counts)


def _clock_at(trace: TraceFiles, row: int) -> int:
    """The clock at one row; only the times of its row group are read."""
    groups = trace.groups()
    at = bisect_right([first for first, _, _ in groups], row) - 1
    table = read_rows(trace, groups[at : at + 1], ["clock", "heard"])
    with located(trace.folder):
        return int(clock_of(table, groups[at][0])[row - groups[at][0]])
