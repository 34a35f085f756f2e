"""How well each mote and each link to a gateway worked over time.

A mote numbers its messages, so the missing ones are known: the numbers between two that came in the same life (from one
boot to the next). They count in the window in which the next message came. Messages before a life's first or after its
last arrival can't be missed.

The frames of a run may come in pieces, in any order. `tallies` counts a piece, and `health` puts tallies together. A
piece does not know the messages of the others. So it tells which numbers came, as stretches without a gap, and tells of
a copy by itself whose first is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from basestation.analysis.columns import Ints, Rows, changes, column, filled, where
from basestation.causality.boots import BOOTS
from packet_formats.deployment import CRYSTAL_HZ

WINDOW_S = 600
COLUMNS = (
    "fate", "line", "wall_ns", "heard", "source", "life", "sequence", "gateway", "rssi", "lqi",
)  # fmt: skip
FIRST = ["message", "untimed"]  # fates of a message that was not there before
LIFE = 40  # a message's name: its life, then so many bits of its number
_WHOLE, _REAL = pa.int64(), pa.float64()
_UTC = ("start_utc", pa.timestamp("us", "UTC"))  # null: only the network's time is known
MOTES = pa.schema(
    [
        ("start", _REAL),  # seconds, of the wall clock where there is one, else of the network's
        *((name, _WHOLE) for name in ("mote", "received", "lost")),
        ("delivery", _REAL),
        # `bursts`: of messages lost in a row
        *((name, _WHOLE) for name in ("copies", "bursts", "longest_burst", "reboots")),
        ("rssi", _REAL),
        _UTC,
    ]
)
LINKS = pa.schema(
    [
        ("start", _REAL),
        # `gateway`: null if it is not known
        *((name, _WHOLE) for name in ("mote", "gateway", "line", "frames", "messages")),
        ("delivery", _REAL),  # of all that the mote is known to have sent in this window
        *((name, _REAL) for name in ("rssi", "rssi_least", "rssi_most", "lqi")),
        _UTC,
    ]
)
# Frames of data messages, in any order.
SEEN = pa.schema(
    [
        ("at", _REAL), ("is_wall", pa.bool_()), ("first", pa.bool_()), ("mote", pa.int32()), ("name", _WHOLE),
        ("gateway", pa.int32()), ("line", pa.int32()), ("rssi", pa.float32()), ("lqi", pa.float32()),
    ]
)  # fmt: skip
# What pieces tell. `kind` says which columns are used. The lowest bit of `window` says that it is of the wall clock.
WINDOW, LINK, CAME, HEARD = range(4)  # counts of a mote, of a link; which names came, and over which link
TALLY = pa.schema(
    [
        ("kind", pa.int8()), ("mote", _WHOLE), ("window", _WHOLE), ("gateway", pa.int32()), ("line", pa.int32()),
        ("low", _WHOLE), ("high", _WHOLE), ("at", _REAL), ("first_sum", _WHOLE), ("first_count", _WHOLE),
        ("rssi_sum", _REAL), ("rssi_count", _WHOLE), ("rssi_min", _REAL), ("rssi_max", _REAL), ("lqi_sum", _REAL),
        ("lqi_count", _WHOLE),
    ]
)  # fmt: skip
_OF_MOTE = [("first", "sum"), ("first", "count"), ("rssi", "sum"), ("rssi", "count")]
_OF_LINK = [("rssi", "min"), ("rssi", "max"), ("lqi", "sum"), ("lqi", "count"), *_OF_MOTE]
_LINK = ["mote", "window", "gateway", "line"]


def seen_in(frames: pa.Table) -> pa.Table:
    """The data messages in rows of the table of frames that have a time, but for strays, which tell of no losses."""
    frames = frames.filter(frames["life"].is_valid())
    wall = pc.divide(frames["wall_ns"].cast(_REAL, safe=False), 1e9)
    name = pc.add(pc.shift_left(frames["life"].cast(_WHOLE), LIFE), frames["sequence"].cast(_WHOLE))
    found = {
        "at": pc.coalesce(wall, pc.divide(frames["heard"].cast(_REAL, safe=False), float(CRYSTAL_HZ))),
        "is_wall": wall.is_valid(),
        "first": pc.is_in(frames["fate"].cast(pa.string()), pa.array(FIRST)),
        "mote": frames["source"],
        "name": name,
    } | {at: frames[at] for at in ("gateway", "line", "rssi", "lqi")}
    seen = filled(found, SEEN, len(frames))
    return seen.filter(pc.and_(seen["at"].is_valid(), seen["mote"].is_valid()))


# ---- A piece ----


def tallies(seen: pa.Table, window_s: float) -> pa.Table:
    """What these frames tell, whatever others there are."""
    at, first, mote, name = (seen[item].to_numpy() for item in ("at", "first", "mote", "name"))
    window = 2 * np.floor(at / window_s).astype(np.int64) + seen["is_wall"].to_numpy()
    own = seen.append_column("window", pa.array(window))
    order = np.lexsort((~first, name, mote))
    head = np.flatnonzero(changes(mote[order], name[order]))  # of the frames of each message, the first
    message = np.repeat(np.arange(len(head)), np.diff(np.append(head, len(order))))
    here, of_first = np.empty(len(order), np.bool_), np.empty(len(order), np.int64)
    here[order], of_first[order] = first[order[head]][message], window[order[head]][message]
    # A message counts in the window of its first copy, so that no link exceeds what was sent.
    of_first = np.where(here, of_first, window)
    by_link = own.set_column(own.column_names.index("window"), "window", pa.array(of_first))
    by_link = by_link.append_column("low", pa.array(name, mask=here))
    rows = {"mote": mote, "window": of_first, "name": name, "at": at}
    rows |= {item: column(seen, item, np.int32) for item in ("gateway", "line")}
    came = where(rows, order[head[first[order[head]]]])
    heard = where(rows, order[here[order]])
    heard = where(heard, np.lexsort((heard["line"], heard["gateway"], heard["mote"])))
    nowhere = {item: np.full(len(came["mote"]), -1, np.int32) for item in ("gateway", "line")}
    return pa.concat_tables(
        [
            _tally(own.group_by(["mote", "window"], use_threads=False).aggregate(_OF_MOTE), WINDOW),
            _tally(by_link.group_by([*_LINK, "low"], use_threads=False).aggregate(_OF_LINK), LINK),
            _stretches(came | nowhere, CAME),
            _stretches(heard, HEARD),
        ]
    )


def _tally(table: pa.Table, kind: int) -> pa.Table:
    return filled(
        dict(zip(table.column_names, table.columns, strict=True)) | {"kind": kind}, TALLY, len(table)
    )


def _stretches(rows: Rows, kind: int) -> pa.Table:
    """The stretches of consecutive names in one window, of rows sorted by mote, link and name."""
    keys = [rows[item] for item in ("mote", "gateway", "line")]
    rows = where(rows, changes(*keys, rows["name"]))
    keys = [rows[item] for item in ("mote", "gateway", "line")]
    name = rows["name"]
    begin = np.flatnonzero(changes(*keys, rows["window"], name - np.arange(len(name))))
    end = np.append(begin[1:], len(name))[: len(begin)] - 1
    found: dict[str, Any] = where(rows, begin, "mote", "window") | {"low": name[begin], "high": name[end]}
    found |= {item: pa.array(rows[item][begin], mask=rows[item][begin] < 0) for item in ("gateway", "line")}
    found["at"] = np.minimum.reduceat(rows["at"], begin) if len(begin) else np.zeros(0)
    return filled(found | {"kind": kind}, TALLY, len(begin))


# ---- All pieces ----


def health(tally: pa.Table, window_s: float) -> tuple[pa.Table, pa.Table]:
    """The tables of motes and of links, with a row for each window that has data."""
    came = _sorted(tally, CAME)
    motes = _summed(
        [tally.filter(pc.equal(tally["kind"], WINDOW)), _losses(came), _reboots(came)],
        ["mote", "window"],
        [*((name, "sum") for name in ("first_sum", "first_count", "lost", "bursts", "reboots")),
         ("longest_burst", "max"), ("rssi_sum", "sum"), ("rssi_count", "sum")],
    )  # fmt: skip
    received, lost = motes["first_sum"], motes["lost"]
    motes = motes.append_column("sent", pc.add(received, lost))
    table = _table(
        motes,
        MOTES,
        window_s,
        received=received,
        copies=pc.subtract(motes["first_count"], received),
        delivery=_ratio(received, motes["sent"]),
    )
    links = _links(tally, came).join(motes.select(["mote", "window", "sent"]), ["mote", "window"])
    delivery = _ratio(links["messages"], links["sent"])
    return table, _table(links, LINKS, window_s, delivery=delivery, frames=links["first_count"])


def _sorted(tally: pa.Table, kind: int) -> Rows:
    """The stretches of one kind, as numbers, in order."""
    mine = tally.filter(pc.equal(tally["kind"], kind))
    rows = {name: column(mine, name) for name in ("mote", "gateway", "line", "low", "high", "window")}
    rows["at"] = column(mine, "at", np.float64)
    return where(rows, np.lexsort([rows[name] for name in ("low", "line", "gateway", "mote")]))


def _losses(came: Rows) -> pa.Table:
    """The missing numbers and their bursts, each at the window of the next message."""
    missing = np.diff(came["low"], prepend=0) - 1
    missing[1:] -= (came["high"] - came["low"])[:-1]
    gaps = np.flatnonzero(~changes(came["mote"], came["low"] >> LIFE) & (missing > 0))
    lost = where(came, gaps, "mote", "window")
    return pa.table(
        lost | {"lost": missing[gaps], "bursts": np.ones_like(gaps), "longest_burst": missing[gaps]}
    )


def _reboots(came: Rows) -> pa.Table:
    """The rise of each mote's boot count, at the window of its first message after it; by 8, it has started anew."""
    life = came["low"] >> LIFE
    order = np.lexsort((life, came["at"], came["window"] & 1, came["mote"]))
    mote, life = came["mote"][order], life[order]
    # A message of an older life may come later. Each mote is above the ones before it, so that all rise at once.
    above = np.cumsum(changes(mote)) * (np.ptp(life) + 1 if len(life) else 1)
    rise = np.diff(np.maximum.accumulate(life + above) - above, prepend=0)
    up = np.flatnonzero(~changes(mote) & (rise > 0))
    return pa.table(
        where(came, order[up], "mote", "window") | {"reboots": np.where(rise[up] == BOOTS, 1, rise[up])}
    )


