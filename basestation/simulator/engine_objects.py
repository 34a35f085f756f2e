"""The simulation engine on plain objects. It is slow, and tests hold the kernels equal to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from basestation.causality.order import Message, Stamp, Ties
from basestation.causality.rules import Delivery, Rule, make_rule
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import CORRUPT, MERGE, SEND, Int32, Int64, Stream
from basestation.causality.truth import Send, VectorTruth
from basestation.causality.violations import Violations, count_violations, find_violations

from .corruption import Corruption
from .options import WorldOptions
from .results import DeliveryOrder, Observed, Stamped
from .world import World


def generate(options: WorldOptions) -> Stream:
    return World(options).run()


def parts(options: WorldOptions) -> Iterator[tuple[Int64, Int64]]:
    return World(options).parts()


def stamp(stream: Stream, scheme: TimedScheme, corruption: Corruption | None = None) -> Stamped:
    """Run the scheme's program on every mote. Each receiver reads what the wire carries, the clock modulo B."""
    programs = [scheme.start(0) for _ in range(stream.motes)]
    stamps: list[Stamp] = []
    pending: list[Stamp] = []
    wrong = 0
    for kind, mote, clock, message in _rows(stream):
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
    r, c, kn = _columns(stamps, scheme.entries)
    return Stamped(r, c, kn, sum(program.bounded for program in programs), wrong)


def observe(stream: Stream, stamped: Stamped, scheme: TimedScheme) -> Observed:
    """Unwrap each arrival by the observer's clock at its reception, and bound it."""
    read, wrong, bounded = [], 0, 0
    for message, now in zip(stream.arrival_message.tolist(), stream.read_at.tolist(), strict=True):
        meant = Stamp(int(stamped.r[message]), int(stamped.c[message]), tuple(stamped.kn[message].tolist()))
        taken = scheme.decode(scheme.encode(meant), now)
        wrong += taken.r != meant.r
        read.append(scheme.observe(taken, now))
        bounded += read[-1] != taken
    r, c, kn = _columns(read, scheme.entries)
    return Observed(r, c, kn, bounded, wrong)


def rank(stream: Stream, observed: Observed, ties: Ties = "sequence") -> None:
    """None: a policy orders messages while it holds them."""


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


def in_violation(stream: Stream, vectors: Int32, order: Int64) -> NDArray[np.bool_]:
    """For each message, whether it is in a violated pair."""
    _, found = find_violations(_sends(stream, vectors, order))
    ids = zip(stream.sent_by.tolist(), stream.sent_index.tolist(), strict=True)
    return np.array([message in found for message in ids], dtype=np.bool_)


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


def _columns(stamps: Sequence[Stamp], entries: int) -> tuple[Int64, Int64, Int64]:
    return (
        np.array([stamp.r for stamp in stamps], dtype=np.int64),
        np.array([stamp.c for stamp in stamps], dtype=np.int64),
        np.array([stamp.kn for stamp in stamps], dtype=np.int64).reshape(len(stamps), entries),
    )
