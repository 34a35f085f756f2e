"""What the tests of the CC2420 driver share: it is built once for each kind of deployment."""

from functools import cache

import pytest

from tests.firmware.cc2420.bench import Bench, build


@pytest.fixture(scope="session")
def build_bench(root, tmp_path_factory):
    """``build_bench(tinyos)``: the bench of a deployment of that version, ``scheduled=True`` of one with a schedule."""

    @cache
    def built(tinyos: int, scheduled: bool = False) -> Bench:
        return build(root, "gcc", tmp_path_factory.mktemp(f"cc2420_{tinyos}"), tinyos, scheduled)

    return built


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.wide)], ids=["tinyos1", "tinyos2"])
def bench(request, build_bench):
    return build_bench(request.param)
