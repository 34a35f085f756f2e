"""How well each mote and each link to a gateway worked over time, in SQL that Spark and DuckDB read alike.

A mote numbers its messages, so the missing ones are known: the numbers between two that came in the same life (from one
boot to the next). They count in the window in which the next message came. Messages before a life's first or after its
last arrival can't be missed.

`TALLY` reads the frames once, in any order, and adds up. `MOTES_OF` and `LINKS_OF` make the two tables of its few rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from basestation.analysis.columns import column
from basestation.causality.boots import BOOTS
from packet_formats.deployment import CRYSTAL_HZ

WINDOW_S = 600
COLUMNS = (
    "fate", "line", "wall_ns", "heard", "source", "life", "sequence", "gateway", "rssi", "lqi",
)  # fmt: skip
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
# Frames of data messages that have a time. `first`: it is not a copy. A stray has no life, so it shows no losses.
SEEN_IN = f"""
SELECT site, run, source AS mote, life, sequence, fate IN ('message', 'untimed') AS first,
    coalesce(CAST(wall_ns AS DOUBLE) / 1e9, CAST(heard AS DOUBLE) / {CRYSTAL_HZ}e0) AS moment,
    wall_ns IS NOT NULL AS is_wall, gateway, line, rssi, lqi
FROM {{frames}}
WHERE source IS NOT NULL AND life IS NOT NULL AND coalesce(wall_ns, heard) IS NOT NULL
"""
# Messages of parts, as frames, by their `place`. Parts hold neither copies nor lines. A life is the boot count
# (modulo 8) unwrapped: up to four more is a later boot, else the message is a straggler of an older one.
PARTS_AS_FRAMES = """
WITH placed AS (
    SELECT *, CAST(coalesce(boot, 0) AS BIGINT) AS count FROM {parts} WHERE wall_ns IS NOT NULL
), stepped AS (
    SELECT *, count - lag(count) OVER (PARTITION BY source ORDER BY place) AS step FROM placed
)
SELECT '' AS site, '' AS run, 'message' AS fate, CAST(NULL AS INT) AS line, wall_ns, CAST(NULL AS BIGINT) AS heard,
    source, CAST(sum(CASE WHEN step IS NULL THEN count ELSE (step + 11) % 8 - 3 END) OVER (
        PARTITION BY source ORDER BY place) AS BIGINT) AS life, sequence, gateway, rssi, lqi
