"""MICs: the standards' vectors, the golden ones, arrays equal to single messages, and what a MIC covers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats import bulk, cheader, vectors
from packet_formats.deployment import DeploymentError, from_dict
from packet_formats.fast_read import MessageReader
from packet_formats.json_form import message_from_plain, message_to_plain
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Unknown, decode_message, encode_message
from packet_formats.records import Arrived, Beacon, Downlink, Health, Proof, Reason
from packet_formats.seal import Seal, command_time
from packet_formats.tinyos import ActiveMessage
from tests.packet_formats.strategies import data_messages, tables

RFC_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")  # of RFC 4493, section 4


def sealed_tables(**stamp: Any) -> dict[str, Any]:
    return {**tables(**(stamp or {"scheme": "shlc"})), "security": {"mic": 4, "key": "site.key"}}


SEALED = layout_of(from_dict(sealed_tables()))
LAYOUTS = [
    layout_of(from_dict(sealed_tables(**stamp)))
    for stamp in (
        {"scheme": "shlc"},
        {"scheme": "hlc", "receipts": 1},
        {"scheme": "sequence"},
        {"scheme": "barrier"},
    )
]


def test_cmac_is_that_of_rfc_4493() -> None:
    text = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    seal = Seal(Key(RFC_KEY), SEALED)
    assert seal.cmac(b"").hex() == "bb1d6929e95937287fa37d129b756746"
    assert seal.cmac(text).hex() == "070a16b46b4d4144f79bdd9dd04a287c"


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.stamp.scheme)
@given(data=st.data())
def test_sealed_messages_are_read_back(layout: Any, data: st.DataObject) -> None:
    seal = Seal(vectors.KEY, layout)
    messages = data.draw(st.lists(data_messages(layout), min_size=1, max_size=5))
    times = st.integers(0, (1 << 33) - 1)
    heard = [data.draw(times) for _ in messages]
    epochs = [data.draw(st.integers(0, 255)) for _ in messages]
    frames = [seal.sealed_data(*each) for each in zip(messages, epochs, heard, strict=True)]
    for frame, message in zip(frames, messages, strict=True):
        found = decode_message(frame, layout)
        assert found == MessageReader(layout).read(frame) == replace(message, mic=frame.data[-4:])
        assert message_from_plain(message_to_plain(found, layout), layout) == found
    many = bulk.Frames.of_payload_list([frame.data for frame in frames], layout)
    rows, reasons = bulk.decode_data(many, layout)
    assert not reasons.any()
    assert [bytes(mic) for mic in rows["mic"]] == [frame.data[-4:] for frame in frames]
    assert (bulk.encode_data(rows, layout) == many.payload[:, : layout.length]).all()


def test_the_mic_covers_all_but_what_a_relay_changes() -> None:
    seal = Seal(vectors.KEY, SEALED)
    draw = vectors.Draw("relay")
    data = next(iter(vectors._data_messages(SEALED)))
    data = replace(data, in_sync=True)
    frame = seal.sealed_data(data, 7, 123456)
    for at in range(len(frame.data) - 4):
        for bit in range(8):
            changed = bytearray(frame.data)
            changed[at] ^= 1 << bit
            same = seal.data(bytes(changed), data.source, True, 7, seal.data_time(data, 123456))
            assert (same == frame.data[-4:]) == (at == SEALED.flags_at and bit >= 6)
    assert seal.data(frame.data, data.source, True, 8, seal.data_time(data, 123456)) != frame.data[-4:]
    later = seal.data_time(data, 123456 + (SEALED.stamp.modulus << SEALED.tick_log2))
    assert seal.data(frame.data, data.source, True, 7, later) != frame.data[-4:]
    downlink = next(iter(vectors._records(Downlink, draw)))
    assert isinstance(downlink, Downlink)
    near, far = (seal.sealed_downlink(replace(downlink, hops=hops), 1, 99_999) for hops in (0, 9))
    assert near.data[-4:] == far.data[-4:]
    assert decode_message(near, SEALED).sequence == command_time(99_999) & 0xFFFF  # type: ignore[union-attr]


def test_the_neighbouring_windows_are_tried() -> None:
    for layout in LAYOUTS:
        seal = Seal(vectors.KEY, layout)
        data = replace(next(iter(vectors._data_messages(layout))), in_sync=True)
        step = layout.stamp.modulus << layout.tick_log2 if layout.stamp.clock_bits else 1 << 19
        own = seal.data_time(data, 10 * step)
        assert own in seal.data_times(data, 9 * step)[1:]
        assert own in seal.data_times(data, 11 * step)[1:]
        assert own not in seal.data_times(data, 12 * step)


def test_bulk_reads_a_sealed_health_with_the_layouts_hash() -> None:
    health = replace(next(iter(vectors._records(Health, vectors.Draw("health")))), layout=SEALED.hash)
    payload = Seal(vectors.KEY, SEALED).sealed_health(health, 3).data
    frames = bulk.Frames.of_payloads(np.frombuffer(payload, np.uint8)[None], SEALED, Health.AM_TYPE)
    (row,), (reason,) = bulk.decode_records(frames, Health, SEALED)
    assert (reason, row["layout"]) == (Reason.OK, SEALED.hash)


def test_golden_seals(root: Path) -> None:
    golden = json.loads((root / "packet_formats" / "vectors.json").read_text())
    known, names = Key(bytes.fromhex(golden["key"])), set()
    for entry in golden["sealed"]:
        layout = layout_of(from_dict(entry["deployment"]))
        assert (layout.hash, layout.length) == (entry["hash"], entry["length"])
        seal = Seal(known, layout)
        for vector in entry["messages"]:
            names.add(vector["message"]["name"])
            header, covered = bytes.fromhex(vector["header"]), bytes.fromhex(vector["covered"])
            assert seal.cmac(header + covered)[:4].hex() == vector["mic"]
            message = message_from_plain(vector["message"], layout)
            assert encode_message(message, layout).data.hex() == vector["payload"]
    assert names == {"data", "health", "downlink", "arrived", "proof"}


def test_the_sizes_and_the_header() -> None:
    text = cheader.render(from_dict(sealed_tables()))
    for name, value in (
        ("MIC_BYTES", 4),
        ("AM_PROOF", "0x76U"),
        ("PROOF_SEALED_BYTES", 8),
        ("HEALTH_MIC_AT", 10),
        ("HEALTH_SEALED_BYTES", 28),
        ("DOWNLINK_SEALED_BYTES", 14 + 0),
        ("ARRIVED_SEALED_BYTES", 8),
        ("PAYLOAD_BYTES", SEALED.length),
    ):
        assert f"#define CAUSEWAY_{name:<26} {value}" in text
    plain = layout_of(from_dict(tables(scheme="shlc")))
    assert SEALED.length == plain.length + 4
    assert SEALED.hash != plain.hash


def test_without_a_mic_nothing_changes() -> None:
    ours = from_dict(tables())
    for security in ({}, {"mic": 0}):
        same = from_dict({**tables(), "security": security})
        assert same == ours
        assert cheader.render(same) == cheader.render(ours)
        assert "security" not in same.to_dict()
    assert "mic" not in cheader.render(ours).lower()
    layout = layout_of(ours)
    proof = ActiveMessage(1, 0xFFFF, layout.group, Proof.AM_TYPE, bytes(8))
    assert decode_message(proof, layout) == Unknown(
        Reason.TYPE, f"AM type 0x76, our data is {layout.am_type:#04x}"
    )
    assert from_dict(from_dict(sealed_tables()).to_dict()) == from_dict(sealed_tables())


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ({"mic": 3, "key": "a.key"}, "security.mic = 3: must be 4, or 0"),
        ({"mic": 8, "key": "a.key"}, "security.mic = 8: must be 4, or 0"),
        ({"mic": "4", "key": "a.key"}, "must be 4, or 0"),
        ({"mic": 4}, "security.key: must name the file with the key"),
        ({"mic": 4, "key": "../a.key"}, "security.key: must name the file"),
        ({"mic": 4, "key": RFC_KEY.hex()}, "security.key: is the key itself"),
        ({"key": "a.key"}, "security.key: has no use without mic = 4"),
        ({"mic": 4, "key": "a.key", "micc": 1}, "security.micc: no such key"),
    ],
)
def test_wrong_security_settings_are_refused(security: dict[str, Any], said: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        from_dict({**tables(), "security": security})
    assert said in str(caught.value)
    assert RFC_KEY.hex() not in str(caught.value)


def test_arrived_and_proof_cover_what_they_follow() -> None:
    seal = Seal(vectors.KEY, SEALED)
    arrived = Arrived(3, 500)
    assert len(seal.covered_arrived(arrived, b"abcd")) == 16
    assert seal.arrived(arrived, b"abcd") != seal.arrived(arrived, b"abce")
    beacon = Beacon(1, 2, 3, 4, 5, 1, 0, 1000)
    assert seal.proof(beacon).mic != seal.proof(replace(beacon, time=1001)).mic
