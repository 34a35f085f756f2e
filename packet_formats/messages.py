"""Causeway's messages: construct definitions, and the plain values that the rest of the program sees.

A frame is read only when its TinyOS version, group, AM type and exact length match; any other frame
gives `Unknown` with the reason, "another layout or another application", and none of its bytes are interpreted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any
from zlib import crc32

from construct import (
    Array,
    BitsInteger,
    BitStruct,
    Byte,
    Bytes,
    Flag,
    Int8sb,
    Int16ub,
    Int16ul,
    Int32ub,
    Int32ul,
    Struct,
    Terminated,
)

from packet_formats.layout import DataLayout
from packet_formats.phrases import many
from packet_formats.records import (
    BUNDLE_TYPE,
    RECORDS,
    SEALED,
    Health,
    Proof,
    Reason,
    Record,
    members,
    mic_at,
    records_of,
)
from packet_formats.tinyos import BROADCAST, ActiveMessage


class FormatError(ValueError):
    """A message whose values do not fit its form."""


# Never changed, but not frozen: each frame makes some, and frozen dataclasses take seven times as long.
@dataclass(slots=True, unsafe_hash=True)
class Data:
    """A stamped application message. `stamp` holds the wire values in the order of the layout's fields."""

    source: int
    sequence: int
    stamp: tuple[int, ...]
    in_sync: bool = True
    saturated: bool = False
    complete: bool = False  # the receipts name every message received since the last send
    boot: int = 0  # boot count modulo 8
    hops: int = 0  # how many more times a relay may forward it; 3: three or more, not counted down
    receipts: tuple[tuple[int, int], ...] = ()  # (source, sequence), used slots only
    data: bytes = b""
    mic: bytes = b""  # of a network with a key; else empty
    age: int = (
        0  # of the event when the stamp was made, as packet_formats.ages codes it; only with a schedule
    )


def data_digest(payload: bytes, layout: DataLayout) -> int:
    """A digest of 32 bits, never 0, that is equal for all copies of a data message."""
    said = bytearray(payload)
    said[layout.flags_at] &= 0x3F  # without the hops, which relays change
    return crc32(said) or 1


@dataclass(frozen=True, slots=True)
class Unknown:
    """A frame that was not read, and why."""

    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"another layout or another application: {self.detail}"


Message = Data | Record

_INTEGERS: dict[tuple[str, str], Any] = {
    ("u8", "little"): Byte,
    ("u8", "big"): Byte,
    ("i8", "little"): Int8sb,
    ("i8", "big"): Int8sb,
    ("u16", "little"): Int16ul,
    ("u16", "big"): Int16ub,
    ("u32", "little"): Int32ul,
    ("u32", "big"): Int32ub,
}


# The construct definitions of the fixed messages without a MIC, by record and byte order.
RECORD_STRUCT: dict[tuple[type[Record], str], Any] = {
    (record, order): Struct(*[m.name / _INTEGERS[m.type, order] for m in members(record)], Terminated)
    for record in (*RECORDS, Proof)
    for order in ("little", "big")
}


@cache
def data_struct(layout: DataLayout, items: int) -> Any:
    """The construct definition of a deployment's data message whose stamp has this many items."""
    source = _INTEGERS["u8" if layout.source_bytes == 1 else "u16", layout.byteorder]
    flags = BitStruct(
        "hops" / BitsInteger(2),
        "boot" / BitsInteger(3),
        "complete" / Flag,
        "saturated" / Flag,
        "in_sync" / Flag,
    )
    stamp = [field.name / BitsInteger(field.bits) for field in layout.stamp.fields_of(items)]
    padding = layout.stamp.size_of(items) * 8 - layout.stamp.bits_of(items)
    if padding:
        stamp.append("padding" / BitsInteger(padding))
    return Struct(
        "source" / source,
        "sequence" / Byte,
        "flags" / flags,
        "age" / Array(int(layout.has_age), Byte),
        "stamp" / BitStruct(*stamp),
        "receipts" / Array(layout.receipts, Struct("source" / source, "sequence" / Byte)),
        "data" / Bytes(layout.data_bytes),
        "mic" / Bytes(layout.mic),
        Terminated,
    )


