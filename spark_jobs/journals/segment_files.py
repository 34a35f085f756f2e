"""Reads segment files from any byte on, and makes rows of their records, frames and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from basestation.journal.decision import Fate
from basestation.journal.frame_table import FRAMES, frame_rows, kind_column
from basestation.journal.merging import single
from basestation.journal.projection import project
from basestation.journal.reader import (
    HEADLESS,
    SUFFIX,
    fast_walk,
    misnamed,
    read_header,
    read_segment,
    salt_of,
    segment_paths,
)
from basestation.journal.record_format import HEAD, JournalError, RecordKind, Records, decode_header, scan
from basestation.journal.sidecar import DECISIONS, decisions_of
from basestation.traces.schema import LATER, bytes_array, messages_schema
from packet_formats import deployment as deployments
from spark_jobs.session import JobError
from spark_jobs.storage import path_of

ROWS = 1 << 16  # of a batch
RECORDS = pa.schema(
    [
        ("run", pa.string()),
        ("site", pa.string()),
        ("segment", pa.string()),  # the file
        ("number", pa.int64()),
        ("kind", pa.string()),
        ("line", pa.int32()),
        ("mono_ns", pa.int64()),
        ("wall_ns", pa.int64()),
        ("payload", pa.binary()),
    ]
)


WHERE = [pa.field("run", pa.string()), pa.field("site", pa.string())]
FRAME_ROWS = pa.schema([*WHERE, *FRAMES])
MESSAGE_ROWS = pa.schema(  # without the causal graph
    [*WHERE, *(field for field in messages_schema() if field.name not in ("causes", "sent", "vector", LATER))]
)
SCHEMAS = {"records": RECORDS, "frames": FRAME_ROWS, "messages": MESSAGE_ROWS}


def journal_folders(paths: Sequence[str | Path]) -> list[Path]:
    """The folders of all journals in these folders, at any depth. `JobError` for a place that does not exist."""
    found: dict[Path, None] = {}
    for place in map(path_of, paths):
        if not place.exists():
            raise JobError(f"{place}: there is no such folder")
        files = (
            [place]
            if place.suffix == SUFFIX
            else sorted(path for path in place.rglob(f"[0-9]*{SUFFIX}") if path.is_file())
        )
        files = [file for file in files if file.parent.name != DECISIONS]
        found |= dict.fromkeys(file.parent.resolve() for file in files)
    return list(found)


def described(folder: Path) -> tuple[str, str]:
    """The run and the site of a journal, from its first intact header."""
    why = f"{folder}: {HEADLESS}"
    for path in segment_paths(folder):
        try:
            if (header := read_header(path)) is not None:
                return header.run, header.site
        except JournalError as error:
            why = str(error)
    raise JobError(why)


def intact(path: Path, begin: int = 0, end: int | None = None, last: int = -1) -> tuple[Records, int, int]:
    """The intact records of a segment file between two bytes, those numbered up to `last` left out; the byte after the
    last of them, and its number."""
    with path.open("rb") as file:
        file.seek(begin)
        raw = file.read() if end is None else file.read(max(end - begin, 0))
    try:
        header, start = (None, 0) if begin else decode_header(raw)
        if header is not None and (why := misnamed(path, header)):
            raise JobError(f"{path}: {why}")
        salt = salt_of(path)
    except JournalError as error:
        raise JobError(str(error) if str(path) in str(error) else f"{path}: {error}") from None

    def walk(buffer: bytes, at: int, newest: int, salt: int) -> tuple[list[int], int, int]:
        return fast_walk()(buffer, at, max(newest, last), salt)

    found = scan(raw, start, walk, salt)
    records = Records.of(raw, found.starts)
    newest = int(records.head["number"][-1]) if len(records) else last
    return records, begin + found.end, newest


def record_batches(records: Records, run: str, site: str, segment: str) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(records), ROWS):
        some = Records(records.raw, records.head[at : at + ROWS], records.starts[at : at + ROWS])
        head, count = some.head, len(some)
        columns = [
            *(pa.array([word]).take(pa.array(np.zeros(count, np.int32))) for word in (run, site, segment)),
            head["number"].astype(np.int64),
            kind_column(head["kind"]),
            head["gateway"].astype(np.int32),
            head["mono_ns"].astype(np.int64),
            head["wall_ns"].astype(np.int64),
            bytes_array(*some.payloads()),
        ]
        yield pa.record_batch(columns, RECORDS)


def is_ended(path: Path) -> bool:
    """Whether a segment has its end mark, so that nothing is added to it."""
    return read_segment(path).scan.mark is not None


def behind_decisions(records: Records, begin: int, last: int) -> tuple[int, int]:
    """The byte after the last decision among records that were read from `begin` on, and its number: a frame behind it
    may still be undecided."""
    made = records.of_kind(RecordKind.DECISION)
    if not len(made):
        return begin, last
    end = int(made.starts[-1]) + HEAD.itemsize + int(made.head["length"][-1])
    return begin + end, int(made.head["number"][-1])


def projected_batches(
    records: Records, path: Path, run: str, site: str, table: str
) -> Iterator[pa.RecordBatch]:
    """The rows of frames or messages that records of a segment hold, by their decisions."""
    header = read_header(path)
    if header is None or not header.deployment:
        raise JobError(f"{path}: {HEADLESS if header is None else 'written without a deployment'}")
    decided = decisions_of(path, records)
    projected = project(records, deployments.parse(header.deployment), decided)
    if projected.count(Fate.UNDECIDED) and not header.decider and not len(decided):
        raise JobError(f"{path.parent}: {undecided(path.parent)}")
    rows = projected.messages if table == "messages" else frame_rows(single(records), projected, [run])
    yield from placed(rows, run, site, SCHEMAS[table])


def placed(rows: pa.Table, run: str, site: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows with their run and site."""
    for name, word in (("site", site), ("run", run)):
        rows = rows.add_column(0, name, pa.array([word]).take(pa.array(np.zeros(len(rows), np.int32))))
    yield from rows.select(schema.names).cast(schema).to_batches()


def undecided(run: object) -> str:
    return f"the log has no decisions: `basestation log decide {run}` makes them"
