"""The summary of a journal in numbers: for the run, each mote, and each gateway's line."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from basestation.traces.schema import value_of
from basestation.traces.value_summary import ValueSummary
from packet_formats.deployment import Deployment

from .decision import Fate, wrong_length
from .projection import Projection, project_segment
from .reader import Finding, Journal, JournalFault, JournalHole, JournalNote, JournalSegment, senseless
from .record_format import End, Header, JournalError, RecordKind, Records

SECOND = 1_000_000_000
NO_NUMBERS = 1 << 62, -1, 0


@dataclass(slots=True)
class MoteSummary:
    """One mote's counts. `lost` counts the missing numbers between the first and last message of each boot,
    `out_of_sync` messages that were sent or heard without network time, as `listen` marks them.

    `rssi` is of whoever sent a message last: of a relayed one, the relay.
    """

    mote: int
    messages: int = 0
    duplicates: int = 0
    lost: int = 0
    boots: int = 0
    saturated: int = 0
    out_of_sync: int = 0
    rssi: float | None = None
    first_wall_ns: int = 0
    last_wall_ns: int = 0
    per_minute: float | None = None
    values: dict[str, ValueSummary] = field(default_factory=dict)


@dataclass(slots=True)
class LineSummary:
    """One line's counts. `fates` says what became of its frames, `down_ns` how long it was lost in total."""

    gateway: int
    source: str
    frames: int = 0
    gaps: int = 0
    down_ns: int = 0
    fates: dict[str, int] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)
    per_second: float | None = None


@dataclass(slots=True)
class Summary:
    header: Header
    segments: int = 0
    bytes: int = 0
    records: int = 0
    missing: list[JournalHole] = field(default_factory=list)
    faults: list[JournalFault] = field(default_factory=list)
    remarks: list[JournalNote] = field(default_factory=list)  # what is no fault
    end: End | None = None  # the mark of the last segment
    first_wall_ns: int = 0
    last_wall_ns: int = 0
    span_ns: int = 0  # on the clock that does not jump
    motes: dict[int, MoteSummary] = field(default_factory=dict)
    lines: dict[int, LineSummary] = field(default_factory=dict)
    notes: int = 0

    @property
    def undecided(self) -> int:
        """Frames on which the log has no decision, as far as they were read."""
        return sum(line.fates.get(Fate.UNDECIDED.name.lower(), 0) for line in self.lines.values())


def summarise(journal: Journal, deployment: Deployment | None) -> Summary:
    """Sum up a journal. Without a deployment, frames are counted but not read."""
    summary = Summary(journal.header)
    span = _Span()
    numbers: Numbers = {}
    strength: dict[int, list[int]] = defaultdict(list)
    down: dict[int, int] = {}
    for segment in journal.segments(partial(_sort, summary)):
        records = segment.records
        summary.segments += 1
        summary.bytes += len(segment.raw)
        summary.records += len(records)
        summary.end = segment.scan.mark
        span.add(records)
        _count_lines(summary, records, down)
        _count_own(summary, segment)
        if deployment:
            reading = project_segment(segment, deployment)
            _count_fates(summary, reading)
            _count_untimed(summary, reading, numbers)
            _count_motes(summary, reading, numbers, strength)
            _sum_values(summary, reading, deployment)
    summary.first_wall_ns, summary.last_wall_ns, summary.span_ns = span.wall[0], span.wall[1], span.length
    _finish(summary, numbers, strength)
    return summary


def _sort(summary: Summary, found: Finding) -> None:
    if isinstance(found, JournalHole):
        summary.missing.append(found)
    elif isinstance(found, JournalFault):
        summary.faults.append(found)
    else:
        summary.remarks.append(found)


class _Span:
    def __init__(self) -> None:
        self.wall, self._mono = (0, 0), (0, 0)
        self._empty = True

    def add(self, records: Records) -> None:
        timed = records.head[records.head["mono_ns"] > 0]
        if not len(timed):
            return
        first = (int(timed["wall_ns"][0]), int(timed["mono_ns"].min()))
        wall, mono = (first[0], first[1]) if self._empty else (self.wall[0], min(self._mono[0], first[1]))
        self.wall = (wall, int(timed["wall_ns"][-1]))
        self._mono = (mono, max(self._mono[1], int(timed["mono_ns"].max())))
        self._empty = False

    @property
    def length(self) -> int:
        return self._mono[1] - self._mono[0]


def _line(summary: Summary, gateway: int) -> LineSummary:
    sources = summary.header.sources
    name = sources[gateway] if gateway < len(sources) else ""
    return summary.lines.setdefault(gateway, LineSummary(gateway, name))


def _count_lines(summary: Summary, records: Records, down: dict[int, int]) -> None:
    frames = records.of_kind(RecordKind.FRAME).head["gateway"]
    for gateway, count in enumerate(np.bincount(frames, minlength=1).tolist()):
        if count:
            _line(summary, gateway).frames += count
    summary.notes += len(records.of_kind(RecordKind.NOTE))
    for record in records.of_kind(RecordKind.GAP):
        if record.payload[:1] == b"\0":
            _line(summary, record.gateway).gaps += 1
            down[record.gateway] = record.mono_ns
        elif record.gateway in down:
            _line(summary, record.gateway).down_ns += record.mono_ns - down.pop(record.gateway)


