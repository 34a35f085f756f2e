"""firmware/scripts/check.sh, on a copy with tiny sources: cppcheck sees what is built for any kind of deployment."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from packet_formats.boards import BOARDS
from tests.firmware.cores import FIRMWARE_SCHEMES

pytestmark = pytest.mark.wide

# What decides which code an image has.
CASES = {
    "tinyos2": "CAUSEWAY_TINYOS == 2",
    "scheduled": "CAUSEWAY_SCHEDULED",
    "repairing": "defined(CAUSEWAY_REPAIR_BITS)",
    "urgent": "defined(CAUSEWAY_URGENT_LOG2)",
    "sealed": "CAUSEWAY_MIC_BYTES && !CAUSEWAY_SCHEDULED",
    "both": "CAUSEWAY_MIC_BYTES && CAUSEWAY_SCHEDULED",
    "values": "defined(CW_VALUES)",
    **{f"board_{name}": f"CAUSEWAY_RADIO_{board.radio.driver.upper()}" for name, board in BOARDS.items()},
}
STAMPS = {f"stamp_{name.replace('-', '_')}": name.upper().replace("-", "_") for name in FIRMWARE_SCHEMES}


def source(cases: dict[str, str]) -> str:
    """A function for each case that reads beyond an array."""
    text = '#include "causeway_layout.h"\n'
    for name, condition in cases.items():
        body = f"int {name}(void)\n{{\n    int {name}_list[2] = {{1, 2}};\n    return {name}_list[2];\n}}\n"
        text += f"#if {condition}\n{body}#endif\n"
    return text


@pytest.fixture
def copy(root, require_tool, tmp_path):
    require_tool("cppcheck")
    for name in ("firmware/scripts", "examples", "packet_formats"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    folders = ["core", "net", "apps", "testbed", "boards/mica"]
    folders += [
        part for board in BOARDS.values() for part in (f"boards/{board.name}", f"chips/{board.radio.driver}")
    ]
    for name in folders:
        (tmp_path / "firmware" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "firmware" / name / "one.c").write_text("typedef int one;\n")
    return tmp_path


def check(copy: Path) -> tuple[int, set[str]]:
    """How the check ended, and in which arrays it found a fault."""
    done = subprocess.run(
        [copy / "firmware/scripts/check.sh"], capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, set(re.findall(r"Array '(\w+)_list\[2\]' accessed at index 2", done.stderr))


def test_a_fault_is_seen_in_whatever_image_it_is(copy):
    assert check(copy) == (0, set())
    (copy / "firmware/net/one.c").write_text(source(CASES))
    stamps = {name: f"CAUSEWAY_SCHEME_{scheme}" for name, scheme in STAMPS.items()}
    (copy / "firmware/core/one.c").write_text(source(stamps))
    assert check(copy) == (1, {*CASES, *STAMPS})