def _links(tally: pa.Table, came: Rows) -> pa.Table:
    heard = _sorted(tally, HEARD)
    counts = tally.filter(pc.equal(tally["kind"], LINK))
    alone = {name: column(counts, name) for name in ("mote", "gateway", "line", "low", "window")}
    which = np.flatnonzero(counts["low"].is_valid().to_numpy())
    alone = where(alone, which)
    place = _holding(came, alone, "mote")
    window = column(counts, "window").copy()
    window[which] = np.where(place < 0, alone["window"], came["window"][place] if len(came["low"]) else 0)
    counts = counts.set_column(counts.column_names.index("window"), "window", pa.array(window))
    alone["window"] = window[which]
    new = where(alone, _holding(heard, alone, "mote", "gateway", "line") < 0)
    new = where(new, np.lexsort([new[name] for name in ("low", *_LINK)]))
    new = where(new, changes(*(new[name] for name in ("low", *_LINK))))
    messages = [
        pa.table({name: pa.array(rows[name], TALLY.field(name).type, mask=rows[name] < 0) for name in _LINK}
                 | {"messages": many})
        for rows, many in ((heard, heard["high"] - heard["low"] + 1), (new, np.ones_like(new["low"])))
    ]  # fmt: skip
    sums = [("messages", "sum"), ("first_count", "sum"), ("rssi_min", "min"), ("rssi_max", "max")]
    sums += [(name, "sum") for name in ("rssi_sum", "rssi_count", "lqi_sum", "lqi_count")]
    return _summed([counts, *messages], _LINK, sums)