def decode_message(message: ActiveMessage, layout: DataLayout) -> Message | Unknown:
    """The content of a message under this layout."""
    if message.tinyos != layout.tinyos:
        return Unknown(Reason.PACKET, f"TinyOS {message.tinyos}, ours is {layout.tinyos}")
    if message.group != layout.group:
        return Unknown(Reason.GROUP, f"group {message.group:#04x}, ours is {layout.group:#04x}")
    record = records_of(layout.mic).get(message.type)
    if record is None and message.type != layout.am_type:
        return Unknown(Reason.TYPE, f"AM type {message.type:#04x}, our data is {layout.am_type:#04x}")
    lengths = layout.items_in if record is None else {layout.record_bytes(record): 0}
    if len(message.data) not in lengths:
        found = f"{many(len(message.data), 'byte')} of type {message.type:#04x}"
        return Unknown(Reason.LENGTH, f"{found}, ours has {' or '.join(map(str, lengths))}")
    if record is None:
        return _decode_data(message.data, layout)
    payload, more = split_record(message.data, record, layout)
    parsed = RECORD_STRUCT[record, layout.byteorder].parse(payload)
    return record(**{member.name: parsed[member.name] for member in members(record)}, **more)


def parts_of(message: ActiveMessage, layout: DataLayout) -> tuple[ActiveMessage, ...]:
    """The two data messages of a bundle, as if each had come by itself; any other message unchanged."""
    if message.type != BUNDLE_TYPE or not layout.bundle_bytes or len(message.data) != layout.bundle_bytes:
        return (message,)
    first, second = message.data[: layout.length], message.data[layout.length :]
    return tuple(replace(message, type=layout.am_type, data=data) for data in (first, second))


def split_record(payload: bytes, record: type[Record], layout: DataLayout) -> tuple[bytes, dict[str, Any]]:
    """A record's integers, and its MIC and its tail as `mic` and `tail`, as far as it has them.

    A sealed health has its MIC in place of the layout's hash, which the MIC covers: it is ours or the MIC is wrong.
    """
    more: dict[str, Any] = {}
    if tail := layout.tail(record):
        payload, more = payload[:-tail], {"tail": payload[-tail:]}
    if not layout.mic or record not in SEALED:
        return payload, more
    at = mic_at(record)
    hash_ = layout.hash.to_bytes(4, "little" if layout.tinyos == 1 else "big") if record is Health else b""
    return payload[:at] + hash_ + payload[at + layout.mic :], more | {"mic": payload[at : at + layout.mic]}


def _decode_data(payload: bytes, layout: DataLayout) -> Data | Unknown:
    items = layout.items_in[len(payload)]
    fields = layout.stamp.fields_of(items)
    parsed = data_struct(layout, items).parse(payload)
    if parsed.stamp.get("padding", 0):
        return Unknown(Reason.SPARE, "padding bits after the stamp are set")
    for field in fields:
        if parsed.stamp[field.name] > field.top:
            return Unknown(Reason.VALUE, f"stamp field {field.name} is over {field.top}")
    own = (parsed.source, parsed.sequence)
    slots = [(slot.source, slot.sequence) for slot in parsed.receipts]
    return Data(
        source=parsed.source,
        sequence=parsed.sequence,
        stamp=tuple(parsed.stamp[field.name] for field in fields),
        in_sync=parsed.flags.in_sync,
        saturated=parsed.flags.saturated,
        complete=parsed.flags.complete,
        boot=parsed.flags.boot,
        hops=parsed.flags.hops,
        receipts=tuple(slot for slot in slots if slot != own),
        data=bytes(parsed.data),
        mic=bytes(parsed.mic),
        age=sum(parsed.age),
    )


def encode_message(
    message: Message, layout: DataLayout, dest: int = BROADCAST, source: int | None = None
) -> ActiveMessage:
    """The message as TinyOS carries it; `source` names the sender of a relayed copy on 2.x.

    In a network with a key a message without a MIC gets one of zeros: `seal` puts the right one in.
    """
    if isinstance(message, Data):
        type_, payload = layout.am_type, encode_data(message, layout)
    else:
        type_, payload = message.AM_TYPE, _record_payload(message, layout)
    if layout.tinyos == 1:
        return ActiveMessage(1, dest, layout.group, type_, payload)
    sender = _origin(message) if source is None else source
    return ActiveMessage(2, dest, layout.group, type_, payload, sender)


