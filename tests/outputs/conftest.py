from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.outputs.receivers import Mosquitto


@pytest.fixture
def mosquitto(require_tool: Callable[[str], str], tmp_path: Path) -> Iterator[Mosquitto]:
    """A real broker, not started yet."""
    broker = Mosquitto(require_tool("mosquitto"), tmp_path)
    yield broker
    broker.stop()
