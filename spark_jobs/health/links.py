"""`links`: how well each mote and each link to a gateway worked over time.

A mote numbers its messages, so the missing ones are known: the numbers between two that came in the same life (from one
boot to the next). They count in the window in which the next message came. Messages before a life's first or after its
last arrival can't be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from packet_formats.deployment import CRYSTAL_HZ, Deployment
from spark_jobs.engine import EngineOptions
from spark_jobs.session import JobError
from spark_jobs.tables.stored import StoredRun, over_runs

WINDOW_S = 600
COLUMNS = (
    "fate", "line", "wall_ns", "heard", "source", "life", "sequence", "gateway", "rssi", "lqi",
)  # fmt: skip
FIRST = ("message", "untimed")  # fates of a message that was not there before

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOTES = pa.schema(
    [
        ("start", pa.float64()),  # seconds, of the wall clock where there is one, else of the network's
        ("mote", pa.int64()),
        ("received", pa.int64()),
        ("lost", pa.int64()),
        ("delivery", pa.float64()),
        ("copies", pa.int64()),
        ("bursts", pa.int64()),  # of messages lost one after another
        ("longest_burst", pa.int64()),
        ("reboots", pa.int64()),
        ("rssi", pa.float64()),
    ]
)
LINKS = pa.schema(
    [
        ("start", pa.float64()),
        ("mote", pa.int64()),
        ("gateway", pa.int64()),  # null: not known, there was no heard record
        ("line", pa.int64()),
        ("frames", pa.int64()),
        ("messages", pa.int64()),
        ("delivery", pa.float64()),  # of all that the mote is known to have sent in this window
        ("rssi", pa.float64()),
        ("rssi_least", pa.float64()),
        ("rssi_most", pa.float64()),
        ("lqi", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The frames of data messages, in order of arrival. Unknown values: gateway -1, rssi and lqi NaN."""

    at: Floats  # seconds
    first: NDArray[np.bool_]
    mote: Ints
    life: Ints
    sequence: Ints
    gateway: Ints
    line: Ints
    rssi: Floats
    lqi: Floats


def seen_in(frames: pa.Table) -> Seen:
    """Read the data messages from rows of the table of frames."""
    named = frames.filter(frames["source"].is_valid())
    fates = named["fate"].combine_chunks().cast(pa.string()).to_pylist()
    return Seen(
        at=_times(named),
        first=np.array([fate in FIRST for fate in fates], np.bool_),
        **{name: _column(named, at, np.int64, -1) for name, at in
           (("mote", "source"), ("life", "life"), ("sequence", "sequence"), ("gateway", "gateway"), ("line", "line"))},
        **{name: _column(named, name, np.float64, np.nan) for name in ("rssi", "lqi")},
    )  # fmt: skip


def _times(rows: pa.Table) -> Floats:
    if rows["wall_ns"].null_count:
        return _column(rows, "heard", np.float64, np.nan) / CRYSTAL_HZ
    return _column(rows, "wall_ns", np.float64, np.nan) / 1e9


def _column(rows: pa.Table, name: str, kind: Any, absent: float) -> NDArray[Any]:
    values: NDArray[Any] = rows[name].cast(pa.from_numpy_dtype(kind), safe=False).fill_null(absent).to_numpy()
    return values


def health(seen: Seen, window_s: float) -> tuple[pa.Table, pa.Table]:
    """The tables of motes and of links, with a row for each window that has data."""
    known = ~np.isnan(seen.at)
    seen = _chosen(seen, known)
    window = np.floor(seen.at / window_s).astype(np.int64)
    motes = _Windows(seen.mote, window)
    firsts = np.flatnonzero(seen.first)
    lost, bursts, longest = _losses(seen, firsts, motes)
    received = motes.count(firsts)
    table = pa.table(
        {
            "start": motes.keys[1] * window_s,
            "mote": motes.keys[0],
            "received": received,
            "lost": lost,
            "delivery": _ratio(received, received + lost),
            "copies": motes.count(np.flatnonzero(~seen.first)),
            "bursts": bursts,
            "longest_burst": longest,
            "reboots": _reboots(seen, firsts, motes),
            "rssi": _nullable(motes.mean(seen.rssi)),
        },
        schema=MOTES,
    )
    return table, _links(seen, window, window_s, motes, received + lost)


def _chosen(seen: Seen, which: NDArray[Any]) -> Seen:
    return Seen(**{name: getattr(seen, name)[which] for name in Seen.__slots__})


class _Windows:
    """The rows grouped by keys: one group for each combination that occurs, in order."""

    def __init__(self, *keys: Ints) -> None:
        order = np.lexsort(keys[::-1])
        columns = np.stack(keys)[:, order]
        new = np.any(np.diff(columns, axis=1), axis=0)
        self.at = np.zeros(len(order), np.int64)
        self.at[order] = np.concatenate((np.zeros(min(len(order), 1), np.int64), np.cumsum(new)))
        self.keys = columns[:, np.flatnonzero(np.concatenate((np.ones(min(len(order), 1), np.bool_), new)))]
        self.size = self.keys.shape[1]

    def count(self, rows: Ints) -> Ints:
        return np.bincount(self.at[rows], minlength=self.size).astype(np.int64)

    def add(self, rows: Ints, values: Ints) -> Ints:
        return np.bincount(self.at[rows], values, self.size).astype(np.int64)

    def mean(self, values: Floats) -> Floats:
        """The mean of known values in each group; NaN if there are none."""
        known = np.flatnonzero(~np.isnan(values))
        count = np.bincount(self.at[known], minlength=self.size)
        total = np.bincount(self.at[known], values[known], self.size)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def extreme(self, values: Floats, best: Callable[..., Any], start: float) -> Floats:
        found = np.full(self.size, start)
        known = np.flatnonzero(~np.isnan(values))
        best.at(found, self.at[known], values[known])  # type: ignore[attr-defined]
        return np.where(np.isinf(found), np.nan, found)


