"""The table of a journal's records: everything that came, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.traces.schema import bytes_array
from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.records import RSSI_UNKNOWN, Reason

from .decision import NO_TIME, Fate
from .merging import Chunk
from .projection import LQI_KNOWN, Projection
from .record_format import RecordKind, Records

FRAMES = pa.schema(
    [
        ("journal", pa.string()),  # the run as its base station called it
        ("number", pa.int64()),  # of the record in its journal
        ("kind", pa.string()),
        ("line", pa.int32()),
        ("mono_ns", pa.int64()),
        ("wall_ns", pa.int64()),
        ("payload", pa.binary()),
        ("fate", pa.string()),  # frames alone; what became of it
        ("source", pa.int32()),  # data messages alone, copies too; up to hops
        ("boot", pa.int32()),
        ("life", pa.int64()),
        ("sequence", pa.int64()),
        ("hops", pa.int32()),
        ("gateway", pa.int32()),  # by the heard record; up to heard_time
        ("epoch", pa.int32()),
        ("synced", pa.bool_()),
        ("root", pa.bool_()),
        ("rssi", pa.int32()),
        ("lqi", pa.int32()),
        ("heard_time", pa.int64()),
        ("heard", pa.int64()),  # cycles, unwrapped
    ]
)
KINDS = ("", *(kind.name.lower() for kind in RecordKind))
UNKNOWN_KIND = "unknown"
FATES = [fate.name.lower() for fate in Fate]
ROOT, SYNCED = 2, 1
ACKNOWLEDGEMENTS = (b"\x40", b"\x43")
WHY = {
    Reason.PACKET: "no packet of this TinyOS version",
    Reason.GROUP: "another group",
    Reason.TYPE: "another message type: another layout or another application",
    Reason.LENGTH: "another length: another layout or another application",
    Reason.SPARE: "a padding bit of the stamp is set: another layout or another application",
    Reason.VALUE: "a stamp's value is too large for its field",
}

FORGED = "its MIC is wrong: forged, or an old message that was played again"
REPLAYED = "an old message that was played again"
TOO_LATE = "its MIC is right, but it took too long to be believed"
POSED = "a record that only a gateway makes, and it came by radio"
UNDECIDED = "the log has no decision on it: the writer was interrupted"
UNCHECKED = "its MIC can't be checked: the network's time was not known, or it is of the root epoch before"
BY_FATE = {
    Fate.UNTIMED: "came before the time was known: its stamp can't be read",
    Fate.FORGED: FORGED,
    Fate.UNCHECKED: UNCHECKED,
    Fate.REPLAYED: REPLAYED,
    Fate.LATE: TOO_LATE,
    Fate.POSED: POSED,
    Fate.UNDECIDED: UNDECIDED,
}
REFUSED = (Fate.FOREIGN, Fate.STRANGER, Fate.NO_MESSAGE, *BY_FATE)


def frame_rows(chunk: Chunk, reading: Projection | None, journals: Sequence[str]) -> pa.Table:
    """The rows for records of any kind. Of a decision they hold what it says, in its frame's row. `journals`: their
    names."""
    chunk = chunk.chosen(chunk.records.head["kind"] != RecordKind.DECISION)
    head = chunk.records.head
    columns: dict[str, Any] = {
        "journal": _words(chunk.journal, journals),
        "number": head["number"].astype(np.int64),
        "kind": kind_column(head["kind"]),
        "line": chunk.line,
        "mono_ns": head["mono_ns"],
        "wall_ns": head["wall_ns"],
        "payload": bytes_array(*chunk.records.payloads()),
    }
    if reading is not None:
        columns |= _read_columns(head["kind"] == RecordKind.FRAME, reading)
    return _table(columns, len(head))


def frames_of(messages: pa.Table, numbers: pa.Array, run: str, deployment: Deployment) -> pa.Table:
    """The rows of frames for a trace's messages, so that all jobs find raw frames in one place."""
    own = (
        "mono_ns",
        "wall_ns",
        "payload",
        "source",
        "boot",
        "sequence",
        "gateway",
        "rssi",
        "lqi",
        "heard_time",
    )
    count, columns = len(messages), {name: messages[name].combine_chunks() for name in own}
    alike = {"journal": run, "kind": "message", "fate": FATES[0]}
    columns |= {name: pa.repeat(word, count) for name, word in alike.items()}
    columns |= {"number": numbers, "life": columns["boot"]}
    columns["heard"] = pc.shift_left(messages["heard"].combine_chunks(), deployment.clock.tick_log2)
    return _table({name: column.cast(FRAMES.field(name).type) for name, column in columns.items()}, count)


