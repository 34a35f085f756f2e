"""Values with names: read from a deployment, packed alike in C, in Python and in bulk, and part of the hash."""

import ctypes
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packet_formats import bulk, cheader
from packet_formats.deployment import Deployment, DeploymentError, from_dict, parse
from packet_formats.json_form import message_from_plain, message_to_plain
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, FormatError
from packet_formats.values import (
    SENSOR_BOARDS,
    SENSORS,
    TYPES,
    Value,
    data_of,
    data_text,
    raw_values,
    values_in,
)
from packet_formats.vectors import VALUES, deployments
from tests.packet_formats.strategies import data_messages, layouts, tables

LIGHT = {"name": "light", "sensor": "light", "scale": 0.5, "unit": "lx"}
COUNT = {"name": "count", "type": "u8"}


def described(*data: dict[str, Any], **network: Any) -> Deployment:
    wanted: dict[str, Any] = tables(scheme="shlc")
    wanted["network"] |= network
    return from_dict({**wanted, "data": list(data)})


def with_values() -> Deployment:
    return described(LIGHT, COUNT, sensor_board="mts300")


def test_a_message_shows_names_and_units() -> None:
    layout = layout_of(with_values())
    assert layout.data_bytes == 3
    assert values_in(layout, bytes([0x38, 0x03, 7])) == {"light": 412, "count": 7}
    assert data_text(layout, bytes([0x38, 0x03, 7])) == "light 412.0 lx, count 7"
    plain = layout_of(described(data_bytes=3))
    assert values_in(plain, bytes([0x38, 0x03, 7])) == {}
    assert data_text(plain, bytes([0x38, 0x03, 7])) == "380307"


def test_a_sensor_brings_type_and_unit() -> None:
    (value,) = described({"name": "loud", "sensor": "microphone"}, sensor_board="mts310").data
    assert value == Value("loud", "u16", 1, 0, "adc", "microphone")


@pytest.mark.parametrize(
    ("scale", "offset", "raw", "text", "number"),
    [
        (1, 0, 412, "v 412", 412),
        (1.0, 0, 412, "v 412", 412),
        (0.1, 0, 3, "v 0.3", 0.3),
        (0.5, -1, 3, "v 0.5", 0.5),
        (2.5, 0, 3, "v 7.5", 7.5),
        (0.0625, -39.6, 1000, "v 22.900", 22.9),
        (-2, 90, 100, "v -110", -110),
        (0.0322580645, 0, 412, "v 13.290", 412 * 0.0322580645),
        (1e-11, 0, 5, "v 0.00000000005", 5 * 1e-11),
    ],
)
def test_numbers_look_as_their_scale_does(
    scale: float, offset: float, raw: int, text: str, number: float
) -> None:
    (value,) = described({"name": "v", "type": "u16", "scale": scale, "offset": offset}).data
    assert value.text(raw) == text
    assert value.shown(raw) == number
    assert isinstance(value.shown(raw), type(number))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**COUNT, "type": "u64"}, r'data.count.type = "u64": must be one of u8, i8, u16, .*did you mean u'),
        ({"name": "count"}, r"data.count.type: this key is required"),
        ({"type": "u8"}, r"data\[1\].name: this key is required"),
        ({**COUNT, "name": "Count"}, r'data\[1\].name = "Count": must be a C identifier in lower case'),
        ({**COUNT, "name": "for"}, r'data\[1\].name = "for": is a word of C'),
        ({**COUNT, "name": "uint8_t"}, r'data\[1\].name = "uint8_t": is a word of C'),
        ({**COUNT, "scale": 0}, r"data.count.scale = 0: must not be 0"),
        ({**COUNT, "scale": float("nan")}, r"data.count.scale = nan: must be a number"),
        ({**COUNT, "scale": "2"}, r'data.count.scale = "2": must be a number'),
        ({**COUNT, "offset": True}, r"data.count.offset = true: must be a number"),
        ({**COUNT, "offset": 1e13}, r"data.count.offset = .*at most 1e\+12"),
        ({**COUNT, "unit": "a\nb"}, r"(?s)data.count.unit = .*short text"),
        ({**COUNT, "units": "lx"}, r"data.count.units: no such key; did you mean unit\?"),
        ({**COUNT, "sensor": "lihgt"}, r'data.count.sensor = "lihgt": .*did you mean light\?'),
        (LIGHT, r"data.light.sensor = .*on a sensor board: set network.sensor_board to mts300 or mts310 or"),
        ({**COUNT, "sensor": "battery"}, r'data.count.type = "u8": is too small for a sensor\'s 10 bits'),
    ],
)
def test_wrong_values_are_refused_by_name(data: dict[str, Any], message: str) -> None:
    with pytest.raises(DeploymentError, match=message):
        described(data)


