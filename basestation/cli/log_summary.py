"""`basestation log summary`: one run in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from basestation.cli import common
from basestation.cli.log_runs import LogFaults, deployment_to_read, folder_argument, hole_lines, holes_as_json
from basestation.journal.reader import read_journal
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.summary import Summary
    from packet_formats.values import Value


@click.command(
    epilog=common.example(
        """
        basestation log summary logs/20250301T120000Z-1f2e3d
        basestation log summary logs/20250301T120000Z-1f2e3d --json
        """
    )
)
@folder_argument
@common.deployment_option(required=False)
@common.json_option
def summary(folder: Path, deployment: Path | None, as_json: bool) -> None:
    """Sum up one run: its motes, its gateways, gaps, rates and times.

    Where no MIC was checked, forged messages are counted as their motes': `log decide --key FILE` checks them.
    """
    from basestation.journal.summary import summarise

    journal = read_journal(folder)
    described = deployment_to_read(journal, deployment)
    found = summarise(journal, described)
    LogFaults().take_all(found)
    if as_json:
        common.emit_json(_plain(found))
        return
    if described is None:
        common.note(
            "the log has no deployment, so frames are counted but not read; give one with --deployment"
        )
    _show(found)
    if described is not None and described.data and found.motes:
        _show_values(found, described.data)


def _plain(found: Summary) -> dict[str, Any]:
    plain = asdict(found)
    del plain["remarks"]
    plain |= {"motes": list(plain["motes"].values()), "lines": list(plain["lines"].values())}
    return plain | holes_as_json(found.missing)


def _show(found: Summary) -> None:
    header, seconds = found.header, found.span_ns / 1e9
    common.out.print(f"run {header.run}" + (f" at {header.site}" if header.site else ""))
    common.out.print(
        f"{common.utc(found.first_wall_ns)} to {common.utc(found.last_wall_ns)} UTC, {seconds:.1f} s"
    )
    size = f"{found.bytes / 1e6:.1f} MB in {many(found.segments, 'segment')}"
    common.out.print(f"{many(found.records, 'record')}, {size}, {many(found.notes, 'note')}")
    for line in hole_lines(found.missing):
        common.out.print(line)
    _show_lines(found)
    if found.motes:
        _show_motes(found)


def _show_lines(found: Summary) -> None:
    numbers = ("frames", "a second", "gaps", "down s")
    table = common.table("gateway", "source", *numbers, "what they were", right=("gateway", *numbers))
    for line in found.lines.values():
        fates = ", ".join(f"{count} {fate.replace('_', ' ')}" for fate, count in line.fates.items())
        cells = [str(line.gateway), line.source, str(line.frames), _number(line.per_second), str(line.gaps)]
        table.add_row(*cells, f"{line.down_ns / 1e9:.1f}", fates)
    common.out.print(table)


def _show_motes(found: Summary) -> None:
    names = ("mote", "messages", "a minute", "lost", "copies", "boots", "rssi", "full", "no sync")
    table = common.table(*names, right=names)
    for mote in found.motes.values():
        table.add_row(
            *map(str, (mote.mote, mote.messages)),
            _number(mote.per_minute),
            *map(str, (mote.lost, mote.duplicates, mote.boots)),
            _number(mote.rssi),
            *map(str, (mote.saturated, mote.out_of_sync)),
        )
    common.out.print(table)
    common.out.print(
        "lost: numbers never seen. copies: the same message again. rssi: of who sent it last, which may be a relay. "
        "full: saturated stamps. no sync: sent or heard without network time.",
        style="dim",
    )


def _show_values(found: Summary, values: Sequence[Value]) -> None:
    """What each mote measured, the least, the mean and the most."""
    headings = [value.column for value in values]
    table = common.table("mote", *headings, right=("mote", *headings))
    for mote in found.motes.values():
        cells = []
        for value in values:
            told = mote.values.get(value.name)
            spread = (told.least, told.mean, told.most) if told and told.count else ()
            cells.append(" / ".join(map(value.digits, spread)))
        table.add_row(str(mote.mote), *cells)
    common.out.print(table)
    common.out.print("of each value: the least, the mean and the most.", style="dim")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
