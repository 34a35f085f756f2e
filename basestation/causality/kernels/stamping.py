"""Runs stamp programs and vector clocks over a whole stream of events.

A mote's state is a row of arrays: `top` = r + c and the window `kn` counted down from it. The window of an HLC has one
entry, that of DPC2 none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.causality import modular
from basestation.causality.stream import CORRUPT, MERGE, SEND

from .compiled import compiled

Ints = NDArray[Any]  # of any width: numba compiles one version for each

KN, DPC1, HLC, SHLC = 0, 1, 2, 3


_last_up_to = compiled(modular.unwrap)


@compiled
def _unwrap(value: int, now: int, lead: int, modulus: int) -> int:
    return _last_up_to(value % modulus, now + lead, modulus)


@compiled
def _raise_top(top: Ints, kn: Ints, mote: int, new_top: int) -> None:
    """Slide the window up: its first entry counts the events at clock `new_top`."""
    rise = new_top - top[mote]
    if rise <= 0:
        return
    entries = kn.shape[1]
    for i in range(entries - 1, -1, -1):
        kn[mote, i] = kn[mote, i - rise] if i >= rise else 0
    top[mote] = new_top


@compiled
def _bound(top: Ints, kn: Ints, mote: int, rt: int, lead: int) -> int:
    """Drop a top beyond rt + lead: no clock can be that far ahead, so the state is faulty."""
    if top[mote] <= rt + lead:
        return 0
    top[mote] = rt
    kn[mote, :] = 0
    return 1


@compiled
def _kn_merge(
    top: Ints, kn: Ints, mote: int, rt: int, lead: int, read_r: int, read_c: int, entries_read: Ints
) -> int:
    read_top = read_r + read_c
    if read_top > rt + lead:
        _raise_top(top, kn, mote, read_r)
        return 1
    _raise_top(top, kn, mote, read_top)
    below = top[mote] - read_top
    for i in range(below, kn.shape[1]):
        if entries_read[i - below] > kn[mote, i]:
            kn[mote, i] = entries_read[i - below]
    return 0


@compiled
def _kn_count(top: Ints, kn: Ints, mote: int, rt: int, entry_max: int) -> None:
    place = top[mote] - rt
    if place < kn.shape[1] and kn[mote, place] < entry_max:
        kn[mote, place] += 1


@compiled
def _hlc_take(top: Ints, kn: Ints, mote: int, rt: int, lead: int, read_top: int, counter: int) -> int:
    if read_top > rt + lead:
        return 1
    if read_top > top[mote] or (read_top == top[mote] and counter > kn[mote, 0]):
        top[mote] = read_top
        kn[mote, 0] = counter
    return 0


@compiled
def _hlc_count(top: Ints, kn: Ints, mote: int, rt: int, entry_max: int, room: int) -> None:
    """Count an event. A full counter carries into l while that is less than `room` ahead; then it saturates."""
    if rt > top[mote]:
        top[mote] = rt
        kn[mote, 0] = 0
    elif kn[mote, 0] + 1 < entry_max:
        kn[mote, 0] += 1
    elif top[mote] < rt + room:
        top[mote] += 1
        kn[mote, 0] = 0
    else:
        kn[mote, 0] = entry_max


class Motes(NamedTuple):
    """The state of all motes between two parts of a stream of events."""

    top: Ints
    kn: Ints
    within: Ints  # one value: a receive event has begun and not ended


def start_motes(motes: int, program: int, entries: int, entry_max: int) -> Motes:
    """The motes before the first event; kn counts the start as one."""
    state = Motes(np.zeros(motes, np.int64), np.zeros((motes, entries), np.int64), np.zeros(1, np.bool_))
    if program == KN:
        for mote in range(motes):
            _kn_count(state.top, state.kn, mote, 0, entry_max)
    return state


def stamp_events(
    kind: Ints,
    mote_of: Ints,
    clock: Ints,
    message_of: Ints,
    motes: int,
    messages: int,
    program: int,
    epsilon: int,
    lead: int,
    modulus: int,
    entries: int,
    entry_max: int,
    counts_receives: bool,
    carries_sum: bool,
    corrupt_offset: Ints,
    corrupt_c: Ints,
    corrupt_kn: Ints,
) -> tuple[Ints, Ints, Ints, int, int]:
    """Run one program on every mote. Returns (r, c, kn) per message, cuts by the bound, stamps unwrapped wrongly."""
    stamps = (
        np.zeros(messages, np.int64),
        np.zeros(messages, np.int64),
        np.zeros((messages, entries), np.int64),
    )
    state = start_motes(motes, program, entries, entry_max)
    widths, counted = (epsilon, lead, modulus, entry_max), (counts_receives, carries_sum)
    rows, fault = (kind, mote_of, clock, message_of), (corrupt_offset, corrupt_c, corrupt_kn)
    counts = stamp_more(*rows, state, *stamps, program, *widths, *counted, *fault)
    return *stamps, int(counts[0]), int(counts[1])


@compiled
def stamp_more(
    kind: Ints,
    mote_of: Ints,
    clock: Ints,
    message_of: Ints,
    state: Motes,
    out_r: Ints,
    out_c: Ints,
    out_kn: Ints,
    program: int,
    epsilon: int,
    lead: int,
    modulus: int,
    entry_max: int,
    counts_receives: bool,
    carries_sum: bool,
    corrupt_offset: Ints,
    corrupt_c: Ints,
    corrupt_kn: Ints,
) -> tuple[int, int, int]:
    """Run one program over the next events, with the motes' state before them and the stamps of all messages.

    Returns the cuts by the bound, the stamps unwrapped wrongly, and the receptions of a stamp with a negative c,
    which are of messages that were not sent yet.
    """
    top, kn, within = state
    entries = kn.shape[1]
    bounded = wrong = unsent = 0
    for row in range(len(kind)):
        mote, rt, message = mote_of[row], clock[row], message_of[row]
        if kind[row] == CORRUPT:
            top[mote] = rt + corrupt_offset[message] + corrupt_c[message]
            for i in range(entries):
                kn[mote, i] = min(corrupt_kn[message, i], entry_max)
            continue
        if program != DPC1 and not within[0]:
            bounded += _bound(top, kn, mote, rt, lead)
            if program == KN:
                _raise_top(top, kn, mote, rt)
        if kind[row] == SEND:
            if program == KN:
                _kn_count(top, kn, mote, rt, entry_max)
            elif program != DPC1:
                _hlc_count(top, kn, mote, rt, entry_max, lead - epsilon)
            out_r[message] = top[mote] if carries_sum else rt
            out_c[message] = 0 if carries_sum or program == DPC1 else top[mote] - rt
            for i in range(entries):
                out_kn[message, i] = kn[mote, i]
            continue
        unsent += out_c[message] < 0
        read_r = _unwrap(out_r[message], rt, lead, modulus)
        wrong += read_r != out_r[message]
        read_c = out_c[message]
        if program == KN:
            bounded += _kn_merge(top, kn, mote, rt, lead, read_r, read_c, out_kn[message])
        elif program != DPC1:
            bounded += _hlc_take(top, kn, mote, rt, lead, read_r + read_c, out_kn[message, 0])
        within[0] = kind[row] == MERGE
        if not within[0]:
            if program == KN and counts_receives:
                _kn_count(top, kn, mote, rt, entry_max)
            elif program == HLC:
                _hlc_count(top, kn, mote, rt, entry_max, lead - epsilon)
    return bounded, wrong, unsent


@compiled
def observe_stamps(
    arrival_message: Ints, arrival_clock: Ints, r: Ints, c: Ints, kn: Ints, lead: int, modulus: int
) -> tuple[Ints, Ints, Ints, int, int]:
    """Read stamps as the observer does at each arrival, and bound them. Returns (r, c, kn, bounded, wrong)."""
    arrivals = len(arrival_message)
    out_r = np.empty(arrivals, np.int64)
    out_c = np.empty(arrivals, np.int64)
    out_kn = np.empty((arrivals, kn.shape[1]), np.int64)
    bounded = wrong = 0
    for i in range(arrivals):
        message, now = arrival_message[i], arrival_clock[i]
        out_r[i] = _unwrap(r[message], now, lead, modulus)
        out_c[i] = c[message]
        wrong += out_r[i] != r[message]
        if out_r[i] + out_c[i] > now + lead:
            bounded += 1
            out_c[i] = now + lead - out_r[i]
            out_kn[i] = 0
        else:
            out_kn[i] = kn[message]
    return out_r, out_c, out_kn, bounded, wrong


@compiled
def vector_clocks(
    kind: Ints, mote_of: Ints, message_of: Ints, motes: int, messages: int
) -> NDArray[np.int32]:
    """How many sends of each mote led to each message, the message itself included."""
    out = np.zeros((messages, motes), np.int32)
    known = np.zeros((motes, motes), np.int32)
    for row in range(len(kind)):
        mote, message = mote_of[row], message_of[row]
        if kind[row] == SEND:
            known[mote, mote] += 1
            out[message] = known[mote]
        elif kind[row] != CORRUPT:
            for i in range(motes):
                if out[message, i] > known[mote, i]:
                    known[mote, i] = out[message, i]
    return out
