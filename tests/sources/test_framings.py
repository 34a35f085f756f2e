"""From bytes on a line to packets, and back."""

from basestation.sources.line import FrameWire
from packet_formats.framing import FrameCounters, encode_frame

PACKET = bytes([0x45, 0x7E, 0x7D, 1])


def test_a_packet_comes_back_however_its_bytes_are_cut():
    wire = FrameWire(FrameCounters())
    line = wire.encode(PACKET)
    assert line == encode_frame(PACKET)
    assert [packet for byte in line for packet in wire.feed(bytes([byte]))] == [PACKET]
    assert wire.acknowledges


def test_each_connection_starts_out_of_sync_and_the_counters_go_on():
    counters = FrameCounters()
    first, second = FrameWire(counters), FrameWire(counters)
    assert first.feed(encode_frame(PACKET)) == [PACKET]
    assert second.feed(b"the end of a frame\x7e" + encode_frame(PACKET)) == [PACKET]
    assert (counters.frames, counters.noise.count, counters.noise.bytes) == (2, 1, 18)


def test_an_unfinished_frame_is_counted_at_the_end():
    counters = FrameCounters()
    wire = FrameWire(counters)
    wire.feed(encode_frame(PACKET)[:-1])
    assert counters.partial.count == 0
    wire.end()
    assert counters.partial.count == 1
    assert wire.feed(b"\x7e") == [], "nothing of it is left"
