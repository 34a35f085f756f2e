"""One Spark session for all tests here: starting one takes longer than most of them.

With several pytest workers all files that use it go to one of them (tests/conftest.py), so that only one starts Java.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

# Tests are short, so Java's best compiler only costs them. This holds for every Java that they start.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1"


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


@pytest.fixture(scope="session")
def s3(require_module: Any) -> Iterator[str]:
    """A bucket of an object store in this process, by its URI."""
    server_of = require_module("moto.server")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        from pyarrow import fs

        store = fs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        store.create_dir("causeway")
        yield "s3://causeway"
    server.stop()
