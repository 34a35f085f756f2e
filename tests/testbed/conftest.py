"""What the testbed's tests share."""

from collections.abc import Callable
from ctypes import CDLL
from functools import partial
from pathlib import Path

import pytest

from tests.testbed.air import Air, MakeAir, build


@pytest.fixture(scope="session")
def chips(root: Path, require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    return build(root, require_tool("gcc"), tmp_path_factory.mktemp("chips"))


@pytest.fixture
def make_air(chips: CDLL) -> MakeAir:
    return partial(Air, chips)
