"""What the firmware's tests on the host share."""

import pytest

from packet_formats.deployment import load


@pytest.fixture(scope="session", autouse=True)
def _gcc(require_tool):
    require_tool("gcc")


@pytest.fixture(scope="session")
def meadow(root):
    return load(root / "examples/micaz.toml")
