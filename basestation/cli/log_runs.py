"""What the commands of `log` share: the runs in a folder, one after the other, and the faults of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from basestation.cli import SuggestingGroup, common
from basestation.journal.reader import (
    Finding,
    Journal,
    JournalHole,
    JournalNote,
    deeper_runs,
    find_journals,
)
from basestation.journal.record_format import JournalError
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.summary import Summary
    from packet_formats.deployment import Deployment

FAULTS_SHOWN = 10
HOLES_SHOWN = 5
NOT_CHECKED = "no MIC was checked: `basestation log decide --key FILE` checks them"

folder_argument = click.argument("folder", type=click.Path(path_type=Path))


class LogGroup(SuggestingGroup):
    """A group whose commands end with one line if a log or a trace cannot be read."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except JournalError as error:
            common.fail(str(error))
        except ValueError as error:
            from basestation.traces.files import TraceError  # only now: pyarrow is slow to import

            if not isinstance(error, TraceError):
                raise
            common.fail(str(error))


def each_run(folder: Path, work: Callable[[Path], None]) -> None:
    """Do `work` for each run in a folder. A run that cannot be read is reported after all others are done."""
    report_unreadable(try_each(folder, work))


def try_each(folder: Path, work: Callable[[Path], None]) -> list[str]:
    """Do `work` for each run in a folder; return the errors of runs that cannot be read."""
    found = find_journals(folder)
    if not found:
        raise JournalError(f"{folder}: no logs in it{deeper_runs(folder)}")
    errors = []
    for path in found:
        try:
            work(path)
        except JournalError as error:
            errors.append(str(error))
    return errors


def report_unreadable(errors: list[str]) -> None:
    """End the command with a fault if there are errors."""
    if errors:
        for error in errors[:-1]:
            common.note(error, style="red")
        common.fail(errors[-1])


class LogFaults:
    """Reports the first faults and counts the others. Holes are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.holes: list[JournalHole] = []

    def __call__(self, fault: Finding) -> None:
        if isinstance(fault, JournalNote):
            common.note(str(fault))
            return
        if isinstance(fault, JournalHole):
            self.holes.append(fault)
            return
        self.count += 1
        if self.count <= FAULTS_SHOWN:
            common.note(str(fault))
        elif self.count == FAULTS_SHOWN + 1:
            common.note("more faults are counted and not shown")

    def take_all(self, summary: Summary) -> None:
        for remark in summary.remarks:
            self(remark)
        for fault in summary.faults:
            self(fault)
        self.holes += summary.missing

    @property
    def lacks(self) -> str:
        """What the log lacks, in words; empty if nothing."""
        lacking = []
        if known := sum(hole.last - hole.first + 1 for hole in self.holes if hole.last is not None):
            lacking.append(f"{many(known, 'record')} missing")
        if any(hole.last is None for hole in self.holes):
            lacking.append("its end missing")
        if self.count:
            lacking.append(f"{many(self.count, 'place')} that can't be read")
        return " and ".join(lacking)


def hole_lines(holes: Sequence[JournalHole]) -> Iterator[str]:
    """The first holes, a line each, and the number of the others."""
    yield from map(str, holes[:HOLES_SHOWN])
    if len(holes) > HOLES_SHOWN:
        yield f"and {many(len(holes) - HOLES_SHOWN, 'more hole')}"


def holes_as_json(holes: Sequence[JournalHole]) -> dict[str, Any]:
    return {"missing": [(hole.first, hole.last) for hole in holes], "holes": [asdict(hole) for hole in holes]}


def deployment_to_read(journal: Journal, path: Path | None) -> Deployment | None:
    """The deployment in a file, or in the log. A note says so if no MIC of the log was checked."""
    from basestation.journal.decision import MICS_UNCHECKED
    from basestation.journal.sidecar import decider_of

    deciders = map(decider_of, journal.paths)
    if any(decider is not None and decider.mics == MICS_UNCHECKED for decider in deciders):
        common.note(f"{journal.folder}: {NOT_CHECKED}")
    if path is not None:
        return common.load_deployment(path)
    return journal.deployment if journal.header.deployment else None
