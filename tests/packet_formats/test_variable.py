"""Stamps of variable length: their length gives the number of items."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from packet_formats import cheader
from packet_formats.deployment import Deployment, from_dict
from packet_formats.layout import layout_of
from packet_formats.messages import Data, FormatError, decode_message, encode_message
from packet_formats.tinyos import ActiveMessage
from tests.packet_formats.strategies import tables


def barrier(motes: int) -> Deployment:
    wanted = tables(scheme="barrier")
    wanted["network"] |= {"motes": motes, "data_bytes": 3}
    wanted["clock"] |= {"epsilon": 3, "delta": 32}
    return from_dict(wanted)


def test_lengths_and_items() -> None:
    small, large = (layout_of(barrier(motes)) for motes in (10, 50))
    # A head of 16 bits; names of 8 bits: each takes a byte more.
    assert small.stamp.items_in == {2: 0, 3: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6}
    # Names of 10 bits: no number of them takes 3 or 8 bytes.
    assert large.stamp.items_in == {2: 0, 4: 1, 5: 2, 6: 3, 7: 4, 9: 5, 10: 6}
    assert (small.length, min(small.items_in), small.left) == (14, 8, 15)


def test_a_length_that_no_number_of_items_gives_is_refused_by_name() -> None:
    layout = layout_of(barrier(50))
    frame = ActiveMessage(1, 0xFFFF, layout.group, layout.am_type, bytes(layout.length - 2))
    assert "14 bytes of type" in str(decode_message(frame, layout))
    assert "ours has 8 or 10 or 11 or 12 or 13 or 15 or 16" in str(decode_message(frame, layout))
    with pytest.raises(ValueError, match="2 or 4 or 5"):
        layout.stamp.unpack(bytes(3))
    with pytest.raises(FormatError, match="5 fields and 0 to 6 items of 2, not 6"):
        encode_message(Data(1, 1, (0,) * 6, data=bytes(3)), layout)


def test_c_finds_the_number_of_items_that_python_does(
    tmp_path: Path, root: Path, require_tool: Callable[[str], str]
) -> None:
    made = barrier(50)
    (tmp_path / "causeway_layout.h").write_text(cheader.render(made))
    (tmp_path / "items.c").write_text("""
        #include <stdio.h>
        #include "causeway_layout.h"
        #include "causeway/stamp_items.h"
        int main(void) {
            for (int length = 0; length < 32; length++)
                printf("%d ", cw_stamp_items(length));
            return 0;
        }""")
    command = [require_tool("gcc"), "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", f"-I{root}/firmware/core"]
    subprocess.run([*command, tmp_path / "items.c", "-o", tmp_path / "items"], check=True)
    printed = subprocess.run([tmp_path / "items"], capture_output=True, text=True, check=True).stdout
    items_in = layout_of(made).items_in
    assert list(map(int, re.findall(r"-?\d+", printed))) == [items_in.get(n, -1) for n in range(32)]
