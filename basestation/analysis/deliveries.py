"""How the messages of a trace leave: by a stamp as the observer would have read it, and a policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.analysis.view import View
from basestation.causality import kernels
from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import TimedScheme

Ints = NDArray[Any]


@dataclass(frozen=True, slots=True)
class StampReading:
    """A stamp as the observer would have read it: from the trace's own columns, or from a file with the same rows.

    It has `entries` entries of kn, each up to `entry_max`. Without `carries_c`, c is 0.
    """

    stamps: Path | None
    carries_c: bool
    entries: int
    entry_max: int
    epsilon: int
    delta: int

    @classmethod
    def of(cls, scheme: TimedScheme, path: Path | None) -> StampReading:
        width = scheme.carries_c, scheme.entries, scheme.entry_max
        return cls(path, *width, scheme.epsilon, scheme.delta)

    @property
    def columns(self) -> list[str]:
        return ["stamp.r", "stamp.c", *(["stamp.kn"] if self.entries else [])]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A stamp and a timed policy; or the file of a delivery over the whole trace, by a rule that needs all of its
    parts. With neither, messages leave as they arrive."""

    reading: StampReading | None = None
    policy: PolicyChoice | None = None
    path: Path | None = None


ARRIVAL = Delivery()


class Left(NamedTuple):
    """The order in which a view's rows left, the tick when each did, and how many of its own rows came late."""

    order: Ints
    at: Ints
    late: int


class Stamps(NamedTuple):
    """The stamps of a view's rows, and each row's place in their order."""

    r: Ints
    c: Ints
    kn: Ints
    rank: Ints


def stamps_of(view: View, reading: StampReading, table: pa.Table, entries: int, ties: Ties) -> Stamps:
    """The stamps of a view's rows, from a table with the same rows and `entries` entries."""
    count = len(view.rows)
    r = table["stamp.r"].to_numpy()
    c = table["stamp.c"].to_numpy().astype(np.int64) if reading.carries_c else np.zeros(count, np.int64)
    kn = np.zeros((count, reading.entries), np.uint16)
    if reading.entries:
        recorded = view.matrix(table["stamp.kn"], entries, "entries of its stamp")
        np.minimum(recorded[:, : reading.entries], reading.entry_max, out=kn, casting="unsafe")
    last = view.column("sequence") if ties == "sequence" else np.zeros(count, np.int64)
    return Stamps(r, c, kn, kernels.ranks(r, c, kn, view.column("source"), last))


def arrived(view: View) -> Left:
    return Left(np.arange(len(view.rows)), view.clock, 0)


def timed(view: View, reading: StampReading, stamps: Stamps, delivery: PolicyChoice) -> Left:
    """Deliver by dapw or cbd. A message is late if it was heard late, as `listen` counts it."""
    within = delivery.phi, reading.epsilon, reading.delta, view.first, view.last
    due_at, late = kernels.due_ticks(stamps.r, stamps.c, view.column("heard"), *within)
    ordered = kernels.cbd_order if delivery.policy == "cbd" else kernels.dapw_order
    return Left(*ordered(stamps.rank, due_at, view.clock), int(late))


def by_ledger(
    view: View, reading: StampReading, stamps: Stamps, tolerate: float | None
) -> tuple[Ints, Ints, Ints]:
    """The order in which rows leave by a ledger, when each does, and whether each came late."""
    alpha, most = (tolerate or 0.0) / 100, reading.epsilon + reading.delta
    found: tuple[Ints, Ints, Ints] = kernels.ledger_order(
        stamps.rank, stamps.r + stamps.c, view.clock, alpha, most
    )
    return found
