"""The golden vectors are what the code makes now, and both readers agree on them."""

import json
from pathlib import Path
from typing import Any

import pytest

from packet_formats import bulk, vectors
from packet_formats.__main__ import main
from packet_formats.deployment import from_dict
from packet_formats.framing import FrameDecoder
from packet_formats.json_form import message_to_plain
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.schemes import PACKINGS, names
from packet_formats.tinyos import ActiveMessage, decode_packet


@pytest.fixture(scope="module")
def golden(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((root / "packet_formats" / "vectors.json").read_text())
    return loaded


def test_the_file_is_what_the_code_makes(root: Path, tmp_path: Path) -> None:
    path = root / "packet_formats" / "vectors.json"
    assert path.stat().st_size < 400_000
    assert path.read_text() == vectors.render(), (
        "the wire has changed: python -m packet_formats vectors -o ..."
    )
    assert main(["vectors", "-o", str(tmp_path / "vectors.json")]) == 0
    assert (tmp_path / "vectors.json").read_text() == path.read_text()


def test_all_kinds_of_layout_are_there(golden: dict[str, Any]) -> None:
    stamps = [layout["deployment"]["stamp"] for layout in golden["layouts"]]
    assert {stamp["scheme"] for stamp in stamps} == set(names())
    assert {stamp["packing"] for stamp in stamps} == set(PACKINGS)
    assert any(stamp["receipts"] for stamp in stamps)
    assert {layout["deployment"]["network"]["tinyos"] for layout in golden["layouts"]} == {1, 2}
    assert any("7d5e" in message["frame"] for layout in golden["layouts"] for message in layout["messages"])


def packet_in(frame: str) -> ActiveMessage:
    (packet,) = FrameDecoder().feed(bytes.fromhex(frame))
    message = decode_packet(packet)
    assert isinstance(message, ActiveMessage)
    return message


def test_frames_decode_to_their_fields(golden: dict[str, Any]) -> None:
    for entry in golden["layouts"]:
        layout = layout_of(from_dict(entry["deployment"]))
        assert (layout.hash, layout.am_type, layout.length) == (
            entry["hash"],
            entry["am_type"],
            entry["length"],
        )
        for vector in entry["messages"]:
            packet = packet_in(vector["frame"])
            assert packet.data.hex() == vector["payload"]
            message = decode_message(packet, layout)
            assert message_to_plain(message, layout) == vector["message"]  # type: ignore[arg-type]


def test_payloads_unpack_by_plain_arithmetic(golden: dict[str, Any]) -> None:
    for entry in golden["layouts"]:
        layout = layout_of(from_dict(entry["deployment"]))
        for vector in entry["messages"]:
            payload = bytes.fromhex(vector["payload"])
            rest = layout.length - layout.receipts_at  # what follows a stamp, however long that is
            stamp = payload[layout.stamp_at : len(payload) - rest]
            assert list(layout.stamp.unpack(stamp)) == list(vector["message"]["stamp"].values())


def test_bulk_reads_them_too(golden: dict[str, Any]) -> None:
    for entry in golden["layouts"]:
        layout = layout_of(from_dict(entry["deployment"]))
        payloads = [bytes.fromhex(vector["payload"]) for vector in entry["messages"]]
        frames = bulk.Frames.of_payload_list(payloads, layout)
        rows, reasons = bulk.decode_data(frames, layout)
        assert not reasons.any()
        stamps = [vector["message"]["stamp"] for vector in entry["messages"]]
        assert rows["clock"].tolist() == [stamp.get("clock", 0) for stamp in stamps]
        entries = [list(stamp.values())[len(layout.stamp.head) :] for stamp in stamps]
        most = layout.stamp.entries
        assert rows["entries"].tolist() == [row + [0] * (most - len(row)) for row in entries]
        if layout.has_age:
            assert rows["event_age"].tolist() == [vector["message"]["age"] for vector in entry["messages"]]


def test_fixed_messages(golden: dict[str, Any]) -> None:
    plain = golden["layouts"][:2]
    by_version = {entry["deployment"]["network"]["tinyos"]: entry["deployment"] for entry in plain}
    assert {vector["message"]["name"] for vector in golden["records"]} == {
        "beacon",
        "heard",
        "health",
        "status",
        "downlink",
        "arrived",
        "taken",
        "idle",
    }
    for vector in golden["records"]:
        layout = layout_of(from_dict(by_version[vector["tinyos"]]))
        message = decode_message(packet_in(vector["frame"]), layout)
        assert message_to_plain(message, layout) == vector["message"]  # type: ignore[arg-type]
