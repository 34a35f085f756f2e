"""What the tests of the CC1000 driver share: it is built once for each kind of deployment."""

import itertools
import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.firmware.cc1000.radio import SCHEDULED, Radio, build


@pytest.fixture(scope="session")
def library(root, tmp_path_factory):
    """``library(version)``: the driver, built."""

    @cache
    def built(version: int) -> Path:
        return build(root, "gcc", tmp_path_factory.mktemp("cc1000"), version)

    return built


@pytest.fixture
def boot(library, tmp_path):
    """``boot(version)``: a radio that has not been started. Each has variables of its own: a copy of the library."""
    numbers = itertools.count()

    def fresh(version: int) -> Radio:
        copy = tmp_path / f"radio{next(numbers)}.so"
        shutil.copy(library(version), copy)
        return Radio(copy, version if version < SCHEDULED else 1)

    return fresh


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.wide)], ids=["tinyos1", "tinyos2"])
def radio(request, boot):
    """A radio that listens, the noise floor known."""
    radio = boot(request.param)
    assert radio.start()
    radio.silence(20)
    return radio
