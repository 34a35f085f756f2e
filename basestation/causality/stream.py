"""A run as plain arrays: what was sent, what each mote did in which order, and what reached the observer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

# Kinds of event rows. One receive event may bring several messages: MERGE rows precede the RECEIVE row that ends it.
SEND, RECEIVE, MERGE, CORRUPT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of a run, without stamps: every scheme stamps this same stream.

    Messages are numbered in the true order of their sends. A `batch` is what the observer receives at one time. A batch
    is `fresh` if it comes with the observer's tick, before that tick's deliveries. Stamps are read at `arrival_heard`,
    the tick in which a gateway heard the message; None: the observer's clock, as where there is one gateway.
    `arrival_gateway` is the number of that gateway; None: there is one.
    """

    motes: int
    sent_by: Int32
    sent_index: Int32
    sent_at: Int64
    event_kind: Int8
    event_mote: Int32
    event_clock: Int64
    event_message: Int64
    arrival_message: Int64
    arrival_clock: Int64
    arrival_batch: Int64
    arrival_fresh: Int8
    arrival_heard: Int64 | None = None
    arrival_gateway: Int64 | None = None

    @classmethod
    def from_tables(cls, motes: int, sent: Int64, events: Int64, arrivals: Int64) -> Stream:
        """Make a stream from rows of (mote, index, clock), (kind, mote, clock, message) and (message, clock, batch,
        fresh)."""
        return cls(
            motes=motes,
            sent_by=sent[:, 0].astype(np.int32),
            sent_index=sent[:, 1].astype(np.int32),
            sent_at=sent[:, 2].copy(),
            event_kind=events[:, 0].astype(np.int8),
            event_mote=events[:, 1].astype(np.int32),
            event_clock=events[:, 2].copy(),
            event_message=events[:, 3].copy(),
            arrival_message=arrivals[:, 0].copy(),
            arrival_clock=arrivals[:, 1].copy(),
            arrival_batch=arrivals[:, 2].copy(),
            arrival_fresh=arrivals[:, 3].astype(np.int8),
        )

    @property
    def messages(self) -> int:
        return len(self.sent_by)

    @property
    def arrivals(self) -> int:
        return len(self.arrival_message)

    @property
    def read_at(self) -> Int64:
        """The tick in which the stamp of each arrival is read."""
        return self.arrival_clock if self.arrival_heard is None else self.arrival_heard

    @property
    def sends_per_mote(self) -> Int64:
        return np.bincount(self.sent_by, minlength=self.motes).astype(np.int64)
