"""Reads packets and messages as `decode_packet` and `decode_message` do, several times faster, for the live path.

Good frames are read by `struct` and shifts. Anything else goes to the construct definitions, which say what is wrong
with it. Both give the same answers (tests/packet_formats/test_fast_read.py).
"""

from __future__ import annotations

from operator import le
from struct import Struct

from packet_formats.layout import PAYLOAD_LIMIT, DataLayout, StampLayout
from packet_formats.messages import Data, Message, Unknown, decode_message, split_record
from packet_formats.records import Record, members, records_of
from packet_formats.tinyos import TYPE_OF, Ack, ActiveMessage, decode_packet

_CODES = {"u8": "B", "i8": "b", "u16": "H", "u32": "I"}
_ONE, _TWO = Struct("<HBBB"), Struct(">BHHBBB")
_ONE_AT, _TWO_AT = 1 + _ONE.size, 1 + _TWO.size  # where the payload begins
_DATA = {TYPE_OF[tinyos, "data"]: tinyos for tinyos in (1, 2)}
_FLAGS = [
    (bool(f & 1), bool(f & 2), bool(f & 4), f >> 3 & 7, f >> 6) for f in range(256)
]  # what each byte says


def read_packet(packet: bytes) -> ActiveMessage | Ack:
    """Do what `decode_packet` does."""
    tinyos = _DATA.get(packet[0]) if packet else None
    if tinyos == 1 and len(packet) >= _ONE_AT:
        dest, kind, group, length = _ONE.unpack_from(packet, 1)
        if length == len(packet) - _ONE_AT and length <= PAYLOAD_LIMIT[1]:
            return ActiveMessage(1, dest, group, kind, packet[_ONE_AT:])
    elif tinyos == 2 and len(packet) >= _TWO_AT:
        dispatch, dest, source, length, group, kind = _TWO.unpack_from(packet, 1)
        if not dispatch and length == len(packet) - _TWO_AT and length <= PAYLOAD_LIMIT[2]:
            return ActiveMessage(2, dest, group, kind, packet[_TWO_AT:], source)
    return decode_packet(packet)


class _StampShifts:
    """The places of a stamp's fields, for one number of items, in the integer that its bytes make."""

    def __init__(self, stamp: StampLayout, items: int) -> None:
        self.size = stamp.size_of(items)
        width = self.size * 8
        self._spare = (1 << width - stamp.bits_of(items)) - 1
        fields = stamp.fields_of(items)
        self._fields = [(width - f.offset - f.bits, (1 << f.bits) - 1) for f in fields]
        self._tops = [f.top for f in fields]
        self._is_full = all(f.top == (1 << f.bits) - 1 for f in fields)  # no value is over its top

    def read(self, word: int) -> tuple[int, ...] | None:
        """The values of the fields; None if something is wrong with them."""
        stamp = tuple([word >> shift & mask for shift, mask in self._fields])
        if word & self._spare or not (self._is_full or all(map(le, stamp, self._tops))):
            return None
        return stamp


class MessageReader:
    """Reads the messages of one layout."""

    def __init__(self, layout: DataLayout) -> None:
        order, stamp = "<" if layout.byteorder == "little" else ">", layout.stamp
        source = "B" if layout.source_bytes == 1 else "H"
        self._layout = layout
        self._tinyos, self._group, self._type = layout.tinyos, layout.group, layout.am_type
        self._records: dict[int, tuple[type[Record], Struct, int]] = {
            type_: (
                record,
                Struct(order + "".join(_CODES[m.type] for m in members(record))),
                layout.record_bytes(record),
            )
            for type_, record in records_of(layout.mic).items()
        }
        self._head = Struct(f"{order}{source}BB")
        self._age_at, self._stamp_at = layout.age_at if layout.has_age else 0, layout.stamp_at
        self._receipt = Struct(f"{order}{source}B")
        self._forms = {length: _StampShifts(stamp, items) for length, items in layout.items_in.items()}
        self._receipts = layout.receipts * self._receipt.size
        self._data_bytes, self._mic = layout.data_bytes, layout.mic

    def read(self, message: ActiveMessage) -> Message | Unknown:
        """As `decode_message`."""
        if message.tinyos == self._tinyos and message.group == self._group:
            is_data = message.type == self._type
            found = self._read_data(message.data) if is_data else self._read_record(message)
            if found is not None:
                return found
        return decode_message(message, self._layout)

    def _read_record(self, message: ActiveMessage) -> Record | None:
        record, form, length = self._records.get(message.type, (None, None, 0))
        if record is None or form is None or len(message.data) != length:
            return None
        if not self._mic and length == form.size:
            return record(*form.unpack(message.data))
        payload, more = split_record(message.data, record, self._layout)
        return record(*form.unpack(payload), **more)

    def _read_data(self, raw: bytes) -> Data | None:
        form = self._forms.get(len(raw))
        if form is None:
            return None
        source, sequence, flags = self._head.unpack_from(raw)
        stamp_end = self._stamp_at + form.size
        stamp = form.read(int.from_bytes(raw[self._stamp_at : stamp_end], "big"))
        if stamp is None:
            return None
        in_sync, saturated, complete, boot, hops = _FLAGS[flags]
        data_at = stamp_end + self._receipts
        mic_at = data_at + self._data_bytes
        receipts: tuple[tuple[int, int], ...] = ()
        if self._receipts:
            slots, own = self._receipt.iter_unpack(raw[stamp_end:data_at]), (source, sequence)
            receipts = tuple([slot for slot in slots if slot != own])
        age = raw[self._age_at] if self._age_at else 0
        data, mic = raw[data_at:mic_at], raw[mic_at:]
        return Data(
            source, sequence, stamp, in_sync, saturated, complete, boot, hops, receipts, data, mic, age
        )
