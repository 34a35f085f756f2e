"""The simulation engine: streams, stamps, deliveries and violations over arrays, by the kernels.

It needs the extra `analysis`. tests/simulator/oracle.py has the same on plain objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from basestation.causality import kernels
from basestation.causality.kernels import stamping
from basestation.causality.order import Stamp, Ties
from basestation.causality.rules import RULES
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import CORRUPT, MERGE, SEND, Int32, Int64, Stream
from basestation.causality.violations import Violations

from .corruption import Corruption
from .results import DeliveryOrder, Observed, Stamped
from .world import generate, parts

NO_CORRUPTION = Corruption(0, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))

__all__ = [
    "deliver",
    "generate",
    "in_violation",
    "observe",
    "parts",
    "rank",
    "stamp",
    "stamp_by_objects",
    "vector_clocks",
    "violations",
]


def stamp(stream: Stream, scheme: TimedScheme, corruption: Corruption | None = None) -> Stamped:
    """Run the scheme's program on every mote."""
    if scheme.kernel is None:  # another package's scheme: its program is an object
        return stamp_by_objects(stream, scheme, corruption)
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


def stamp_by_objects(stream: Stream, scheme: TimedScheme, corruption: Corruption | None = None) -> Stamped:
    """Run the scheme's program on every mote. Each receiver reads what the wire carries, the clock modulo B."""
    programs = [scheme.start(0) for _ in range(stream.motes)]
    stamps: list[Stamp] = []
    pending: list[Stamp] = []
    wrong = 0
    columns = (stream.event_kind, stream.event_mote, stream.event_clock, stream.event_message)
    for kind, mote, clock, message in zip(*(column.tolist() for column in columns), strict=True):
        program = programs[mote]
        if kind == SEND:
            stamps.append(program.on_send(clock))
        elif kind == CORRUPT:
            assert corruption is not None
            program.corrupt(*corruption.state(message, clock))
        else:
            read = scheme.decode(scheme.encode(stamps[message]), clock)
            wrong += read.r != stamps[message].r
            pending.append(read)
            if kind != MERGE:
                program.merge(clock, pending)
                pending = []
    return Stamped(*columns_of(stamps, scheme.entries), sum(program.bounded for program in programs), wrong)


def columns_of(stamps: Sequence[Stamp], entries: int) -> tuple[Int64, Int64, Int64]:
    return (
        np.array([stamp.r for stamp in stamps], dtype=np.int64),
        np.array([stamp.c for stamp in stamps], dtype=np.int64),
        np.array([stamp.kn for stamp in stamps], dtype=np.int64).reshape(len(stamps), entries),
    )


def observe(stream: Stream, stamped: Stamped, scheme: TimedScheme) -> Observed:
    """Read each arrival's stamp by the observer's clock at its reception, and bound it."""
    r, c, kn, bounded, wrong = kernels.observe_stamps(
        stream.arrival_message, stream.read_at, stamped.r, stamped.c, stamped.kn, scheme.lead, scheme.modulus
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
