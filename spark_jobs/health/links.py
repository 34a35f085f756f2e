"""`links`: how well each mote and each link to a gateway worked over time. One mote of one run is one task.

A mote numbers its messages, so the missing ones are known: the numbers between two that came in the same life (from one
boot to the next). They count in the window in which the next message came. Messages before a life's first or after its
last arrival can't be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from packet_formats.deployment import CRYSTAL_HZ, Deployment
from spark_jobs.engine import Engine, Frame
from spark_jobs.session import JobError, note
from spark_jobs.tables.stored import Piece, StoredRun, names_of, pieces

WINDOW_S = 600
COLUMNS = (
    "fate", "line", "wall_ns", "heard", "source", "life", "sequence", "gateway", "rssi", "lqi",
)  # fmt: skip
FIRST = pa.array(["message", "untimed"])  # fates of a message that was not there before

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]

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
_NAMED = [pa.field("site", pa.string()), pa.field("run", pa.string())]
_UTC = pa.field("start_utc", pa.timestamp("us", "UTC"))  # null: only the network's time is known
TABLES = {
    "motes": pa.schema([*_NAMED, *MOTES, _UTC]),
    "links": pa.schema([*_NAMED, *LINKS, _UTC]),
    "fault": pa.schema([*_NAMED, ("fault", pa.string())]),
}
# The rows of all tables side by side, so that one pass over the frames makes them.
ROWS = pa.schema(
    [("table", pa.string()), *{item.name: item for table in TABLES.values() for item in table}.values()]
)
SLIM = pa.schema(
    [
        *_NAMED,
        *((name, pa.string() if name == "fate" else pa.int64()) for name in COLUMNS),
        ("fault", pa.string()),  # why a run can't be read, in a row of its own
    ]
)
NOBODY = -1  # the mote of a fault


@dataclass(frozen=True, slots=True)
class Seen:
    """The frames of data messages. Unknown values: gateway and line -1, rssi and lqi NaN.

    Their order does not matter: on Spark there is none.
    """

    at: Floats  # seconds
    first: NDArray[np.bool_]
    mote: Ints
    life: Ints
    sequence: Ints
    gateway: Ints
    line: Ints
    rssi: Floats
    lqi: Floats


# In memory, narrower than in the tables: there may be millions of one mote.
KINDS: dict[str, Any] = {
    "at": np.float64, "first": np.bool_, "mote": np.int32, "life": np.int32, "sequence": np.int64,
    "gateway": np.int32, "line": np.int16, "rssi": np.float32, "lqi": np.float32,
}  # fmt: skip


# ---- Frames in, tables out ----


def links(engine: Engine, frames: Frame, window_s: float = WINDOW_S) -> tuple[Frame, Frame]:
    """The tables of motes and of links, of frames with the columns `site`, `run` and `COLUMNS`."""
    named = engine.where(frames, "source", None)
    found = rows_of(engine, named.select(["site", "run", *COLUMNS]), window_s)
    motes, of_links = (
        engine.where(found, "table", name).select(TABLES[name].names) for name in ("motes", "links")
    )
    return motes, of_links


def rows_of(engine: Engine, frames: Frame, window_s: float) -> Frame:
    """The rows of all tables; a task has the frames of one mote of one run."""
    return engine.grouped(frames, ["site", "run", "source"], lambda rows: _of_mote(rows, window_s), ROWS)


def _of_mote(batches: Iterator[pa.RecordBatch], window_s: float) -> Iterator[pa.RecordBatch]:
    first = next(batches)
    named = {name: first.column(name)[0].as_py() for name in ("site", "run")}
    if first.column("source")[0].as_py() == NOBODY:
        why = first.column("fault").to_pylist()
        yield from _rows("fault", pa.table({"fault": why[:1]}), named, False)
        return
    seen, is_wall = seen_in(_also(first, batches))
    for name, table in zip(("motes", "links"), health(seen, window_s), strict=True):
        yield from _rows(name, table, named, is_wall)


def _also(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _rows(name: str, table: pa.Table, named: dict[str, str], is_wall: bool) -> Iterator[pa.RecordBatch]:
    count = len(table)
    columns = {"table": pa.repeat(name, count)} | {at: pa.repeat(text, count) for at, text in named.items()}
    columns |= {at: table[at] for at in table.column_names}
    if is_wall:
        columns["start_utc"] = utc_of(table["start"])
    arrays = [columns[item.name] if item.name in columns else pa.nulls(count, item.type) for item in ROWS]
    yield from pa.table(arrays, schema=ROWS).to_batches()


def utc_of(start: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.round(pc.multiply(start, 1e6)).cast(pa.int64()).cast(_UTC.type)


def seen_in(batches: Iterator[pa.RecordBatch]) -> tuple[Seen, bool]:
    """Read data messages from rows of the table of frames. Whether times are the wall clock's: if all have one."""
    found: dict[str, list[Any]] = {name: [] for name in [*KINDS, "wall_ns", "heard"]}
    is_wall = True
    for batch in batches:
        is_wall = is_wall and not batch.column("wall_ns").null_count
        for name in ("wall_ns", "heard"):
            found[name].append(column(batch, name, np.float64, np.nan))
        found["first"].append(pc.is_in(batch.column("fate").cast(pa.string()), FIRST).to_numpy(False))
        for name in ("source", *SAME):
            at = "mote" if name == "source" else name
            found[at].append(column(batch, name, KINDS[at], -1))
    found["at"] = found.pop("wall_ns" if is_wall else "heard")
    found.pop("heard", None)
    columns = {name: joined(found.pop(name), kind) for name, kind in KINDS.items()}
    columns["at"] /= 1e9 if is_wall else CRYSTAL_HZ
    return Seen(**columns), is_wall


