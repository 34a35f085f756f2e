"""What the testbed's tests share."""

from functools import partial

import pytest

from tests.testbed.air import Air, build


@pytest.fixture(scope="session")
def chips(root, require_tool, tmp_path_factory):
    return build(root, require_tool("gcc"), tmp_path_factory.mktemp("chips"))


@pytest.fixture
def make_air(chips):
    return partial(Air, chips)
