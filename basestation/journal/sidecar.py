"""Decisions beside a log, in `RUN/decisions`: those of the log itself stay as they were. Readers prefer these."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from packet_formats.deployment import Deployment

from .decision import DECIDER, Decider, Decision, mics_of
from .reader import JournalSegment, faults_of, read_header, read_segment
from .record_format import (
    Ending,
    JournalError,
    Record,
    RecordKind,
    Records,
    encode_header,
    encode_record,
    end_mark,
)
from .recovery import TEMPORARY, make_folder, sync_folder, write_whole

DECISIONS = "decisions"


def later_decisions(segment: Path) -> Path:
    """Where decisions on a segment's frames are that were made later, if they were."""
    return segment.parent / DECISIONS / segment.name


def decisions_path(segment: Path) -> Path:
    """Where the decisions on a segment's frames are: in the file beside it, or in itself."""
    later = later_decisions(segment)
    return later if later.is_file() else segment


def decisions_of(segment: Path, records: Records) -> NDArray[np.void]:
    """The decisions on the frames of a segment with these records, as rows of `DECISION`."""
    path = decisions_path(segment)
    return (records if path == segment else read_segment(path).records).decisions()


def decider_of(segment: Path) -> Decider | None:
    """Who decided on a segment's frames; None if the header that says so can't be read."""
    with suppress(JournalError):
        if (header := read_header(decisions_path(segment))) is not None:
            return Decider(header.decider, header.mics)
    return None


def faults_in(segments: Iterable[Path]) -> Iterator[str]:
    """What is damaged among the decisions beside these segments."""
    for later in filter(Path.is_file, map(later_decisions, segments)):
        try:
            yield from (f"{later}: {fault.reason}" for fault in faults_of(read_segment(later)))
        except (JournalError, OSError) as error:
            yield str(error)


@contextmanager
def new_sidecar(run: Path) -> Iterator[Path]:
    """A folder for the decisions of a whole run, which takes the place of the one before when all are written."""
    folder, made = run / DECISIONS, run / f".{DECISIONS}{TEMPORARY}"
    shutil.rmtree(made, ignore_errors=True)  # of a job that was interrupted
    make_folder(made)
    try:
        yield made
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
        sync_folder(run)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def write_decisions(
    folder: Path,
    segment: JournalSegment,
    decisions: Iterable[tuple[Record, Decision]],
    deployment: Deployment,
) -> None:
    """Write the decisions of a segment, each with its frame's number and times."""
    header = segment.header
    if header is None:
        raise JournalError(
            f"{segment.path}: the file's header is damaged; `basestation log repair` gives it one"
        )
    content = [encode_header(replace(header, decider=DECIDER, mics=mics_of(deployment)))]
    number, mono_ns, wall_ns = header.first, 0, 0
    for record, decision in decisions:
        number, mono_ns, wall_ns = record.number, record.mono_ns, record.wall_ns
        payload = decision.encode(number)
        kept = Record(number, RecordKind.DECISION, record.gateway, mono_ns, wall_ns, payload)
        content.append(encode_record(kept, segment.salt))
    content.append(end_mark(number + 1, Ending.CLOSED, mono_ns, wall_ns, segment.salt))
    mode = stat.S_IMODE(segment.path.stat().st_mode)
    write_whole(folder / segment.path.name, b"".join(content), mode)
