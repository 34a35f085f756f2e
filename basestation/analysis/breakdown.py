"""The violations and the hold of one configuration by mote, by link and by hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.deliveries import Left
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.survey import Context
from basestation.analysis.tally import Judge
from basestation.analysis.view import View
from packet_formats.deployment import CRYSTAL_HZ

Ints = NDArray[Any]
HOUR_S = 3600
UNKNOWN = -1
KEYS = ("mote", "gateway", "hour")


@dataclass(frozen=True, slots=True)
class DetailRow:
    """The messages of one mote, of one link, or of one hour. Violations: messages in one, in per cent (`any`).

    `hour` is its first second, of the wall clock (UTC) if the log has one, else of the network's time.
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
class Groups:
    """The messages of some parts by mote, gateway and hour (`keys`, a column each): how many, how many of them in a
    violation, and the sum of their holds."""

    keys: Ints
    sums: Ints

    @classmethod
    def of(cls, view: View, context: Context, left: Left, tick_log2: int) -> Groups:
        """The groups of a part's own rows."""
        held = np.zeros(len(view.clock), np.int64)
        held[left.order] = left.at - view.clock[left.order]
        bad = np.zeros(view.last - view.first, np.bool_)
        if context.sends is not None:
            overtaken, hasty = Judge(context, view).flags(left, np.zeros(len(context.begins), np.int64))
            bad = overtaken | hasty
        gateway = view.table["gateway"].cast("int64").fill_null(UNKNOWN).to_numpy()
        keys = np.stack([view.column("source").astype(np.int64), gateway, _hours(view, tick_log2)])
        return cls(*_grouped(keys[:, view.own], (None, bad, held[view.own])))

    @classmethod
    def together(cls, several: Sequence[Groups]) -> Groups:
        return cls(*(np.concatenate([getattr(one, name) for one in several], 1) for name in ("keys", "sums")))


def _hours(view: View, tick_log2: int) -> Ints:
    """The second at which each row's hour begins."""
    if not view.table["wall_ns"].null_count:
        seconds = view.column("wall_ns") // 10**9
    else:
        seconds = (view.clock << tick_log2) // CRYSTAL_HZ
    return np.asarray(seconds // HOUR_S * HOUR_S, np.int64)


def _grouped(keys: Ints, values: Sequence[Ints | None]) -> tuple[Ints, Ints]:
    """The different columns of `keys`, and for each the sums of the values; of None the number."""
    found, group = np.unique(keys, axis=1, return_inverse=True)
    sums = [np.bincount(group.ravel(), one, found.shape[1]) for one in values]
    return found, np.stack(sums).astype(np.int64)


def detail_rows(
    row: ContinuumRow, least: Groups, most: Groups, tick_ms: float, told: bool
) -> Iterator[DetailRow]:
    """The rows by mote, by link and by hour. `told`: the causes are known."""
    for by, taken in (("mote", [0]), ("link", [0, 1]), ("hour", [2])):
        found, sums = _grouped(least.keys[taken], (*least.sums, most.sums[1]))
        for key, (count, bad, ticks, worst) in zip(found.T.tolist(), sums.T.tolist(), strict=True):
            named = {
                KEYS[at]: None if value == UNKNOWN else value for at, value in zip(taken, key, strict=True)
            }
            yield DetailRow(
                row.run,
                row.stamp,
                row.policy,
                row.phi,
                by,
                **dict.fromkeys(KEYS) | named,
                delivered=count,
                violations=100 * bad / count if told else None,
                violations_most=100 * worst / count if told else None,
                hold_mean_ms=ticks / count * tick_ms,
            )
