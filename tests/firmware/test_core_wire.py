"""The firmware's payloads, packets, frames and records are the golden vectors' and the base station's."""

import ctypes
import dataclasses
import json
from binascii import crc_hqx

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packet_formats.deployment import from_dict
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.messages import Data, Unknown, decode_message, encode_message
from packet_formats.records import RECORDS, Reason, members
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_packet, encode_packet
from tests.firmware.bridge import ROOT, Buffer, Core, from_shorts, shorts
from tests.firmware.cores import FIRMWARE_SCHEMES, core_of, described
from tests.packet_formats.strategies import packets

VECTORS = json.loads((ROOT / "packet_formats" / "vectors.json").read_text())
LAYOUTS = [
    layout for layout in VECTORS["layouts"] if layout["deployment"]["stamp"]["scheme"] in FIRMWARE_SCHEMES
]
REASON = {Reason.LENGTH: 1, Reason.SPARE: 2, Reason.VALUE: 3}
DATA, DATA_ACK, ACK, UNKNOWN, LENGTH, OVERSIZE = range(6)
COUNTERS = ("frames", "noise", "short", "crc", "escape", "long")


@pytest.fixture(scope="session", params=[1, 2], ids=["tinyos1", "tinyos2"])
def core(request):
    """A core of each version; MICAz with one, MICA2 with the other stamp."""
    return core_of(from_dict(LAYOUTS[request.param - 1]["deployment"]))


def framed(core: Core, packet: bytes) -> bytes:
    framer, out = core.state("framer"), bytearray()
    core.call("cw_framer_start", framer, packet, len(packet), returns=ctypes.c_int)
    while (byte := core.call("cw_framer_next", framer, returns=ctypes.c_int16)) >= 0:
        out.append(byte)
    return bytes(out)


