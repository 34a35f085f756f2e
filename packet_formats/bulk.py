"""Decoding and encoding of whole arrays of frames in numpy, about a thousand times as fast as one by one.

`Frames` holds many messages side by side. `decode_data` and `decode_records` read them into structured arrays
with a reason code for each row, 0 where it was read; `encode_data` goes the other way. Tests hold all of it
equal to construct on random and hostile input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from packet_formats.layout import PAYLOAD_LIMIT, DataLayout, Field, StampLayout
from packet_formats.records import SEALED, Health, Reason, Record, members, mic_at, size
from packet_formats.tinyos import PACKET_TYPES
from packet_formats.values import Value

Bytes = NDArray[np.uint8]

FLAG_IN_SYNC, FLAG_SATURATED, FLAG_COMPLETE = 1, 2, 4
BOOT_SHIFT, BOOT_MASK = 3, 7
HOPS_SHIFT, HOPS_MASK = 6, 3
NOT_HOPS = 0xFF ^ HOPS_MASK << HOPS_SHIFT


@dataclass(frozen=True, slots=True)
class Frames:
    """N messages of one TinyOS version. `payload` has one row each, zero beyond `length`. Where `packet` is
    false, the row holds no message of this version, and the other columns are 0."""

    tinyos: int
    packet: NDArray[np.bool_]
    group: Bytes
    type: Bytes
    length: Bytes
    payload: Bytes

    def __len__(self) -> int:
        return len(self.type)

    def chosen(self, rows: NDArray[Any]) -> Frames:
        columns = (self.packet, self.group, self.type, self.length, self.payload)
        return Frames(self.tinyos, *(column[rows] for column in columns))

    @classmethod
    def of_payloads(cls, payload: Bytes, layout: DataLayout, type_: int | None = None) -> Frames:
        """Frames of payloads of one length, one a row, that are this layout's data (or of the given type)."""
        rows, length = payload.shape
        return cls(
            tinyos=layout.tinyos,
            packet=np.ones(rows, np.bool_),
            group=np.full(rows, layout.group, np.uint8),
            type=np.full(rows, layout.am_type if type_ is None else type_, np.uint8),
            length=np.full(rows, length, np.uint8),
            payload=payload,
        )

    @classmethod
    def of_payload_list(cls, payloads: Sequence[bytes], layout: DataLayout) -> Frames:
        """The same of payloads that may differ in length."""
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        width = max(layout.length, int(lengths.max(initial=0)))
        payload = np.zeros((len(payloads), width), np.uint8)
        payload[np.arange(width) < lengths[:, None]] = np.frombuffer(b"".join(payloads), np.uint8)
        return replace(cls.of_payloads(payload, layout), length=lengths.astype(np.uint8))

    @classmethod
    def of_packets(cls, packets: Sequence[bytes], tinyos: int) -> Frames:
        """Frames of packets of any length, each from its type byte on, as `FrameDecoder` gives them."""
        lengths = np.fromiter((len(packet) for packet in packets), np.int64, len(packets))
        return cls.of_buffer(np.frombuffer(b"".join(packets), np.uint8), lengths, tinyos)

    @classmethod
    def of_buffer(
        cls, buffer: Bytes, lengths: NDArray[np.int64], tinyos: int, starts: NDArray[np.int64] | None = None
    ) -> Frames:
        """Frames of packets in one buffer, end to end unless `starts` has their places."""
        header, limit = (5, PAYLOAD_LIMIT[1]) if tinyos == 1 else (8, PAYLOAD_LIMIT[2])
        starts = np.cumsum(lengths) - lengths if starts is None else starts
        kind = _at(buffer, starts, lengths, np.zeros_like(lengths))
        has_token = kind == _packet_type(tinyos, "data-ack")
        ours = has_token | (kind == _packet_type(tinyos, "data"))
        body = starts + 1 + has_token
        room = lengths - 1 - has_token
        head = np.stack([_at(buffer, body, room, np.full_like(room, at)) for at in range(header)], axis=1)
        dispatch_ok, length, group, type_ = _header_columns(head, tinyos)
        packet = ours & dispatch_ok & (room == header + length.astype(np.int64)) & (length <= limit)
        length = np.where(packet, length, 0).astype(np.uint8)
        columns = np.arange(limit)
        inside = columns < length[:, None]
        padded = np.concatenate((buffer, np.zeros(header + 2 + limit, np.uint8)))
        payload = np.lib.stride_tricks.sliding_window_view(padded, limit)[body + header] * inside
        zeroed = [np.where(packet, column, 0).astype(np.uint8) for column in (group, type_)]
        return cls(tinyos, packet, zeroed[0], zeroed[1], length, payload)