def encode_record(record: Record, byteorder: str) -> bytes:
    """The payload of a record without its MIC."""
    for member in members(type(record)):
        _check(member.name, getattr(record, member.name), member.range)
    return bytes(RECORD_STRUCT[type(record), byteorder].build(asdict(record)))


def _record_payload(record: Record, layout: DataLayout) -> bytes:
    kind, payload = type(record), encode_record(record, layout.byteorder)
    if kind not in records_of(layout.mic).values():
        raise FormatError(f"a {kind.__name__.lower()} is sent in a network with a key alone")
    tail = _tail(record, layout)
    if not layout.mic or kind not in SEALED:
        return payload + tail
    at = mic_at(kind)
    return payload[:at] + _mic(record, layout) + payload[at + (layout.mic if kind is Health else 0) :] + tail


def _tail(record: Any, layout: DataLayout) -> bytes:
    length = layout.tail(type(record))
    tail: bytes = getattr(record, "tail", b"") or bytes(length)
    if len(tail) != length:
        raise FormatError(f"a tail of {many(len(tail), 'byte')}, the layout has {length}")
    return tail


def _mic(message: Any, layout: DataLayout) -> bytes:
    mic: bytes = message.mic or bytes(layout.mic)
    if len(mic) != layout.mic:
        raise FormatError(f"a MIC of {many(len(mic), 'byte')}, the layout has {layout.mic}")
    return mic


def with_mic(message: ActiveMessage, layout: DataLayout, mic: bytes) -> ActiveMessage:
    """The same message with another MIC."""
    record = records_of(layout.mic).get(message.type)
    at = len(message.data) - layout.mic if record is None else mic_at(record)
    return replace(message, data=message.data[:at] + mic + message.data[at + layout.mic :])


def encode_data(message: Data, layout: DataLayout) -> bytes:
    """The payload of a data message."""
    own = (message.source, message.sequence)
    _check_data(message, layout)
    slots = [*message.receipts, *[own] * (layout.receipts - len(message.receipts))]
    items = layout.stamp.items_of(len(message.stamp)) or 0
    names = [field.name for field in layout.stamp.fields_of(items)]
    return bytes(
        data_struct(layout, items).build(
            {
                "source": message.source,
                "sequence": message.sequence,
                "flags": {
                    "hops": message.hops,
                    "boot": message.boot,
                    "complete": message.complete,
                    "saturated": message.saturated,
                    "in_sync": message.in_sync,
                },
                "age": [message.age] * layout.has_age,
                "stamp": {**dict(zip(names, message.stamp, strict=True)), "padding": 0},
                "receipts": [{"source": source, "sequence": sequence} for source, sequence in slots],
                "data": message.data,
                "mic": _mic(message, layout),
            }
        )
    )


def _check_data(message: Data, layout: DataLayout) -> None:
    sources, byte = range(1 << 8 * layout.source_bytes), range(256)
    _check("source", message.source, sources)
    _check("sequence", message.sequence, byte)
    _check("boot", message.boot, range(8))
    _check("hops", message.hops, range(4))
    _check("age", message.age, byte if layout.has_age else range(1))
    if layout.stamp.items_of(len(message.stamp)) is None:
        raise FormatError(f"the stamp has {layout.stamp.count_text}, not {len(message.stamp)}")
    for field, value in zip(layout.stamp.fields, message.stamp, strict=False):
        _check(f"stamp field {field.name}", value, range(field.top + 1))
    if len(message.receipts) > layout.receipts:
        raise FormatError(
            f"{many(len(message.receipts), 'receipt')}, the layout has {many(layout.receipts, 'slot')}"
        )
    for source, sequence in message.receipts:
        _check("receipt source", source, sources)
        _check("receipt sequence", sequence, byte)
        if (source, sequence) == (message.source, message.sequence):
            raise FormatError("a receipt of the message itself would read as an unused slot")
    if len(message.data) != layout.data_bytes:
        raise FormatError(
            f"{many(len(message.data), 'application byte')}, the layout has {layout.data_bytes}"
        )


def _check(name: str, value: int, allowed: range) -> None:
    if value not in allowed:
        raise FormatError(f"{name} = {value} is outside {allowed.start}..{allowed.stop - 1}")


def _origin(message: Message) -> int:
    """The id of a message's sender; the host has none and takes 0."""
    for name in ("source", "sender", "gateway"):
        if hasattr(message, name):
            return int(getattr(message, name))
    return 0
