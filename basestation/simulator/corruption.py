"""Faults in a mote's memory: arbitrary values overwrite its stamp state in the middle of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from basestation.causality.stream import CORRUPT, SEND, Int64, Stream

FAR = 1 << 30  # a mote's clock has 32 bits: a flipped high bit moves its state this far


@dataclass(frozen=True, slots=True)
class Corruption:
    """The states to write: the clock's offset from the truth, c, and the entries. Row i is for mote i."""

    after: int
    offset: Int64
    c: Int64
    kn: Int64

    def state(self, row: int, clock: int) -> tuple[int, int, list[int]]:
        return clock + int(self.offset[row]), int(self.c[row]), self.kn[row].tolist()


def draw_corruption(motes: int, epsilon: int, after: int, seed: int) -> Corruption:
    """Draw a state for each mote: a third far ahead, a third far off either way, the rest close to the truth.

    The last kind is the worst: it may be within the bound, and then only time removes it.
    """
    random = np.random.default_rng([seed, 0xC0])
    kind = random.permutation(motes) % 3
    near = random.integers(-epsilon, epsilon + 1, motes)
    far = random.integers(-FAR, FAR, motes)
    ahead = random.integers(FAR // 2, FAR, motes)
    return Corruption(
        after=after,
        offset=np.choose(kind, [ahead, far, near]).astype(np.int64),
        c=np.where(kind == 2, random.integers(0, epsilon + 1, motes), random.integers(0, 256, motes)),
        kn=random.integers(0, 256, (motes, epsilon + 1)),
    )


def corrupt_stream(stream: Stream, corruption: Corruption, motes: list[int]) -> tuple[Stream, int]:
    """The same stream with these motes' states overwritten right after message `after`, and the clock at that time.

    The network goes on as it did, so a corrupted and a sound run can be compared message by message.
    """
    row = int(np.flatnonzero((stream.event_kind == SEND) & (stream.event_message == corruption.after))[0]) + 1
    now = int(stream.event_clock[:row].max())
    clocks = [_clock_of(stream, mote, row) for mote in motes]

    def insert(column: str, values: list[int]) -> np.ndarray:
        old = getattr(stream, column)
        return np.insert(old, row, np.array(values, dtype=old.dtype))

    return (
        replace(
            stream,
            event_kind=insert("event_kind", [CORRUPT] * len(motes)),
            event_mote=insert("event_mote", motes),
            event_clock=insert("event_clock", clocks),
            event_message=insert("event_message", list(motes)),
        ),
        now,
    )


def _clock_of(stream: Stream, mote: int, row: int) -> int:
    """The mote's clock at its last event before `row`. Ticks since then do not matter to a fault."""
    rows = np.flatnonzero(stream.event_mote[:row] == mote)
    return int(stream.event_clock[rows[-1]]) if len(rows) else 0