def deframed(core: Core, deframer: Buffer, line: bytes) -> list[tuple[int, bytes]]:
    """Length and kept bytes of each packet."""
    out, lengths = Buffer(len(line) + 256), Buffer(len(line) // 4 + 1)  # one packet may have begun before
    count = core.call("bridge_deframe", deframer, line, len(line), out, lengths, returns=ctypes.c_int)
    found, at = [], 0
    for length in lengths.bytes[:count]:
        kept = min(length, core.sizes["deframer_room"])
        found.append((length, out.bytes[at : at + kept]))
        at += kept
    return found


def counters_of(core: Core, deframer: Buffer) -> dict[str, int]:
    out = Buffer(2 * len(COUNTERS))
    core.call("bridge_deframer_counters", deframer, out, returns=ctypes.c_int)
    return dict(zip(COUNTERS, from_shorts(out.bytes), strict=True))


def parsed(core: Core, packet: bytes) -> tuple[int, list[int]]:
    fields = Buffer(16)
    kind = core.call("bridge_am_parse", packet, len(packet), fields, returns=ctypes.c_int)
    return kind, from_shorts(fields.bytes)


def built(core: Core, message: ActiveMessage) -> bytes:
    out = Buffer(core.sizes["packet_limit"])
    fields = [message.dest, message.source or 0, message.type, message.group, len(message.data)]
    length = core.call("bridge_am_build", shorts(fields), message.data, out, returns=ctypes.c_uint8)
    return out.bytes[:length]


def checked(core: Core, payload: bytes) -> int:
    counters = core.state("data_counters")
    reason = core.call("cw_data_check", payload, len(payload), counters, returns=ctypes.c_int)
    assert from_shorts(counters.bytes) == [int(reason == i) for i in range(4)]
    return reason


EVERY = pytest.mark.parametrize(
    "vectors", LAYOUTS, ids=[vectors["deployment"]["network"]["name"] for vectors in LAYOUTS]
)


@pytest.mark.few(11)
@EVERY
def test_golden_vectors(vectors):
    core = core_of(from_dict(vectors["deployment"]))
    for vector in vectors["messages"]:
        plain, payload, frame = (
            vector["message"],
            bytes.fromhex(vector["payload"]),
            bytes.fromhex(vector["frame"]),
        )
        deframer = core.state("deframer")
        [(length, packet)] = deframed(core, deframer, frame)
        kind, (dest, source, type_, group, size, at, *_) = parsed(core, packet)
        assert (kind, length, dest, group) == (DATA, len(packet), 0xFFFF, core.layout.group)
        assert (type_, packet[at : at + size]) == (core.layout.am_type, payload)
        assert source == (plain["source"] if core.layout.tinyos == 2 else 0)
        sent = ActiveMessage(core.layout.tinyos, dest, group, type_, payload, source)
        assert framed(core, built(core, sent)) == frame
        assert checked(core, payload) == (REASON[Reason.VALUE] if names_no_mote(core, payload) else 0)
        read = Buffer(16)
        core.call("bridge_data_read", payload, read, returns=ctypes.c_int)
        names = ("source", "sequence", "in_sync", "saturated", "complete", "boot", "hops")
        assert from_shorts(read.bytes)[:7] == [int(plain[name]) for name in names]
        assert from_shorts(read.bytes)[7] == plain["boot"] << 8 | plain["sequence"]


def names_no_mote(core: Core, payload: bytes) -> bool:
    """A mote knows the number of motes; the reference checks only widths."""
    if core.deployment.stamp.scheme != "last-sender":
        return False
    source, sequence = core.layout.stamp.unpack(payload[core.layout.stamp_at : core.layout.receipts_at])
    return source >= core.deployment.network.motes or sequence > 255


def test_golden_headers_of_data(core):
    """The head, written by itself; hops beyond three are three, and of the boot count three bits remain."""
    length = core.layout.length
    for source, sequence, boot, hops, in_sync in [(5, 9, 7, 0, 1), (200, 255, 8, 3, 0), (0, 0, 13, 77, 1)]:
        payload = Buffer(length, b"\xff" * length)
        core.call("cw_data_head", payload, source, sequence, boot, hops, in_sync, returns=ctypes.c_int)
        flags = in_sync | (boot & 7) << 3 | min(hops, 3) << 6
        assert payload.bytes == bytes([source, sequence, flags]).ljust(length, b"\xff")


def test_hops_are_counted_down_from_one_and_two(core):
    for hops, after in [(0, None), (1, 0), (2, 1), (3, 3)]:
        message = Data(1, 2, (0,) * len(core.layout.stamp.fields), boot=5, hops=hops)
        raw = encode_message(message, core.layout).data
        payload = Buffer(len(raw), raw)
        assert core.call("cw_data_relay", payload, returns=ctypes.c_bool) == (after is not None)
        expected = (
            raw
            if after is None
            else encode_message(dataclasses.replace(message, hops=after), core.layout).data
        )
        assert payload.bytes == expected


@pytest.mark.few(11)
@EVERY
@given(data=st.data())
def test_payloads_are_judged_as_the_reference_judges_them(vectors, data):
    core = core_of(from_dict(vectors["deployment"]))
    layout = core.layout
    exact = st.sampled_from(sorted(layout.items_in)).flatmap(
        lambda length: st.binary(min_size=length, max_size=length)
    )
    payload = data.draw(st.one_of(exact, exact, st.binary(max_size=layout.limit)))
    sender = 0 if layout.tinyos == 2 else None
    message = decode_message(
        ActiveMessage(layout.tinyos, 0, layout.group, layout.am_type, payload, sender), layout
    )
    expected = REASON[message.reason] if isinstance(message, Unknown) else 0
    if not expected and names_no_mote(core, payload):
        expected = REASON[Reason.VALUE]
    assert checked(core, payload) == expected


@given(data=st.binary(max_size=255))
def test_crc(core, data):
    assert core.call("cw_crc16", data, len(data), returns=ctypes.c_uint16) == crc_hqx(data, 0)


def test_crc_step_by_step(core):
    for crc in (*range(0, 0x10000, 251), 0xFFFF):
        for byte in (0, 1, 0x7D, 0x80, 0xFF):
            found = core.call("cw_crc16_add", crc, byte, returns=ctypes.c_uint16)
            assert found == crc_hqx(bytes([byte]), crc)


@given(packet=st.binary(max_size=255))
@example(packet=b"\x7e" * 254)
@example(packet=b"\x7d" * 2)
def test_framer(core, packet):
    expected = encode_frame(packet) if 2 <= len(packet) <= 254 else b""
    assert framed(core, packet) == expected


pieces = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"\x7e", b"\x7e\x7e", b"\x7d", b"\x7d\x7e", b"\x7d\x7d", b"\x7d\x5e"]),
    st.binary(min_size=2, max_size=60).map(encode_frame),
    st.integers(245, 254).map(lambda n: encode_frame(bytes(n))),
    st.builds(
        lambda n, tail: b"\x7e" + b"a" * n + tail + b"\x7e",
        st.integers(250, 600),
        st.sampled_from([b"", b"\x7d"]),
    ),
    st.builds(lambda n: b"\x7e" + b"\x7d\x5d" * n + b"\x7e", st.integers(125, 300)),
)


