"""Prints a comparison as tables at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from packet_formats.phrases import many

from .comparison import ComparisonRow

COLUMNS = (
    *("scheme", "bytes", "delivered", "mean", "any", "pairs", "hold", "p99", "gave up", "lost", "late"),
    *("concurrent", "us"),
)
LEGEND = (
    "bytes: of the stamp, beside source and sequence; mean (largest) if they vary; ! does not fit a 29-byte payload.",
    "Violations in % of messages delivered: mean (ACO's), any (messages in one), pairs. hold: ticks.",
    "gave up: messages delivered without a cause that they named. lost: discarded, or held for ever.",
    "concurrent: messages flagged so. us: microseconds of our Python per message, all motes together / the observer.",
)


def show(console: Console, found: Sequence[tuple[str | None, Sequence[ComparisonRow]]]) -> None:
    """A table for each network, or each run with its name."""
    for run, rows in found:
        if run is not None:
            console.print(f"run {run}", markup=False)
        console.print(about(rows[0]))
        console.print(_table(rows))
    console.print("\n".join(LEGEND), style="dim")


def about(row: ComparisonRow) -> str:
    """The network of a row, and how many messages it had, which is the same for all schemes."""
    place = row.place
    text = f"{place.motes} motes, epsilon {place.epsilon}, delta {place.delta}"
    text += "" if place.rate is None else f", rate {place.rate:g}, loss {place.loss:.0%}"
    left_out = f"; {many(row.unknown, 'message')} left out: nothing tells their causes" if row.unknown else ""
    return f"{text}: {row.messages} messages sent, {row.arrived} arrived{left_out}"


def _table(rows: Sequence[ComparisonRow]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column(COLUMNS[0], no_wrap=True)
    for name in COLUMNS[1:]:
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*cells(row))
    return table


def cells(row: ComparisonRow) -> list[str]:
    least, most = row.violations.percent(), (row.violations_most or row.violations).percent()
    return [
        row.scheme,
        f"{shown_bytes(row)}{'' if row.fits else '!'}",
        str(row.violations.delivered),
        *(_between(least[figure], most[figure]) for figure in ("mean", "any", "pairs")),
        f"{row.hold_mean:.1f}",
        f"{row.hold_p99:.0f}",
        str(row.gave_up),
        str(row.discarded + row.stuck),
        str(row.late),
        str(row.concurrent),
        f"{row.mote_us:.0f}/{row.observer_us:.0f}",
    ]


def shown_bytes(row: ComparisonRow) -> str:
    """The size of the stamp; the mean and the largest where it has a variable length."""
    return str(row.size) if row.mean_bytes == row.size else f"{row.mean_bytes:.1f} ({row.size})"


def _between(least: float, most: float) -> str:
    low, high = shown_percent(least), shown_percent(most)
    return low if low == high else f"{low}..{high}"


def shown_percent(value: float) -> str:
    """The percentage as text; a violation is never rounded down to nothing."""
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.01 else "<0.01"
