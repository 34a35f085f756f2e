"""Stamps of variable length: how many items there are follows from the length, the same for every reader."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats import bulk, cheader, schemes
from packet_formats.deployment import Deployment, from_dict
from packet_formats.fast_read import MessageReader
from packet_formats.json_form import message_from_plain, message_to_plain
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, FormatError, Unknown, decode_message, encode_message
from packet_formats.records import Reason
from packet_formats.schemes import SchemeDescriptor, StampChoice, StampForm
from packet_formats.tinyos import ActiveMessage

NAMED = "named-causes"


def form(choice: StampChoice) -> StampForm:
    """A clock, a counter, a flag, an age, and up to six names: one of each kind of field that a stamp can have."""
    head = (("clock", schemes.clock_bits(choice)), ("counter", 3), ("cut", 1), ("age", 5))
    source = 4 if choice.motes <= 16 else 6
    return StampForm(head, (("source{}", source), ("sequence{}", 4)), 0, 6)


ROW = SchemeDescriptor(NAMED, "for this test", form, lambda name, index, layout: f"{name} {index}")


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    schemes.OWN[NAMED] = ROW
    yield
    del schemes.OWN[NAMED]


def deployment(motes: int, tinyos: int, receipts: int = 1) -> Deployment:
    return from_dict(
        {
            "network": {"name": "short", "board": "micaz", "motes": motes, "tinyos": tinyos, "data_bytes": 3},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
            "stamp": {"scheme": NAMED, "receipts": receipts},
        }
    )


SETUPS = st.builds(
    deployment, motes=st.sampled_from([10, 50]), tinyos=st.sampled_from([1, 2]), receipts=st.integers(0, 2)
)


@st.composite
def messages(draw: st.DrawFn, layout: DataLayout) -> Data:
    fields = layout.stamp.fields_of(draw(st.sampled_from(sorted(layout.stamp.items_in.values()))))
    stamp = tuple(draw(st.integers(0, field.top)) for field in fields)
    receipts = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=layout.receipts))
    return Data(
        200,
        draw(st.integers(0, 255)),
        stamp,
        receipts=tuple(receipts),
        data=draw(st.binary(min_size=3, max_size=3)),
    )


def test_lengths_and_items() -> None:
    small, large = (layout_of(deployment(motes, 1, receipts=0)) for motes in (10, 50))
    # 15 bits of head; names of 8 bits: each takes a byte more.
    assert small.stamp.items_in == {2: 0, 3: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6}
    # Names of 10 bits: no number of them takes 3 or 8 bytes.
    assert large.stamp.items_in == {2: 0, 4: 1, 5: 2, 6: 3, 7: 4, 9: 5, 10: 6}
    assert (small.length, min(small.items_in), small.left) == (14, 8, 15)


@given(st.data())
def test_every_reader_reads_what_was_written(data: st.DataObject) -> None:
    layout = layout_of(data.draw(SETUPS))
    sent = data.draw(st.lists(messages(layout), min_size=1, max_size=8))
    frames = [encode_message(message, layout) for message in sent]
    reader = MessageReader(layout)
    rows, reasons = bulk.decode_data(_frames(frames, layout), layout)
    assert set(reasons) == {Reason.OK}
    for message, frame, row in zip(sent, frames, rows, strict=True):
        assert decode_message(frame, layout) == message == reader.read(frame)
        assert message_from_plain(message_to_plain(message, layout), layout) == message
        items = layout.items_in[len(frame.data)]
        assert (int(row["items"]), int(row["counter"])) == (items, message.stamp[1])
        assert tuple(row["entries"].tolist()) == (*message.stamp[4:], *[0] * (12 - 2 * items))
        raw = frame.data[layout.stamp_at : layout.stamp_at + layout.stamp.size_of(items)]
        assert layout.stamp.unpack(raw) == message.stamp
        assert layout.stamp.pack(message.stamp) == raw
    payload, lengths = bulk.encode_data(rows, layout), bulk.data_lengths(rows, layout)
    assert [bytes(row[:n]) for row, n in zip(payload, lengths, strict=True)] == [f.data for f in frames]


def _frames(frames: list[ActiveMessage], layout: DataLayout) -> bulk.Frames:
    payload = np.zeros((len(frames), layout.limit), np.uint8)
    for row, frame in zip(payload, frames, strict=True):
        row[: len(frame.data)] = np.frombuffer(frame.data, np.uint8)
    count = len(frames)
    return bulk.Frames(
        layout.tinyos,
        np.ones(count, np.bool_),
        np.full(count, layout.group, np.uint8),
        np.full(count, layout.am_type, np.uint8),
        np.array([len(frame.data) for frame in frames], np.uint8),
        payload,
    )


@given(st.data())
def test_all_readers_refuse_the_same(data: st.DataObject) -> None:
    """Any bytes of any length: lengths that no number of items gives, padding bits that are set."""
    layout = layout_of(data.draw(SETUPS))
    raw = data.draw(st.binary(max_size=layout.limit))
    source = 0 if layout.tinyos == 2 else None
    frame = ActiveMessage(layout.tinyos, 0xFFFF, layout.group, layout.am_type, raw, source)
    found = decode_message(frame, layout)
    assert MessageReader(layout).read(frame) == found
    _, (reason,) = bulk.decode_data(_frames([frame], layout), layout)
    assert reason == (found.reason if isinstance(found, Unknown) else Reason.OK)
    if len(raw) not in layout.items_in:
        assert reason == Reason.LENGTH


def test_a_length_that_no_number_of_items_gives_is_refused_by_name() -> None:
    layout = layout_of(deployment(50, 1, receipts=0))
    frame = ActiveMessage(1, 0xFFFF, layout.group, layout.am_type, bytes(layout.length - 2))
    assert "14 bytes of type" in str(decode_message(frame, layout))
    assert "ours has 8 or 10 or 11 or 12 or 13 or 15 or 16" in str(decode_message(frame, layout))
    with pytest.raises(ValueError, match="2 or 4 or 5"):
        layout.stamp.unpack(bytes(3))
    with pytest.raises(FormatError, match="4 fields and 0 to 6 items of 2, not 5"):
        encode_message(Data(1, 1, (0,) * 5, data=bytes(3)), layout)


def test_the_hash_knows_the_form() -> None:
    layout = layout_of(deployment(10, 1))
    assert "head=clock:6,counter:3,cut:1,age:5 item=source{}:4,sequence{}:4 least=0" in layout.canonical
    assert layout.hash != layout_of(deployment(50, 1)).hash


def test_the_header_gives_c_what_it_needs(tmp_path, require_tool: Callable[[str], str]) -> None:
    """The number of items from a length, in C, is the number that Python has."""
    made = deployment(50, 1, receipts=0)
    layout = layout_of(made)
    (tmp_path / "causeway_layout.h").write_text(cheader.render(made))
    program = """
        #include <stdio.h>
        #include "causeway_layout.h"
        #include "causeway/stamp_items.h"
        int main(void) {
            for (int length = 0; length < 32; length++)
                printf("%d ", cw_stamp_items(length));
            return 0;
        }"""
    (tmp_path / "items.c").write_text(program)
    core = cheader.__file__.replace("packet_formats/cheader.py", "firmware/core")
    command = [require_tool("gcc"), "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", f"-I{core}"]
    subprocess.run([*command, tmp_path / "items.c", "-o", tmp_path / "items"], check=True)
    said = subprocess.run([tmp_path / "items"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, re.findall(r"-?\d+", said))) == [layout.items_in.get(n, -1) for n in range(32)]
