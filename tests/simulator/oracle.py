"""What the simulation engine computes, on plain objects: the kernels must give the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from basestation.causality.order import Message, Stamp, Ties
from basestation.causality.rules import Delivery, Rule, make_rule
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import CORRUPT, SEND, Int32, Int64, Stream
from basestation.causality.truth import Send, VectorTruth
from basestation.causality.violations import Violations, count_violations
from basestation.simulator.engine import columns_of
from basestation.simulator.results import DeliveryOrder, Observed, Stamped


def observe(stream: Stream, stamped: Stamped, scheme: TimedScheme) -> Observed:
    """Unwrap each arrival by the observer's clock at its reception, and bound it."""
    read, wrong, bounded = [], 0, 0
    for message, now in zip(stream.arrival_message.tolist(), stream.read_at.tolist(), strict=True):
        meant = Stamp(int(stamped.r[message]), int(stamped.c[message]), tuple(stamped.kn[message].tolist()))
        taken = scheme.decode(scheme.encode(meant), now)
        wrong += taken.r != meant.r
        read.append(scheme.observe(taken, now))
        bounded += read[-1] != taken
    r, c, kn = columns_of(read, scheme.entries)
    return Observed(r, c, kn, bounded, wrong)


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
    """Feed a rule the arrivals as the observer took them; `ranked` is not used."""
    rule = make_rule(policy, phi, scheme.epsilon, scheme.delta, ties, tolerate)
    out = list(_run_rule(stream, observed, rule))
    order = np.array([delivery.message.token for delivery in out], dtype=np.int64)
    return DeliveryOrder(order, np.array([delivery.left for delivery in out], dtype=np.int64), rule.late)


def _run_rule(stream: Stream, observed: Observed, rule: Rule) -> Iterator[Delivery]:
    for message, now in zip(_messages(stream, observed), stream.arrival_clock.tolist(), strict=True):
        rule.receive(message, now)
        yield from rule.due(now)
    while (at := rule.next_due()) is not None:
        yield from rule.due(at)


def _messages(stream: Stream, observed: Observed) -> Iterator[Message]:
    """Each arrival, with its number for a token."""
    for i, message in enumerate(stream.arrival_message.tolist()):
        read = Stamp(int(observed.r[i]), int(observed.c[i]), tuple(observed.kn[i].tolist()))
        yield Message(int(stream.sent_by[message]), int(stream.sent_index[message]), read, token=i)


def vector_clocks(stream: Stream) -> Int32:
    """The truth, one row for each message: how many sends of each mote led to it, itself included."""
    truth = VectorTruth(stream.motes)
    sends: list[Send] = []
    for kind, mote, _, message in _rows(stream):
        if kind == SEND:
            sends.append(truth.on_send(mote))
        elif kind != CORRUPT:
            truth.on_receive(mote, [sends[message]])
    return np.array([send.vector for send in sends], dtype=np.int32).reshape(-1, stream.motes)


def violations(stream: Stream, vectors: Int32, order: Int64) -> Violations:
    """Count the violations among messages (by number) in their order of delivery."""
    return count_violations(_sends(stream, vectors, order))


def _sends(stream: Stream, vectors: Int32, order: Int64) -> list[Send]:
    return [
        Send(int(stream.sent_by[m]), int(stream.sent_index[m]), tuple(vectors[m].tolist()))
        for m in order.tolist()
    ]


def _rows(stream: Stream) -> Iterator[tuple[int, int, int, int]]:
    yield from zip(
        stream.event_kind.tolist(),
        stream.event_mote.tolist(),
        stream.event_clock.tolist(),
        stream.event_message.tolist(),
        strict=True,
    )
