"""What the firmware's tests on the host share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from packet_formats.deployment import Deployment, load


@pytest.fixture(scope="session")
def gcc(require_tool: Callable[[str], str]) -> str:
    return require_tool("gcc")


@pytest.fixture(scope="session")
def meadow(root: Path) -> Deployment:
    return load(root / "examples/micaz.toml")
