"""Counts violated pairs exactly: `basestation.causality.violations` over arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled
from .stamping import Ints

Flags = NDArray[np.bool_]


class Counts(NamedTuple):
    """The counts of `Violations`. `overtaken` flags the causes in a violated pair, `hasty` the effects."""

    pairs: int
    backward: int
    forward: int
    any: int
    related_pairs: int
    overtaken: Flags
    hasty: Flags


def first_sends(sends_per_mote: Ints) -> Ints:
    """Where each mote's row begins in the flat tables below; slot 0 of a row stands for "no send"."""
    return np.concatenate(([0], np.cumsum(sends_per_mote + 1)))


@compiled
def _count(
    order: Ints, sent_by: Ints, sent_index: Ints, vectors: Ints, row_of: Ints
) -> tuple[int, int, Flags, Flags]:
    motes = vectors.shape[1]
    slots = row_of[motes]
    position = np.full(slots, -1, np.int64)
    message_at = np.full(slots, -1, np.int64)
    for place in range(len(order)):
        message = order[place]
        slot = row_of[sent_by[message]] + sent_index[message]
        position[slot] = place
        message_at[slot] = message
    latest = position.copy()
    arrived = np.zeros(slots, np.int64)
    for mote in range(motes):
        for slot in range(row_of[mote] + 1, row_of[mote + 1]):
            latest[slot] = max(latest[slot], latest[slot - 1])
            arrived[slot] = arrived[slot - 1] + (position[slot] >= 0)
    overtaken = np.zeros(len(sent_by), np.bool_)
    hasty = np.zeros(len(sent_by), np.bool_)
    pairs = related = 0
    for place in range(len(order)):
        message = order[place]
        for mote in range(motes):
            slot = row_of[mote] + vectors[message, mote] - (mote == sent_by[message])
            related += arrived[slot]
            while latest[slot] > place:
                if position[slot] > place:
                    pairs += 1
                    overtaken[message_at[slot]] = True
                    hasty[message] = True
                slot -= 1
    return pairs, related, overtaken, hasty


def count_pairs(order: Ints, sent_by: Ints, sent_index: Ints, vectors: Ints, row_of: Ints) -> Counts:
    """Count violations; `order` holds message numbers in order of delivery, `row_of` is from `first_sends`."""
    pairs, related, overtaken, hasty = _count(order, sent_by, sent_index, vectors, row_of)
    return Counts(
        pairs,
        int(overtaken.sum()),
        int(hasty.sum()),
        int((overtaken | hasty).sum()),
        related,
        overtaken,
        hasty,
    )