@given(parts=st.lists(pieces, max_size=12), cuts=st.integers(1, 40))
@example(parts=[b"\x7e", b"a" * 256, b"\x7d\x7e"], cuts=7)
@example(parts=[b"\x7e", b"a" * 255, b"\x7d\x7e"], cuts=7)
@example(parts=[b"\x7d\x7e\x7d\x7e"], cuts=1)
def test_deframer_equals_the_reference_on_any_stream(core, parts, cuts):
    line, reference, deframer = b"".join(parts), FrameDecoder(), core.state("deframer")
    for at in range(0, len(line), cuts):
        chunk = line[at : at + cuts]
        expected = [(len(packet), packet[: core.sizes["deframer_room"]]) for packet in reference.feed(chunk)]
        assert deframed(core, deframer, chunk) == expected
    found, drops = counters_of(core, deframer), reference.counters.drops()
    assert found.pop("frames") == reference.counters.frames
    assert found == {name: drops[name].count for name in found}


def test_after_lost_bytes_the_deframer_waits_for_a_flag(core):
    deframer, frame = core.state("deframer"), encode_frame(b"\x42hello")
    assert deframed(core, deframer, frame[:5]) == []
    core.call("cw_deframer_resync", deframer, returns=ctypes.c_int)
    assert deframed(core, deframer, frame[3:] + frame) == [(6, b"\x42hello")]
    assert counters_of(core, deframer) == dict.fromkeys(COUNTERS, 0) | {"frames": 1, "noise": 1}
    deframed(core, deframer, b"\x7d")
    core.call("cw_deframer_resync", deframer, returns=ctypes.c_int)
    assert deframed(core, deframer, frame) == [(6, b"\x42hello")]
    assert counters_of(core, deframer)["noise"] == 2
    core.call("cw_deframer_start", deframer, returns=ctypes.c_int)
    assert counters_of(core, deframer) == dict.fromkeys(COUNTERS, 0)


def expected_parse(packet: bytes, tinyos: int) -> tuple[int, ActiveMessage | Ack | None]:
    """What the reference says of a packet, as the firmware of one version must see it."""
    first = {1: 0x40, 2: 0x43}[tinyos]
    if packet and not first <= packet[0] < first + 3:
        return UNKNOWN, None
    try:
        found = decode_packet(packet)
    except PacketError as error:
        text = str(error)
        return (OVERSIZE if "over the" in text else UNKNOWN if "dispatch" in text else LENGTH), None
    if isinstance(found, Ack):
        return ACK, found
    return (DATA_ACK if found.kind == "data-ack" else DATA), found


def mangled(packet: bytes, at: int, value: int, cut: int) -> bytes:
    raw = bytearray(packet)
    if value >= 0:
        raw[at % len(raw)] = value
    return bytes(raw[: len(raw) - cut] if cut >= 0 else raw + bytes(-cut))


hostile = st.one_of(
    st.builds(
        mangled,
        packets().map(encode_packet),
        st.integers(0, 12),
        st.integers(-300, 255),
        st.sampled_from([0, 0, 1, 5, -1]),
    ),
    st.builds(lambda first, rest: bytes([first]) + rest, st.integers(0x3F, 0x46), st.binary(max_size=60)),
    st.builds(  # header and length agree, but there is too much of it
        lambda kind, n: (
            bytes([kind, *([7] if kind in (0x41, 0x44) else [])])
            + (bytes([0, 0, 1, 1, n]) if kind < 0x43 else bytes([0, 0, 0, 0, 0, n, 1, 1]))
            + bytes(n)
        ),
        st.sampled_from([0x41, 0x42, 0x44, 0x45]),
        st.integers(0, 200),
    ),
)


