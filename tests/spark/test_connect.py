"""Spark Connect: Java is elsewhere, and the server's workers get our packages from the session."""

import subprocess
import sys

import pytest

from tests.bench import big_journal
from tests.spark.servers import PATIENCE_S, free_port, running, spark_home, without_python
from tests.spark.test_package import files
from tests.waiting import wait_until

WHERE = """
import sys
from spark_jobs.engines import Spark
from spark_jobs.session import started

def where(_):
    import spark_jobs
    return spark_jobs.__file__

with started("test", sys.argv[1]) as spark:
    print(Spark(spark).workers, *Spark(spark).each(where, [0]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory, require_tool):
    """The address of a Spark Connect server that knows nothing of us."""
    require_tool("java")
    pytest.importorskip("grpc")
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    command = [str(spark_home() / "bin/spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for setting in (f"grpc.binding.port={port}", "grpc.binding.address=127.0.0.1"):
        command += ["--conf", f"spark.connect.{setting}"]
    environment = without_python() | {"SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
    log = folder / "server.log"
    with running([*command, "spark-internal"], environment, log, folder) as process:
        ready = "Spark Connect server started"
        wait_until(lambda: process.poll() is not None or ready in log.read_text(), "the server", PATIENCE_S)
        assert process.poll() is None, log.read_text()
        yield f"sc://127.0.0.1:{port}"


def told(root, *words):
    done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.wide
def test_workers_get_our_packages(server, root):
    workers, place = told(root, "-c", WHERE, server).split()
    assert int(workers) == 2
    assert "causeway-jobs.zip" in place


@pytest.mark.wide
def test_jobs_come_to_the_same(server, root, tmp_path):
    big_journal.write_big_journal(tmp_path / "logs/run", 30_000, segment_bytes=1 << 19)
    ways = {"far": ["--master", server], "near": ["--no-spark"]}
    said = {}
    for name, way in ways.items():
        place = tmp_path / name
        jobs = [
            ["ingest", tmp_path / "logs", "--tables", place / "tables"],
            ["continuum", place / "tables", "--scheme", "kn", "--phi", "50", "--json"],
            ["links", place / "tables", "--out", place / "report"],
        ]
        said[name] = [told(root, "-m", "spark_jobs.run", *map(str, job), *way) for job in jobs]
    assert said["far"] == said["near"]
    assert files(tmp_path / "far", ".parquet") == files(tmp_path / "near", ".parquet") != {}
