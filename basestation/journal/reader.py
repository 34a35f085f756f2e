"""Reads a journal. Damage is reported to the caller, who decides what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from basestation.arrivals import Line, LineCount, PolicyChange
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment, DeploymentError
from packet_formats.phrases import many
from packet_formats.schemes import refusal

from . import locking
from .decision import Noted
from .lost_salt import find_salt
from .record_format import (
    Damage,
    Ending,
    Header,
    JournalError,
    Record,
    RecordKind,
    Records,
    Scan,
    Walk,
    decode_header,
    encode_record,
    header_size,
    scan,
    walk_intact,
)

SUFFIX = ".cwj"
RUNS_NAMED = 5
HEADER_LIMIT = 1 << 24  # bytes of a header that are looked at


@dataclass(frozen=True, slots=True)
class JournalSegment:
    """One file of a journal, read completely. `header` is None if it is damaged."""

    path: Path
    raw: bytes
    header: Header | None
    begin: int
    scan: Scan
    salt: int  # its header's, or what its records tell

    @property
    def records(self) -> Records:
        return Records.of(self.raw, self.scan.starts)

    @property
    def torn(self) -> int:
        """The number of bytes after the last intact record."""
        return len(self.raw) - self.scan.end


@dataclass(frozen=True, slots=True)
class JournalFault:
    """A place in a journal that can't be read."""

    path: Path
    at: int
    length: int
    reason: str
    tail: bool = False  # behind the last whole record: the writer was interrupted there, or is at work
    intact: bool = False  # the bytes are as they were written, and mean nothing: no repair changes that

    def __str__(self) -> str:
        return f"{self.path}: byte {self.at}: {self.reason} ({self.length} bytes passed over)"


@dataclass(frozen=True, slots=True)
class JournalHole:
    """Records that are missing, written or not. `last` is None if their number is not known."""

    path: Path
    first: int
    last: int | None
    reason: str
    gone: bool = False  # with whole segments: copies of these bring them back

    @property
    def records(self) -> str:
        if self.last is None:
            return f"records from {self.first} on"
        return f"record {self.first}" if self.first == self.last else f"records {self.first} to {self.last}"

    def __str__(self) -> str:
        verb = (
            "may be missing"
            if self.last is None
            else "is missing"
            if self.first == self.last
            else "are missing"
        )
        return f"{self.path}: {self.records} {verb}: {self.reason}"


@dataclass(frozen=True, slots=True)
class JournalNote:
    """A remark on a journal that is not a fault."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


Finding = JournalFault | JournalHole | JournalNote
Report = Callable[[Finding], None]
HEADLESS = "none of its segments has a header that can be read; `basestation log repair` gives them one"
UNSAID = "the reason is not known"
UNMARKED = "no end mark: the run was interrupted, or its end was taken away"
CUT = "a repair found that its end had been cut off"


def read_segment(path: Path, walk: Walk = walk_intact, salt: int = 0) -> JournalSegment:
    """Read a segment file. If its header is damaged, `salt` is that of other segments of the run."""
    raw = path.read_bytes()
    try:
        header, begin = decode_header(raw)
    except JournalError as error:
        raise JournalError(f"{path}: {error}") from None
    if header is not None:
        salt = header.salt
        found = scan(raw, begin, walk, salt)
    else:
        found, salt = _without_header(raw, walk, salt)
    if header is None and found.damages and found.damages[0].at == 0:
        lost, *others = found.damages  # where the header was
        begin, found = lost.length, replace(found, damages=others)
    return JournalSegment(path, raw, header, begin, found, salt)


def _without_header(raw: bytes, walk: Walk, salt: int) -> tuple[Scan, int]:
    found = scan(raw, 0, walk, salt)
    if not found.starts and found.mark is None:
        salt = find_salt(raw, walk)
        found = scan(raw, 0, walk, salt)
    return found, salt


@cache
def fast_walk() -> Walk:
    """`walk_intact` compiled, where numba is installed. Loaded when first needed: numba takes half a second."""
    try:
        from .walking import walk_fast
    except ImportError:
        return walk_intact
    return walk_fast


def salt_of(path: Path) -> int:
    """The salt of a segment file's check sums."""
    header = read_header(path)
    return find_salt(path.read_bytes()) if header is None else header.salt