def _holding(stretches: Rows, wanted: Rows, *keys: str) -> Ints:
    """The place of the stretch, of sorted ones, that holds each wanted name; -1 where none does."""
    count = len(stretches["low"])
    both = [np.concatenate((stretches[name], wanted[name])) for name in (*keys, "low")]
    order = np.lexsort(both[::-1])  # stable: of equal ones, the stretch is first
    place = np.empty(len(order), np.int64)
    place[order] = np.maximum.accumulate(np.where(order < count, order, -1))
    place = place[count:]
    if not count:
        return place
    same = np.all([stretches[name][place] == wanted[name] for name in keys], axis=0)
    return np.where((place >= 0) & same & (wanted["low"] <= stretches["high"][place]), place, -1)


def _summed(tables: Sequence[pa.Table], keys: list[str], sums: list[tuple[str, str]]) -> pa.Table:
    """The tables together, with one row for each combination of keys."""
    names = [*keys, *(name for name, _ in sums)]
    whole = [table.select([name for name in names if name in table.column_names]) for table in tables]
    joined = pa.concat_tables(whole, promote_options="permissive")
    found = joined.group_by(keys, use_threads=False).aggregate(sums)
    renamed = {f"{name}_{how}": name for name, how in sums}
    found = found.rename_columns([renamed.get(name, name) for name in found.column_names])
    for place, item in enumerate(found.schema):
        if pa.types.is_integer(item.type) and item.name not in keys:
            found = found.set_column(place, item.name, found[item.name].fill_null(0))
    return found