SAME = ("life", "sequence", "gateway", "line", "rssi", "lqi")  # called the same in a table


def joined(parts: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *parts])


def column(rows: pa.RecordBatch | pa.Table, name: str, kind: Any, absent: float) -> NDArray[Any]:
    """A column as numbers of this kind; what is not known is `absent`, or not a number."""
    if np.issubdtype(kind, np.floating):
        absent = np.nan
    values = (
        rows.column(name)
        .cast(pa.from_numpy_dtype(kind), safe=False)
        .fill_null(pa.scalar(absent, pa.from_numpy_dtype(kind)))
    )
    found: NDArray[Any] = values.to_numpy() if isinstance(rows, pa.Table) else values.to_numpy(False)
    return found


# ---- Counting ----


def health(seen: Seen, window_s: float) -> tuple[pa.Table, pa.Table]:
    """The tables of motes and of links, with a row for each window that has data."""
    known = ~np.isnan(seen.at)
    if not known.all():
        seen = chosen_rows(seen, known)
    window = np.floor(seen.at / window_s).astype(np.int64)
    motes = Groups(seen.mote, window)
    keys = motes.keys
    firsts = np.flatnonzero(seen.first)
    received = motes.count(firsts)
    lost, bursts, longest = _losses(seen, firsts, motes)
    table = pa.table(
        {
            "start": keys[1] * window_s,
            "mote": keys[0],
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
    del motes
    return table, _links(seen, window, window_s, keys, received + lost)


def chosen_rows(seen: Seen, which: NDArray[Any]) -> Seen:
    return Seen(**{item.name: getattr(seen, item.name)[which] for item in fields(Seen)})


class Groups:
    """The rows grouped by keys: one group for each combination that occurs, in order."""

    def __init__(self, *keys: Ints) -> None:
        order = np.lexsort(keys[::-1])
        new = np.zeros(len(order), np.bool_)
        new[:1] = True
        for key in keys:
            ordered = key[order]
            new[1:] |= ordered[1:] != ordered[:-1]
        self._keys, self._starts = keys, order[new]
        group = np.cumsum(new, dtype=np.int32)
        group -= 1
        self.at = np.empty(len(order), np.int32)  # the group of each row
        self.at[order] = group
        self.size = len(self._starts)

    @property
    def keys(self) -> list[Ints]:
        """The keys of each group."""
        return [key[self._starts] for key in self._keys]

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


def _losses(seen: Seen, firsts: Ints, motes: Groups) -> tuple[Ints, Ints, Ints]:
    """The missing numbers, their bursts and the longest burst, each at the window of the next message."""
    order = firsts[np.lexsort((seen.sequence[firsts], seen.life[firsts], seen.mote[firsts]))]
    missing = np.diff(seen.sequence[order])
    missing -= 1
    for name in (seen.mote, seen.life):
        missing[np.diff(name[order]) != 0] = 0
    gaps = np.flatnonzero(missing > 0)
    rows, lengths = order[gaps + 1], missing[gaps]
    longest = np.zeros(motes.size, np.int64)
    np.maximum.at(longest, motes.at[rows], lengths)
    return motes.add(rows, lengths), motes.count(rows), longest


def _reboots(seen: Seen, firsts: Ints, motes: Groups) -> Ints:
    """The rise of each mote's boot count, at the window of its first message after it."""
    order = firsts[np.lexsort((seen.life[firsts], seen.at[firsts], seen.mote[firsts]))]
    mote, life = seen.mote[order], seen.life[order]
    rises = np.zeros(motes.size, np.int64)
    for rows in np.split(np.arange(len(order)), np.flatnonzero(np.diff(mote)) + 1):
        highest = np.maximum.accumulate(life[rows])  # a message of an older life may come later
        step = np.flatnonzero(np.diff(highest)) + 1
        np.add.at(rises, motes.at[order[rows[step]]], highest[step] - highest[step - 1])
    return rises


def _links(seen: Seen, window: Ints, window_s: float, of_motes: list[Ints], sent: Ints) -> pa.Table:
    """The table of links. A message counts in the window of its first copy, so that no link exceeds what was sent."""
    names = Groups(seen.mote, seen.life, seen.sequence)
    window = _first_windows(seen, window, names)
    links = Groups(seen.mote, window, seen.gateway, seen.line)
    messages = _distinct(links, names)
    del names
    mote, start, gateway, line = links.keys
    expected = sent[_places(of_motes, [mote, start])]
    return pa.table(
        {
            "start": start * window_s,
            "mote": mote,
            "gateway": pa.array(gateway, mask=gateway < 0),
            "line": pa.array(line, mask=line < 0),
            "frames": np.bincount(links.at, minlength=links.size),
            "messages": messages,
            "delivery": _ratio(messages, expected),
            "rssi": _nullable(links.mean(seen.rssi)),
            "rssi_least": _nullable(links.extreme(seen.rssi, np.minimum, np.inf)),
            "rssi_most": _nullable(links.extreme(seen.rssi, np.maximum, -np.inf)),
            "lqi": _nullable(links.mean(seen.lqi)),
        },
        schema=LINKS,
    )


def _distinct(groups: Groups, names: Groups) -> Ints:
    """How many different names each group has."""
    both = groups.at.astype(np.int64)
    both *= names.size
    both += names.at
    both.sort()
    new = np.ones(len(both), np.bool_)
    new[1:] = both[1:] != both[:-1]
    return np.bincount(both[new] // max(names.size, 1), minlength=groups.size)


def _first_windows(seen: Seen, window: Ints, names: Groups) -> Ints:
    first = np.full(names.size, -1, np.int64)
    rows = np.flatnonzero(seen.first)
    first[names.at[rows]] = window[rows]
    found = first[names.at]
    return np.where(found < 0, window, found)


def _places(known: list[Ints], wanted: list[Ints]) -> Ints:
    """Where the wanted pairs are among known ones, all of which are there."""
    both = Groups(*(np.concatenate(pair) for pair in zip(known, wanted, strict=True)))
    place = np.zeros(both.size, np.int64)
    count = len(known[0])
    place[both.at[:count]] = np.arange(count)
    return place[both.at[count:]]


def _ratio(part: Ints, whole: Ints) -> pa.Array:
    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


# ---- The job ----


def of_runs(
    engine: Engine, runs: Sequence[StoredRun], window_s: float
) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """The tables of stored runs, sorted, and what is wrong with the runs that are not in them."""
    tasks, faults = pieces(runs, "frames")
    found = engine.collect(rows_of(engine, engine.rows(_slim, tasks, SLIM), window_s))
    tables = {
        name: found.filter(pc.equal(found["table"], name)).select(schema.names)
        for name, schema in TABLES.items()
    }
    wrong = tables.pop("fault")
    faults |= dict(zip(wrong["run"].to_pylist(), wrong["fault"].to_pylist(), strict=True))
    for why in faults.values():
        note(why)
    sound = pa.array([run.name for run in runs if run.name not in faults], pa.string())
    order = [(name, "ascending") for name in ("site", "run", "mote", "start", "gateway", "line")]
    return {
        name: table.filter(pc.is_in(table["run"], sound)).sort_by(
            [item for item in order if item[0] in table.column_names]
        )
        for name, table in tables.items()
    }, faults


def _slim(piece: Piece) -> Iterator[pa.RecordBatch]:
    """The columns that are needed of a piece of a run. A fault is a row, so that other runs go on."""
    run = piece.run
    named = names_of(run)
    try:
        for batch in piece.batches(COLUMNS):
            rows = batch.filter(batch["source"].is_valid())
            check_motes(column(rows, "source", np.int64, -1), run.deployment, str(piece.path))
            columns = [pa.repeat(text, len(rows)) for text in named.values()]
            columns += [rows[item.name].cast(item.type) for item in SLIM if item.name in COLUMNS]
            yield from pa.table([*columns, pa.nulls(len(rows), pa.string())], schema=SLIM).to_batches()
    except JobError as error:
        fault = named | {"source": NOBODY, "fault": str(error)}
        yield from pa.Table.from_pylist([fault], schema=SLIM).to_batches()


def check_motes(mote: Ints, deployment: Deployment, where: str) -> None:
    strangers = mote[mote >= deployment.network.motes]
    if len(strangers):
        raise JobError(
            f"{where}: mote {strangers[0]}, but the deployment has {deployment.network.motes} motes"
        )


def of_run(table: pa.Table, run: str) -> pa.Table:
    return table.filter(pc.equal(table["run"], run))


def worst_lines(tables: dict[str, pa.Table], count: int) -> Iterator[str]:
    """The motes, links and times that lost the most, as lines of text, the worst first."""
    motes, of_links = tables["motes"], tables["links"]
    for title, table, keys in (
        ("mote", motes, ["site", "run", "mote"]),
        ("link", of_links, ["site", "run", "mote", "gateway"]),
        ("time", motes, ["site", "run", "start"]),
    ):
        yield f"{title:30} {'came':>10} {'lost':>10} {'delivery':>9}"
        for key, came, lost in worst(table, keys, count):
            yield f"{key:30} {came:>10} {lost:>10} {came / (came + lost):>9.1%}"


def worst(table: pa.Table, keys: list[str], count: int) -> Iterator[tuple[str, int, int]]:
    """What lost the largest share: its name, and how many messages came and did not."""
    of_motes = "received" in table.column_names
    came = column(table, "received" if of_motes else "messages", np.int64, 0)
    share = column(table, "delivery", np.float64, 0)
    lost = column(table, "lost", np.int64, 0) if of_motes else np.rint(came / np.where(came, share, 1) - came)
    time = "start" if table["start_utc"].null_count else "start_utc"
    named = table.select([time if key == "start" else key for key in keys])
    counted = named.append_column("came", pa.array(came)).append_column(
        "lost", pa.array(lost.astype(np.int64))
    )
    found = counted.group_by(named.column_names).aggregate([("came", "sum"), ("lost", "sum")])
    total = pc.add(found["came_sum"], found["lost_sum"])
    found = found.append_column("share", pc.divide(found["came_sum"].cast(pa.float64()), total))
    ranked = found.sort_by([("share", "ascending"), *((name, "ascending") for name in named.column_names)])
    for row in ranked.slice(0, count).to_pylist():
        yield " ".join(str(row[name]) for name in named.column_names), row["came_sum"], row["lost_sum"]


def summary(motes: pa.Table) -> dict[str, Any]:
    """The summary of a run over all windows."""
    total = {
        name: int(np.sum(motes[name].to_numpy()))
        for name in ("received", "lost", "copies", "bursts", "reboots")
    }
    sent = total["received"] + total["lost"]
    longest = max(motes["longest_burst"].to_pylist(), default=0)
    return total | {"longest_burst": longest, "delivery": total["received"] / sent if sent else None}