def faults_of(segment: JournalSegment) -> Iterator[JournalFault]:
    if segment.header is None:
        yield JournalFault(segment.path, 0, segment.begin, "the file's header is damaged")
    for damage in segment.scan.damages:
        yield _fault(segment.path, damage)
    if segment.torn:
        reason = "the bytes after the last intact record are no record: the writer was interrupted"
        yield JournalFault(segment.path, segment.scan.end, segment.torn, reason, tail=True)


def _fault(path: Path, damage: Damage) -> JournalFault:
    return JournalFault(path, damage.at, damage.length, damage.reason)


def senseless(segment: JournalSegment, at: int, record: Record, error: JournalError) -> JournalFault:
    """The fault of a record that is intact but has no valid content."""
    return JournalFault(segment.path, at, len(encode_record(record)), str(error), intact=True)


def foreign(segment: JournalSegment, run: str) -> JournalFault | None:
    """The fault of a segment that says itself that it is not of this run, or not the one that its name says."""
    if segment.header is None:
        return None
    if segment.header.run != run:
        reason = f"a segment of another run, {segment.header.run}"
        return JournalFault(segment.path, 0, len(segment.raw), reason)
    reason = misnamed(segment.path, segment.header)
    return JournalFault(segment.path, 0, len(segment.raw), reason, intact=True) if reason else None


def misnamed(path: Path, header: Header) -> str:
    """What is to be said of a segment file that has not the name of its number; empty if it has."""
    right = segment_name(header.segment)
    return "" if path.name == right else f"by its header it is {right}: a copy of that, or under a wrong name"


class Account:
    """Looks over the segments of a run, in order, for records that are not there."""

    def __init__(self) -> None:
        self.expected = 0  # the number of the next record
        self._segment = -1  # the number of the newest segment
        self._newest: JournalSegment | None = None

    @classmethod
    def of_last(cls, segment: JournalSegment) -> Account:
        """An account that only knows the last segment: what its `end` says holds for the run."""
        account = cls()
        for _ in account.add(segment):
            pass
        return account

    def add(self, segment: JournalSegment) -> Iterator[JournalHole]:
        """The holes before and in this segment."""
        records = segment.records
        numbers = np.concatenate(([self.expected - 1], records.head["number"].astype(np.int64)))
        gone = self._gone_before(segment)
        for at in np.flatnonzero(np.diff(numbers) > 1).tolist():
            first, last = int(numbers[at]) + 1, int(numbers[at + 1]) - 1
            if at == 0 and gone:
                yield JournalHole(segment.path, first, last, gone, gone=True)
                continue
            told = _why_lost(records.chosen(slice(at, at + 1)), first) or (at == 0 and self._open_before())
            yield JournalHole(segment.path, first, last, told or _why_damaged(segment, at))
        self.expected = max(self.expected, int(numbers[-1]) + 1)
        mark = segment.scan.mark
        if mark is not None and mark.number > self.expected:
            reason = _why_damaged(segment, len(records))
            yield JournalHole(segment.path, self.expected, mark.number - 1, reason)
            self.expected = mark.number
        self._newest = segment

    def _gone_before(self, segment: JournalSegment) -> str:
        """The segments that are not there, in words."""
        before = self._segment
        self._segment = before + 1 if segment.header is None else segment.header.segment
        missing = range(before + 1, self._segment)
        if not missing:
            return ""
        return (
            f"segment {missing[0]} is gone"
            if len(missing) == 1
            else f"segments {missing[0]} to {missing[-1]} are gone"
        )

    def _open_before(self) -> str:
        """Why the records before this segment are missing, if the one before it has no end."""
        newest = self._newest
        if newest is None or newest.scan.mark is not None:
            return ""
        return f"the end of {newest.path.name} is damaged or was cut off"

    def end(self) -> Iterator[JournalHole]:
        """The records missing at the end of a run that is not being written."""
        newest = self._newest
        if newest is None:
            return
        mark = newest.scan.mark
        if mark is None:
            yield JournalHole(newest.path, self.expected, None, UNMARKED)
        elif mark.how == Ending.GOES_ON:
            reason = f"segment {self._segment + 1} is gone, and whatever came after it"
            yield JournalHole(newest.path, self.expected, None, reason, gone=True)
        elif mark.how == Ending.CUT:
            yield JournalHole(newest.path, self.expected, None, CUT)