def _packet_type(tinyos: int, kind: str) -> int:
    return next(byte for byte, value in PACKET_TYPES.items() if value == (tinyos, kind))


def _at(buffer: Bytes, starts: NDArray[Any], room: NDArray[Any], offset: NDArray[Any]) -> Bytes:
    """One byte of each packet, 0 where the packet is too short to have it."""
    there = offset < room
    if not len(buffer):
        return np.zeros(len(starts), np.uint8)
    return np.where(there, buffer[np.where(there, starts + offset, 0)], 0).astype(np.uint8)


def _header_columns(head: Bytes, tinyos: int) -> tuple[NDArray[np.bool_], Bytes, Bytes, Bytes]:
    """Whether the dispatch byte is right, then length, group and type."""
    if tinyos == 1:
        return np.ones(len(head), np.bool_), head[:, 4], head[:, 3], head[:, 2]
    return head[:, 0] == 0, head[:, 5], head[:, 6], head[:, 7]


_CRC32_OF_BYTE = np.array([~crc32(bytes([byte]), 0xFFFFFFFF) & 0xFFFFFFFF for byte in range(256)], np.uint32)


def data_digests(frames: Frames, layout: DataLayout) -> NDArray[np.uint32]:
    """The `messages.data_digest` of every payload."""
    crc = np.full(len(frames), 0xFFFFFFFF, np.uint32)
    for column in range(frames.payload.shape[1]):
        byte = frames.payload[:, column] & np.uint8(NOT_HOPS if column == layout.flags_at else 0xFF)
        stepped = crc >> np.uint32(8) ^ _CRC32_OF_BYTE[crc.astype(np.uint8) ^ byte]
        crc = np.where(column < frames.length, stepped, crc)
    return np.maximum(~crc, 1)


def data_dtype(layout: DataLayout) -> np.dtype[np.void]:
    """One row of decoded data. Receipts are raw slots: an unused one repeats source and sequence.

    Where the stamp's length is variable, `items` says how many items it has; the other entries are 0.
    """
    stamp = layout.stamp
    columns: list[tuple[Any, ...]] = [
        ("source", np.uint16),
        ("sequence", np.uint8),
        ("in_sync", np.bool_),
        ("saturated", np.bool_),
        ("complete", np.bool_),
        ("boot", np.uint8),
        ("hops", np.uint8),
        *([("event_age", np.uint8)] if layout.has_age else []),
        ("clock", np.uint16),
        ("c", np.uint16),
        *((name, np.uint16) for name, _ in stamp.head if name not in ("clock", "c")),
        ("entries", np.uint16, (stamp.entries,)),
        *([("items", np.uint8)] if stamp.is_variable else []),
        ("receipt_source", np.uint16, (layout.receipts,)),
        ("receipt_sequence", np.uint8, (layout.receipts,)),
        ("data", np.uint8, (layout.data_bytes,)),
        *([("mic", np.uint8, (layout.mic,))] if layout.mic else []),
    ]
    return np.dtype(columns)