def _table(found: pa.Table, schema: pa.Schema, window_s: float, **columns: Any) -> pa.Table:
    """A table of results, in order."""
    window = found["window"].to_numpy()
    start = (window >> 1) * window_s
    utc = pa.array(np.rint(start * 1e6).astype(np.int64), _WHOLE, mask=window & 1 == 0)
    columns |= {"start": start, "start_utc": utc.cast(_UTC[1])}
    for name in ("rssi", "lqi"):
        if f"{name}_sum" in found.column_names:
            columns[name] = _ratio(found[f"{name}_sum"], found[f"{name}_count"])
    if "rssi_min" in found.column_names:
        columns |= {"rssi_least": found["rssi_min"], "rssi_most": found["rssi_max"]}
    plain = {name: found[name] for name in schema.names if name in found.column_names}
    order = [(name, "ascending") for name in ("mote", "start", "gateway", "line") if name in schema.names]
    return filled(plain | columns, schema, len(found)).sort_by(order)


def _ratio(part: Any, whole: Any) -> pa.Array:
    """A share; null where the whole is nothing."""
    return pc.divide(part.cast(_REAL), pc.if_else(pc.equal(whole, 0), None, whole.cast(_REAL)))


# ---- What they say ----


def summary(motes: pa.Table) -> dict[str, Any]:
    """The summary of a run over all windows."""
    names = ("received", "lost", "copies", "bursts", "reboots")
    total = {name: int(np.sum(motes[name].to_numpy())) for name in names}
    longest = max(motes["longest_burst"].to_pylist(), default=0)
    return with_delivery(total | {"longest_burst": longest})


def with_delivery(total: dict[str, Any]) -> dict[str, Any]:
    sent = total["received"] + total["lost"]
    return total | {"delivery": total["received"] / sent if sent else None}


def worst_lines(motes: pa.Table, links: pa.Table, count: int) -> Iterator[str]:
    """The motes, links and times that lost the most, as lines of text, the worst first."""
    for table, keys in (
        (motes, ["site", "run", "mote"]),
        (links, ["site", "run", "mote", "gateway"]),
        (motes, ["site", "run", "start"]),
    ):
        found, title = list(worst(table, keys, count)), " ".join(keys)
        wide = max([30, *(len(key) for key, *_ in found)])
        yield f"{title:{wide}} {'came':>10} {'lost':>10} {'delivery':>9}"
        for key, came, lost in found:
            yield f"{key:{wide}} {came:>10} {lost:>10} {came / (came + lost):>9.1%}"


def worst(table: pa.Table, keys: list[str], count: int) -> Iterator[tuple[str, int, int]]:
    """What lost the largest share: its name, and how many messages came and did not."""
    of_motes = "received" in table.column_names
    came = column(table, "received" if of_motes else "messages")
    share = column(table, "delivery", np.float64)
    lost = column(table, "lost") if of_motes else np.rint(came / np.where(came, share, 1) - came)
    time = "start" if table["start_utc"].null_count else "start_utc"
    named = [time if key == "start" else key for key in keys]
    counted = table.select(named).append_column("came", pa.array(came)).append_column("lost", pa.array(lost))
    found = counted.group_by(named).aggregate([("came", "sum"), ("lost", "sum")])
    share = _ratio(found["came_sum"], pc.add(found["came_sum"], found["lost_sum"]))
    ranked = found.append_column("share", share).sort_by([(name, "ascending") for name in ("share", *named)])
    for row in ranked.slice(0, count).to_pylist():
        key = ("-" if row[name] in ("", None) else str(row[name]) for name in named)
        yield " ".join(key), row["came_sum"], int(row["lost_sum"])