def _why_damaged(segment: JournalSegment, at: int) -> str:
    """Why records before the one at this place are missing: damage there, or a repair that cut them out."""
    starts = [0, *segment.scan.starts, len(segment.raw)]
    for damage in segment.scan.damages:
        if starts[at] < damage.at < starts[at + 1]:
            return f"damaged: {damage.reason}, at byte {damage.at}"
    if segment.header is None and at == 0:
        return "damaged, as the header before it is"
    kept = sorted(path.name for path in segment.path.parent.glob(f"{segment.path.stem}.*bad"))
    return f"damaged, and cut out by a repair: {', '.join(kept)} has the bytes" if kept else UNSAID


def _why_lost(after: Records, first: int) -> str:
    """The reason that a lost record gives for a hole from `first` up to it; empty if it gives none."""
    for record in after.of_kind(RecordKind.LOST):
        with contextlib.suppress(JournalError):
            count, reason = record.lost()
            if record.number - count == first:
                return reason
    return ""


@dataclass(frozen=True, slots=True)
class Journal:
    """One run's journal, opened for reading. Its files are read one at a time, when needed."""

    folder: Path
    header: Header
    paths: tuple[Path, ...]

    @property
    def deployment(self) -> Deployment:
        if not self.header.deployment:
            why = (
                "its deployment was lost with its header"
                if self.header.rebuilt
                else "written without a deployment"
            )
            raise JournalError(f"{self.folder}: {why}; --deployment tells what the frames are")
        try:
            return deployments.parse(self.header.deployment)
        except (DeploymentError, RecursionError) as error:
            raise JournalError(
                f"{self.folder}: its deployment can't be read: {error}; --deployment gives another"
            ) from None

    def check_policy(self, deployment: Deployment) -> None:
        """`JournalError` if the run's policy is not known here, or can't read the stamps of this deployment."""
        policy = self.header.policy
        if policy and (reason := refusal(policy, deployment.stamp.scheme)):
            raise JournalError(f"{self.folder}: its policy {policy} {reason}")

    def tell_remarks(self, report: Report) -> None:
        """Say what is not understood of the header."""
        if text := unknown_keys(self.header):
            report(JournalNote(self.folder, text))

    def segments(self, report: Report) -> Iterator[JournalSegment]:
        """The segments of the run. What can't be read, what is missing and what is not understood is reported."""
        being_written = locking.is_taken(self.folder)
        self.tell_remarks(report)
        account = Account()
        for path in self.paths:
            segment = read_segment(path, salt=self.header.salt)
            if (other := foreign(segment, self.header.run)) is not None:
                report(other)
                continue
            for fault in faults_of(segment):
                report(fault)
            for hole in account.add(segment):
                report(hole)
            yield segment
        if not being_written:
            for hole in account.end():
                report(hole)

    def records(self, report: Report) -> Iterator[Record]:
        for segment in self.segments(report):
            yield from segment.records

    def lines(self, report: Report) -> Iterator[tuple[Line, Noted | None]]:
        """The frames and gaps, each with what the log notes of it for a replay."""
        for segment in self.segments(report):
            noted = segment.records.noted()
            for record in segment.records:
                if (line := record.line()) is not None:
                    yield line, noted.get(record.number)

    def steps(
        self, report: Report, deployment: Deployment | None = None
    ) -> Iterator[tuple[Step, Noted | None]]:
        """The same, with the changes of policy and the looks at a line's counters between them. A deployment is given
        where the log's own is not to be read."""
        scheme = (deployment or self.deployment).stamp.scheme
        for segment in self.segments(report):
            for _, step, noted in steps_in(segment, scheme, report):
                yield step, noted