def _table(columns: dict[str, Any], count: int) -> pa.Table:
    """A column that is not given is unknown."""
    arrays = [
        pa.array(columns[item.name], item.type) if item.name in columns else pa.nulls(count, item.type)
        for item in FRAMES
    ]
    return pa.Table.from_arrays(arrays, schema=FRAMES)


def kind_column(kinds: NDArray[Any]) -> pa.Array:
    return _words(np.where(kinds < len(KINDS), kinds, 0), [UNKNOWN_KIND, *KINDS[1:]])


def _words(index: NDArray[Any], words: Sequence[str]) -> pa.Array:
    return pa.array(words).take(pa.array(index, pa.int64()))


def _read_columns(frames: NDArray[np.bool_], reading: Projection) -> dict[str, Any]:
    """The columns read from the frames, aligned with all records."""
    found = reading
    at, decided = np.flatnonzero(frames), found.decided
    flags, lost = decided["flags"], ~found.paired

    def spread(
        name: str, values: NDArray[Any], unknown: NDArray[np.bool_], at: NDArray[Any] = at
    ) -> pa.Array:
        whole, mask = np.zeros(len(frames), values.dtype), np.ones(len(frames), np.bool_)
        whole[at], mask[at] = values, unknown
        return pa.array(whole, FRAMES.field(name).type, mask=mask)

    none = np.zeros(len(found.places), np.bool_)
    of_data = {name: (found.data[name], none) for name in ("source", "boot", "hops")}
    of_data["life"] = decided["life"][found.places], found.strays  # of a stray nobody knows it
    of_data["sequence"] = decided["sequence"][found.places], none
    of_frame = {
        "gateway": (decided["gateway"], lost),
        "epoch": (decided["epoch"], lost),
        "rssi": (decided["rssi"], lost | (decided["rssi"] == RSSI_UNKNOWN)),
        "lqi": (decided["lqi"], lost | (flags & LQI_KNOWN == 0)),
        "synced": (flags & SYNCED != 0, lost),
        "root": (flags & ROOT != 0, lost),
        "heard_time": (decided["time"], lost),
        "heard": (decided["heard"], decided["heard"] == NO_TIME),
    }
    columns = {name: spread(name, *column, at[found.places]) for name, column in of_data.items()}
    columns |= {name: spread(name, *column) for name, column in of_frame.items()}
    fates = np.zeros(len(frames), np.int64)
    fates[at] = found.fates
    return columns | {"fate": pa.array(FATES).take(pa.array(fates, mask=~frames))}


def refused(
    chunk: Chunk, reading: Projection, deployment: Deployment
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Frames that should have given a message and did not, and unknown frames: whose, why, and which."""
    frames, fates = reading.frames, reading.fates
    at = np.flatnonzero(np.isin(fates, REFUSED))
    if not len(at):
        return
    chosen = frames.chosen(at)
    data, reasons = _data_in(chosen, deployment)
    whose = chunk.journal[chunk.records.head["kind"] == RecordKind.FRAME][at]
    columns = (fates[at], reasons, data["source"], whose)
    for record, fate, reason, source, journal in zip(chosen, *(c.tolist() for c in columns), strict=True):
        is_beacon = fate == Fate.UNCHECKED and reason != Reason.OK  # its proof was lost, or it is a question
        is_ours = fate == Fate.NO_MESSAGE and record.payload[:1] in ACKNOWLEDGEMENTS
        if not is_beacon and not is_ours:
            why = _why(fate, reason, source, deployment.network.motes)
            yield journal, why, {"number": record.number, "wall_ns": record.wall_ns, "bytes": record.payload}


def _data_in(frames: Records, deployment: Deployment) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """What frames say as data, and why those that are none are none."""
    layout = layout_of(deployment)
    return bulk.decode_data(Frames.of_buffer(*frames.payloads(), layout.tinyos), layout)


def _why(fate: int, reason: int, source: int, motes: int) -> str:
    if fate == Fate.STRANGER:
        return f"source {source} is no mote of this deployment, which has 0..{motes - 1}"
    return BY_FATE.get(Fate(fate)) or WHY[Reason(reason)]
