"""One scheme on one stream: stamp every send, merge at every receive, deliver at the observer, and time both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import thread_time

import numpy as np

from basestation.causality.order import Message
from basestation.causality.policies import Delivery, Policy
from basestation.causality.schemes import Method
from basestation.causality.schemes.notices import Step
from basestation.causality.stream import Int64, Stream
from basestation.simulator.papers import stamp_messages

Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Played:
    """What was delivered, as numbers of messages in order of delivery, and what it took.

    `steps` counts what the policy noticed, by the kind of step. `stuck` were held when nothing more could free them.
    """

    order: Int64
    hold: Int64
    bits: Int64
    steps: dict[str, int]
    late: int
    stuck: int
    mote_seconds: float
    observer_seconds: float


def play(stream: Stream, method: Method) -> Played:
    started = thread_time()
    messages = stamp_messages(stream, method)
    stamped = thread_time()
    steps: Counter[str] = Counter()

    def notice(step: Step) -> None:
        steps[type(step).__name__] += 1

    policy = method.policy(notice)
    out = list(_deliver(stream, messages, policy))
    delivered = thread_time()
    number = {(message.source, message.sequence): i for i, message in enumerate(messages)}
    return Played(
        order=np.array([number[d.message.source, d.message.sequence] for d in out], np.int64),
        hold=np.array([d.left - d.arrived for d in out], np.int64),
        bits=np.array([method.bits(message.stamp) for message in messages], np.int64),
        steps=dict(steps),
        late=policy.late,
        stuck=stream.arrivals - len(out) - steps["DiscardNotice"],
        mote_seconds=stamped - started,
        observer_seconds=delivered - stamped,
    )


def _deliver(stream: Stream, messages: Sequence[Message], policy: Policy) -> Iterator[Delivery]:
    """The observer takes its batches; one that does not come with its tick finds that tick's deliveries done."""
    columns = (stream.arrival_batch, stream.arrival_clock, stream.arrival_fresh, stream.arrival_message)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for _, batch in groupby(rows, key=lambda row: int(row[0])):
        taken = list(batch)
        _, now, fresh, _ = taken[0]
        if not fresh:
            yield from policy.due(now)
        for *_, message in taken:
            policy.receive(messages[message], now)
        yield from policy.due(now)
    while (at := policy.next_due()) is not None:
        yield from policy.due(at)
