"""The generated C header: it compiles, its numbers are the layout's, and it needs nothing installed."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from packet_formats import cheader
from packet_formats.__main__ import main
from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.layout import layout_of
from packet_formats.records import RECORDS, members
from packet_formats.vectors import deployments as vector_deployments
from tests.packet_formats.strategies import deployments, tables


def defines(text: str) -> dict[str, str]:
    return dict(re.findall(r"^#define CAUSEWAY_(\w+) +([^ \n]+)", text, re.MULTILINE))


def number(text: str) -> int:
    return int(text.rstrip("UL"), 0)


@given(deployments())
def test_the_numbers_are_the_layouts(deployment: Deployment) -> None:
    layout, found = layout_of(deployment), defines(cheader.render(deployment))
    expected = {
        "LAYOUT_HASH": layout.hash,
        "AM_DATA": layout.am_type,
        "GROUP": layout.group,
        "MODULUS": 1 << deployment.clock.clock_bits,
        "CLOCK_MASK": (1 << deployment.clock.clock_bits) - 1,
        "STAMP_NAMED": int(layout.stamp.clock_bits == 0),
        "STAMP_AT": layout.stamp_at,
        "STAMP_BYTES": layout.stamp.size,
        "STAMP_BITS": layout.stamp.bits,
        "RECEIPTS_AT": layout.receipts_at,
        "DATA_AT": layout.data_at,
        "PAYLOAD_BYTES": layout.length,
        "EPSILON": layout.epsilon,
        "DELTA": layout.delta,
        "ENTRIES": layout.stamp.entries,
        "ENTRY_TOP": layout.stamp.entry_max,
        f"SCHEME_{layout.stamp.scheme.upper().replace('-', '_')}": 1,
    }
    assert {name: number(found[name]) for name in expected} == expected
    assert sum(number(value) for name, value in found.items() if name.startswith("SCHEME_")) == 1
    fields = {field.name: field for field in layout.stamp.fields}
    assert number(found["CLOCK_BIT"]) == 0
    assert number(found["CLOCK_WIDTH"]) == (fields["clock"].bits if "clock" in fields else 0)
    assert number(found["C_WIDTH"]) == (fields["c"].bits if "c" in fields else 0)
    assert number(found["C_TOP"]) == (fields["c"].top if "c" in fields else 0)
    entries = layout.stamp.fields[len(fields) - layout.stamp.entries :]
    for index, field in enumerate(entries if len(layout.stamp.item) == 1 else entries[:1]):
        assert number(found["ENTRY_BIT"]) + index * number(found["ENTRY_WIDTH"]) == field.offset


def test_every_member_of_every_record_is_there() -> None:
    found = defines(cheader.render(from_dict(tables())))
    for record in RECORDS:
        name = record.__name__.upper()
        assert number(found[f"AM_{name}"]) == record.AM_TYPE
        for member in members(record):
            assert number(found[f"{name}_{member.name.upper()}_AT"]) == member.offset


def test_a_generic_board_has_the_layout_of_any_other_and_no_radio() -> None:
    ours = tables()
    theirs = ours | {"network": ours["network"] | {"board": "generic"}}
    found, of_micaz = (defines(cheader.render(from_dict(wanted))) for wanted in (theirs, ours))
    assert {name: value for name, value in found.items() if of_micaz[name] != value} == {
        "RADIO_CC2420": "0",
        "CHANNEL": "0",
    }
    radio = {"AIR_IEEE802154", "HAS_LQI", "HOP_BACKOFF", "TIMING_NOISE", "BEACON_SECONDS", "SEND_SECONDS"}
    assert set(of_micaz) - set(found) == radio | {"CARRIER_KHZ"}


def test_numbers_beyond_16_bits_are_long() -> None:
    wanted = tables(scheme="shlc")
    wanted["clock"] |= {"delta": 60000, "epsilon": 1000}
    found = defines(cheader.render(from_dict(wanted)))
    assert found["MODULUS"] == "65536UL"
    assert found["DELTA"] == "60000UL"


def test_it_compiles(require_tool: Callable[[str], str], tmp_path: Path, root: Path) -> None:
    gcc = require_tool("gcc")
    examples = [load(path) for path in sorted((root / "examples").glob("*.toml"))]
    assert len(examples) >= 3
    for index, deployment in enumerate([*examples, *vector_deployments()]):
        header = tmp_path / f"layout{index}.h"
        header.write_text(cheader.render(deployment))
        names = defines(header.read_text())
        uses = "".join(
            f"long use_{n} = (long)CAUSEWAY_{n};\n" for n in names if n not in ("LAYOUT_H", "NAME")
        )
        source = tmp_path / f"use{index}.c"
        source.write_text(f'#include "{header.name}"\n#include "{header.name}"\n{uses}')
        command = [gcc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def isolated(root: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Python without site packages: the firmware build's own has nothing installed."""
    program = f"import sys; sys.path.insert(0, {str(root)!r})\n{code}"
    return subprocess.run(
        [sys.executable, "-S", "-I", "-c", program], capture_output=True, text=True, check=False
    )


def test_the_header_needs_the_standard_library_alone(root: Path) -> None:
    code = """
import packet_formats, packet_formats.deployment, packet_formats.layout, packet_formats.records
import packet_formats.cheader, packet_formats.__main__
from pathlib import Path
code = packet_formats.__main__.main(["header", str(Path(sys.path[0]) / "examples" / "paper.toml")])
loaded = {"construct", "numpy"} & set(sys.modules)
sys.exit(f"loaded {loaded}" if loaded else code)
"""
    done = isolated(root, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == cheader.render(load(root / "examples" / "paper.toml"))


def test_the_command_writes_a_file_and_leaves_an_equal_one_alone(tmp_path: Path, root: Path) -> None:
    target = tmp_path / "layout.h"
    arguments = ["header", str(root / "examples" / "micaz.toml"), "-o", str(target)]
    assert main(arguments) == 0
    before = target.stat().st_mtime_ns
    assert main(arguments) == 0
    assert target.stat().st_mtime_ns == before
    assert "#define CAUSEWAY_MOTES" in target.read_text()


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[network]\n[clock]\n[stamp]\n")
    assert main(["header", str(bad)]) == 1
    assert "bad.toml: network.board: this key is required" in capsys.readouterr().err
    assert main(["header", str(tmp_path / "absent.toml")]) == 1
    assert "absent.toml: No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["frobnicate"])
    assert caught.value.code == 2
