"""The simulation engine on numba kernels: the same functions and answers as `engine_objects`.

It needs the extra `analysis`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from basestation.causality import kernels
from basestation.causality.kernels import stamping
from basestation.causality.order import Ties
from basestation.causality.rules import RULES
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import Int32, Int64, Stream
from basestation.causality.violations import Violations

from . import engine_objects
from .corruption import Corruption
from .results import DeliveryOrder, Observed, Stamped
from .world_numba import generate, parts

NO_CORRUPTION = Corruption(0, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))

__all__ = [
    "deliver",
    "generate",
    "in_violation",
    "observe",
    "parts",
    "rank",
    "stamp",
    "vector_clocks",
    "violations",
]


def stamp(stream: Stream, scheme: TimedScheme, corruption: Corruption | None = None) -> Stamped:
    """Run the scheme's program on every mote."""
    if scheme.kernel is None:  # another package's scheme: its program is an object
        return engine_objects.stamp(stream, scheme, corruption)
    fault = corruption or NO_CORRUPTION
    r, c, kn, bounded, wrong = kernels.stamp_events(
        stream.event_kind,
        stream.event_mote,
        stream.event_clock,
        stream.event_message,
        stream.motes,
        stream.messages,
        getattr(stamping, scheme.kernel),
        scheme.epsilon,
        scheme.lead,
        scheme.modulus,
        scheme.entries,
        scheme.entry_max,
        scheme.count == "events",
        scheme.carry == "sum",
        fault.offset,
        fault.c,
        fault.kn,
    )
    return Stamped(r, c, kn, int(bounded), int(wrong))


def observe(stream: Stream, stamped: Stamped, scheme: TimedScheme) -> Observed:
    """Read each arrival's stamp by the observer's clock at its reception, and bound it."""
    r, c, kn, bounded, wrong = kernels.observe_stamps(
        stream.arrival_message,
        stream.read_at,
        stamped.r,
        stamped.c,
        stamped.kn,
        scheme.lead,
        scheme.modulus,
    )
    return Observed(r, c, kn, int(bounded), int(wrong))


def rank(stream: Stream, observed: Observed, ties: Ties = "sequence") -> Int64:
    """Each arrival's place in the total order, which is the same for every policy and phi."""
    last = (
        stream.sent_index[stream.arrival_message]
        if ties == "sequence"
        else np.zeros(stream.arrivals, np.int32)
    )
    ranked: Int64 = kernels.ranks(
        observed.r, observed.c, observed.kn, stream.sent_by[stream.arrival_message], last
    )
    return ranked


def deliver(
    stream: Stream,
    observed: Observed,
    scheme: TimedScheme,
    policy: str,
    phi: int,
    ties: Ties = "sequence",
    ranked: Int64 | None = None,
    tolerate: float | None = None,
) -> DeliveryOrder:
    """Deliver the arrivals by a policy. Pass `ranked` to order once and deliver by many policies.

    `tolerate`: the share in per cent that the ledger may have in violations.
    """
    arrived = stream.arrival_clock
    if policy == "none":
        return DeliveryOrder(np.arange(stream.arrivals), arrived.copy(), 0)
    if ranked is None:
        ranked = rank(stream, observed, ties)
    if policy == "ledger":
        alpha, most = (tolerate or 0.0) / 100, scheme.epsilon + scheme.delta
        order, left, came_late = kernels.ledger_order(ranked, observed.r + observed.c, arrived, alpha, most)
        return DeliveryOrder(order, left, int(came_late.sum()))
    phi = 100 if policy == "causal" else phi
    due_at, late = kernels.due_ticks(observed.r, observed.c, arrived, phi, scheme.epsilon, scheme.delta)
    if policy not in RULES:
        raise ValueError(f"there is no timed policy {policy!r}")
    if policy == "cbd":
        order, left = kernels.cbd_order(ranked, due_at, arrived)
    else:
        order, left = kernels.dapw_order(ranked, due_at, arrived)
    return DeliveryOrder(order, left, int(late))


def vector_clocks(stream: Stream) -> Int32:
    """The truth, one row for each message: how many sends of each mote led to it, itself included."""
    vectors: Int32 = kernels.vector_clocks(
        stream.event_kind, stream.event_mote, stream.event_message, stream.motes, stream.messages
    )
    return vectors


def in_violation(stream: Stream, vectors: Int32, order: Int64) -> NDArray[np.bool_]:
    """For each message, whether it is in a violated pair."""
    counts = _counts(stream, vectors, order)
    either: NDArray[np.bool_] = counts.overtaken | counts.hasty
    return either


def violations(stream: Stream, vectors: Int32, order: Int64) -> Violations:
    """Count the violations among messages (by number) in their order of delivery."""
    counts = _counts(stream, vectors, order)
    return Violations(len(order), *(int(count) for count in counts[:5]))


def _counts(stream: Stream, vectors: Int32, order: Int64) -> kernels.Counts:
    rows = kernels.first_sends(stream.sends_per_mote)
    counts: kernels.Counts = kernels.count_pairs(order, stream.sent_by, stream.sent_index, vectors, rows)
    return counts