def test_contradicting_settings_are_refused() -> None:
    with pytest.raises(DeploymentError, match=r'data\[2\].name = "count": another value has this name'):
        described(COUNT, COUNT)
    with pytest.raises(
        DeploymentError, match=r"network.data_bytes = 4: the values of \[\[data\]\] take 1 byte"
    ):
        described(COUNT, data_bytes=4)
    assert described(COUNT, data_bytes=1) == described(COUNT)
    with pytest.raises(DeploymentError, match=r'accel_x": an mts300 has no such sensor: set .* to mts310$'):
        described({"name": "x", "sensor": "accel_x"}, sensor_board="mts300")
    with pytest.raises(
        DeploymentError, match=r"network.sensor_board = .*must be one of mts300, mts310, mda100"
    ):
        described(sensor_board="mts400")
    many = [{"name": f"v{index}", "type": "u32"} for index in range(7)]
    with pytest.raises(DeploymentError, match=r"^data: .*\[\[data\]\] \d bytes less"):
        described(*many)
    with pytest.raises(DeploymentError, match=r"^data: each value is a table of its own, \[\[data\]\]"):
        from_dict({**tables(), "data": {"name": "light"}})


def test_every_sensor_of_a_board_is_taken() -> None:
    for board in SENSOR_BOARDS:
        for sensor in SENSORS.values():
            if not sensor.boards or board in sensor.boards:
                (value,) = described({"name": "v", "sensor": sensor.name}, sensor_board=board).data
                assert value.sensor == sensor.name


def test_it_comes_back_from_toml() -> None:
    deployment = with_values()
    assert parse(deployment.to_toml()) == deployment == from_dict(deployment.to_dict())
    assert "[[data]]" in deployment.to_toml()
    assert not {"data", "sensor_board"} & {*described().to_dict(), *described().to_dict()["network"]}


def test_the_hash_has_what_the_firmware_is_built_from() -> None:
    """A calibration needs no new image; another name, type, order or sensor does."""
    base = layout_of(described(COUNT))
    assert base.canonical.endswith(" values=count:u8:")
    same = [{**COUNT, "scale": 3}, {**COUNT, "offset": 1}, {**COUNT, "unit": "m"}]
    assert {layout_of(described(data)).hash for data in same} == {base.hash}
    others = [
        described(data_bytes=1),
        described({**COUNT, "type": "i8"}),
        described({**COUNT, "name": "counts"}),
        described(COUNT, {"name": "x", "type": "u8"}),
        described({"name": "x", "type": "u8"}, COUNT),
        described({"name": "b", "type": "u16"}),
        described({"name": "b", "sensor": "battery"}),
    ]
    assert len({layout_of(other).hash for other in [*others, described(COUNT)]}) == len(others) + 1
    assert "values" not in layout_of(described(data_bytes=1)).canonical
    assert layout_of(described(data_bytes=1)).stamp == base.stamp


@given(st.data())
def test_python_and_bulk_read_the_same_numbers(drawn: st.DataObject) -> None:
    layout = drawn.draw(layouts())
    messages = drawn.draw(st.lists(data_messages(layout), max_size=5))
    messages.append(replace(drawn.draw(data_messages(layout)), data=b"\xff" * layout.data_bytes))
    data = np.array([list(m.data) for m in messages], np.uint8).reshape(len(messages), layout.data_bytes)
    columns = bulk.decode_values(data, layout)
    assert list(columns) == [value.name for value in layout.values]
    for place, message in enumerate(messages):
        one = values_in(layout, message.data)
        found = {name: column[place] for name, column in columns.items()}
        assert {name: None if np.isnan(number) else number for name, number in found.items()} == one
        if layout.values:
            assert data_of(layout, one) == message.data
            plain = message_to_plain(message, layout)
            del plain["data"]
            assert message_from_plain(plain, layout).data == message.data  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["u16", "i16", "u32", "i32"])
def test_a_sensor_may_have_no_reading(kind: str) -> None:
    """The firmware says so by 65535, which no converter of ten bits gives."""
    layout = layout_of(described({"name": "v", "sensor": "battery", "type": kind}, COUNT))
    data = b"\xff\xff" + bytes(layout.data_bytes - 3) + b"\xff"
    assert values_in(layout, data) == {"v": None, "count": 255}
    assert data_text(layout, data) == "v no reading, count 255"
    assert data_of(layout, {"v": None, "count": 255}) == data
    with pytest.raises(ValueError, match="count = null: only a sensor may have no reading"):
        data_of(layout, {"v": 1, "count": None})