FROM stepped
"""
# The lowest bit of a window says that it is of the wall clock. `of_first`: a message counts in the window of its first
# copy, so that no link exceeds what was sent. One order serves all comparisons with the row before, since Spark sorts
# for each other one.
TALLY = """
WITH timed AS (
    SELECT *, 2 * CAST(floor(moment / {window_s}) AS BIGINT) + CAST(is_wall AS INT) AS own FROM {seen}
), compared AS (
    SELECT *,
        lag(sequence) OVER one = sequence AND lag(gateway) OVER one IS NOT DISTINCT FROM gateway
            AND lag(line) OVER one IS NOT DISTINCT FROM line AS same_link,
        lag(own) OVER one = own AS same_window,
        CASE WHEN first THEN sequence - 1 - max(CASE WHEN first THEN sequence END) OVER (
            PARTITION BY site, run, mote, life ORDER BY sequence, gateway, line, own
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END AS missing
    FROM timed WINDOW one AS (PARTITION BY site, run, mote, life ORDER BY sequence, gateway, line, own)
), named AS (
    SELECT *, min(CASE WHEN first THEN own END) OVER (PARTITION BY site, run, mote, life, sequence) AS of_first
    FROM compared
)
SELECT site, run, mote, life, own, coalesce(of_first, own) AS of_first, gateway, line, count(*) AS frames,
    count(CASE WHEN first THEN 1 END) AS received, min(CASE WHEN first THEN moment END) AS moment,
    count(CASE WHEN same_link AND (of_first IS NOT NULL OR same_window) THEN NULL ELSE 1 END) AS messages,
    sum(CASE WHEN missing > 0 THEN missing ELSE 0 END) AS lost, count(CASE WHEN missing > 0 THEN 1 END) AS bursts,
    max(missing) AS longest, sum(CAST(rssi AS DOUBLE)) AS rssi_sum, count(rssi) AS rssi_count, min(rssi) AS rssi_least,
    max(rssi) AS rssi_most, sum(CAST(lqi AS DOUBLE)) AS lqi_sum, count(lqi) AS lqi_count
FROM named GROUP BY site, run, mote, life, own, coalesce(of_first, own), gateway, line
"""
_START = """
    (w - (w & 1)) / 2 * {window_s} AS start,
    CASE WHEN w & 1 = 1 THEN timestamp_micros(CAST(round((w - 1) / 2 * {window_s} * 1e6) AS BIGINT)) END AS start_utc"""
# A mote boots where its life is above all lives before; by 8, it has started anew. A message of an older life may come
# later.
MOTES_OF = f"""
WITH risen AS (
    SELECT *, CASE WHEN moment IS NOT NULL THEN life - max(CASE WHEN moment IS NOT NULL THEN life END) OVER (
        PARTITION BY site, run, mote ORDER BY own & 1, moment, life ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) END AS rise FROM {{tally}}
), summed AS (
    SELECT site, run, mote, own AS w, sum(received) AS received, sum(lost) AS lost, sum(frames) AS frames,
        sum(bursts) AS bursts, greatest(max(longest), 0) AS longest,
        sum(CASE WHEN rise = {BOOTS} THEN 1 WHEN rise > 0 THEN rise ELSE 0 END) AS reboots,
        sum(rssi_sum) / nullif(sum(rssi_count), 0) AS rssi
    FROM risen GROUP BY site, run, mote, own
)
SELECT site, run, CAST(mote AS BIGINT) AS mote, CAST(received AS BIGINT) AS received, CAST(lost AS BIGINT) AS lost,
    CAST(received AS DOUBLE) / nullif(received + lost, 0) AS delivery, CAST(frames - received AS BIGINT) AS copies,
    CAST(bursts AS BIGINT) AS bursts, CAST(coalesce(longest, 0) AS BIGINT) AS longest_burst,
    CAST(reboots AS BIGINT) AS reboots, rssi, {_START}
FROM summed
"""
LINKS_OF = f"""
WITH sent AS (
    SELECT site, run, mote, own AS w, sum(received) + sum(lost) AS sent FROM {{tally}} GROUP BY site, run, mote, own
), summed AS (
    SELECT site, run, mote, of_first AS w, gateway, line, sum(frames) AS frames, sum(messages) AS messages,
        sum(rssi_sum) / nullif(sum(rssi_count), 0) AS rssi, min(rssi_least) AS rssi_least,
        max(rssi_most) AS rssi_most, sum(lqi_sum) / nullif(sum(lqi_count), 0) AS lqi
    FROM {{tally}} GROUP BY site, run, mote, of_first, gateway, line
)
SELECT site, run, CAST(mote AS BIGINT) AS mote, CAST(gateway AS BIGINT) AS gateway, CAST(line AS BIGINT) AS line,
    CAST(frames AS BIGINT) AS frames, CAST(messages AS BIGINT) AS messages,
    CAST(messages AS DOUBLE) / nullif(sent, 0) AS delivery, rssi, CAST(rssi_least AS DOUBLE) AS rssi_least,
    CAST(rssi_most AS DOUBLE) AS rssi_most, lqi, {_START}
FROM summed LEFT JOIN sent USING (site, run, mote, w)
"""


def in_order(table: pa.Table, schema: pa.Schema) -> pa.Table:
    keys = [
        name
        for name in ("site", "run", "mote", "start", "start_utc", "gateway", "line")
        if name in schema.names
    ]
    return table.select(schema.names).cast(schema).sort_by([(name, "ascending") for name in keys])


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
    """The motes, links or times with the largest loss: name, messages received, messages lost."""
    of_motes = "received" in table.column_names
    came = column(table, "received" if of_motes else "messages")
    share = column(table, "delivery", np.float64)
    lost = column(table, "lost") if of_motes else np.rint(came / np.where(came, share, 1) - came)
    time = "start" if table["start_utc"].null_count else "start_utc"
    named = [time if key == "start" else key for key in keys]
    counted = table.select(named).append_column("came", pa.array(came)).append_column("lost", pa.array(lost))
    found = counted.group_by(named).aggregate([("came", "sum"), ("lost", "sum")])
    sent = pc.add(found["came_sum"], found["lost_sum"])
    share = pc.divide(found["came_sum"].cast(_REAL), pc.if_else(pc.equal(sent, 0), None, sent.cast(_REAL)))
    ranked = found.append_column("share", share).sort_by([(name, "ascending") for name in ("share", *named)])
    for row in ranked.slice(0, count).to_pylist():
        key = ("-" if row[name] in ("", None) else str(row[name]) for name in named)
        yield " ".join(key), row["came_sum"], int(row["lost_sum"])
