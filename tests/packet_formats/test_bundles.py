"""Two data messages in one frame: when they fit, and that each comes out as it went in."""

from dataclasses import replace
from pathlib import Path

import pytest

from packet_formats.deployment import load
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import parts_of
from packet_formats.records import BUNDLE_TYPE
from packet_formats.tinyos import ActiveMessage


@pytest.fixture
def layout(root: Path) -> DataLayout:
    return layout_of(load(root / "examples/mica2_months.toml"))


def frame(layout: DataLayout, data: bytes) -> ActiveMessage:
    return ActiveMessage(layout.tinyos, 0xFFFF, layout.group, BUNDLE_TYPE, data)


def test_each_message_comes_out_as_if_it_had_come_alone(layout: DataLayout) -> None:
    first, second = bytes(range(layout.length)), bytes(range(100, 100 + layout.length))
    bundle = frame(layout, first + second)
    assert len(bundle.data) == layout.bundle_bytes <= layout.limit
    parts = parts_of(bundle, layout)
    assert [part.data for part in parts] == [first, second]
    assert {part.type for part in parts} == {layout.am_type}


def test_anything_else_is_left_alone(layout: DataLayout) -> None:
    short = frame(layout, bytes(layout.bundle_bytes - 1))
    long = frame(layout, bytes(layout.bundle_bytes + 1))
    data = replace(short, type=layout.am_type)
    for message in (short, long, data):
        assert parts_of(message, layout) == (message,)


@pytest.mark.parametrize("name", ["micaz_months", "mica2", "micaz"])
def test_messages_that_are_too_long_or_keep_no_schedule_go_alone(root: Path, name: str) -> None:
    layout = layout_of(load(root / f"examples/{name}.toml"))
    assert layout.bundle_bytes == 0
    bundle = frame(layout, bytes(2 * layout.length))
    assert parts_of(bundle, layout) == (bundle,)
