"""Checks the MICs of a journal's frames, all at once, where the key is at hand.

A message with a heard record is checked against that record's time. One without is checked against the time that the
observer noted for it, or else against what was told of the network's time on its line, carried on by the host's clock;
then the neighbouring windows of its clock are tried too, as the live guard does, and the MIC tells which is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.causality.modular import nearest
from packet_formats.bulk import Frames
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.keys import Key
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import ROUND_SHIFT, Beacon, Health, Proof, mic_at
from packet_formats.seal import (
    BLOCK,
    ROUNDS,
    TIME_BITS,
    bulk_times,
    data_mics,
    headers,
    health_mics,
    mics,
    reading_window,
)

Bools = NDArray[np.bool_]
Rows = NDArray[np.void]
Places = NDArray[np.int64]
Ints = NDArray[np.int64]
IN_SYNC = 1
WRAP = 1 << TIME_BITS
WHOLE_WRAP = ROUNDS * WRAP  # with the rounds
FRESH = 60 * CRYSTAL_HZ  # cycles by which somebody in sync may be behind what others told
CYCLES_NS = CRYSTAL_HZ * (1 - 200e-6) / 1e9  # slower than any crystal, so that a quicker record counts
SETTLING_NS = 30_000_000_000  # after a new root epoch, messages of the one before are still about


class _Epoch(NamedTuple):
    """A root epoch, and where somebody told its time: what they said, unwrapped."""

    epoch: int
    at: Places
    times: Ints


class ToldTimes:
    """The network's time at any frame, as far as frames of the same records tell it.

    `told`: the time, its round and its epoch that the frames at these places tell, in order. Each line has its own
    delay, and hosts have clocks of their own: so a line goes by itself where it can, and else by all, on the wall
    clock.
    """

    def __init__(
        self, at: Places, told: Rows, lines: NDArray[np.uint8], mono_ns: Ints, wall_ns: Ints
    ) -> None:
        self._lines, self._mono, self._wall = lines, mono_ns, wall_ns
        self._epochs = [
            _Epoch(epoch % 256, at[mine], _unwrapped(told[mine])) for epoch, mine in _by_epoch(told)
        ]
        self._begins = np.array([one.at[0] for one in self._epochs], np.int64)

    def guess(self, rows: Places, back: int = 0) -> tuple[Bools, Ints, Ints]:
        """Whether the time at these frames is known, the epoch, and its cycles. `back`: of the epoch before, as if it
        went on; known for a short while."""
        which = np.maximum(np.searchsorted(self._begins, rows, "right") - 1, 0)
        known, epochs, cycles = np.zeros(len(rows), np.bool_), *np.zeros((2, len(rows)), np.int64)
        if not len(self._begins):
            return known, epochs, cycles
        begun_ns = self._wall[self._begins[which]]
        which = which - back
        known = which >= 0
        if back:
            known &= self._wall[rows] - begun_ns < SETTLING_NS
        for number in np.unique(which[known]).tolist():
            for line in np.unique(self._lines[rows[known & (which == number)]]).tolist():
                mine = known & (which == number) & (self._lines[rows] == line)
                epochs[mine] = self._epochs[number].epoch
                cycles[mine] = self._carried(self._epochs[number], rows[mine], line)
        return known, epochs, cycles

    def _carried(self, epoch: _Epoch, rows: Places, line: int) -> Ints:
        """The time goes on from whoever told it the quickest, as the observer's clock does."""
        own, clock = self._lines[epoch.at] == line, self._mono
        if not own.any():
            own, clock = np.ones(len(own), np.bool_), self._wall
        at, origin = epoch.at[own], clock[epoch.at[own][0]]
        ahead = np.maximum.accumulate(epoch.times[own] - (clock[at] - origin) * CYCLES_NS)
        last = np.maximum(np.searchsorted(at, rows, "right") - 1, 0)
        return np.asarray(ahead[last] + (clock[rows] - origin) * CYCLES_NS).astype(np.int64)


def _by_epoch(told: Rows) -> Iterator[tuple[int, Bools]]:
    """The root epochs, one after another, and what was told in each; stragglers of the one before are in none."""
    epochs = told["epoch"].astype(np.int64)
    epochs = np.cumsum(nearest(np.diff(epochs, prepend=epochs[:1]), 0, 256)) + epochs[:1].sum()
    newest = np.maximum.accumulate(epochs)
    for epoch in np.unique(newest).tolist():
        yield epoch, (newest == epoch) & (epochs == epoch)


def _unwrapped(told: Rows) -> Ints:
    """Times of one epoch, with their rounds."""
    times = whole_time(told["time"], told["round"])
    return np.asarray(times[0] + np.cumsum(nearest(np.diff(times, prepend=times[:1]), 0, WHOLE_WRAP)))


def whole_time(times: NDArray[np.uint32], rounds: NDArray[Any]) -> Ints:
    return times.astype(np.int64) + rounds.astype(np.int64) * WRAP


def is_old(told: Rows) -> Bools:
    """Which of the times that were told, in order, are older than others before: somebody plays them again."""
    old = np.zeros(len(told), np.bool_)
    for _, mine in _by_epoch(told):
        whole = _unwrapped(told[mine])
        old[mine] = whole < np.maximum.accumulate(whole) - FRESH
    return old


class CheckedData(NamedTuple):
    """Places of data messages: whose MIC is wrong, and which nobody can check; and for those without a heard record
    that are right when they were heard, in cycles, as the stamp reads rightly."""

    forged: Places
    unchecked: Places
    found: Places
    cycles: Ints


