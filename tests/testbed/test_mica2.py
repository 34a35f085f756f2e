"""MICA2 images as they ship, on the testbed's ATmega128s and CC1000s: they hear one another, and the truth knows it."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from basestation.testbed.images import programs_for
from packet_formats import cheader
from packet_formats.deployment import load
from packet_formats.framing import FrameDecoder, crc16
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import decode_message
from packet_formats.records import Status
from packet_formats.tinyos import ActiveMessage, decode_packet

pytestmark = pytest.mark.wide

SECONDS = 40
GAINS = {(0, 1): -55, (0, 2): -70, (0, 3): -85, (1, 2): -60, (1, 3): -65, (2, 3): -62}
KHZ = {1: 433002, 2: 434845}

Line = dict[str, Any]


class Images(NamedTuple):
    """By the TinyOS whose format they speak."""

    gateway: Path
    motes: list[Path]
    other_mote: Path
    layout: DataLayout


@pytest.fixture(scope="module")
def images(root, platformio, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mica2")
    path, text = folder / "deployment.toml", (root / "examples/mica2.toml").read_text()
    path.write_text(text.replace("tinyos = 1", "tinyos = 2"))
    first, second = (programs_for(load(one)) for one in (root / "examples/mica2.toml", path))
    motes = [first.mote.copy(number, folder) for number in range(3)]
    return Images(first.gateway.path, motes, second.mote.path, layout_of(load(root / "examples/mica2.toml")))


def run(testbed: Path, *lines: str) -> str:
    done = subprocess.run(
        [testbed, "-"], input="\n".join(lines), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def scenario(images: Images) -> list[str]:
    """A gateway and three motes with crystals of all kinds."""
    gains = [f"gain {a} {b} {db}" for (i, j), db in GAINS.items() for a, b in ((i, j), (j, i))]
    return [
        "seed 7",
        "nodes 4",
        f"node 0 mica2 0 0 0 0 {images.gateway}",
        f"node 1 mica2 0.7 50 -50 40 {images.motes[0]}",
        f"node 2 mica2 1.9 -50 50 -40 {images.motes[1]}",
        f"node 3 mica2 0.1 10 20 5 {images.motes[2]}",
        *(f"noise {i} -105" for i in range(4)),
        *gains,
        f"end {SECONDS}",
    ]


@pytest.fixture(scope="module")
def text(testbed, images):
    return run(testbed, *scenario(images))


@pytest.fixture(scope="module")
def truth(text):
    return [json.loads(line) for line in text.splitlines()]


def of(truth: list[Line], what: str) -> list[Line]:
    return [line for line in truth if line["is"] == what]


def handed_up(truth: list[Line], layout: DataLayout) -> list[tuple[int, object]]:
    """(when, message) of all that the gateway sent to its host."""
    decoder = FrameDecoder()
    found = []
    for line in of(truth, "uart"):
        for payload in decoder.feed(bytes.fromhex(line["bytes"])):
            packet = decode_packet(payload)
            assert isinstance(packet, ActiveMessage)
            found.append((line["t"], decode_message(packet, layout)))
    return found


def test_legal_use_is_silent(truth):
    assert of(truth, "fault") == []
    assert of(truth, "end")[0]["reason"] == "end"


def test_no_byte_went_out_too_late(truth):
    """Each signal holds a frame with the right check sum; a byte that missed its time would spoil it."""
    signals = of(truth, "signal")
    assert len(signals) > 30
    for signal in signals:
        lead, sync, frame = bytes.fromhex(signal["bytes"]).partition(b"\x33\xcc")
        assert sync
        assert lead.endswith(b"\xaa" * 8)
        size = 5 + frame[4]
        assert crc16(frame[:size]) == int.from_bytes(frame[size : size + 2], "little")
        assert len(frame) - size - 2 in (2, 3)  # one may have begun when the carrier went off


def test_what_the_truth_calls_received_the_driver_has_heard(truth, images):
    ends = [line["t"] for line in of(truth, "outcome") if line["node"] == 0 and line["outcome"] == "received"]
    states = [(t, m) for t, m in handed_up(truth, images.layout) if isinstance(m, Status)]
    assert len(states) >= 4
    for t, status in states:
        surely = sum(end < t - 30e6 for end in ends)
        assert surely <= status.heard <= sum(end < t for end in ends)
    assert states[-1][1].heard > 30


def test_same_scenario_same_truth(testbed, images, text):
    assert run(testbed, *scenario(images)) == text


def test_the_two_tinyos_do_not_hear_each_other(testbed, images):
    lines = run(
        testbed,
        "nodes 2",
        f"node 0 mica2 0 0 0 0 {images.gateway}",
        f"node 1 mica2 0 0 0 0 {images.other_mote}",
        "gain 0 1 -60",
        "gain 1 0 -60",
        "end 20",
    )
    truth = [json.loads(line) for line in lines.splitlines()]
    assert {(line["node"], line["khz"]) for line in of(truth, "signal")} == {(0, KHZ[1]), (1, KHZ[2])}
    assert {line["outcome"] for line in of(truth, "outcome")} == {"deaf"}
    assert of(truth, "fault") == []


@pytest.mark.parametrize(
    ("misuse", "faults"),
    [
        (0, []),
        (1, ["mica2: the data pin was not driven while the radio sent"]),
        (2, ["mica2: the data pin was driven while the radio drove it"]),
        (3, ["mica2: PDATA was driven while the radio drove it"]),
    ],
)
def test_wires_that_two_drive_or_nobody(testbed, root, require_tool, tmp_path, misuse, faults):
    (tmp_path / "causeway_layout.h").write_text(cheader.render(load(root / "examples/mica2.toml")))
    image = tmp_path / "misuse.elf"
    sources = [root / "tests/testbed/c/mica2_misuse.c", root / "firmware/chips/cc1000/cc1000_control.c"]
    flags = ["-mmcu=atmega128", "-Os", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-DMISUSE={misuse}"]
    includes = [f"-I{root / 'firmware'}", f"-I{tmp_path}"]
    subprocess.run([require_tool("avr-gcc"), *flags, *includes, *sources, "-o", image], check=True)
    lines = run(testbed, "nodes 1", f"node 0 mica2 0 0 0 0 {image}", "end 0.2")
    truth = [json.loads(line) for line in lines.splitlines()]
    assert [line["what"] for line in of(truth, "fault")] == faults
    assert len(of(truth, "signal")) == 1


def test_a_wire_that_is_not_there_cannot_be_missing(testbed, images):
    lines = ["nodes 1", f"node 0 mica2 0 0 0 0 {images.gateway}", "unwired 0 sfd", "end 1"]
    done = subprocess.run([testbed, "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "line 3: a MICAz has wires fifo, fifop and sfd, a MICA2 none of them" in done.stderr