Step = Line | LineCount | PolicyChange


def steps_in(
    segment: JournalSegment, scheme: str, report: Report
) -> Iterator[tuple[Record, Step, Noted | None]]:
    """The records of a segment that a station takes, what they mean to it, and what the log notes for a replay."""
    noted = segment.records.noted()
    for at, record in zip(segment.scan.starts, segment.records, strict=True):
        if (line := record.line()) is not None:
            yield record, line, noted.get(record.number)
            continue
        try:
            if record.kind == RecordKind.POLICY:
                yield record, *_change_in(record, scheme)
            elif record.kind == RecordKind.COUNTERS and (count := record.line_count()) is not None:
                yield record, count, None
        except JournalError as error:
            report(senseless(segment, at, record, error))


def _change_in(record: Record, scheme: str) -> tuple[PolicyChange, Noted]:
    """The change of policy in a record, if that policy can read the run's stamps: no other was ever made."""
    change, clock = record.change()
    if reason := refusal(change.policy, scheme):
        raise JournalError(f"a change to the policy {change.policy}, which {reason}")
    return change, Noted(clock)


def unknown_keys(header: Header) -> str:
    """What is to be said of the keys that a later version put into a header; empty if there are none."""
    if not header.more:
        return ""
    return f"its header has keys of a later version, which are passed over: {', '.join(sorted(header.more))}"


def read_journal(folder: Path) -> Journal:
    """Open one run's journal, which may be the only one in this folder; `JournalError` if there is none."""
    paths = segment_paths(folder)
    if not paths:
        runs = find_journals(folder) if folder.is_dir() else []
        if len(runs) == 1:
            return read_journal(runs[0])
        raise JournalError(f"{folder}: {_why_none(folder)}")
    for path in paths:
        header = read_header(path)
        if header is not None:
            return Journal(folder, header, paths)
    raise JournalError(f"{folder}: {HEADLESS}")


def _why_none(folder: Path) -> str:
    if folder.is_file():
        return "a file: a journal is a folder"
    if not folder.exists():
        return "there is no such folder"
    runs = find_journals(folder)
    if not runs:
        return f"no journal and no run in it: no {SUFFIX} file{deeper_runs(folder)}"
    return f"holds {many(len(runs), 'run')}, name one: {_named([run.name for run in runs])}"


def deeper_runs(folder: Path) -> str:
    """A clause that names the runs one level deeper than we look for them; empty if there is none."""
    runs = sorted({path.parent for path in folder.glob(f"*/*/[0-9]*{SUFFIX}")})
    return f"; there is {_named(list(map(str, runs)))}" if runs else ""


def _named(runs: list[str]) -> str:
    return ", ".join(runs[:RUNS_NAMED]) + (", ..." if len(runs) > RUNS_NAMED else "")


def read_header(path: Path) -> Header | None:
    with path.open("rb") as file:
        raw = file.read(1 << 16)
        if len(raw) < header_size(raw) <= HEADER_LIMIT:
            raw += file.read(header_size(raw) - len(raw))
    try:
        return decode_header(raw)[0]
    except JournalError as error:
        raise JournalError(f"{path}: {error}") from None


def segment_name(number: int) -> str:
    return f"{number:06}{SUFFIX}"


def segment_paths(folder: Path) -> tuple[Path, ...]:
    """The files of a run, in order. Anything but a file, such as a pipe, is ignored."""
    return tuple(sorted(path for path in folder.glob(f"[0-9]*{SUFFIX}") if path.is_file()))


def find_journals(folder: Path) -> list[Path]:
    """The runs in a folder of logs, or the folder itself if it is a run."""
    if segment_paths(folder):
        return [folder]
    if not folder.is_dir():
        raise JournalError(f"{folder}: there is no such folder")
    return sorted(path for path in folder.iterdir() if path.is_dir() and segment_paths(path))