def check_data(
    frames: Frames,
    data: Rows,
    at: Places,
    heard: tuple[Bools, Rows],
    noted: tuple[Bools, Ints],
    told: ToldTimes,
    deployment: Deployment,
) -> CheckedData:
    """Check the data messages at these places. `heard`: whether each frame has a heard record, and that; `noted`:
    whether the observer noted when it was heard, and when."""
    assert deployment.key is not None
    checker = _Checker(frames, data, at, deployment.key, layout_of(deployment))
    synced, recorded, said = checker.rows["in_sync"], heard[0][at], heard[1][at]
    timed = recorded & (said["flags"] & IN_SYNC != 0)
    nothing = np.zeros(len(at), np.int64)
    right = ~synced & (checker.sent(nothing, nothing, ~synced, 1) >= 0)
    recorded_time = whole_time(said["time"], said["flags"] >> ROUND_SHIFT)
    by_record = checker.sent(said["epoch"].astype(np.int64), recorded_time, synced & timed, 1)
    right |= by_record >= 0
    known, epochs, whole = told.guess(at)
    # The observer counts rounds of its own, so what it noted is put beside what was told.
    cycles = np.where(noted[0][at], noted[1][at], whole)
    whole = nearest(cycles, whole, WRAP)
    alone, late = synced & ~recorded & known, deployment.late_guess
    sent = checker.sent(epochs, whole + (late << deployment.clock.tick_log2), alone, 3)
    right |= sent >= 0
    unknown = synced & np.where(recorded, ~timed, ~known)
    before, epochs, old = told.guess(at, back=1)
    unknown |= synced & ~right & before & (checker.sent(epochs, old, synced & ~right & before, 3) >= 0)
    found = alone & (sent >= 0) if checker.layout.stamp.clock_bits else np.zeros(len(at), np.bool_)
    read_at = _within(checker.layout, sent[found], cycles[found], late)
    return CheckedData(at[~right & ~unknown], at[~right & unknown], at[found], read_at)


def _within(layout: DataLayout, sent: Ints, cycles: Ints, late: int) -> Ints:
    """Guesses of when messages were heard, moved as little as needed for their stamps' clocks to be read as `sent`."""
    ticks = cycles >> layout.tick_log2
    moved = np.clip(ticks, *reading_window(layout, sent, ticks, late))
    return np.where(moved == ticks, cycles, moved << layout.tick_log2)


class _Checker:
    def __init__(self, frames: Frames, data: Rows, at: Places, key: Key, layout: DataLayout) -> None:
        self.rows, self.layout, self._key = data[at], layout, key
        self._payload, self._lengths = frames.payload[at], frames.length[at].astype(np.int64)

    def sent(self, epochs: Ints, cycles: Ints, asked: Bools, tries: int) -> Ints:
        """The time that each message's MIC covers, for those that were heard at these cycles of an epoch; -1 where it
        is wrong or not asked for. Without a clock in the stamp three periods are tried."""
        found = np.full(len(asked), -1, np.int64)
        for offset in (0, -1, 1)[: tries if self.layout.stamp.clock_bits else 3]:
            left = np.flatnonzero(asked & (found < 0))
            rows, lengths = self.rows[left], self._lengths[left]
            times = bulk_times(self.layout, rows, cycles[left], offset)
            made = data_mics(self._key, self.layout, rows, self._payload[left], lengths, epochs[left], times)
            same = (made == rows["mic"]).all(axis=1)
            found[left[same]] = times[same]
        return found


def health_rounds(frames: Frames, at: Places, rows: Rows, key: Key, layout: DataLayout) -> Ints:
    """The rounds of the times of health records, at these places, by their MICs; -1 where that is wrong."""
    payload, begin = frames.payload[at, : layout.record_bytes(Health)], mic_at(Health)
    told, found = payload[:, begin : begin + layout.mic], np.full(len(at), -1, np.int64)
    for round_ in range(ROUNDS):
        left = np.flatnonzero(found < 0)
        if not len(left):
            break
        made = health_mics(key, layout, rows[left], payload[left], np.full(len(left), round_, np.int64))
        found[left[(made == told[left]).all(axis=1)]] = round_
    return found


def proven_beacons(
    frames: Frames, beacons: tuple[Places, Rows], proofs: tuple[Places, Rows], key: Key, layout: DataLayout
) -> Bools:
    """Which beacons have their proof among these frames."""
    at, rows = beacons
    length = layout.record_bytes(Beacon)
    payload, nothing = frames.payload[at, :length], np.zeros(len(at), np.int64)
    head = headers(
        *(layout, Beacon.AM_TYPE, rows["epoch"].astype(np.int64), nothing, rows["sender"].astype(np.int64)),
        nothing,
    )
    made = mics(key, np.concatenate((head, payload), axis=1), np.full(len(at), BLOCK + length, np.int64))
    begin = mic_at(Proof)
    told = frames.payload[proofs[0], begin : begin + layout.mic]
    return np.isin(_names(rows, made), _names(proofs[1], told))


def _names(rows: Rows, made: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Sender, sequence and MIC as one number each."""
    wire = np.zeros((len(rows), 8), np.uint8)
    wire[:, 0:2] = rows["sender"].astype("<u2").reshape(-1, 1).view(np.uint8)
    wire[:, 2:4] = rows["sequence"].astype("<u2").reshape(-1, 1).view(np.uint8)
    wire[:, 4:8] = made
    return np.asarray(wire.view("<u8")[:, 0], np.uint64)
