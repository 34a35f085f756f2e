"""Stamps a simulated run by one of the papers' schemes, with one program object for each mote. This is slow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from basestation.causality.order import Message
from basestation.causality.schemes import Method
from basestation.causality.stream import CORRUPT, MERGE, SEND, Stream
from basestation.deployed import method_of, wire_of
from packet_formats import bulk
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of


def stamp_messages(stream: Stream, method: Method) -> list[Message]:
    """All messages with their stamps, in the order of sending."""
    programs = [method.start(mote) for mote in range(stream.motes)]
    index = stream.sent_index.tolist()
    sent: list[Message] = []
    brought: list[Message] = []
    columns = (stream.event_kind, stream.event_mote, stream.event_clock, stream.event_message)
    for kind, mote, clock, message in zip(*(column.tolist() for column in columns), strict=True):
        if kind == SEND:
            sent.append(Message(mote, index[message], programs[mote].on_send(clock, index[message])))
        elif kind != CORRUPT:
            brought.append(sent[message])
            if kind != MERGE:
                programs[mote].on_receive(clock, brought)
                brought = []
    return sent


def stamp_rows(stream: Stream, deployment: Deployment) -> NDArray[np.void]:
    """The stamp fields of all sent messages, in the columns from which they are packed."""
    layout, wire = layout_of(deployment), wire_of(deployment)
    rows = np.zeros(stream.messages, bulk.data_dtype(layout))
    head = 1 if layout.stamp.clock_bits else 0
    for row, message in zip(rows, stamp_messages(stream, method_of(deployment)), strict=True):
        fields = wire.encode(message.stamp, message.source, message.sequence)
        row["clock"] = fields[0] if head else 0
        row["entries"] = fields[head:]
        row["saturated"] = wire.saturated(message.stamp)
    return rows
