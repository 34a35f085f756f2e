"""What `make firmware` installs: PlatformIO and all that it needs, by the lock's hashes, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from tools.locked_subset import subset

LOCK = """\
alpha==1 \\
    --hash=sha256:0a
    # via causeway (pyproject.toml)
beta==2 ; sys_platform == 'win32' \\
    --hash=sha256:0b
    # via
    #   alpha
    #   delta
delta==4 \\
    --hash=sha256:0d
    # via causeway (pyproject.toml)
gamma-c==3 \\
    --hash=sha256:0c
    # via beta
"""


def names(text: str) -> list[str]:
    return re.findall(r"(?m)^([a-z0-9-]+)==", text)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"alpha"}, ["alpha", "beta", "gamma-c"]),
        ({"gamma-c"}, ["gamma-c"]),
        ({"delta"}, ["beta", "delta", "gamma-c"]),
    ],
)
def test_a_package_comes_with_what_it_needs(wanted: set[str], found: list[str]) -> None:
    assert names(subset(LOCK, wanted)) == found
    assert subset(LOCK, {"alpha", "delta"}) == LOCK


def test_a_package_that_the_lock_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="lacks epsilon: run `make lock`"):
        subset(LOCK, {"alpha", "epsilon"})


def test_the_firmware_gets_platformio_and_not_spark(root: Path) -> None:
    command = [sys.executable, "-S", "-I", str(root / "tools" / "locked_subset.py"), "firmware"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = names(text)
    assert {"platformio", "scons"} <= set(found)
    assert not {"pyspark", "pyarrow", "numpy", "matplotlib", "mypy"} & set(found)
    for entry in re.split(r"(?m)^(?=[a-z0-9])", text)[1:]:
        assert "--hash=sha256:" in entry
        assert entry in (root / "requirements.lock").read_text()


def test_the_lock_knows_all_that_platformio_needs(root: Path) -> None:
    pytest.importorskip("platformio")
    found = set(names(subset((root / "requirements.lock").read_text(), {"platformio"})))
    for requirement in requires("platformio") or []:
        name, _, condition = requirement.partition(";")
        if not condition and name != "pip":  # every environment has it
            assert re.sub(r"[._-]+", "-", re.split(r"[^\w.-]", name.strip())[0]).lower() in found
