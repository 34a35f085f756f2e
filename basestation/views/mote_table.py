"""The table of motes on the full screen: motes in trouble first, and as many columns as fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from basestation.live.counters import MoteView

COLOURS = ("cyan", "green", "yellow", "magenta", "bright_blue", "bright_red", "bright_green", "orange3")
COLUMNS = (
    *("mote", "name", "/s", "recv", "lost", "dup", "late", "held", "p95"),
    *("boot", "nosync", "sat", "mV", "duty", "hop", "rssi", "last", "state"),
)
# The columns to leave out when there is no room, the first one first.
DISPENSABLE = (
    "dup",
    "sat",
    "p95",
    "boot",
    "hop",
    "held",
    "late",
    "nosync",
    "mV",
    "duty",
    "recv",
    "/s",
    "name",
    "rssi",
)
LEFT = ("mote", "name", "state")
NAME_MOST = 10  # letters of a name
SIDE = 38  # characters that a table needs to stand beside another one
# A word for each kind of alarm of a mote, the gravest first.
STATES = {
    "mote": "silent",
    "layout": "layout?",
    "imitated": "imitated",
    "reboots": "reboots",
    "sync": "no time",
    "losing": "losing",
    "backlog": "backlog",
    "battery": "battery",
}
GRAVE = ("mote", "layout")


def colour(mote: int) -> str:
    return COLOURS[mote % len(COLOURS)]


def trouble(mote: MoteView) -> str:
    """The gravest alarm of a mote in a word; empty if it has none."""
    known = [word for kind, word in STATES.items() if kind in mote.alarms]
    return (known or [*mote.alarms, ""])[0]


def by_trouble(motes: Sequence[MoteView]) -> list[MoteView]:
    """First motes whose messages do not come or can't be read, then motes with other alarms, then all others."""
    return sorted(motes, key=lambda mote: (not _is_grave(mote), not mote.alarms, mote.mote))


def _is_grave(mote: MoteView) -> bool:
    return any(kind in mote.alarms for kind in GRAVE)


def sides(count: int, room: int, height: int) -> int:
    """How many tables stand side by side to show `count` motes."""
    return max(1, min(room // SIDE, -(-count // max(1, height - 1))))


def mote_table(
    motes: Sequence[MoteView], chosen: int | None, room: int, height: int, names: Mapping[int, str]
) -> Table:
    """The motes in this order, down and then right. `chosen` is marked; `names` has the names of some motes."""
    beside = sides(len(motes), room, height)
    each = -(-len(motes) // beside)
    rows = [_cells(mote, names.get(mote.mote, "")) for mote in motes]
    columns = _columns_for(rows, room // beside)
    grid = Table.grid(*["" for _ in range(beside)], padding=(0, 1, 0, 0))
    parts = [slice(each * number, each * (number + 1)) for number in range(beside)]
    grid.add_row(*(_part(motes[part], rows[part], columns, chosen) for part in parts))
    return grid


def _part(
    motes: Sequence[MoteView], rows: Sequence[dict[str, Text]], columns: Sequence[str], chosen: int | None
) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for mote, cells in zip(motes, rows, strict=True):
        style = "reverse" if mote.mote == chosen else "red" if _is_grave(mote) else ""
        table.add_row(*[cells[name] for name in columns], style=style)
    return table


def _columns_for(rows: Sequence[dict[str, Text]], room: int) -> list[str]:
    """The columns that fit, by importance, without empty ones."""
    widths = {name: 1 + max(len(name), *(len(cells[name]) for cells in rows), 0) for name in COLUMNS}
    for name, nothing in (("name", ""), ("duty", "-")):
        if all(cells[name].plain == nothing for cells in rows):
            del widths[name]
    for name in DISPENSABLE:
        if sum(widths.values()) <= room:
            break
        widths.pop(name, None)
    return list(widths)


def _cells(mote: MoteView, name: str) -> dict[str, Text]:
    health, wrong = mote.health, trouble(mote)
    cells = (
        Text(str(mote.mote), colour(mote.mote)),
        Text(name if len(name) <= NAME_MOST else f"{name[: NAME_MOST - 1]}…"),
        Text(f"{mote.rate:.1f}"),
        Text(str(mote.received)),
        _warn(mote.lost),
        Text(str(mote.duplicates)),
        _warn(mote.late),
        Text(str(mote.held)),
        Text(f"{mote.hold.p95:.0f}"),
        _warn(mote.reboots),
        _warn(mote.out_of_sync + mote.untimed),
        _warn(mote.saturated),
        _battery(mote),
        Text("-" if mote.duty is None else f"{100 * mote.duty:.2g}% {mote.duty_days:.0f}d"),
        Text("-" if health is None or health.distance is None else str(health.distance)),
        Text(shown_rssi(mote)),
        Text(shown_since(mote.silent_s)),
        Text(wrong or "ok", "yellow" if wrong else ""),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _battery(mote: MoteView) -> Text:
    """The battery's millivolts, and the days until 2.7 V if they are known."""
    millivolts = str((mote.health and mote.health.battery_mv) or "-")
    if mote.battery_days is None:
        return Text(millivolts)
    return Text(f"{millivolts} {mote.battery_days:.0f}d", "yellow")


def shown_rssi(mote: MoteView) -> str:
    """The signal strength at the gateway; r marks that of a relay, ? one that may be a relay's."""
    if mote.rssi is None:
        return "-"
    return f"{mote.rssi}{'?' if mote.relayed is None else 'r' if mote.relayed else ''}"


def shown_since(seconds: float) -> str:
    """A duration in four characters."""
    if seconds < 100:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 6000 else f"{seconds / 3600:.0f}h"


def _warn(count: int) -> Text:
    return Text(str(count), "yellow" if count else "")
