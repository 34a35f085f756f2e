"""What `make firmware` installs: PlatformIO and all that it needs, by the lock's hashes, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

from tools.locked_subset import subset


def names(text: str) -> list[str]:
    return re.findall(r"(?m)^([a-z0-9-]+)==", text)


def test_the_firmware_gets_platformio_and_not_spark(root):
    command = [sys.executable, "-S", "-I", str(root / "tools" / "locked_subset.py"), "firmware"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = names(text)
    assert {"platformio", "scons"} <= set(found)
    assert not {"pyspark", "pyarrow", "numpy", "matplotlib", "mypy"} & set(found)
    for entry in re.split(r"(?m)^(?=[a-z0-9])", text)[1:]:
        assert "--hash=sha256:" in entry
        assert entry in (root / "requirements.lock").read_text()


def test_the_lock_knows_all_that_platformio_needs(root):
    pytest.importorskip("platformio")
    found = set(names(subset((root / "requirements.lock").read_text(), {"platformio"})))
    for requirement in requires("platformio") or []:
        name, _, condition = requirement.partition(";")
        if not condition and name != "pip":  # every environment has it
            assert re.sub(r"[._-]+", "-", re.split(r"[^\w.-]", name.strip())[0]).lower() in found
