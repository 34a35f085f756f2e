"""Old runs are removed, so that a base station that runs for years does not fill its disk."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import locking
from .parquet_parts import PARTS
from .reader import find_journals, segment_paths
from .record_format import JournalError

DAY_S = 86_400
RUN_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")  # as `new_run_id` makes it: a run that was renamed is kept
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)(h|d|MB|GB|TB)")
_UNITS = {"h": 3600, "d": DAY_S, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LEAST = {"h": 3600, "d": 3600, "MB": 10**6, "GB": 10**6, "TB": 10**6}  # less would be a new run every moment
_OWN = re.compile(
    r"\d+\.(cwj|(\d+\.)?(torn|bad))|\.\d+\.[\w.]+\.new|\.?strays(\.new)?"
)  # files of a run, beside its lock
_OWN_PART = re.compile(r"\.?\d+\.parquet(\.\d+)?(\.bad)?")
SHARE = 0.9  # of the allowed size for closed runs; the running one takes the rest
PART = 20  # a run is closed when it has this part of the allowed size: some more is its table


@dataclass(frozen=True, slots=True)
class Keep:
    """How long, in seconds, or how much, in bytes, to keep; both may be given."""

    seconds: float | None = None
    size: int | None = None

    @property
    def run_size(self) -> int | None:
        """The bytes at which a new run begins, so that old runs can be removed."""
        return None if self.size is None else self.size // PART

    @property
    def run_seconds(self) -> float:
        """The age at which a new run begins."""
        return DAY_S if self.seconds is None else min(DAY_S, self.seconds)


def parse_keep(texts: Iterable[str]) -> Keep | None:
    """What `30d` and `20GB` mean together; `ValueError` if one means nothing."""
    seconds, size = None, None
    for text in texts:
        found = _AMOUNT.fullmatch(text)
        amount = float(found[1]) * _UNITS[found[2]] if found else 0
        if not found or amount < LEAST[found[2]]:
            raise ValueError(f"{text}: should be like 30d, 12h, 500MB or 20GB, and at least 1h or 1MB")
        if found[2] in "hd":
            seconds = amount
        else:
            size = int(amount)
    return None if seconds is None and size is None else Keep(seconds, size)


@dataclass(frozen=True, slots=True)
class ClosedRun:
    folder: Path
    ended: float  # the wall clock's seconds
    size: int


def closed_runs(logs: Path) -> list[ClosedRun]:
    """The runs that are neither being written nor renamed, the oldest first."""
    found = []
    for folder in find_journals(logs):
        with contextlib.suppress(OSError):  # somebody else removes it
            ours = RUN_NAME.fullmatch(folder.name) and folder != logs and not folder.is_symlink()
            segments = [path for path in segment_paths(folder) if _OWN.fullmatch(path.name)]
            if ours and segments and not locking.is_taken(folder):
                ended = max(path.stat().st_mtime for path in segments)
                found.append(ClosedRun(folder, ended, _size(folder)))
    return sorted(found, key=lambda run: run.ended)


def _size(folder: Path) -> int:
    return sum(
        os.lstat(Path(where) / name).st_size for where, _, names in os.walk(folder) for name in names
    )  # fmt: skip


def remove_old(logs: Path, keep: Keep, now: float | None = None) -> tuple[list[ClosedRun], list[str]]:
    """Remove the oldest closed runs until what is left may be kept: what was removed, and what could not be."""
    try:
        runs = closed_runs(logs)
    except (OSError, JournalError) as error:
        return [], [f"old runs could not be looked for: {error}"]
    before = (time.time() if now is None else now) - (keep.seconds or 0)
    total, removed, faults = sum(run.size for run in runs), [], []
    for run in runs:
        old = keep.seconds is not None and run.ended < before
        if not old and (keep.size is None or total <= SHARE * keep.size):
            continue
        try:
            whole = _remove(run.folder)
        except (OSError, JournalError) as error:
            faults.append(f"{run.folder} could not be removed: {getattr(error, 'strerror', None) or error}")
            continue
        if not whole:
            faults.append(f"{run.folder}: what is not of the run was left there")
        total -= run.size
        removed.append(run)
    return removed, faults


def _remove(folder: Path) -> bool:
    """Remove what a run has written, and its folder if nothing else is in it: whether that is so.

    Nobody begins to recover or repair it meanwhile: it is locked.
    """
    held = locking.take(folder)
    try:
        for path in list(_own_files(folder)):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it is not there, is a link, or holds something else
            (folder / PARTS).rmdir()
    except BaseException:
        locking.drop(held)
        raise
    locking.leave(held)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def _own_files(folder: Path) -> Iterator[Path]:
    """What a run has written, the records last: if that is interrupted, a whole journal is left, or its end."""
    parts = folder / PARTS
    if parts.is_dir() and not parts.is_symlink():
        yield from (path for path in parts.iterdir() if _OWN_PART.fullmatch(path.name))
    yield from sorted(path for path in folder.iterdir() if _OWN.fullmatch(path.name))
