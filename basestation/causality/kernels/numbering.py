"""Boots, sequence numbers and copies of all messages at once: `basestation.causality.boots.Numbers` over arrays."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.causality.boots import (
    BOOTS,
    FAR,
    FIRST,
    NO_BYTES,
    ROUND,
    UNTIMED,
    VARIANTS,
    WINDOW,
    MoteBoots,
)

from .compiled import compiled
from .stamping import Ints

Flags = NDArray[np.bool_]
Bits = NDArray[np.uint64]
Digests = NDArray[np.uint32]
HALF = 64  # bits of a word: which of the last 128 numbers came is two words
LOW = (1 << HALF) - 1
UNKNOWN = -(1 << 63)


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
    base: Ints  # -1 where the numbers were not kept
    contents: Digests  # and by sequence field: the digests of its messages
    first: Ints  # of its present boot, by mote

    @classmethod
    def of(cls, motes: Mapping[int, MoteBoots], count: int) -> BootState:
        one, pair = count, (count, BOOTS)
        state = cls(
            heard=np.zeros(one, np.bool_),
            life=np.zeros(one, np.int64),
            booted=np.zeros(one, np.int64),
            newest=np.zeros(one, np.int64),
            known=np.zeros(pair, np.bool_),
            sequence=np.zeros(pair, np.int64),
            tick=np.zeros(pair, np.int64),
            seen=np.zeros((*pair, 2), np.uint64),
            base=np.full(pair, -1, np.int64),
            contents=np.zeros((*pair, ROUND, VARIANTS), np.uint32),
            first=np.zeros(one, np.int64),
        )
        for source, mote in motes.items():
            state.heard[source], state.life[source], state.booted[source] = True, mote.life, mote.booted
            state.newest[source] = mote.newest or 0
            for boot, (sequence, tick, seen) in mote.sequences.items():
                at = source, boot
                state.known[at], state.sequence[at], state.tick[at] = True, sequence, tick
                state.seen[at] = seen & LOW, seen >> HALF
            for boot, base in mote.bases.items():
                state.base[source, boot] = base
            state.first[source] = mote.first
            for boot, told in mote.contents.items():
                state.contents[source, boot] = np.frombuffer(told, np.uint32).reshape(ROUND, VARIANTS)
        return state

    def motes(self) -> dict[int, MoteBoots]:
        return {source: self._mote(source) for source in np.flatnonzero(self.heard).tolist()}

    def _mote(self, source: int) -> MoteBoots:
        sequences = {
            boot: [
                int(self.sequence[source, boot]),
                int(self.tick[source, boot]),
                int(self.seen[source, boot, 0]) | int(self.seen[source, boot, 1]) << HALF,
            ]
            for boot in np.flatnonzero(self.known[source]).tolist()
        }
        bases = {
            boot: int(self.base[source, boot]) for boot in np.flatnonzero(self.base[source] >= 0).tolist()
        }
        newest, first = int(self.newest[source]) or None, int(self.first[source])
        contents = {boot: array("I", self.contents[source, boot].tobytes()) for boot in sequences}
        life, booted = int(self.life[source]), int(self.booted[source])
        return MoteBoots(life, booted, sequences, bases, newest, contents, first)


@compiled
def _shift(seen: Bits, by: int) -> None:
    """Shift two words up, and set the lowest bit."""
    if by >= 2 * HALF:
        seen[0], seen[1] = np.uint64(0), np.uint64(0)
    elif by >= HALF:
        seen[1] = seen[0] << np.uint64(by - HALF)
        seen[0] = np.uint64(0)
    else:
        seen[1] = seen[1] << np.uint64(by) | seen[0] >> np.uint64(HALF - by)
        seen[0] = seen[0] << np.uint64(by)
    seen[0] |= np.uint64(1)


@compiled
def _keep(before: Digests, digest: int) -> None:
    before[:] = 0
    before[0] = digest


@compiled
def _life_of(mote: int, told: int, now: int, patience: int, state: BootState) -> int:
    later = (told - state.life[mote]) % BOOTS
    if later:
        then = state.tick[mote, told] if state.known[mote, told] else UNTIMED
        recent = now != UNTIMED and then != UNTIMED and now - then <= patience
        if recent or (later > BOOTS // 2 and (now == UNTIMED or now - state.booted[mote] <= patience)):
            later -= BOOTS
    return int(state.life[mote] + later)


@compiled
def _is_anew(mote: int, field: int, ahead: int, came: bool, now: int, state: BootState) -> bool:
    if state.life[mote] % BOOTS or field >= FIRST or abs(ahead) <= FAR:
        return False
    heard = state.tick[mote, 0]
    sent = (state.sequence[mote, 0] - state.first[mote]) * (now - heard)
    lost = ahead * (heard - state.booted[mote])
    return came or (ahead > 0 and not (lost <= 2 * sent and sent <= 2 * lost))


@compiled
def number_messages(
    source: Ints, boot: Ints, field: Ints, tick: Ints, digest: Digests, patience: int, state: BootState
) -> tuple[Ints, Ints, Ints, Flags]:
    """For each message its life, its sequence number in it, its number among all of its mote (`UNKNOWN` for a copy, and
    where numbers were not kept), and whether it is the first of its copies."""
    heard, life_of, booted, newest, known, sequence_of, tick_of, seen_of, base, contents, first_of = state
    count = len(source)
    lives, sequences = np.empty(count, np.int64), np.empty(count, np.int64)
    numbers, first = np.full(count, UNKNOWN, np.int64), np.ones(count, np.bool_)
    for i in range(count):
        mote, told, now, says = source[i], boot[i], tick[i], digest[i]
        if not heard[mote]:
            heard[mote], life_of[mote], booted[mote] = True, told, now
        if booted[mote] == UNTIMED:
            booted[mote] = now
        life, sequence = _life_of(mote, told, now, patience, state), field[i]
        seen, before = seen_of[mote, told], contents[mote, told, field[i]]
        begins, ahead, word, bit = not known[mote, told] or life > life_of[mote], 1, 0, np.uint64(0)
        if not begins:
            last = sequence_of[mote, told]
            if tick_of[mote, told] == UNTIMED:
                tick_of[mote, told] = now
            silent = now != UNTIMED and now - tick_of[mote, told] > patience
            latest = last + (ROUND if silent else WINDOW)
            sequence = latest - (latest - field[i]) % ROUND
            ahead, came = sequence - last, False
            if ahead <= 0:
                word, bit = -ahead // HALF, np.uint64(1) << np.uint64(-ahead % HALF)
                came = seen[word] & bit != 0
            first[i] = not (came and ((before == says).any() or says == NO_BYTES or before[0] == NO_BYTES))
            if first[i] and life == life_of[mote] and _is_anew(mote, field[i], ahead, came, now, state):
                begins, life, sequence, ahead = True, life + BOOTS, field[i], 1
            elif first[i] and came:
                before[min(np.count_nonzero(before), VARIANTS - 1)] = says
            elif first[i]:
                _keep(before, says)
        if begins:
            if life > life_of[mote]:
                life_of[mote], booted[mote], known[mote, told] = life, now, False
            if life == life_of[mote]:
                first_of[mote] = sequence
            if newest[mote]:
                base[mote, told] = (newest[mote] // ROUND + 2) * ROUND
            elif not known[mote].any():
                base[mote, told] = 0
            known[mote, told], seen[:], contents[mote, told] = True, 0, 0
            _keep(before, says)
        if ahead > 0:
            sequence_of[mote, told], tick_of[mote, told] = sequence, now
            _shift(seen, ahead)
        else:
            seen[word] |= bit
        lives[i], sequences[i] = life, sequence
        if first[i] and base[mote, told] >= 0:
            numbers[i] = base[mote, told] + sequence + 1
            newest[mote] = max(newest[mote], numbers[i])
    return lives, sequences, numbers, first
