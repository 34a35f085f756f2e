"""The health of a run that goes on: the windows of time that are open, and what later messages are compared with.

A window is final when it is over for some time. So the rows of open windows, and a few of each mote, are all that has
to be known of the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.analysis.columns import Ints, changes, column, filled
from basestation.analysis.links import SEEN, health, summary

OPEN_S = 60.0  # the least time for which a window stays open after its end
ALL = -(1 << 62)  # no window is older
NEVER = 1 << 62  # nor younger
LIFE = 40  # a message's name: its life, then so many bits of its number
ROWS = pa.schema(
    [
        ("at", pa.float64()), ("is_wall", pa.bool_()), ("first", pa.bool_()), ("mote", pa.int32()),
        ("name", pa.int64()), ("gateway", pa.int32()), ("line", pa.int32()), ("rssi", pa.float32()),
        ("lqi", pa.float32()),
    ]
)  # fmt: skip
Tables = tuple[pa.Table, pa.Table]
"""Of motes, and of links."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a run after some parts. `rows` are those of open windows, and of closed ones those that the
    next messages are compared with: the last of each mote, and its highest numbers."""

    rows: pa.Table = field(default_factory=ROWS.empty_table)
    run: str = ""  # as the parts say
    part: int = -1  # the number of the last one
    open: int = ALL  # the first window that is not final
    totals: dict[str, int] = field(default_factory=dict)  # of the final windows


def advance(state: State, messages: pa.Table, window_s: float) -> tuple[State, Tables, str]:
    """The state after these messages, the tables of all windows that were open, and what came late."""
    seen, told = seen_in(messages, state.rows), []
    at, oldest = column(seen, "at", np.float64), state.open * window_s
    if count := int(np.sum(at < oldest)):
        told.append(f"the clock was set back: {count} messages count in the oldest window that is open")
        at = np.where(at < oldest, oldest + window_s / 2, at)
        seen = seen.set_column(0, ROWS.field("at"), pa.array(at))
    if count := _stragglers(seen, state.rows.filter(pa.array(_window(state.rows, window_s) < state.open))):
        told.append(
            f"{count} messages came when their numbers were lost for good: they count as received and as lost"
        )
    rows = pa.concat_tables([state.rows, seen])
    now = replace(state, rows=rows)
    tables = opened(now, window_s)
    newest = float(column(rows, "at", np.float64).max(initial=oldest))
    final = max(state.open, int(np.floor((newest - max(window_s, OPEN_S)) / window_s)))
    over = summary(between(tables[0], state.open, final, window_s))
    kept = rows.filter(pa.array(_kept(rows, _window(rows, window_s) < final)))
    return replace(now, rows=kept, open=final, totals=added(state.totals, over)), tables, "; ".join(told)


def opened(state: State, window_s: float) -> Tables:
    """The tables of the open windows."""
    motes, links = health(named(state.rows), window_s)
    return between(motes, state.open, NEVER, window_s), between(links, state.open, NEVER, window_s)


def named(rows: pa.Table) -> pa.Table:
    """Rows of one run, as `links` counts them."""
    name, columns = column(rows, "name"), dict(zip(rows.column_names, rows.columns, strict=True))
    columns |= {"moment": rows["at"], "life": name >> LIFE, "sequence": name & ((1 << LIFE) - 1)}
    return filled(columns | {"site": "", "run": ""}, SEEN, len(rows))


def between(table: pa.Table, first: int, end: int, window_s: float) -> pa.Table:
    """The rows of windows from `first` on, before `end`."""
    window = np.rint(table["start"].to_numpy() / window_s)
    return table.filter(pa.array((window >= first) & (window < end)))


def added(one: dict[str, int], other: dict[str, Any]) -> dict[str, Any]:
    """The summary of two spans of time."""
    names = ("received", "lost", "copies", "bursts", "reboots")
    longest = max(one.get("longest_burst", 0), other["longest_burst"])
    return {name: one.get(name, 0) + other[name] for name in names} | {"longest_burst": longest}


def seen_in(messages: pa.Table, before: pa.Table) -> pa.Table:
    """The messages of a part. Each is there once: parts hold neither copies nor lines. The clock must be known."""
    messages = messages.filter(messages["wall_ns"].is_valid())
    mote = column(messages, "source")
    held = zip(before["mote"].to_pylist(), (column(before, "name") >> LIFE).tolist(), strict=True)
    life = lives(mote, column(messages, "boot", absent=0), dict(held))  # the last one stays
    columns = {"at": column(messages, "wall_ns") / 1e9, "is_wall": True, "first": True, "mote": mote}
    columns |= {"name": (life << LIFE) + column(messages, "sequence")}
    columns |= {name: messages[name] for name in ("gateway", "rssi", "lqi")}
    return filled(columns, ROWS, len(messages))


def lives(mote: Ints, boot: Ints, before: Mapping[int, int] | None = None) -> Ints:
    """Unwrap the boot counts (modulo 8) of each mote: up to four more is a later boot, else it is a straggler.

    `before` has the lives in which motes were.
    """
    found = np.zeros(len(mote), np.int64)
    order = np.argsort(mote, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(mote[order])) + 1):
        if len(rows):
            start = (before or {}).get(int(mote[rows[0]]), int(boot[rows[0]]))
            found[rows] = start + np.cumsum((np.diff(boot[rows], prepend=start) + 3) % 8 - 3)
    return found


def _window(rows: pa.Table, window_s: float) -> NDArray[Any]:
    return np.floor(column(rows, "at", np.float64) / window_s)


def _kept(rows: pa.Table, over: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows that are not over, and those that they or later ones are compared with.

    These are the last of each mote, the highest number of its two highest lives, and the one before each kept number.
    """
    mote, name = column(rows, "mote"), column(rows, "name")
    kept = ~over
    order = np.lexsort((name, mote))
    follows = ~_last_of(mote[order], name[order] >> LIFE)[:-1]
    kept[order[:-1][follows & ~over[order[1:]]]] = True
    order = order[over[order]]
    order = order[_last_of(mote[order], name[order] >> LIFE)]
    two = np.ones(len(order), np.bool_)
    two[:-2] = mote[order][:-2] != mote[order][2:]  # the second life after it is another mote's
    kept[order[two]] = True
    order = np.argsort(mote, kind="stable")
    kept[order[_last_of(mote[order])]] = True
    return kept


def _last_of(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are the last with their keys, if equal ones are together."""
    return changes(*(key[::-1] for key in keys))[::-1]


def _stragglers(seen: pa.Table, final: pa.Table) -> int:
    """How many messages have lower numbers than one of the same life in a final window."""
    both = pa.concat_tables([final, seen])
    mote, name = column(both, "mote"), column(both, "name")
    order = np.lexsort((name, name >> LIFE, mote))
    is_final = order < len(final)
    last = np.flatnonzero(_last_of(mote[order], name[order] >> LIFE))
    later = np.cumsum(is_final[::-1])[::-1]  # final ones from here on
    end = np.append(later, 0)[last + 1]
    return int(np.sum(~is_final & (later > np.repeat(end, np.diff(last, prepend=-1)))))