def decode_data(frames: Frames, layout: DataLayout) -> tuple[NDArray[np.void], Bytes]:
    """Rows of `data_dtype` and a `Reason` for each; a row that was not read holds zeros."""
    reason = _mismatch(frames, layout, layout.am_type, tuple(layout.items_in))
    rows = np.zeros(len(frames), data_dtype(layout))
    for length, items in layout.items_in.items():
        form = layout.with_items(items)
        if not layout.stamp.is_variable:
            _decode_form(rows, _payload(frames, length), reason, form)
            continue
        mine = np.flatnonzero((reason == Reason.OK) & (frames.length == length))
        some, why = rows[mine], reason[mine]
        _decode_form(some, _payload(frames, length)[mine], why, form)
        some["items"] = items
        rows[mine], reason[mine] = some, why
    rows[reason != Reason.OK] = np.zeros((), rows.dtype)
    return rows, reason


def _decode_form(rows: NDArray[np.void], payload: Bytes, reason: Bytes, layout: DataLayout) -> None:
    """Decode payloads whose stamps all have as many items; `reason` gets the fault of each row."""
    stamp, flags = payload[:, layout.stamp_at : layout.receipts_at], payload[:, layout.flags_at]
    padding = (1 << layout.stamp.size * 8 - layout.stamp.bits) - 1
    if padding:  # an empty stamp has no last byte
        reason[(reason == Reason.OK) & (stamp[:, -1] & padding != 0)] = Reason.SPARE
    values = [_extract(stamp, field) for field in layout.stamp.fields]
    for field, value in zip(layout.stamp.fields, values, strict=True):
        reason[(reason == Reason.OK) & (value > field.top)] = Reason.VALUE
    _fill(rows, payload, flags, values, layout)


def _fill(
    rows: NDArray[np.void], payload: Bytes, flags: Bytes, values: list[Any], layout: DataLayout
) -> None:
    rows["source"] = _source(payload[:, : layout.source_bytes], layout)
    rows["sequence"] = payload[:, layout.sequence_at]
    rows["in_sync"] = flags & FLAG_IN_SYNC
    rows["saturated"] = flags & FLAG_SATURATED
    rows["complete"] = flags & FLAG_COMPLETE
    rows["boot"] = flags >> BOOT_SHIFT & BOOT_MASK
    rows["hops"] = flags >> HOPS_SHIFT & HOPS_MASK
    if layout.has_age:
        rows["event_age"] = payload[:, layout.age_at]
    head = len(layout.stamp.head)
    for (name, _), value in zip(layout.stamp.head, values, strict=False):
        rows[name] = value
    for index, value in enumerate(values[head:]):
        rows["entries"][:, index] = value
    for slot in range(layout.receipts):
        at = layout.receipts_at + slot * layout.receipt_bytes
        rows["receipt_source"][:, slot] = _source(payload[:, at : at + layout.source_bytes], layout)
        rows["receipt_sequence"][:, slot] = payload[:, at + layout.source_bytes]
    rows["data"] = payload[:, layout.data_at : layout.mic_at]
    if layout.mic:
        rows["mic"] = payload[:, layout.mic_at : layout.length]


def decode_values(data: Bytes, layout: DataLayout) -> dict[str, NDArray[np.float64]]:
    """The values by name in the `data` of decoded rows: the same as `values.values_in` gives, NaN for None."""
    order, at, shown = "<" if layout.byteorder == "little" else ">", 0, {}
    for value in layout.values:
        own = np.ascontiguousarray(data[:, at : at + value.size])
        raw = own.view(f"{order}{value.type[0]}{value.size}")[:, 0]
        shown[value.name] = _shown(raw.astype(np.float64), value)
        at += value.size
    return shown


def _shown(raw: NDArray[np.float64], value: Value) -> NDArray[np.float64]:
    shown = raw * value.scale + value.offset
    if value.tens is not None:
        shown = np.rint(shown * value.tens) / value.tens + 0.0  # no -0
    return shown if value.no_reading is None else np.where(raw == value.no_reading, np.nan, shown)


def _mismatch(frames: Frames, layout: DataLayout, type_: int, lengths: tuple[int, ...]) -> Bytes:
    """The first reason, in `decode_message`'s order, why each frame is not of this kind."""
    reason = np.zeros(len(frames), np.uint8)
    tests = (
        (Reason.LENGTH, ~np.isin(frames.length, lengths)),
        (Reason.TYPE, frames.type != type_),
        (Reason.GROUP, frames.group != layout.group),
        (Reason.PACKET, ~frames.packet | (frames.tinyos != layout.tinyos)),
    )
    for code, fails in tests:
        reason[fails] = code
    return reason


