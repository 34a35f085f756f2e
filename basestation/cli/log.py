"""`basestation log`: verify, repair, convert and sum up the logs of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from basestation.cli import common
from basestation.cli.log_check import decide, parts, repair, verify
from basestation.cli.log_convert import convert
from basestation.cli.log_runs import LogFaults, LogGroup, folder_argument, report_unreadable, try_each
from basestation.cli.log_summary import summary
from basestation.journal import locking
from basestation.journal.reader import JournalSegment, read_journal, read_segment
from basestation.journal.record_format import Ending


@click.group(
    cls=LogGroup,
    epilog=common.example(
        """
        basestation log list logs
        basestation log summary logs/20250301T120000Z-1f2e3d
        basestation log verify logs
        basestation log convert --to pcap -o run.pcap logs/20250301T120000Z-1f2e3d
        """
    ),
)
def command() -> None:
    """Verify, repair, convert and sum up the logs of runs.

    FOLDER is one run's log, or a folder with the logs of many.
    """


@click.command(
    "list",
    epilog=common.example(
        """
        basestation log list logs
        basestation log list logs --json | jq -r 'select(.state == "torn").folder'
        """
    ),
)
@folder_argument
@common.json_option
def list_(folder: Path, as_json: bool) -> None:
    """List the runs in FOLDER."""
    rows: list[dict[str, Any]] = []
    odd = try_each(folder, lambda path: rows.append(_listed(path)))
    if as_json:
        for row in rows:
            common.emit_json(row)
        report_unreadable(odd)
        return
    table = common.table("run", "site", "began (UTC)", "records", "MB", "state", right=("records", "MB"))
    for row in rows:
        megabytes = f"{row['bytes'] / 1e6:.1f}"
        table.add_row(
            row["run"],
            row["site"],
            common.utc(row["began_wall_ns"]),
            str(row["records"]),
            megabytes,
            row["state"],
        )
    common.out.print(table)
    report_unreadable(odd)


def _listed(path: Path) -> dict[str, Any]:
    journal = read_journal(path)
    journal.tell_remarks(LogFaults())
    last = read_segment(journal.paths[-1])
    records = last.header.first if last.header else 0
    if last.scan.starts:
        records = int(last.records.head["number"][-1]) + 1
    if last.scan.mark is not None:
        records = max(records, last.scan.mark.number)
    state = _state(path, last)
    return {
        "folder": str(path),
        "run": journal.header.run,
        "site": journal.header.site,
        "began_wall_ns": journal.header.started_wall_ns,
        "segments": len(journal.paths),
        "records": records,
        "bytes": sum(segment.stat().st_size for segment in journal.paths),
        "state": state,
    }


def _state(path: Path, last: JournalSegment) -> str:
    """How the run ended, if it has. A killed writer leaves its lock, and no end mark."""

    if locking.is_taken(path):
        return "being written"
    if last.torn:
        return "torn"
    unmarked = last.scan.mark is None or last.scan.mark.how != Ending.CLOSED
    return "interrupted" if unmarked or locking.was_interrupted(path) else "closed"


for _one in (list_, verify, repair, decide, parts, convert, summary):
    command.add_command(_one)
