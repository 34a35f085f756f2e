"""Thousands of little journals need no disk that is asked to hurry."""

import os

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
