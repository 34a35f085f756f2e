"""One Spark session for all tests here: starting one takes longer than most of them.

With several pytest workers all of these tests go to one of them (tests/conftest.py), so that only one starts Java.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """The logs that tests write need no disk that is asked to hurry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session")
def spark(require_tool: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    require_tool("java")
    pytest.importorskip("pyspark")
    from spark_jobs.session import start

    scratch = tmp_path_factory.mktemp("spark")  # of this pytest worker alone
    session = start(
        "tests",
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
        },
    )
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test left in the session does not reach the next."""
    yield
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        session.catalog.clearCache()
        for view in session.catalog.listTables():
            if view.isTemporary:
                session.catalog.dropTempView(view.name)
