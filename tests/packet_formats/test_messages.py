"""Causeway's messages: round trips, refusals, and the plain form."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats.deployment import from_dict
from packet_formats.json_form import message_from_plain, message_to_plain, packet_from_plain, packet_to_plain
from packet_formats.layout import PAYLOAD_LIMIT, layout_of
from packet_formats.messages import (
    Data,
    FormatError,
    Unknown,
    decode_message,
    encode_data,
    encode_message,
    encode_record,
)
from packet_formats.records import RECORDS, Beacon, Downlink, Health, Heard, Reason, Record, members, size
from packet_formats.tinyos import ActiveMessage
from tests.packet_formats.strategies import data_messages, layouts, records, tables

PAPER = layout_of(from_dict(tables(scheme="kn", entries=3, receipts=2)))


@given(st.data())
def test_the_payload_is_where_the_layout_says(data: st.DataObject) -> None:
    """construct against the plain arithmetic of `layout`."""
    layout = data.draw(layouts())
    message = data.draw(data_messages(layout))
    order = "little" if layout.tinyos == 1 else "big"
    flags = message.in_sync | message.saturated << 1 | message.complete << 2
    flags |= message.boot << 3 | message.hops << 6
    slots = [*message.receipts, *[(message.source, message.sequence)] * layout.receipts][: layout.receipts]
    expected = (
        message.source.to_bytes(layout.source_bytes, order)  # type: ignore[arg-type]
        + bytes([message.sequence, flags, *[message.age] * layout.has_age])
        + layout.stamp.pack(message.stamp)
        + b"".join(s.to_bytes(layout.source_bytes, order) + bytes([q]) for s, q in slots)  # type: ignore[arg-type]
        + message.data
    )
    assert encode_data(message, layout) == expected


@given(records(), st.sampled_from(["little", "big"]))
def test_records_lie_where_their_members_say(record: Record, order: str) -> None:
    raw = encode_record(record, order)
    for m in members(type(record)):
        part = raw[m.offset : m.offset + m.size]
        assert int.from_bytes(part, order, signed=m.signed) == getattr(record, m.name)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", RECORDS)
def test_records_fit_both_versions(record: type[Record]) -> None:
    assert size(record) <= min(PAYLOAD_LIMIT.values())
    assert 0x70 <= record.AM_TYPE < 0x80


def test_a_beacon_ends_with_its_time() -> None:
    """So that a radio driver can fill it in last."""
    last = members(Beacon)[-1]
    assert (last.name, last.offset + last.size) == ("time", size(Beacon))


@given(st.data())
def test_hostile_payloads_are_read_exactly_or_refused(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    payload = data.draw(st.binary(min_size=layout.length, max_size=layout.length))
    packet = ActiveMessage(
        layout.tinyos, 0, layout.group, layout.am_type, payload, 0 if layout.tinyos == 2 else None
    )
    message = decode_message(packet, layout)
    if isinstance(message, Unknown):
        assert message.reason in (Reason.SPARE, Reason.VALUE)
    else:
        assert isinstance(message, Data)
        assert decode_message(encode_message(message, layout), layout) == message
        if len(message.receipts) == layout.receipts:
            assert encode_data(message, layout) == payload


@given(st.data())
def test_anything_that_does_not_match_is_another_layout(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    good = encode_message(data.draw(st.one_of(data_messages(layout), records())), layout)
    other = 2 if layout.tinyos == 1 else 1
    lengths = layout.items_in if good.type == layout.am_type else [len(good.data)]
    longer = dataclasses.replace(good, data=good.data.ljust(max(lengths) + 1, b"\0"))
    shorter = dataclasses.replace(good, data=good.data[: min(lengths) - 1])
    strange = next(t for t in range(256) if t != layout.am_type and not 0x70 <= t <= 0x74)
    for packet, reason in [
        (dataclasses.replace(good, tinyos=other), Reason.PACKET),
        (dataclasses.replace(good, group=good.group ^ 1), Reason.GROUP),
        (dataclasses.replace(good, type=strange), Reason.TYPE),
        (longer, Reason.LENGTH),
        (shorter, Reason.LENGTH),
    ]:
        message = decode_message(packet, layout)
        assert isinstance(message, Unknown)
        assert message.reason == reason
        assert str(message).startswith("another layout or another application: ")


@pytest.mark.parametrize("bits", [0x01, 0x04])
def test_padding_is_always_zero(bits: int) -> None:
    assert PAPER.stamp.bits == 21
    packet = encode_message(Data(1, 2, (0, 0, 0, 0, 0), data=bytes(4)), PAPER)
    raw = bytearray(packet.data)
    raw[5] |= bits
    message = decode_message(dataclasses.replace(packet, data=bytes(raw)), PAPER)
    assert isinstance(message, Unknown)
    assert message.reason == Reason.SPARE
    assert "padding" in message.detail


def test_an_unused_receipt_slot_repeats_the_sender() -> None:
    message = Data(1, 2, (0, 0, 0, 0, 0), receipts=((3, 4),), data=bytes(4))
    payload = encode_data(message, PAPER)
    assert payload[PAPER.receipts_at : PAPER.data_at] == bytes([3, 4, 1, 2])
    assert decode_message(encode_message(message, PAPER), PAPER) == message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": 256}, "source"),
        ({"sequence": -1}, "sequence"),
        ({"boot": 8}, "boot"),
        ({"hops": 4}, "hops"),
        ({"stamp": (32, 0, 0, 0, 0)}, "clock = 32"),
        ({"stamp": (0, 0, 16, 0, 0)}, "kn0 = 16"),
        ({"stamp": (0, 0)}, "5 fields, not 2"),
        ({"receipts": ((1, 1),) * 3}, "3 receipts"),
        ({"receipts": ((1, 2),)}, "unused slot"),
        ({"receipts": ((256, 2),)}, "receipt source"),
        ({"data": b""}, "application bytes"),
    ],
)
def test_data_that_does_not_fit_is_refused(change: dict[str, object], reason: str) -> None:
    good = Data(1, 2, (0, 0, 0, 0, 0), data=bytes(4))
    with pytest.raises(FormatError, match=reason):
        encode_data(dataclasses.replace(good, **change), PAPER)  # type: ignore[arg-type]


@given(records(), st.data())
def test_records_that_do_not_fit_are_refused(record: Record, data: st.DataObject) -> None:
    member = data.draw(st.sampled_from(members(type(record))))
    for value in (member.range.start - 1, member.range.stop):
        with pytest.raises(FormatError, match=member.name):
            encode_record(dataclasses.replace(record, **{member.name: value}), "little")


def test_the_sender_of_a_2x_message() -> None:
    wanted = tables()
    wanted["network"]["tinyos"] = 2
    layout = layout_of(from_dict(wanted))
    assert encode_message(Downlink(1, 2, 3, 4, 5), layout).source == 0
    heard = Heard(10, 0, 0, 0, 1, -70, 105, 0, 0)
    assert encode_message(heard, layout).source == 10
    assert encode_message(heard, layout, source=7).source == 7
    assert heard.in_sync


@given(st.data())
def test_plain_round_trip(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    message = data.draw(st.one_of(data_messages(layout), records()))
    assert message_from_plain(message_to_plain(message, layout), layout) == message
    packet = encode_message(message, layout)
    plain = packet_to_plain(packet, layout)
    assert packet_from_plain(plain, layout) == packet
    assert packet_from_plain(plain) == packet
    assert packet_from_plain({"tinyos": layout.tinyos, "message": plain["message"]}, layout) == packet


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        ({"type": 1, "payload": ""}, "group is missing"),
        ({"type": 1, "group": 1, "payload": "0"}, "hex digits"),
        ({"type": 1, "group": 1, "payload": 7}, "hex digits"),
        ({"type": 1, "group": 1, "payload": "00", "length": 2}, "length = 2"),
        ({"type": True, "group": 1, "payload": ""}, "type = True"),
        ({"kind": "nack"}, "no packet of kind"),
        ({"kind": ["ack"]}, "no packet of kind"),
        ({"kind": "ack"}, "token is missing"),
        ({"message": {"name": "beacon"}}, "sender is missing"),
        ({"message": {"name": "letter"}}, "one of data, beacon"),
        ({"message": []}, "must be an object"),
        ({"message": {"name": "data", "colour": 1}}, "has no colour"),
        ({"message": {"name": "data", "source": 1, "sequence": 1, "stamp": {"clock": 1}}}, "stamp must be"),
    ],
)
def test_incomplete_plain_forms_are_refused(plain: dict[str, object], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        packet_from_plain(plain, PAPER)


def test_a_message_and_its_payload_must_agree() -> None:
    plain = packet_to_plain(encode_message(Downlink(1, 2, 3, 4, 5), PAPER), PAPER)
    plain["message"]["argument"] = 6
    with pytest.raises(FormatError, match="payload and message differ"):
        packet_from_plain(plain, PAPER)
    with pytest.raises(FormatError, match="needs the deployment"):
        packet_from_plain({"message": plain["message"]})


@pytest.mark.parametrize(("flags", "in_sync"), [(0x00, False), (0x41, True), (0xC0, False), (0xC1, True)])
def test_health_says_whether_it_is_in_sync_whatever_its_hops(flags: int, in_sync: bool) -> None:
    health = Health(*(flags if member.name == "flags" else 0 for member in members(Health)))
    assert health.in_sync is in_sync


def test_a_message_without_a_stamp_needs_none() -> None:
    layout = layout_of(from_dict(tables(scheme="sequence")))
    said = {"name": "data", "source": 3, "sequence": 126, "data": "01020304"}
    message = message_from_plain(said, layout)
    assert message == Data(3, 126, (), data=bytes.fromhex("01020304"))
    assert message_to_plain(message, layout)["stamp"] == {}
    with pytest.raises(FormatError, match="stamp must be an object with known0"):
        message_from_plain(said, layout_of(from_dict(tables(scheme="vector"))))
