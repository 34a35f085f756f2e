"""What the tests of the testbed's CC1000 share: it is built once."""

import pytest

from tests.testbed.cc1000.bench import Bench, build


@pytest.fixture(scope="session")
def program(root, require_tool, tmp_path_factory):
    return build(root, require_tool("gcc"), tmp_path_factory.mktemp("cc1000"))


@pytest.fixture
def bench(program):
    """``bench(nodes)``: all hear one another with 60 dB less than sent, in noise of -105 dBm."""

    def make(nodes: int = 1, seed: int = 1, gain: float = -60) -> Bench:
        made = Bench(program)
        made.do(f"nodes {nodes} {seed}", *(f"noise {i} -105" for i in range(nodes)))
        made.do(*(f"gain {i} {j} {gain}" for i in range(nodes) for j in range(nodes) if i != j))
        return made

    return make