def _count_own(summary: Summary, segment: JournalSegment) -> None:
    """Count the base station's own records. The content may be invalid even if the check sum is right."""
    own = (RecordKind.COUNTERS, RecordKind.POLICY, RecordKind.LOST)
    records = segment.records.chosen(np.isin(segment.records.head["kind"], own))
    for at, record in zip(records.starts.tolist(), records, strict=True):
        try:
            if record.kind == RecordKind.COUNTERS:
                _line(summary, record.gateway).counters = record.plain()
            elif record.kind == RecordKind.POLICY:
                record.change()
            else:
                record.lost()
        except JournalError as error:
            summary.faults.append(senseless(segment, at, record, error))
    odd = segment.records.odd_decisions()
    for at, record in zip(odd.starts.tolist(), odd, strict=True):
        odd_length = JournalError(wrong_length(len(record.payload)))
        summary.faults.append(senseless(segment, at, record, odd_length))


def _count_fates(summary: Summary, reading: Projection) -> None:
    lines = reading.frames.head["gateway"]
    for gateway in np.unique(lines).tolist():
        counts = np.bincount(reading.fates[lines == gateway], minlength=len(Fate)).tolist()
        fates = _line(summary, gateway).fates
        for fate in Fate:
            if counts[fate]:
                fates[fate.name.lower()] = fates.get(fate.name.lower(), 0) + counts[fate]


def _mote(summary: Summary, mote: int) -> MoteSummary:
    return summary.motes.setdefault(mote, MoteSummary(mote))


def _count_message(mote: MoteSummary, wall_ns: int) -> None:
    mote.first_wall_ns = mote.first_wall_ns if mote.messages else wall_ns
    mote.last_wall_ns = wall_ns
    mote.messages += 1


# Of each mote and boot the least and the largest sequence number, and how many came, strays too.
Numbers = dict[tuple[int, int], list[int]]


def _count_number(numbers: Numbers, boot: tuple[int, int], sequence: int) -> None:
    first, last, count = numbers.get(boot, NO_NUMBERS)
    numbers[boot] = [min(first, sequence), max(last, sequence), count + 1]


def _count_stray(numbers: Numbers, boot: tuple[int, int]) -> None:
    """A message with a MIC that holds no time: its number may be any other's, but it was not lost."""
    first, last, count = numbers.get(boot, NO_NUMBERS)
    numbers[boot] = [first, last, count + 1]


def _count_motes(
    summary: Summary,
    reading: Projection,
    numbers: Numbers,
    strength: dict[int, list[int]],
) -> None:
    names = ("source", "boot", "sequence", "wall_ns", "rssi", "in_sync", "saturated", "number")
    columns = (reading.messages[name].to_pylist() for name in names)
    for source, boot, sequence, wall_ns, rssi, in_sync, saturated, number in zip(*columns, strict=True):
        mote = _mote(summary, source)
        _count_message(mote, wall_ns)
        mote.saturated += saturated
        mote.out_of_sync += not in_sync
        if number is None:
            _count_stray(numbers, (source, boot))
        else:
            _count_number(numbers, (source, boot), sequence)
        if rssi is not None:
            strength[source].append(rssi)
    copies = reading.data["source"][reading.fates[reading.places] == Fate.DUPLICATE]
    for source, count in zip(*np.unique(copies, return_counts=True), strict=True):
        _mote(summary, int(source)).duplicates += int(count)


def _count_untimed(summary: Summary, reading: Projection, numbers: Numbers) -> None:
    """Count what came before the time was known: out of sync, as it was when it was listened to."""
    for at in np.flatnonzero(reading.fates[reading.places] == Fate.UNTIMED).tolist():
        told, row = reading.data[at], reading.places[at]
        mote = _mote(summary, int(told["source"]))
        _count_message(mote, int(reading.frames.head["wall_ns"][row]))
        mote.out_of_sync += 1
        mote.saturated += bool(told["saturated"])
        boot = mote.mote, int(told["boot"])
        if reading.strays[at]:
            _count_stray(numbers, boot)
        else:
            _count_number(numbers, boot, int(reading.decided["sequence"][row]))


def _sum_values(summary: Summary, reading: Projection, deployment: Deployment) -> None:
    source = reading.messages["source"].to_numpy()
    for value in deployment.data:
        numbers = value_of(reading.messages["values"], value.name).to_numpy()
        for mote in np.unique(source).tolist():
            known = _mote(summary, mote).values.setdefault(value.name, ValueSummary())
            known.add(numbers[source == mote])


def _finish(summary: Summary, numbers: Numbers, strength: dict[int, list[int]]) -> None:
    for (source, _), (first, last, count) in numbers.items():
        mote = _mote(summary, source)
        mote.boots += 1
        mote.lost += max(0, last - first + 1 - count)
    for source, values in strength.items():
        _mote(summary, source).rssi = float(np.mean(values))
    for mote in summary.motes.values():
        seconds = (mote.last_wall_ns - mote.first_wall_ns) / SECOND
        mote.per_minute = (mote.messages - 1) * 60 / seconds if seconds > 0 else None
    for line in summary.lines.values():
        line.per_second = line.frames * SECOND / summary.span_ns if summary.span_ns else None
    summary.motes = dict(sorted(summary.motes.items()))
    summary.lines = dict(sorted(summary.lines.items()))
