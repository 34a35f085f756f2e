"""The quick reading gives what the construct definitions give, on good frames and on any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from packet_formats.fast_read import MessageReader, read_packet
from packet_formats.messages import decode_message, encode_message
from packet_formats.tinyos import ActiveMessage, PacketError, decode_packet, encode_packet
from tests.packet_formats.strategies import data_messages, fitted, layouts, packets, records


def outcome(read, packet: bytes) -> object:
    try:
        return read(packet)
    except PacketError as error:
        return str(error)


@given(packets(), st.integers(-3, 3))
def test_packets_good_and_cut(packet, cut):
    raw = encode_packet(packet)
    assert read_packet(raw) == packet
    other = raw + bytes(cut) if cut > 0 else raw[: len(raw) + cut]
    assert outcome(read_packet, other) == outcome(decode_packet, other)


@given(st.binary(max_size=45), st.sampled_from(range(0x40, 0x46)))
def test_any_bytes(raw, first):
    for packet in (raw, bytes([first]) + raw):
        assert outcome(read_packet, packet) == outcome(decode_packet, packet)


@given(st.data())
def test_messages(data):
    layout = data.draw(layouts())
    record = records().map(lambda record: fitted(record, layout))
    message = data.draw(st.one_of(data_messages(layout), record))
    frame = encode_message(message, layout)
    assert MessageReader(layout).read(frame) == message == decode_message(frame, layout)


@given(st.data())
def test_any_payload_of_any_type(data):
    layout = data.draw(layouts())
    length = data.draw(st.sampled_from([layout.length, layout.length - 1, 28]))
    payload = data.draw(st.binary(min_size=length, max_size=length))
    kind = data.draw(st.one_of(st.just(layout.am_type), st.integers(0x70, 0x75), st.integers(0, 255)))
    group = data.draw(st.sampled_from([layout.group, layout.group ^ 1]))
    source = 5 if layout.tinyos == 2 else None
    frame = ActiveMessage(layout.tinyos, 0xFFFF, group, kind, payload, source)
    found = MessageReader(layout).read(frame)
    assert found == decode_message(frame, layout)
    assert repr(found) == repr(decode_message(frame, layout))  # True is not 1