def _losses(seen: Seen, firsts: Ints, motes: _Windows) -> tuple[Ints, Ints, Ints]:
    """The missing numbers, their bursts and the longest burst, each at the window of the next message."""
    order = firsts[np.lexsort((seen.sequence[firsts], seen.life[firsts], seen.mote[firsts]))]
    same = (np.diff(seen.mote[order]) == 0) & (np.diff(seen.life[order]) == 0)
    missing = np.where(same, np.diff(seen.sequence[order]) - 1, 0)
    gaps = np.flatnonzero(missing > 0)
    rows, lengths = order[gaps + 1], missing[gaps]
    longest = np.zeros(motes.size, np.int64)
    np.maximum.at(longest, motes.at[rows], lengths)
    return motes.add(rows, lengths), motes.count(rows), longest


def _reboots(seen: Seen, firsts: Ints, motes: _Windows) -> Ints:
    """The rise of each mote's boot count, at the window of its first message after it."""
    order = firsts[np.argsort(seen.mote[firsts], kind="stable")]
    life = seen.life[order].copy()
    for of_mote in np.split(life, np.flatnonzero(np.diff(seen.mote[order])) + 1):
        np.maximum.accumulate(of_mote, out=of_mote)  # a message of an older life may come later
    same = np.diff(seen.mote[order], prepend=-1) == 0
    rises = np.where(same, np.diff(life, prepend=0), 0)
    at = np.flatnonzero(rises > 0)
    return motes.add(order[at], rises[at])


def _links(seen: Seen, window: Ints, window_s: float, motes: _Windows, sent: Ints) -> pa.Table:
    """The table of links. A message counts in the window of its first copy, so that no link exceeds what was sent."""
    window = _first_windows(seen, window)
    links = _Windows(seen.mote, window, seen.gateway, seen.line)
    names = _Windows(links.at, seen.life, seen.sequence)
    messages = np.bincount(names.keys[0], minlength=links.size).astype(np.int64)
    of_mote = {(mote, at): number for number, (mote, at) in enumerate(motes.keys.T.tolist())}
    expected = np.array([sent[of_mote[mote, at]] for mote, at in links.keys[:2].T.tolist()], np.int64)
    return pa.table(
        {
            "start": links.keys[1] * window_s,
            "mote": links.keys[0],
            "gateway": pa.array(links.keys[2], mask=links.keys[2] < 0),
            "line": pa.array(links.keys[3], mask=links.keys[3] < 0),
            "frames": links.count(np.arange(len(seen.at))),
            "messages": messages,
            "delivery": _ratio(messages, expected),
            "rssi": _nullable(links.mean(seen.rssi)),
            "rssi_least": _nullable(links.extreme(seen.rssi, np.minimum, np.inf)),
            "rssi_most": _nullable(links.extreme(seen.rssi, np.maximum, -np.inf)),
            "lqi": _nullable(links.mean(seen.lqi)),
        },
        schema=LINKS,
    )


def _first_windows(seen: Seen, window: Ints) -> Ints:
    names = _Windows(seen.mote, seen.life, seen.sequence)
    first = np.full(names.size, -1, np.int64)
    rows = np.flatnonzero(seen.first)
    first[names.at[rows]] = window[rows]
    found = first[names.at]
    return np.where(found < 0, window, found)


def _ratio(part: Ints, whole: Ints) -> pa.Array:
    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


# ---- The job ----


def of_run(run: StoredRun, window_s: float) -> tuple[pa.Table, pa.Table]:
    seen = seen_in(run.all("frames", COLUMNS))
    check_motes(seen.mote, run.deployment, str(run.file("frames")))
    return health(seen, window_s)


def check_motes(mote: Ints, deployment: Deployment, where: str) -> None:
    strangers = mote[mote >= deployment.network.motes]
    if len(strangers):
        raise JobError(
            f"{where}: mote {strangers[0]}, but the deployment has {deployment.network.motes} motes"
        )


def links(
    runs: Sequence[StoredRun], options: EngineOptions, window_s: float = WINDOW_S
) -> tuple[list[tuple[StoredRun, tuple[pa.Table, pa.Table]]], dict[str, str]]:
    """The motes' and links' tables of each run, and the faults of the runs that have none."""
    return over_runs("links", options, lambda run: of_run(run, window_s), runs)


def tables_of(found: Sequence[tuple[StoredRun, tuple[pa.Table, pa.Table]]]) -> dict[str, pa.Table]:
    """The tables of all runs in one, with the names of site and run."""
    return {
        name: pa.concat_tables([_of(run, result[at]) for run, result in found])
        for at, name in enumerate(("motes", "links"))
    }


def _of(run: StoredRun, table: pa.Table) -> pa.Table:
    """The table with the run's names as its first columns."""
    for name, value in (("run", run.name), ("site", run.group.site)):
        table = table.add_column(0, name, pa.repeat(value, len(table)))
    return table


def summary(motes: pa.Table) -> dict[str, Any]:
    """The summary of a run over all windows."""
    total = {
        name: int(np.sum(motes[name].to_numpy()))
        for name in ("received", "lost", "copies", "bursts", "reboots")
    }
    sent = total["received"] + total["lost"]
    longest = max(motes["longest_burst"].to_pylist(), default=0)
    return total | {"longest_burst": longest, "delivery": total["received"] / sent if sent else None}
