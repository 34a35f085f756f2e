"""Boots, sequence numbers and copies of all messages at once: `basestation.causality.boots.Numbers` over arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.causality.boots import BOOTS, ROUND, WINDOW

from .compiled import compiled
from .stamping import Ints

Flags = NDArray[np.bool_]
Bits = NDArray[np.uint64]
HALF = 64  # bits of a word: which of the last 128 numbers came is two words


class BootState(NamedTuple):
    """What is known of each mote, and of each of its boot counts. It is stepped in place."""

    heard: Flags
    life: Ints
    booted: Ints
    newest: Ints  # its largest number, 0 for none
    known: Flags  # from here on by mote and boot count
    sequence: Ints
    tick: Ints
    seen: Bits  # by word, the low one first
    base: Ints

    @classmethod
    def empty(cls, motes: int) -> BootState:
        single, pair = motes, (motes, BOOTS)
        return cls(
            np.zeros(single, np.bool_),
            np.zeros(single, np.int64),
            np.zeros(single, np.int64),
            np.zeros(single, np.int64),
            np.zeros(pair, np.bool_),
            np.zeros(pair, np.int64),
            np.zeros(pair, np.int64),
            np.zeros((*pair, 2), np.uint64),
            np.zeros(pair, np.int64),
        )


@compiled
def _shifted(seen: Bits, by: int) -> None:
    """Shift two words up, and set the lowest bit."""
    if by >= 2 * HALF:
        seen[0] = seen[1] = np.uint64(0)
    elif by >= HALF:
        seen[1] = seen[0] << np.uint64(by - HALF)
        seen[0] = np.uint64(0)
    else:
        seen[1] = seen[1] << np.uint64(by) | seen[0] >> np.uint64(HALF - by)
        seen[0] = seen[0] << np.uint64(by)
    seen[0] |= np.uint64(1)


@compiled
def number_messages(
    source: Ints, boot: Ints, field: Ints, tick: Ints, patience: int, state: BootState
) -> tuple[Ints, Ints, Ints, Flags]:
    """For each message its life, its sequence number in it, its number among all of its mote, and whether it is the
    first of its copies. A copy's number is that of the first where it is still known, else 0."""
    heard, life_of, booted, newest, known, sequence_of, tick_of, seen_of, base = state
    count = len(source)
    lives, sequences, numbers = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.int64)
    first = np.ones(count, np.bool_)
    for i in range(count):
        mote, count_told, now = source[i], boot[i], tick[i]
        if not heard[mote]:
            heard[mote], life_of[mote], booted[mote] = True, count_told, now
        life = life_of[mote]
        if count_told != life % BOOTS:
            later = (count_told - life) % BOOTS
            if later > BOOTS // 2 and abs(now - booted[mote]) <= patience:
                life = life - BOOTS + later
            else:
                life += later
                life_of[mote], booted[mote], known[mote, count_told] = life, now, False
        seen = seen_of[mote, count_told]
        if not known[mote, count_told]:
            sequence = field[i]
            known[mote, count_told] = True
            sequence_of[mote, count_told], tick_of[mote, count_told] = sequence, now
            seen[0], seen[1] = np.uint64(1), np.uint64(0)
            base[mote, count_told] = (newest[mote] // ROUND + 2) * ROUND if newest[mote] else 0
        else:
            last = sequence_of[mote, count_told]
            latest = last + (ROUND if now - tick_of[mote, count_told] > patience else WINDOW)
            sequence = latest - (latest - field[i]) % ROUND
            ahead = sequence - last
            if ahead > 0:
                sequence_of[mote, count_told], tick_of[mote, count_told] = sequence, now
                _shifted(seen, ahead)
            else:
                word, bit = -ahead // HALF, np.uint64(1) << np.uint64(-ahead % HALF)
                first[i] = not seen[word] & bit
                seen[word] |= bit
        lives[i], sequences[i] = life, sequence
        numbers[i] = base[mote, count_told] + sequence + 1
        if first[i] and numbers[i] > newest[mote]:
            newest[mote] = numbers[i]
    return lives, sequences, numbers, first
