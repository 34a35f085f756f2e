"""One scheme on one stream: stamp every send, merge at every receive, deliver at the observer, and time both sides.

It runs the objects, one program a mote: slow, and the same for every scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from basestation.causality.order import Message
from basestation.causality.rules import Delivery, Rule
from basestation.causality.schemes import Scheme
from basestation.causality.stream import CORRUPT, MERGE, SEND, Int64, Stream
from basestation.deployed import scheme_of
from packet_formats import bulk
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of


def stamp_messages(stream: Stream, scheme: Scheme) -> list[Message]:
    """Every message with its stamp, in the order of sending."""
    motes = StampingMotes(scheme, stream.motes, stream.sent_index.tolist())
    columns = (stream.event_kind, stream.event_mote, stream.event_clock, stream.event_message)
    motes.take(zip(*(column.tolist() for column in columns), strict=True))
    return list(motes.sent.values())


class StampingMotes:
    """The motes' programs, which stamp event by event. `sent`: the stamped messages, by their number among all sends.

    `indices`: each send's number within its mote, where a mote does not count from 1 on.
    """

    def __init__(self, scheme: Scheme, motes: int, indices: Sequence[int] | None = None) -> None:
        self.sent: dict[int, Message] = {}
        self._scheme = scheme
        self._programs = [scheme.start(mote) for mote in range(motes)]
        self._sends, self._indices = [0] * motes, indices
        self._brought: list[Message] = []

    def take(self, events: Iterable[Sequence[int]]) -> None:
        """Rows of kind, mote, clock and message."""
        for kind, mote, clock, message in events:
            program = self._programs[mote]
            if kind == SEND:
                self._sends[mote] += 1
                index = self._sends[mote] if self._indices is None else self._indices[message]
                self.sent[message] = Message(mote, index, program.on_send(clock, index))
            elif kind != CORRUPT:
                self._brought.append(_as_read(self._scheme, self.sent[message], clock))
                if kind != MERGE:
                    program.on_receive(clock, self._brought)
                    self._brought = []

    def forget(self, keep: int) -> None:
        """Forget all sent messages but the newest."""
        while len(self.sent) > keep:
            del self.sent[next(iter(self.sent))]


def _as_read(scheme: Scheme, message: Message, now: int) -> Message:
    stamp = scheme.as_read(message.stamp, now)
    return message if stamp is message.stamp else message._replace(stamp=stamp)


def stamp_rows(stream: Stream, deployment: Deployment) -> NDArray[np.void]:
    """The stamp fields of all sent messages, in the columns in which they are packed."""
    return pack_stamps(stamp_messages(stream, scheme_of(deployment)), deployment)


def pack_stamps(messages: Sequence[Message], deployment: Deployment) -> NDArray[np.void]:
    """The same for some messages."""
    stamp, codec = layout_of(deployment).stamp, scheme_of(deployment).codec()
    rows = np.zeros(len(messages), bulk.data_dtype(layout_of(deployment)))
    for row, message in zip(rows, messages, strict=True):
        fields = codec.encode(message.stamp, message.source, message.sequence)
        bulk.put_stamp(row, fields, stamp)
        row["saturated"] = codec.saturated(message.stamp)
    return rows


@dataclass(frozen=True, slots=True)
class Played:
    """The numbers of the messages in order of delivery, and the cost.

    `saturated` stamps were full. `gave_up` left without a cause that they waited for. `discarded` came too late to be
    of use. `stuck` were held at the end, when no event could release them.
    """

    order: Int64
    left: Int64
    hold: Int64
    bits: Int64
    gave_up: int
    discarded: int
    concurrent: int
    late: int
    saturated: int
    stuck: int
    mote_seconds: float
    observer_seconds: float


def play(stream: Stream, scheme: Scheme, messages: Sequence[Message] | None = None) -> Played:
    """Run one scheme with its rule on a stream. Pass `messages` to stamp once and deliver by many rules."""
    started = thread_time()
    messages = stamp_messages(stream, scheme) if messages is None else messages
    stamped = thread_time()
    rule = scheme.rule()
    discarded: list[Message] = []
    out = list(_deliver(stream, scheme, messages, rule, discarded))
    delivered = thread_time()
    number = {(message.source, message.sequence): i for i, message in enumerate(messages)}
    return Played(
        order=np.array([number[d.message.source, d.message.sequence] for d in out], np.int64),
        left=np.array([d.left for d in out], np.int64),
        hold=np.array([d.left - d.arrived for d in out], np.int64),
        bits=np.array([scheme.stamp_bits(message.stamp) for message in messages], np.int64),
        gave_up=sum(bool(d.missing) for d in out),
        discarded=len(discarded),
        concurrent=sum(d.concurrent for d in out),
        late=rule.late,
        saturated=sum(map(scheme.codec().saturated, (message.stamp for message in messages))),
        stuck=stream.arrivals - len(out) - len(discarded),
        mote_seconds=stamped - started,
        observer_seconds=delivered - stamped,
    )


def _deliver(
    stream: Stream, scheme: Scheme, messages: Sequence[Message], rule: Rule, discarded: list[Message]
) -> Iterator[Delivery]:
    """The observer takes its batches; a batch after its tick finds that tick's deliveries done."""
    columns = (
        stream.arrival_batch, stream.arrival_clock, stream.arrival_fresh, stream.arrival_message, stream.read_at
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for _, batch in groupby(rows, key=lambda row: int(row[0])):
        taken = list(batch)
        _, now, fresh, *_ = taken[0]
        if not fresh:
            yield from rule.due(now)
        for *_, message, heard in taken:
            if not rule.receive(_as_observed(scheme, messages[message], heard), now):
                discarded.append(messages[message])
        yield from rule.due(now)
    while (at := rule.next_due()) is not None:
        yield from rule.due(at)


def _as_observed(scheme: Scheme, message: Message, heard: int) -> Message:
    return message._replace(stamp=scheme.as_observed(message.stamp, heard), heard=heard)
