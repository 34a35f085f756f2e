"""The serial line: frames, chunks, damage, and an account of every byte."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packet_formats.framing import FrameCounters, FrameDecoder, crc16, encode_frame

SEEN = [
    "7e4500ffff00010222060001" + "2dac7e",
    "7e43053a087e",
    "7e42ffff047d5d04040001003d0e7e",
    "7e42ffff047d5d03040100f0e67e",
    "7e4011dc0f7e",
]
packets = st.binary(min_size=2, max_size=254)
# Streams rich in flags and escapes, where all the difficult cases are.
lines = st.lists(
    st.one_of(
        packets.map(encode_frame),
        st.binary(max_size=20),
        st.sampled_from([b"\x7e", b"\x7d", b"\x7d\x7e", b"\x7e\x7e", b"\x7d" * 300, b"\0" * 600]),
    ),
    max_size=8,
).map(b"".join)


def decoded(*chunks: bytes) -> tuple[list[bytes], FrameCounters]:
    decoder = FrameDecoder()
    found = [packet for chunk in chunks for packet in decoder.feed(chunk)]
    decoder.close()
    return found, decoder.counters


@pytest.mark.parametrize("line", SEEN)
def test_frames_seen_on_a_wire(line: str) -> None:
    raw = bytes.fromhex(line)
    (packet,), counters = decoded(raw)
    assert encode_frame(packet) == raw
    assert (counters.frames, counters.dropped_bytes) == (1, 0)


@given(packets)
def test_round_trip(packet: bytes) -> None:
    frame = encode_frame(packet)
    assert frame[0] == frame[-1] == 0x7E
    assert 0x7E not in frame[1:-1]
    assert decoded(frame)[0] == [packet]


@pytest.mark.parametrize("size", [0, 1, 255, 300])
def test_packets_that_no_frame_can_hold(size: int) -> None:
    with pytest.raises(ValueError, match=r"2\.\.254"):
        encode_frame(bytes(size))


@given(lines, st.lists(st.integers(0, 4000), max_size=6))
@example(b"\x7e" + b"\x7d" * 513 + b"\x7e", [2])
@example(b"\x7e" + b"\x7d" * 512 + b"\x7e", [2])
@example(b"\x7e" + b"\0" * 257 + b"\x7e", [2])
def test_chunking_changes_nothing(line: bytes, cuts: list[int]) -> None:
    whole = decoded(line)
    edges = sorted({0, *(min(cut, len(line)) for cut in cuts), len(line)})
    assert decoded(*[line[a:b] for a, b in itertools.pairwise(edges)]) == whole
    assert decoded(*[bytes([byte]) for byte in line]) == whole


@given(lines, st.integers(0, 4000))
def test_every_byte_is_accounted_for(line: bytes, cut: int) -> None:
    decoder = FrameDecoder()
    for part in (line[:cut], line[cut:]):
        decoder.feed(part)
        c = decoder.counters
        assert c.fed == c.flags + c.good + c.dropped_bytes + decoder.pending
    decoder.close()
    c = decoder.counters
    assert c.fed == len(line) == c.flags + c.good + c.dropped_bytes
    assert decoder.pending == 0


@given(st.lists(packets, min_size=1, max_size=5), st.sampled_from(["shared", "doubled"]))
def test_flags_may_be_shared_or_doubled(sent: list[bytes], flags: str) -> None:
    frames = [encode_frame(packet) for packet in sent]
    line = b"".join(frames) if flags == "doubled" else b"".join(frame[:-1] for frame in frames) + b"\x7e"
    found, counters = decoded(line)
    assert found == sent
    assert counters.dropped_bytes == 0


@given(packets, packets, st.data())
def test_damage_costs_one_frame_and_is_counted(first: bytes, second: bytes, data: st.DataObject) -> None:
    line = bytearray(encode_frame(first))
    at = data.draw(st.integers(1, len(line) - 2))
    line[at] ^= 1 << data.draw(st.integers(0, 7))
    found, counters = decoded(bytes(line) + encode_frame(second))
    assert found == [second]
    assert counters.dropped_bytes > 0


def only(counters: FrameCounters) -> tuple[str, int, int]:
    (found,) = [(name, drop) for name, drop in counters.drops().items() if drop.count]
    return found[0], found[1].count, found[1].bytes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"abc\x7e", ("noise", 1, 3)),
        (b"abc", ("noise", 1, 3)),
        (b"\x7eab\x7e", ("short", 1, 2)),
        (b"\x7eab\x7d\x5e\x7e", ("short", 1, 4)),
        (b"\x7eabcdef\x7e", ("crc", 1, 6)),
        (b"\x7eabcdef\x7d\x7e", ("escape", 1, 7)),
        (b"\x7e" + b"a" * 257 + b"\x7e", ("long", 1, 257)),
        (b"\x7e" + b"a" * 5000 + b"\x7e", ("long", 1, 5000)),
        (b"\x7eabcd", ("partial", 1, 4)),
    ],
)
def test_each_reason_has_its_counter(line: bytes, expected: tuple[str, int, int]) -> None:
    found, counters = decoded(line)
    assert found == []
    assert only(counters) == expected


def test_the_longest_frame_passes_and_memory_stays_bounded() -> None:
    assert decoded(encode_frame(b"\x7e" * 254))[0] == [b"\x7e" * 254]
    decoder = FrameDecoder()
    decoder.feed(b"\x7e")
    for _ in range(100):
        decoder.feed(b"a" * 1000)
    assert decoder.pending == 100_000
    assert len(decoder._held) < 600
    assert decoder.feed(encode_frame(b"ok")) == [b"ok"]


def test_crc_of_a_known_text() -> None:
    assert crc16(b"123456789") == 0x31C3
