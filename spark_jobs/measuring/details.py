"""Who and when: the violations and the hold of one configuration by mote, by link and by hour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from packet_formats.deployment import CRYSTAL_HZ
from spark_jobs.engine import Spread
from spark_jobs.measuring.choices import OWN, Choice
from spark_jobs.measuring.continuum import ContinuumRow, prepared, same_as
from spark_jobs.measuring.measure import Judge, StampReading, deliver, of_whole, rank_of, stamps_of
from spark_jobs.traces.field import with_causes
from spark_jobs.traces.files import TraceFiles
from spark_jobs.traces.segments import ROWS, Part, View, cut, load, plan

Ints = NDArray[Any]
HOUR_S = 3600
UNKNOWN = -1
KEYS = ("mote", "gateway", "hour")


@dataclass(frozen=True, slots=True)
class DetailRow:
    """The messages of one mote, of one link, or of one hour. Violations: messages in one, in per cent (`any`).

    `hour` begins at so many seconds, of the wall clock (UTC) if the log has one, else of the network's time.
    """

    run: str
    stamp: str
    policy: str
    phi: int
    by: str  # mote, link or hour
    mote: int | None
    gateway: int | None
    hour: int | None
    delivered: int
    violations: float | None
    violations_most: float | None
    hold_mean_ms: float


@dataclass(frozen=True, slots=True)
class DetailTask:
    part: Part
    reading: StampReading | None
    delivery: PolicyChoice
    path: Path | None  # of a delivery over the whole trace
    ties: Ties


def details(
    trace: TraceFiles,
    row: ContinuumRow,
    spread: Spread,
    scratch: Path,
    *,
    workers: int = 1,
    ties: Ties = "sequence",
) -> list[DetailRow]:
    """Deliver a trace once more, by one configuration that it answers, and count by mote, link and hour."""
    delivery = PolicyChoice(row.policy, row.phi, row.tolerate)
    made = prepared(with_causes(trace, scratch), only(row), spread, scratch, ties)
    reading = made.readings[0][0] if made.readings else None
    path = made.whole.get((reading, delivery)) if reading is not None else None
    for (_, rule), result in zip(made.rules, made.played, strict=True):
        path = result.path if rule == delivery else path

    def counted(trace: TraceFiles) -> tuple[Ints, Ints]:
        parts = plan(cut(trace, workers, ROWS), spread, made.longest).parts
        found = list(spread(of_part, [DetailTask(part, reading, delivery, path, ties) for part in parts]))
        return np.concatenate([keys for keys, _ in found], axis=1), np.concatenate(
            [sums for _, sums in found], axis=1
        )

    keys, sums = counted(made.trace)
    most = counted(replace(made.trace, most=True))[1] if made.trace.unsure else sums
    return list(_rows(row, keys, sums, most, trace.deployment.clock.tick_log2, made.trace.has_truth))


def only(row: ContinuumRow) -> Choice:
    """The choice of this one configuration."""
    named = row.has_own_rule
    return Choice(
        schemes=(row.scheme,),
        entries=(row.entries or 1,),
        packings=(row.packing,),
        counts=(row.count,),
        counter_bits=(row.counter_bits,) if row.counter_bits and not named else (),
        policies=() if row.tolerate is not None and not named else (OWN if named else row.policy,),
        phis=(row.phi,),
        tolerates=() if row.tolerate is None else (row.tolerate,),
    )


def of_part(task: DetailTask) -> tuple[Ints, Ints]:
    """Groups of a part's own rows, by mote, gateway and hour; and of each its messages, those in a violation, and
    the sum of the holds."""
    part, reading = task.part, task.reading
    own = reading.columns if reading is not None and reading.stamps is None else []
    told = part.segment.trace.truth_columns if part.sends is not None else []
    columns = dict.fromkeys(["sequence", "gateway", "wall_ns", *own, *told])
    view = load(part.segment, list(columns), 2 * part.horizon, 2 * part.horizon)
    order, left, _ = _delivered(task, view)
    mine = slice(view.first, view.last)
    held = np.zeros(len(view.clock), np.int64)
    held[order] = left - view.clock[order]
    bad = np.zeros(view.last - view.first, np.bool_)
    if part.sends is not None:
        overtaken, hasty = Judge(part, view).flags(order, left, np.zeros(len(part.begins), np.int64))
        bad = overtaken | hasty
    keys = np.stack([view.column("source").astype(np.int64), _known(view, "gateway"), _hours(view, part)])[
        :, mine
    ]
    found, group = np.unique(keys, axis=1, return_inverse=True)
    sums = [np.bincount(group.ravel(), values, found.shape[1]) for values in (None, bad, held[mine])]
    return found, np.stack(sums).astype(np.int64)


def _delivered(task: DetailTask, view: View) -> tuple[Ints, Ints, int]:
    if task.path is not None:
        return of_whole(task.path, view)
    if task.reading is None or task.delivery.policy == "none":
        return np.arange(len(view.clock)), view.clock, 0
    r, c, kn = stamps_of(view, task.reading)
    return deliver(view, task.reading, (r, c), rank_of(view, r, c, kn, task.ties), same_as(task.delivery))


def _known(view: View, name: str) -> Ints:
    values: Ints = view.table[name].cast("int64").fill_null(UNKNOWN).to_numpy()
    return values


def _hours(view: View, part: Part) -> Ints:
    """The second at which each row's hour begins."""
    if not view.table["wall_ns"].null_count:
        seconds = view.column("wall_ns") // 10**9
    else:
        seconds = (view.clock << part.segment.trace.deployment.clock.tick_log2) // CRYSTAL_HZ
    return np.asarray(seconds // HOUR_S * HOUR_S, np.int64)


def _rows(
    row: ContinuumRow, keys: Ints, sums: Ints, most: Ints, tick_log2: int, told: bool
) -> Iterator[DetailRow]:
    tick_ms = 1000 * 2.0**tick_log2 / CRYSTAL_HZ
    for by, taken in (("mote", (0,)), ("link", (0, 1)), ("hour", (2,))):
        found, group = np.unique(keys[list(taken)], axis=1, return_inverse=True)
        together = [np.bincount(group.ravel(), one, found.shape[1]) for one in (*sums, most[1])]
        for place, (count, bad, ticks, worst) in enumerate(np.stack(together).T.tolist()):
            named = {KEYS[key]: int(found[at, place]) for at, key in enumerate(taken)}
            where = {key: None if (value := named.get(key, UNKNOWN)) == UNKNOWN else value for key in KEYS}
            yield DetailRow(
                row.run,
                row.stamp,
                row.policy,
                row.phi,
                by,
                **where,
                delivered=int(count),
                violations=100 * bad / count if told else None,
                violations_most=100 * worst / count if told else None,
                hold_mean_ms=ticks / count * tick_ms,
            )
