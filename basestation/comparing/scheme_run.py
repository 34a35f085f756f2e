"""One scheme on one stream: stamp every send, merge at every receive, deliver at the observer, and time both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import thread_time

import numpy as np

from basestation.causality.order import Message
from basestation.causality.rules import Delivery, Rule
from basestation.causality.schemes import Method
from basestation.simulator.papers import stamp_messages
from basestation.simulator.stream import Int64, Stream

Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Played:
    """What was delivered, as numbers of messages in order of delivery, and what it took.

    `gave_up` left without something that they waited for. `discarded` came too late to be of use. `stuck` were held
    when nothing more could free them.
    """

    order: Int64
    hold: Int64
    bits: Int64
    gave_up: int
    discarded: int
    concurrent: int
    late: int
    stuck: int
    mote_seconds: float
    observer_seconds: float


def play(stream: Stream, method: Method) -> Played:
    started = thread_time()
    messages = stamp_messages(stream, method)
    stamped = thread_time()
    rule = method.rule()
    discarded: list[Message] = []
    out = list(_deliver(stream, messages, rule, discarded))
    delivered = thread_time()
    number = {(message.source, message.sequence): i for i, message in enumerate(messages)}
    return Played(
        order=np.array([number[d.message.source, d.message.sequence] for d in out], np.int64),
        hold=np.array([d.left - d.arrived for d in out], np.int64),
        bits=np.array([method.bits(message.stamp) for message in messages], np.int64),
        gave_up=sum(bool(d.missing) for d in out),
        discarded=len(discarded),
        concurrent=sum(d.concurrent for d in out),
        late=rule.late,
        stuck=stream.arrivals - len(out) - len(discarded),
        mote_seconds=stamped - started,
        observer_seconds=delivered - stamped,
    )


def _deliver(
    stream: Stream, messages: Sequence[Message], rule: Rule, discarded: list[Message]
) -> Iterator[Delivery]:
    """The observer takes its batches; one that does not come with its tick finds that tick's deliveries done."""
    columns = (stream.arrival_batch, stream.arrival_clock, stream.arrival_fresh, stream.arrival_message)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for _, batch in groupby(rows, key=lambda row: int(row[0])):
        taken = list(batch)
        _, now, fresh, _ = taken[0]
        if not fresh:
            yield from rule.due(now)
        for *_, message in taken:
            if not rule.receive(messages[message], now):
                discarded.append(messages[message])
        yield from rule.due(now)
    while (at := rule.next_due()) is not None:
        yield from rule.due(at)
