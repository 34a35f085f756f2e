"""Reads a journal. Damage is reported to the caller, who decides what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from basestation.arrivals import Line, LineCount, PolicyChange
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment
from packet_formats.phrases import many
from packet_formats.schemes import refusal

from .record_format import (
    Damage,
    Header,
    JournalError,
    Record,
    RecordKind,
    Records,
    Scan,
    Walk,
    decode_header,
    encode_record,
    scan,
    walk_intact,
)

SUFFIX = ".cwj"
RUNS_NAMED = 5


@dataclass(frozen=True, slots=True)
class JournalSegment:
    """One file of a journal, read completely. `header` is None if it is damaged."""

    path: Path
    raw: bytes
    header: Header | None
    begin: int
    scan: Scan

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

    def __str__(self) -> str:
        return f"{self.path}: byte {self.at}: {self.reason} ({self.length} bytes passed over)"


Report = Callable[[JournalFault], None]


def read_segment(path: Path, walk: Walk = walk_intact) -> JournalSegment:
    raw = path.read_bytes()
    try:
        header, begin = decode_header(raw)
    except JournalError as error:
        raise JournalError(f"{path}: {error}") from None
    found = scan(raw, begin, walk)
    if header is None and found.damages and found.damages[0].at == 0:
        lost, *others = found.damages  # where the header was
        begin, found = lost.length, Scan(found.starts, others, found.end)
    return JournalSegment(path, raw, header, begin, found)


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
    return JournalFault(segment.path, at, len(encode_record(record)), str(error))


@dataclass(frozen=True, slots=True)
class Journal:
    """One run's journal, opened for reading. Its files are read one at a time, when needed."""

    folder: Path
    header: Header
    paths: tuple[Path, ...]

    @property
    def deployment(self) -> Deployment:
        if not self.header.deployment:
            raise JournalError(
                f"{self.folder}: written without a deployment; --deployment tells what the frames are"
            )
        return deployments.parse(self.header.deployment)

    def segments(self, report: Report) -> Iterator[JournalSegment]:
        for path in self.paths:
            segment = read_segment(path)
            for fault in faults_of(segment):
                report(fault)
            yield segment

    def records(self, report: Report) -> Iterator[Record]:
        for segment in self.segments(report):
            yield from segment.records

    def lines(self, report: Report) -> Iterator[tuple[Line, int | None]]:
        """The frames and gaps, each with the observer's clock at that time (in cycles), if noted."""
        for segment in self.segments(report):
            clocks = _clocks_in(segment)
            for record in segment.records:
                if (line := record.line()) is not None:
                    yield line, clocks.get(record.number)

    def steps(self, report: Report) -> Iterator[tuple[Line | LineCount | PolicyChange, int | None]]:
        """The same, with the changes of policy and the looks at a line's counters between them."""
        scheme = self.deployment.stamp.scheme
        for segment in self.segments(report):
            clocks = _clocks_in(segment)
            for at, record in zip(segment.scan.starts, segment.records, strict=True):
                if (line := record.line()) is not None:
                    yield line, clocks.get(record.number)
                    continue
                try:
                    if record.kind == RecordKind.POLICY:
                        yield _change_in(record, scheme)
                    elif record.kind == RecordKind.COUNTERS and (count := record.line_count()) is not None:
                        yield count, None
                except JournalError as error:
                    report(senseless(segment, at, record, error))


def _clocks_in(segment: JournalSegment) -> dict[int, int]:
    return {number: clock for number, clock, _ in segment.records.clocks().tolist()}


def _change_in(record: Record, scheme: str) -> tuple[PolicyChange, int | None]:
    """The change of policy in a record, if that policy can read the run's stamps: no other was ever made."""
    change, clock = record.change()
    if reason := refusal(change.policy, scheme):
        raise JournalError(f"a change to the policy {change.policy}, which {reason}")
    return change, clock


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
    raise JournalError(
        f"{folder}: none of its files has a header that can be read; `basestation log repair` gives them one"
    )


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
    try:
        return decode_header(raw)[0]
    except JournalError as error:
        raise JournalError(f"{path}: {error}") from None


def segment_paths(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob(f"[0-9]*{SUFFIX}")))


def find_journals(folder: Path) -> list[Path]:
    """The runs in a folder of logs, or the folder itself if it is a run."""
    if segment_paths(folder):
        return [folder]
    if not folder.is_dir():
        raise JournalError(f"{folder}: there is no such folder")
    return sorted(path for path in folder.iterdir() if path.is_dir() and segment_paths(path))
