"""From a segment's frames and the station's decisions on them to tables: arrays only, without any state.

A row of `messages` is a frame's bytes and its decision. So segments can be read in any order, and what damage took
away changes no other row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.traces.schema import age_columns, messages_table, payload_column, values_column
from basestation.traces.stamp_columns import read_stamps
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.records import RSSI_UNKNOWN, Heard, Reason

from .decision import DECISION, GUESSED, IN_SYNC, NO_TIME, PAIRED, STRAY, Fate
from .reader import Journal, JournalSegment, Report
from .record_format import HEAD, JournalError, RecordKind, Records
from .sidecar import decisions_of

LQI_KNOWN = 4  # of a heard record's flags
OURS = (Fate.MESSAGE, Fate.DUPLICATE, Fate.UNTIMED)  # data of our motes

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Projection:
    """The messages of some records, and what is known of every frame among them, in order (`frames`: their records).

    `decided` has a row of `DECISION` for each frame; that of a heard record, and of a frame without a decision, holds
    the fate only. `data` is what the frames at `places` say: those with data of our motes.
    """

    messages: pa.Table
    frames: Records
    decided: NDArray[np.void]
    places: Ints
    data: NDArray[np.void]

    @property
    def fates(self) -> NDArray[np.uint8]:
        fates: NDArray[np.uint8] = self.decided["fate"]
        return fates

    @property
    def paired(self) -> Bools:
        """Which frames have a heard record."""
        return np.asarray(self.decided["bits"] & PAIRED != 0)

    @property
    def strays(self) -> Bools:
        """Which of the frames at `places` are strays: when they were sent is unknown."""
        return np.asarray(self.decided["marks"][self.places] & STRAY != 0)

    def count(self, fate: Fate) -> int:
        return int(np.count_nonzero(self.fates == fate))


def project(
    records: Records, deployment: Deployment, decisions: NDArray[np.void] | None = None
) -> Projection:
    """The messages in a segment's records. `decisions`: rows of `DECISION` in place of those among the records."""
    layout, frames = layout_of(deployment), records.of_kind(RecordKind.FRAME)
    decided = _joined(frames, records.decisions() if decisions is None else decisions)
    _find_heard(frames, decided, layout)
    places = np.flatnonzero(np.isin(decided["fate"], OURS))
    read = _packets(frames.chosen(places), layout)
    data, reasons = bulk.decode_data(read, layout)
    if reasons.any():  # it was decided by another deployment
        good = reasons == Reason.OK
        decided["fate"][places[~good]] = Fate.UNDECIDED
        places, data, read = places[good], data[good], read.chosen(good)
    taken = np.flatnonzero(decided["fate"][places] == Fate.MESSAGE)
    rows = places[taken]
    table = _messages(
        frames.head[rows], decided[rows], data[taken], read.payload[taken, : layout.length], deployment
    )
    return Projection(table, frames, decided, places, data)


def _joined(frames: Records, decisions: NDArray[np.void]) -> NDArray[np.void]:
    """A row for each frame. A decision whose frame was lost is left out: it is not the next frame's."""
    rows, numbers = np.zeros(len(frames), DECISION), frames.head["number"]
    rows["fate"], rows["heard"], rows["clock"] = Fate.UNDECIDED, NO_TIME, NO_TIME
    if len(frames):
        at = np.minimum(np.searchsorted(numbers, decisions["frame"]), len(numbers) - 1)
        same = numbers[at] == decisions["frame"]
        rows[at[same]] = decisions[same]
    rows["fate"] = np.minimum(rows["fate"], Fate.UNDECIDED)
    return rows


def _find_heard(frames: Records, decided: NDArray[np.void], layout: DataLayout) -> None:
    """A heard record needs no decision."""
    at = np.flatnonzero(decided["fate"] == Fate.UNDECIDED)
    found = _packets(frames.chosen(at), layout)
    is_heard = found.packet & (found.type == Heard.AM_TYPE) & (found.group == layout.group)
    decided["fate"][at[is_heard & (found.length == layout.record_bytes(Heard))]] = Fate.RECORD


def _packets(frames: Records, layout: DataLayout) -> Frames:
    lengths = frames.head["length"].astype(np.int64)
    return Frames.of_buffer(frames.raw, lengths, layout.tinyos, frames.starts + HEAD.itemsize)


def _messages(
    head: NDArray[np.void],
    decided: NDArray[np.void],
    data: NDArray[np.void],
    payload: NDArray[np.uint8],
    deployment: Deployment,
) -> pa.Table:
    """The rows of frames that are messages. One that was heard at no known time counts as heard by the clock."""
    layout, shift = layout_of(deployment), deployment.clock.tick_log2
    heard, clock = decided["heard"], decided["clock"]
    ticks = np.where(heard == NO_TIME, clock, heard) >> shift
    late = np.where(decided["bits"] & GUESSED, deployment.late_guess, 0)  # a guess may be early
    columns = {
        "source": data["source"],
        "boot": data["boot"],
        "sequence": decided["sequence"],
        "number": pa.array(decided["number"], mask=decided["marks"] & STRAY != 0),
        "am_type": np.full(len(data), layout.am_type),
        "payload": payload_column(payload, bulk.data_lengths(data, layout)),
        "heard": ticks,
        "clock": np.where(clock == NO_TIME, heard, clock) >> shift,
        "batch": head["number"].astype(np.int64),
        "fresh": np.zeros(len(data), np.bool_),
        "mono_ns": head["mono_ns"],
        "wall_ns": head["wall_ns"],
        "in_sync": decided["marks"] & IN_SYNC != 0,
        "saturated": data["saturated"],
        "values": values_column(data["data"], layout),
        "stamp": read_stamps(data, ticks + late, deployment),
    }
    return messages_table(columns | age_columns(data, layout) | _heard_columns(decided), len(data))


def _heard_columns(decided: NDArray[np.void]) -> dict[str, Any]:
    unknown = decided["bits"] & PAIRED == 0
    return {
        "heard_time": pa.array(decided["time"], mask=unknown),
        "gateway": pa.array(decided["gateway"], mask=unknown),
        "rssi": pa.array(decided["rssi"], mask=unknown | (decided["rssi"] == RSSI_UNKNOWN)),
        "lqi": pa.array(decided["lqi"], mask=unknown | (decided["flags"] & LQI_KNOWN == 0)),
    }


# ---- Segments ----


def project_segment(segment: JournalSegment, deployment: Deployment) -> Projection:
    """The messages of a segment; `JournalError` if its frames are not decided.

    One frame may be undecided: the writer was interrupted behind it.
    """
    records = segment.records
    decisions = decisions_of(segment.path, records)
    found = project(records, deployment, decisions)
    undecided = found.count(Fate.UNDECIDED)
    is_old = segment.header is None or not segment.header.decider
    if undecided and not len(decisions) and (undecided > 1 or is_old):
        run = segment.path.parent
        raise JournalError(f"{run}: the log has no decisions: `basestation log decide {run}` makes them")
    return found


def project_all(journal: Journal, deployment: Deployment, report: Report) -> list[Projection]:
    return [project_segment(segment, deployment) for segment in journal.segments(report)]