def _payload(frames: Frames, length: int) -> Bytes:
    """Payload rows of exactly this length, filled up with zeros; only rows already refused are shorter."""
    short = length - frames.payload.shape[1]
    if short > 0:
        return np.pad(frames.payload, ((0, 0), (0, short)))
    return frames.payload[:, :length]


def _source(raw: Bytes, layout: DataLayout) -> NDArray[np.uint16]:
    if layout.source_bytes == 1:
        return raw[:, 0].astype(np.uint16)
    low, high = (0, 1) if layout.byteorder == "little" else (1, 0)
    return raw[:, low].astype(np.uint16) | raw[:, high].astype(np.uint16) << np.uint16(8)


def _span(field: Field) -> tuple[int, int, int]:
    """The first and last byte that a field touches, and how many bits of the last lie behind it."""
    first, last = field.offset // 8, (field.offset + field.bits - 1) // 8
    return first, last, (last + 1) * 8 - field.offset - field.bits


def _extract(stamp: Bytes, field: Field) -> NDArray[np.uint32]:
    first, last, behind = _span(field)
    word = np.zeros(len(stamp), np.uint32)
    for at in range(first, last + 1):
        word = word << np.uint32(8) | stamp[:, at]
    return word >> np.uint32(behind) & np.uint32((1 << field.bits) - 1)


def _insert(stamp: Bytes, field: Field, value: NDArray[Any]) -> None:
    first, last, behind = _span(field)
    word = value.astype(np.uint32) << np.uint32(behind)
    for at in range(last, first - 1, -1):
        stamp[:, at] |= (word & np.uint32(0xFF)).astype(np.uint8)
        word >>= np.uint32(8)


def data_lengths(rows: NDArray[np.void], layout: DataLayout) -> NDArray[np.int64]:
    """The length of each row's payload."""
    if not layout.stamp.is_variable:
        return np.full(len(rows), layout.length, np.int64)
    length_of = np.zeros(layout.stamp.most + 1, np.int64)
    for length, items in layout.items_in.items():
        length_of[items] = length
    return np.asarray(length_of[rows["items"]])


def encode_data(rows: NDArray[np.void], layout: DataLayout) -> Bytes:
    """Payloads of rows of `data_dtype`; `ValueError` names a column that does not fit its field.

    Where the stamp's length is variable, a payload ends after `data_lengths` bytes, and zeros follow.
    """
    if not layout.stamp.is_variable:
        return _encode_form(rows, layout)
    payload = np.zeros((len(rows), layout.length), np.uint8)
    for length, items in layout.items_in.items():
        mine = np.flatnonzero(rows["items"] == items)
        payload[mine, :length] = _encode_form(rows[mine], layout.with_items(items))
    return payload


def _encode_form(rows: NDArray[np.void], layout: DataLayout) -> Bytes:
    payload = np.zeros((len(rows), layout.length), np.uint8)
    _put_source(payload[:, : layout.source_bytes], rows["source"], layout)
    payload[:, layout.sequence_at] = rows["sequence"]
    payload[:, layout.flags_at] = _flags(rows)
    if layout.has_age:
        payload[:, layout.age_at] = rows["event_age"]
    stamp = payload[:, layout.stamp_at : layout.receipts_at]
    head = len(layout.stamp.head)
    for index, field in enumerate(layout.stamp.fields):
        value = rows["entries"][:, index - head] if index >= head else rows[field.name]
        if len(value) and int(value.max()) > field.top:
            raise ValueError(f"stamp field {field.name} = {int(value.max())} is outside 0..{field.top}")
        _insert(stamp, field, value)
    for slot in range(layout.receipts):
        at = layout.receipts_at + slot * layout.receipt_bytes
        _put_source(payload[:, at : at + layout.source_bytes], rows["receipt_source"][:, slot], layout)
        payload[:, at + layout.source_bytes] = rows["receipt_sequence"][:, slot]
    payload[:, layout.data_at : layout.mic_at] = rows["data"]
    if layout.mic:
        payload[:, layout.mic_at :] = rows["mic"]
    return payload