def test_values_that_are_wrong_are_not_encoded() -> None:
    layout = layout_of(with_values())
    plain = message_to_plain(Data(1, 2, (0, 0), data=bytes([0x38, 0x03, 7])), layout)
    assert plain["values"] == {"light": 412, "count": 7}
    for wrong, message in (
        ({"light": 412, "count": 8}, "data and values differ"),
        ({"light": 412}, "values must be an object with light, count"),
        ({"light": 412, "count": 256}, r"count = 256 is outside 0..255"),
        ({"light": "412", "count": 7}, "an object of numbers"),
        ({"light": float("inf"), "count": 7}, "infinity"),
    ):
        with pytest.raises(FormatError, match=message):
            message_from_plain({**plain, "values": wrong}, layout)
    bare = layout_of(described(data_bytes=1))
    with pytest.raises(FormatError, match=r"there is no \[\[data\]\]"):
        message_from_plain(
            {"name": "data", "source": 1, "sequence": 2, "stamp": plain["stamp"], "values": {"a": 1}}, bare
        )


C_OF = {
    "u8": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "u16": ctypes.c_uint16,
    "i16": ctypes.c_int16,
    "u32": ctypes.c_uint32,
    "i32": ctypes.c_int32,
}
SOURCE = """
#include "layout.h"
#include "layout.h"
#if CW_VALUES < 1 || CW_VALUES_BYTES != CAUSEWAY_DATA_BYTES || !defined CW_SENSOR_BOARD_MTS310
#error "the defines are not right"
#endif
#define NAME(name, type, sensor) #name ":" #type ":" #sensor " "
const char list[] = CW_VALUES_LIST(NAME);
void pack(const struct cw_values *values, uint8_t *bytes) { cw_values_pack(values, bytes); }
void unpack(const uint8_t *bytes, struct cw_values *values) { cw_values_unpack(bytes, values); }
"""


def c_library(gcc: str, deployment: Deployment, folder: Path) -> ctypes.CDLL:
    (folder / "layout.h").write_text(cheader.render(deployment))
    (folder / "use.c").write_text(SOURCE)
    flags = [
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Wsign-conversion",
        "-Werror",
        "-shared",
        "-fPIC",
    ]
    library = folder / f"{deployment.network.name}.so"
    subprocess.run([gcc, *flags, "-o", library, folder / "use.c"], check=True)
    return ctypes.CDLL(str(library))


def edges(layout: DataLayout) -> list[tuple[int, ...]]:
    """The least and the most of each value, and bytes that all differ."""
    spans = [value.raw_range for value in layout.values]
    ends = [tuple(span.start for span in spans), tuple(span.stop - 1 for span in spans)]
    return [*ends, raw_values(layout, bytes(range(200, 200 + layout.data_bytes)))]


def test_c_packs_and_reads_what_python_does(require_tool: Callable[[str], str], tmp_path: Path) -> None:
    gcc, seen = require_tool("gcc"), set()
    for deployment in (one for one in deployments() if one.data):
        layout, library = layout_of(deployment), c_library(gcc, deployment, tmp_path)
        seen |= {value.type for value in layout.values}
        listed = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "list"))).decode()
        names = [f"{v.name}:{v.type}:SENSOR_{(v.sensor or 'none').upper()}" for v in layout.values]
        assert listed.split() == names
        members = [(value.name, C_OF[value.type]) for value in layout.values]
        struct = type("Values", (ctypes.Structure,), {"_fields_": members})
        for raws in edges(layout):
            values, packed = struct(*raws), ctypes.create_string_buffer(layout.data_bytes + 1)
            packed.raw = b"\xaa" * (layout.data_bytes + 1)
            library.pack(ctypes.byref(values), packed)
            assert packed.raw[-1] == 0xAA
            assert raw_values(layout, packed.raw[:-1]) == raws
            again = struct()
            library.unpack(packed, ctypes.byref(again))
            assert tuple(getattr(again, name) for name, _ in members) == raws
    assert seen == set(TYPES)
    assert len(VALUES) == 2


def test_without_values_the_header_has_none() -> None:
    assert not re.search(r"CW_|stdint", cheader.render(described()))
    assert "CW_SENSOR_BOARD_MDA100 1" in cheader.render(described(sensor_board="mda100"))