@given(packet=hostile)
@example(packet=b"")
@example(packet=b"\x41")
@example(packet=b"\x44")
def test_packets_are_read_exactly_or_refused(core, packet):
    kind, expected = expected_parse(packet, core.layout.tinyos)
    found, (dest, source, type_, group, length, at, wants_ack, token) = parsed(core, packet)
    assert found == kind
    if isinstance(expected, ActiveMessage):
        assert (dest, source, type_, group) == (
            expected.dest,
            expected.source or 0,
            expected.type,
            expected.group,
        )
        assert packet[at : at + length] == expected.data
        assert (token or None) == (expected.token or None)
        if expected.kind == "data":
            assert built(core, expected) == packet
    elif isinstance(expected, Ack):
        assert token == expected.token
        out = Buffer(2)
        assert core.call("cw_am_build_ack", token, out, returns=ctypes.c_uint8) == 2
        assert out.bytes == packet
    wanted = len(packet) >= 2 and packet[0] == {1: 0x41, 2: 0x44}[core.layout.tinyos]
    assert bool(wants_ack) == wanted
    if wanted:
        assert token == packet[1]


def test_an_oversize_message_is_not_built(core):
    limit = PAYLOAD_LIMIT[core.layout.tinyos]
    for length in (limit + 1, 255):
        assert built(core, ActiveMessage(core.layout.tinyos, 1, 2, 3, bytes(length))) == b""
    assert len(built(core, ActiveMessage(core.layout.tinyos, 1, 2, 3, bytes(limit)))) > limit


@pytest.mark.parametrize(
    ("tinyos", "line"),
    [
        (2, "7e 45 00 ff ff 00 01 02 22 06 00 01 2d ac 7e"),
        (2, "7e 43 05 3a 08 7e"),
        (1, "7e 42 ff ff 04 7d 5d 04 04 00 01 00 3d 0e 7e"),
        (1, "7e 42 ff ff 04 7d 5d 03 04 01 00 f0 e6 7e"),
        (1, "7e 40 11 dc 0f 7e"),
    ],
)
def test_frames_seen_from_tinyos_gateways(tinyos, line):
    core, frame = (
        core_of(from_dict(LAYOUTS[tinyos - 1]["deployment"])),
        bytes.fromhex(line),
    )
    [(length, packet)] = deframed(core, core.state("deframer"), frame)
    kind, fields = parsed(core, packet)
    assert length == len(packet)
    if kind == ACK:
        out = Buffer(2)
        core.call("cw_am_build_ack", fields[7], out, returns=ctypes.c_uint8)
        assert framed(core, out.bytes) == frame
    else:
        assert kind == DATA
        message = decode_packet(packet)
        assert isinstance(message, ActiveMessage)
        assert framed(core, built(core, message)) == frame


# What each chip and version has on the air: board, TinyOS version, message, frame number, bytes up to the CRC.
AIR = [
    ("micaz", 1, ActiveMessage(1, 0xFFFF, 0x7D, 4, b"\x01\x00"), 9, "0d 01 08 09 ff ff ff ff 04 7d 01 00"),
    ("micaz", 1, ActiveMessage(1, 0x0102, 0x7D, 0xF4, b""), 255, "0b 01 08 ff ff ff 02 01 f4 7d"),
    (
        "micaz",
        2,
        ActiveMessage(2, 0xFFFF, 0x22, 6, b"\x00\x01", 1),
        0,
        "0f 41 88 00 22 00 ff ff 01 00 3f 06 00 01",
    ),
    ("micaz", 2, ActiveMessage(2, 0x0304, 0x22, 6, b"", 0x0102), 7, "0d 41 88 07 22 00 04 03 02 01 3f 06"),
    ("mica2", 1, ActiveMessage(1, 0x0102, 0x7D, 4, b"\x01\x00"), 0, "02 01 04 7d 02 01 00"),
    ("mica2", 2, ActiveMessage(2, 0x0102, 0x22, 6, b"\x00\x01", 0x0304), 0, "01 02 03 04 02 22 06 00 01"),
]


