"""Frames on the air and in a capture file."""

import struct
import subprocess

import pytest

from basestation.testbed import capture
from basestation.testbed.signals import delimiter_ns, frame_of, message_of
from basestation.testbed.truth_log import Signal
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import Beacon
from tests.testbed.worlds import SECOND, World, deployment, network, on_air, stamped

BEACON = Beacon(3, 3, 1, 7, 0, 1, 0, 0x01020304)


def signal(raw, broken=False, data=160_000):
    return Signal(2_000_000, 0, 0, 2_480_000, 0.0, 0, data, 2_000_000, broken, raw)


@pytest.mark.parametrize("board", ["micaz", "mica2"])
@pytest.mark.parametrize("tinyos", [1, 2])
def test_every_board_and_version(board, tinyos):
    described = deployment(board=board, tinyos=tinyos)
    for message in (BEACON, Data(2, 200, (17, 1), hops=2, boot=5)):
        raw = message_of(signal(on_air(message, described)), board, tinyos)
        assert raw is not None
        assert decode_message(raw, layout_of(described)) == message


@pytest.mark.parametrize("board", ["micaz", "mica2"])
def test_neither_version_reads_the_other(board):
    for tinyos in (1, 2):
        raw = on_air(BEACON, deployment(board=board, tinyos=tinyos))
        other = message_of(signal(raw), board, 3 - tinyos)
        assert other is None or other.group != layout_of(deployment(board=board, tinyos=3 - tinyos)).group


@pytest.mark.parametrize("board", ["micaz", "mica2"])
def test_what_is_not_whole_is_not_read(board):
    raw = on_air(BEACON, deployment(board=board))
    assert message_of(signal(raw, broken=True), board, 1) is None
    assert message_of(signal(raw[:-5]), board, 1) is None
    assert message_of(signal(b""), board, 1) is None
    spoilt = bytearray(raw)
    spoilt[14] ^= 1
    assert message_of(signal(bytes(spoilt)), board, 1) is None


def test_the_delimiter():
    """A CC2420's bytes begin behind it; a CC1000's with the preamble, 0.417 ms a byte."""
    assert delimiter_ns(signal(on_air(BEACON, deployment())), "micaz") == 160_000
    found = delimiter_ns(signal(on_air(BEACON, deployment(board="mica2")), data=0), "mica2")
    assert found == pytest.approx(10 * 416_667, abs=5)


def test_a_capture_byte_by_byte(tmp_path):
    path = tmp_path / "ether.pcap"
    raw = on_air(BEACON, deployment())
    events = [
        signal(raw, data=3 * SECOND + 5),
        signal(raw, data=7),
        signal(raw[:-1], broken=True),
        signal(b""),
    ]
    assert capture.write(path, events, {0: "micaz", 1: "micaz"}) == 2
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 195)
    length = len(raw) - 1
    first, second = (struct.pack("<IIII", seconds, ns, length, length) for seconds, ns in ((0, 7), (3, 5)))
    assert path.read_bytes() == head + first + raw[1:] + second + raw[1:]


def test_mica2_frames_have_a_private_link_type(tmp_path):
    path = tmp_path / "ether.pcap"
    raw = on_air(BEACON, deployment(board="mica2"))
    assert capture.write(path, [signal(raw)], {0: "mica2"}) == 1
    written = path.read_bytes()
    assert struct.unpack_from("<I", written, 20) == (147,)
    assert written[40:] == frame_of(signal(raw), "mica2") == raw[10:-2]


def test_two_kinds_of_radio_do_not_fit_one_file(tmp_path):
    with pytest.raises(capture.PcapError, match="mica2 and micaz"):
        capture.write(tmp_path / "x", [], {0: "micaz", 1: "mica2"})


def test_tshark_has_no_complaint(tmp_path, require_tool):
    tshark = require_tool("tshark")
    path = tmp_path / "ether.pcap"
    world = World(network(deployment(tinyos=2)))
    world.boot()
    world.send(SECOND, stamped(world, 0, 1, SECOND))
    assert capture.write(path, world.events(), dict.fromkeys(world.network.nodes, "micaz")) == 2
    fields = (
        "-T",
        "fields",
        "-e",
        "wpan.fcs_ok",
        "-e",
        "wpan.dst_pan",
        "-e",
        "_ws.malformed",
        "-e",
        "_ws.expert",
    )
    done = subprocess.run([tshark, "-r", path, *fields], capture_output=True, text=True, check=True)
    assert [line.split("\t") for line in done.stdout.splitlines()] == [["1", "0x0022", "", ""]] * 2
