"""`basestation log verify`, `repair`, `decide` and `parts`: check a log, repair it, decide frames, make parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common
from basestation.cli.log_runs import (
    FAULTS_SHOWN,
    LogFaults,
    each_run,
    folder_argument,
    hole_lines,
    holes_as_json,
)
from basestation.cli.progress import progress
from basestation.journal import locking
from basestation.journal.reader import UNMARKED, Finding, Journal, JournalHole, read_journal
from basestation.journal.record_format import VERSION, Ending, JournalError
from basestation.journal.sidecar import faults_in
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.recovery import Recovery
    from basestation.journal.summary import Summary
    from packet_formats.deployment import Deployment


@click.command(epilog=common.example("basestation log verify logs"))
@folder_argument
@click.option(
    "--again", is_flag=True, help="Decide every frame again, and compare with the decisions in the log."
)
@common.deployment_option(required=False)
@common.key_option(beside=False)
@common.json_option
def verify(folder: Path, again: bool, deployment: Path | None, key: Path | None, as_json: bool) -> None:
    """Check every byte of the logs in FOLDER, and whether all records are there. Nothing is changed.

    The exit code is 1 if anything can't be read, or if records, segments or the end are missing. A run that is being
    written may end in half a record. With --again the exit code is also 1 if a decision in the log differs from the
    decision that this version makes; for a network with a key that needs --key FILE.
    """
    found: list[Summary] = []
    damaged: list[str] = []
    each_run(folder, lambda path: damaged.extend(faults_in(read_journal(path).paths)))
    for line in damaged[:FAULTS_SHOWN]:
        common.note(line)
    each_run(folder, lambda path: found.append(_verify(path, as_json)))
    if again:
        each_run(folder, lambda path: _verify_again(path, deployment, key, as_json))
    faults = [fault for summary in found for fault in summary.faults]
    if any(not fault.intact for fault in faults):
        common.fail("not everything can be read; basestation log repair moves the damage aside")
    if faults:
        common.fail("not everything can be read, and repair cannot help: the bytes are as they were written")
    if damaged:
        common.fail("the decisions beside the log are damaged: basestation log decide makes them again")
    if holes := [hole for summary in found for hole in summary.missing]:
        common.fail(f"not everything is there; {_cure(holes)}")


def _cure(holes: Sequence[JournalHole]) -> str:
    """What the user can do about holes."""
    if any(hole.gone for hole in holes):
        return "restore the missing segments from a copy: only a copy has their records"
    if any(hole.reason == UNMARKED for hole in holes):
        return "basestation log repair marks the end; the missing records are lost"
    return "the missing records are lost"


def _verify(path: Path, as_json: bool) -> Summary:
    from basestation.journal.summary import summarise

    live = locking.is_taken(path)
    summary = summarise(journal := read_journal(path), _own_deployment(journal))
    summary.faults = [fault for fault in summary.faults if not (live and fault.tail)]
    faults = LogFaults()
    faults.take_all(summary)
    if as_json:
        common.emit_json(
            {
                "folder": path,
                "run": summary.header.run,
                "format": VERSION,
                "records": summary.records,
                "segments": summary.segments,
                "undecided": summary.undecided,
                **holes_as_json(summary.missing),
                "faults": [asdict(fault) for fault in summary.faults],
                "end": _end(summary, live),
                "being_written": live,
            }
        )
        return summary
    common.echo(
        f"{path}: {many(summary.records, 'record')} in {many(summary.segments, 'segment')}, "
        f"{_end(summary, live)}: {faults.lacks or 'all is there'}"
    )
    for line in hole_lines(summary.missing):
        common.echo(line)
    if summary.undecided:
        common.echo(
            f"  {many(summary.undecided, 'frame')} undecided: `basestation log decide {path}` decides all"
        )
    return summary


def _own_deployment(journal: Journal) -> Deployment | None:
    """A log's own deployment; None if there is none that can be read."""
    try:
        return journal.deployment if journal.header.deployment else None
    except JournalError:
        return None


def _verify_again(path: Path, deployment: Path | None, key: Path | None, as_json: bool) -> None:
    from basestation.live.deciding import again, refuse_without_key

    journal = read_journal(path)
    described = common.deployment_of(journal, deployment, key)
    refuse_without_key(journal, described)
    found = again(journal, described, lambda fault: None)
    for line in found.differing[:FAULTS_SHOWN]:
        common.note(line)
    counts = {"decisions": found.decisions, "undecided": found.undecided, "differing": len(found.differing)}
    if as_json:
        common.emit_json({"folder": path, "run": journal.header.run, **counts})
    else:
        common.echo(
            f"{path}: {many(found.decisions, 'decision')} made again, {len(found.differing)} differ, "
            f"{many(found.undecided, 'frame')} undecided"
        )
    if found.differing:
        raise JournalError(
            f"{path}: decisions in the log differ: they were made by other rules (decider {journal.header.decider}), "
            "with another deployment or key, or from records that the log has lost since; where only the rules "
            "changed, `basestation log decide` makes them again"
        )