def air_core(board: str, tinyos: int) -> Core:
    return core_of(described(7, 10, 10, {"scheme": "shlc"}, board=board, tinyos=tinyos))


def heard(core: Core, frame: bytes) -> tuple[int, list[int]]:
    fields = Buffer(12)
    reason = core.call("bridge_air_parse", frame, fields, returns=ctypes.c_int)
    return reason, from_shorts(fields.bytes)


@pytest.mark.parametrize(("board", "tinyos", "message", "number", "line"), AIR)
def test_on_the_air(board, tinyos, message, number, line):
    core, frame = air_core(board, tinyos), bytes.fromhex(line)
    size = core.sizes["air_header"]
    out = Buffer(size, b"\xff" * size)
    fields = [message.dest, message.source or 0, message.type, message.group, len(message.data)]
    assert core.call("bridge_air_build", shorts(fields), message.data, number, out, returns=ctypes.c_bool)
    assert out.bytes + message.data == frame
    assert heard(core, frame) == (0, [*fields, size])
    fields[4] = PAYLOAD_LIMIT[tinyos] + 1
    assert not core.call(
        "bridge_air_build", shorts(fields), bytes(40), 0, Buffer(size), returns=ctypes.c_bool
    )


@pytest.mark.parametrize("tinyos", [1, 2])
def test_frames_of_other_protocols_are_refused(tinyos):
    core = air_core("micaz", tinyos)
    good = next(
        bytes.fromhex(line) for board, version, _, _, line in AIR if (board, version) == ("micaz", tinyos)
    )
    others = [
        bytes.fromhex(line).ljust(16, b"\0")
        for board, version, _, _, line in AIR
        if version != tinyos and board == "micaz"
    ]
    overhead, limit = core.sizes["air_header"] + 1, PAYLOAD_LIMIT[tinyos]
    for length in range(256):
        fits = overhead <= length <= overhead + limit
        assert heard(core, bytes([length]) + good[1:])[0] == (0 if fits else 1)
    for frame in others:
        assert heard(core, bytes([overhead]) + frame[1:])[0] == 2
    fixed = (1, 2, 4, 5) if tinyos == 1 else (1, 2, 5, 10)
    for at in range(1, core.sizes["air_header"]):
        for bit in range(8):
            raw = bytearray(good)
            raw[at] ^= 1 << bit
            asks_ack = (at, 1 << bit) == (1, 0x20)  # another sender may; the form is the same
            assert heard(core, bytes(raw))[0] == (2 if at in fixed and not asks_ack else 0)


@pytest.mark.parametrize("tinyos", [1, 2])
def test_lengths_on_the_cc1000(tinyos):
    core = air_core("mica2", tinyos)
    for length in range(256):
        raw = bytearray(8)
        raw[4] = length
        assert heard(core, bytes(raw))[0] == (0 if length <= PAYLOAD_LIMIT[tinyos] else 1)


@pytest.mark.parametrize(
    "vector", VECTORS["records"], ids=lambda v: f"{v['message']['name']}-tinyos{v['tinyos']}"
)
def test_golden_records(vector):
    core = core_of(from_dict(LAYOUTS[vector["tinyos"] - 1]["deployment"]))
    plain, payload = vector["message"], bytes.fromhex(vector["payload"])
    record = next(r for r in RECORDS if r.__name__.lower() == plain["name"])
    values = [plain[member.name] for member in members(record)]
    flat = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
    out = Buffer(len(payload))
    core.call(f"bridge_{plain['name']}_put", out, flat, returns=ctypes.c_int)
    assert out.bytes == payload
    back = Buffer(len(flat))
    assert core.call(f"bridge_{plain['name']}_get", payload, len(payload), back, returns=ctypes.c_bool)
    assert back.bytes == flat
    for length in (0, len(payload) - 1, len(payload) + 1):
        assert not core.call(f"bridge_{plain['name']}_get", payload, length, back, returns=ctypes.c_bool)
