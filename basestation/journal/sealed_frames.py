"""Checks the MICs of a journal's frames, all at once, where the key is at hand.

What has no heard record is taken as the observer took it, which checked it live: it noted the clock of what it let in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from packet_formats.bulk import Frames
from packet_formats.keys import Key
from packet_formats.layout import DataLayout
from packet_formats.records import Beacon, Health, Proof, mic_at, size
from packet_formats.seal import bulk_times, data_mics, headers, health_mics, mics

Bools = NDArray[np.bool_]
Rows = NDArray[np.void]
Places = NDArray[np.int64]
IN_SYNC = 1


def forged_data(
    frames: Frames,
    data: Rows,
    at: Places,
    heard: tuple[Bools, Rows],
    noted: Bools,
    key: Key,
    layout: DataLayout,
) -> Places:
    """Which of the data messages at these places have a wrong MIC. `heard`: whether each frame has a heard record, and
    that; `noted`: whether the observer took it."""
    if not len(at):
        return at
    known, said = heard[0][at], heard[1][at]
    rows, lengths = data[at], frames.length[at].astype(np.int64)
    timed = known & (said["flags"] & IN_SYNC != 0)
    epochs, cycles = said["epoch"].astype(np.int64), said["time"].astype(np.int64)
    right = ~timed & rows["in_sync"] & noted[at]
    checked = timed | ~rows["in_sync"]
    payload = frames.payload[at]
    for offset in (0,) if layout.stamp.clock_bits else (0, -1, 1):
        times = bulk_times(layout, rows, cycles, offset)
        made = data_mics(key, layout, rows, payload, lengths, epochs, times)
        right |= checked & (made == rows["mic"]).all(axis=1)
    return np.asarray(at[~right])


def right_health(frames: Frames, at: Places, rows: Rows, key: Key, layout: DataLayout) -> Bools:
    """Which health records, at these places, have the right MIC."""
    payload, begin = frames.payload[at, : size(Health, layout.mic)], mic_at(Health)
    found = payload[:, begin : begin + layout.mic]
    return np.asarray((health_mics(key, layout, rows, payload) == found).all(axis=1))


def proven_beacons(
    frames: Frames, beacons: tuple[Places, Rows], proofs: tuple[Places, Rows], key: Key, layout: DataLayout
) -> Bools:
    """Which beacons have their proof among these frames."""
    at, rows = beacons
    payload = frames.payload[at, : size(Beacon)]
    nothing = np.zeros(len(at), np.int64)
    head = headers(
        layout, Beacon.AM_TYPE, rows["epoch"].astype(np.int64), nothing, rows["sender"].astype(np.int64)
    )
    made = mics(key, np.concatenate((head, payload), axis=1), np.full(len(at), 16 + size(Beacon), np.int64))
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
