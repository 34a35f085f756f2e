"""Bulk decoding gives the rows and reasons of `decode_message`, on random and hostile input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats import bulk
from packet_formats.deployment import from_dict
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, Unknown, data_digest, decode_message, encode_data, encode_message
from packet_formats.records import RECORDS, Reason, Record
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_packet, encode_packet
from tests.packet_formats.strategies import data_messages, layouts, records, tables


def row_of(message: Data, layout: DataLayout) -> np.ndarray:
    row = np.zeros(1, bulk.data_dtype(layout))
    own = (message.source, message.sequence)
    slots = [*message.receipts, *[own] * (layout.receipts - len(message.receipts))]
    named = dict(zip([f.name for f in layout.stamp.fields], message.stamp, strict=False))
    for name in ("source", "sequence", "in_sync", "saturated", "complete", "boot", "hops"):
        row[name] = getattr(message, name)
    if layout.has_age:
        row["event_age"] = message.age
    for name, _ in layout.stamp.head:
        row[name] = named[name]
    entries = message.stamp[len(layout.stamp.head) :]
    row["entries"][0, : len(entries)] = entries
    if layout.stamp.is_variable:
        row["items"] = layout.stamp.items_of(len(message.stamp))
    if slots:
        row["receipt_source"] = [slot[0] for slot in slots]
        row["receipt_sequence"] = [slot[1] for slot in slots]
    row["data"] = list(message.data)
    return row


def read_one_by_one(packet: bytes, layout: DataLayout, wanted: type) -> tuple[Reason, object]:
    """The reason and the message that `decode_message` gives where only messages of one kind are wanted."""
    try:
        message = decode_packet(packet)
    except PacketError:
        return Reason.PACKET, None
    if isinstance(message, Ack) or message.tinyos != layout.tinyos:
        return Reason.PACKET, None
    if message.group != layout.group:
        return Reason.GROUP, None
    if message.type != (layout.am_type if wanted is Data else wanted.AM_TYPE):  # type: ignore[attr-defined]
        return Reason.TYPE, None
    found = decode_message(message, layout)
    return (found.reason, None) if isinstance(found, Unknown) else (Reason.OK, found)


def exactly(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


@st.composite
def hostile_packets(draw: st.DrawFn, layout: DataLayout) -> bytes:
    """Good packets, good ones with a bit or a length changed, and bytes that are nothing."""
    choice = draw(st.integers(0, 5))
    if choice == 0:
        return draw(st.binary(max_size=50))
    if choice == 1:
        payload = draw(st.sampled_from([*layout.items_in, layout.limit]).flatmap(exactly))
        source = 0 if layout.tinyos == 2 else None
        packet = ActiveMessage(layout.tinyos, 0, layout.group, layout.am_type, payload, source)
        return encode_packet(packet)
    message = encode_message(draw(st.one_of(data_messages(layout), records())), layout)
    if draw(st.booleans()):
        message = ActiveMessage(
            message.tinyos,
            message.dest,
            message.group,
            message.type,
            message.data,
            message.source,
            "data-ack",
            9,
        )
    raw = bytearray(encode_packet(message))
    if choice == 2:
        raw[draw(st.integers(0, len(raw) - 1))] ^= 1 << draw(st.integers(0, 7))
    if choice == 3:
        raw = raw[: draw(st.integers(0, len(raw)))] + draw(st.binary(max_size=3))
    return bytes(raw)


@given(st.data())
def test_data_are_read_as_one_by_one(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    packets = data.draw(st.lists(hostile_packets(layout), max_size=12))
    rows, reasons = bulk.decode_data(bulk.Frames.of_packets(packets, layout.tinyos), layout)
    for packet, row, reason in zip(packets, rows, reasons, strict=True):
        expected, message = read_one_by_one(packet, layout, Data)
        assert reason == expected
        if isinstance(message, Data) and len(message.receipts) == layout.receipts:
            assert row == row_of(message, layout)[0]
        if reason:
            assert row == np.zeros((), rows.dtype)


@given(st.data())
def test_data_messages_come_out_as_they_went_in(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    messages = data.draw(st.lists(data_messages(layout), min_size=1, max_size=8))
    rows = np.concatenate([row_of(message, layout) for message in messages])
    padded, lengths = bulk.encode_data(rows, layout), bulk.data_lengths(rows, layout)
    payloads = [row[:length].tobytes() for row, length in zip(padded, lengths, strict=True)]
    assert payloads == [encode_data(message, layout) for message in messages]
    again, reasons = bulk.decode_data(bulk.Frames.of_payload_list(payloads, layout), layout)
    assert not reasons.any()
    assert (again == rows).all()


@given(st.data())
def test_records_are_read_as_one_by_one(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    packets = data.draw(st.lists(hostile_packets(layout), max_size=12))
    wanted: type[Record] = data.draw(st.sampled_from(RECORDS))
    rows, reasons = bulk.decode_records(bulk.Frames.of_packets(packets, layout.tinyos), wanted, layout)
    for packet, row, reason in zip(packets, rows, reasons, strict=True):
        expected, message = read_one_by_one(packet, layout, wanted)
        assert reason == expected
        if message is not None:
            assert {name: int(row[name]) for name in rows.dtype.names or ()} == {
                name: getattr(message, name) for name in rows.dtype.names or ()
            }


@pytest.mark.parametrize(("head", "limit"), [("42ffff137d", 29), ("4500ffff0001", 28)])
def test_a_payload_over_the_limit_is_no_packet(head: str, limit: int) -> None:
    """As in `tinyos`, and not merely a message of another length."""
    tinyos = 1 if limit == 29 else 2
    rest = b"" if tinyos == 1 else b"\x22\x13"
    packets = [bytes.fromhex(head) + bytes([size]) + rest + bytes(size) for size in (limit, limit + 1)]
    frames = bulk.Frames.of_packets(packets, tinyos)
    assert frames.packet.tolist() == [True, False]
    assert frames.length.tolist() == [limit, 0]


@pytest.mark.parametrize("packets", [[], [b""], [b"", b"\x42"]])
def test_nothing_to_read(packets: list[bytes]) -> None:
    layout = layout_of(from_dict(tables()))
    rows, reasons = bulk.decode_data(bulk.Frames.of_packets(packets, 1), layout)
    assert len(rows) == len(packets)
    assert (reasons == Reason.PACKET).all()


@pytest.mark.parametrize(
    ("column", "value", "name"),
    [
        ("source", 256, "source"),
        ("boot", 8, "boot"),
        ("hops", 4, "hops"),
        ("clock", 32, "clock"),
        ("c", 16, "c "),
    ],
)
def test_columns_that_do_not_fit_are_named(column: str, value: int, name: str) -> None:
    layout = layout_of(from_dict(tables()))
    rows = np.zeros(3, bulk.data_dtype(layout))
    rows[column][1] = value
    with pytest.raises(ValueError, match=name):
        bulk.encode_data(rows, layout)


def test_entries_that_do_not_fit_are_named() -> None:
    layout = layout_of(from_dict(tables()))
    rows = np.zeros(3, bulk.data_dtype(layout))
    rows["entries"][1, 4] = 16
    with pytest.raises(ValueError, match="kn4 = 16"):
        bulk.encode_data(rows, layout)


@given(payloads=st.lists(st.binary(min_size=4, max_size=28), max_size=20), hops=st.integers(0, 3))
def test_digests_equal_those_of_each_payload_and_of_its_copies(payloads: list[bytes], hops: int) -> None:
    layout = layout_of(from_dict(tables()))
    relayed = [bytearray(payload) for payload in payloads]
    for payload in relayed:
        payload[layout.flags_at] = payload[layout.flags_at] & 0x3F | hops << 6
    found = [
        bulk.data_digests(bulk.Frames.of_payload_list(made, layout), layout).tolist()
        for made in (payloads, [bytes(payload) for payload in relayed])
    ]
    assert found[0] == found[1] == [data_digest(payload, layout) for payload in payloads]
    assert data_digest(bytes(4), layout) != data_digest(bytes(3) + b"\x01", layout)
