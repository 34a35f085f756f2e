"""The log of a live run: recover earlier runs, begin this one, make its Parquet parts, remove old runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from basestation.journal.parquet_parts import PartRoller, make_parts
from basestation.journal.record_format import JournalError
from basestation.journal.recovery import Recovery, interrupted_runs, recover
from basestation.journal.retention import Keep, remove_old
from basestation.journal.run_roller import RunRoller
from basestation.journal.strays import StrayFile, known_after
from basestation.journal.writer import JournalWriter, new_run_id
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.writer import Sync
    from basestation.live.station import Station
    from basestation.sources import Source


def open_log(
    stack: contextlib.ExitStack,
    station: Station,
    sources: Sequence[Source],
    logs: Path,
    sync: Sync,
    keep: Keep | None,
    say: Callable[[str], None],
) -> JournalWriter | RunRoller:
    """The log of a run, in a new folder inside `logs`. The stack closes it. With `keep` a new run begins each day.

    Runs that were interrupted are recovered first. Notes for the user go to `say`.
    """
    _recover(logs, say)
    parts: dict[Path, PartRoller] = {}
    guard = station.timeline.guard
    if guard is not None:
        guard.remember(known_after(logs, station.deployment.to_toml()))

    def begin() -> JournalWriter:
        run = new_run_id()
        folder = logs / run
        parts[folder] = PartRoller(folder)
        log = JournalWriter(
            folder,
            station.deployment,
            run,
            sync,
            sources=[source.text for source in sources],
            policy=station.policy,
            phi=station.phi,
            tolerate=station.tolerate,
            allowance_ns=station.timeline.clock.allowance_ns,
            on_closed=parts[folder].closed,
        )
        if guard is not None:
            guard.on_stray = StrayFile(folder, guard.strays()).add
        say(f"the log is in {folder}")
        return log

    def after(ended: JournalWriter | None) -> None:
        if ended is not None:
            parts.pop(ended.folder).finish_apart()
        if keep is not None:
            _remove_old(logs, keep, say)

    counters = {gateway: source.counters for gateway, source in enumerate(sources)}
    log = begin() if keep is None else RunRoller(begin, keep, counters, after, say)
    stack.callback(lambda: _finish_parts(parts[log.folder], log.folder, say))
    stack.callback(log.close)
    return log


def _remove_old(logs: Path, keep: Keep, say: Callable[[str], None]) -> None:
    removed, faults = remove_old(logs, keep)
    if removed:
        size = sum(run.size for run in removed) / 1e6
        names = ", ".join(run.folder.name for run in removed)
        say(f"{many(len(removed), 'old run')} removed, {size:.0f} MB: {names}")
    for fault in faults:
        say(fault)


def _finish_parts(roller: PartRoller, folder: Path, say: Callable[[str], None]) -> None:
    """Make the last Parquet parts. A failure is only a note: the log can make them at any time."""
    try:
        roller.finish(lambda fault: say(str(fault)))
    except (JournalError, OSError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        say(f"parts were not made: {reason}; `basestation log parts {folder}` makes them")


def _recover(logs: Path, say: Callable[[str], None]) -> None:
    """Recover interrupted runs. A fault in one of them does not keep this run from starting."""
    for run in interrupted_runs(logs):
        try:
            say(_recovered(recover(run)))
            make_parts(run, lambda fault: say(str(fault)))
        except (JournalError, OSError) as error:
            say(f"an earlier run could not be recovered: {error}")


def _recovered(found: Recovery) -> str:
    torn = sum(fault.length for fault in found.faults if fault.tail)
    damaged = [fault for fault in found.faults if not fault.tail]
    text = f"{found.folder}: this run was interrupted; "
    text += f"{many(torn, 'byte')} of an unfinished record put aside" if torn else "all its records are whole"
    if damaged:
        text += f"; {many(len(damaged), 'damaged place')}, see `basestation log verify {found.folder}`"
    return text