@click.command(
    epilog=common.example(
        """
        basestation log decide logs/20250301T120000Z-1f2e3d
        basestation log decide logs --key site.key
        """
    )
)
@folder_argument
@common.deployment_option(required=False)
@common.key_option(beside=False)
@common.json_option
def decide(folder: Path, deployment: Path | None, key: Path | None, as_json: bool) -> None:
    """Decide every frame of the logs in FOLDER by this version's rules, and keep the decisions beside the log.

    For logs of older versions, for another deployment, and for a network whose key was missing: the station replays the
    log and writes RUN/decisions. Tables, summaries and conversions use these from then on. The log itself stays
    unchanged; to go back, remove RUN/decisions.
    """
    from basestation.live import deciding

    def work(path: Path) -> None:
        journal = read_journal(path)
        described = common.deployment_of(journal, deployment, key)
        with progress(len(journal.paths), "deciding") as advance:
            count = deciding.decide(journal, described, LogFaults(), advance)
        if described.security.mic and described.key is None:
            common.note(f"{path}: no MIC was checked: --key FILE names the network's key")
        if as_json:
            common.emit_json({"folder": path, "run": journal.header.run, "decisions": count})
        else:
            common.echo(f"{path}: {many(count, 'decision')} made")

    each_run(folder, work)


ENDS: dict[int, str] = {
    Ending.GOES_ON: "its last segment missing",
    Ending.CLOSED: "closed",
    Ending.INTERRUPTED: "interrupted",
    Ending.CUT: "its end cut off",
}


def _end(summary: Summary, live: bool) -> str:
    """How the run ended."""
    if live:
        return "being written"
    if summary.end is None:
        return "without an end mark"
    return ENDS.get(summary.end.how, "ended in a way that this version does not know")


@click.command(epilog=common.example("basestation log repair logs/20250301T120000Z-1f2e3d"))
@folder_argument
def repair(folder: Path) -> None:
    """Make the logs in FOLDER readable again, without the damaged bytes.

    Damaged bytes are moved to files of their own: the torn end of a log (.torn), or a whole segment that is damaged or
    belongs to another run (.bad). The Parquet part of a changed segment is moved, too, since it may hold messages that
    the log has lost; `basestation log parts` makes a new one. Nothing is deleted. Missing records stay missing: they
    are listed, and the exit code is 1.
    """
    from basestation.journal.recovery import repair as repair_journal

    incomplete: list[Path] = []
    misplaced: list[Path] = []

    def work(path: Path) -> None:
        recovery = repair_journal(path)
        common.echo(f"{path}: {'; '.join(_repaired(path, recovery)) or 'nothing to repair'}")
        if any(fault.intact for fault in recovery.faults):
            misplaced.append(path)
        holes = _holes_left(path)
        for line in hole_lines(holes):
            common.echo(line)
        if holes:
            common.echo(f"{path}: {_cure(holes)}")
            incomplete.append(path)

    each_run(folder, work)
    if incomplete:
        common.fail(f"{many(len(incomplete), 'run')} can be read now, but not everything is there")
    if misplaced:
        common.fail("rename the files with wrong names, or remove those that are copies")


def _repaired(path: Path, recovery: Recovery) -> Iterator[str]:
    """What a repair did, in words."""
    from basestation.journal.parquet_parts import PARTS

    faults = LogFaults()
    for fault in recovery.faults:
        faults(fault)
    parts = [kept for kept in recovery.aside if kept.parent.name == PARTS]
    left = sum(fault.intact for fault in recovery.faults)
    if faults.count > left:
        aside = ", ".join(kept.name for kept in recovery.aside if kept not in parts)
        yield f"{many(faults.count - left, 'fault')} put aside in {aside}"
    if left:
        yield f"{many(left, 'file')} left under a wrong name"
    if recovery.marked:
        yield "its end marked"
    if parts:
        names = ", ".join(str(kept.relative_to(path)) for kept in parts)
        yield f"the messages made before put aside in {names}; basestation log parts makes new parts"


def _holes_left(path: Path) -> list[JournalHole]:
    faults: list[Finding] = []
    for _ in read_journal(path).segments(faults.append):
        pass
    return [fault for fault in faults if isinstance(fault, JournalHole)]


@click.command(
    epilog=common.example(
        """
        basestation log parts logs
        basestation log parts logs --again
        """
    )
)
@folder_argument
@click.option("--again", is_flag=True, help="Make all parts again, not only those that are missing.")
@common.deployment_option(required=False)
def parts(folder: Path, again: bool, deployment: Path | None) -> None:
    """Make the Parquet parts of all closed segments in FOLDER, as the base station decided on their frames."""
    from basestation.journal.parquet_parts import make_parts

    described = common.load_deployment(deployment) if deployment else None

    def make(path: Path) -> None:
        made = make_parts(path, LogFaults(), again=again, deployment=described)
        common.echo(f"{path}: {many(len(made), 'part')} made")

    each_run(folder, make)