def put_stamp(row: Any, values: Sequence[int], stamp: StampLayout) -> None:
    """Put a stamp's wire values into the columns of one row of `data_dtype`."""
    for (name, _), value in zip(stamp.head, values, strict=False):
        row[name] = value
    entries = values[len(stamp.head) :]
    row["entries"][: len(entries)] = entries
    if stamp.is_variable:
        row["items"] = len(entries) // len(stamp.item)


def stamps_of(rows: NDArray[np.void], stamp: StampLayout) -> list[tuple[int, ...]]:
    """The fields of each row's stamp, in the order of its layout."""
    heads = [rows[name].tolist() for name, _ in stamp.head]
    items = rows["items"].tolist() if stamp.is_variable else [stamp.most] * len(rows)
    entries = rows["entries"].tolist()
    width = len(stamp.item)
    return [
        (*head, *row[: count * width])
        for head, row, count in zip(
            zip(*heads, strict=True) if heads else [()] * len(rows), entries, items, strict=True
        )
    ]


def _flags(rows: NDArray[np.void]) -> Bytes:
    for name, most in (("boot", BOOT_MASK), ("hops", HOPS_MASK)):
        if len(rows) and int(rows[name].max()) > most:
            raise ValueError(f"{name} = {int(rows[name].max())} is outside 0..{most}")
    flags = rows["boot"] << np.uint8(BOOT_SHIFT) | rows["hops"] << np.uint8(HOPS_SHIFT)
    for name, bit in (("in_sync", FLAG_IN_SYNC), ("saturated", FLAG_SATURATED), ("complete", FLAG_COMPLETE)):
        flags = flags | rows[name] * np.uint8(bit)
    return np.asarray(flags, np.uint8)


def _put_source(target: Bytes, source: NDArray[Any], layout: DataLayout) -> None:
    if layout.source_bytes == 1:
        if len(source) and int(source.max()) > 0xFF:
            raise ValueError(f"source = {int(source.max())} is outside 0..255")
        target[:, 0] = source
        return
    low, high = (0, 1) if layout.byteorder == "little" else (1, 0)
    target[:, low] = source & 0xFF
    target[:, high] = source >> 8


def record_dtype(record: type[Record], byteorder: str) -> np.dtype[np.void]:
    """The dtype of a fixed message on the wire."""
    order = "<" if byteorder == "little" else ">"
    return np.dtype([(m.name, f"{order}{m.type[0]}{m.size}") for m in members(record)])


def decode_records(
    frames: Frames, record: type[Record], layout: DataLayout
) -> tuple[NDArray[np.void], Bytes]:
    """Rows of one kind of fixed message, in this machine's byte order, and a `Reason` for each frame.

    The rows have no MIC; a sealed health gets the layout's hash, as in `messages.split_mic`.
    """
    length = layout.record_bytes(record)
    reason = _mismatch(frames, layout, record.AM_TYPE, (length,))
    payload = np.ascontiguousarray(_payload(frames, length))
    if layout.mic and record in SEALED:
        payload = _without_mic(payload, record, layout)
    payload = np.ascontiguousarray(payload[:, : size(record)])  # without its tail
    wire = payload.view(record_dtype(record, layout.byteorder))[:, 0]
    rows = wire.astype(record_dtype(record, "little").newbyteorder("="))
    rows[reason != Reason.OK] = np.zeros((), rows.dtype)
    return rows, reason


def _without_mic(payload: Bytes, record: type[Record], layout: DataLayout) -> Bytes:
    if record is not Health:
        return payload
    at, order = mic_at(record), "<" if layout.byteorder == "little" else ">"
    plain = payload.copy()
    plain[:, at : at + layout.mic] = np.array([layout.hash], f"{order}u4").view(np.uint8)
    return plain
