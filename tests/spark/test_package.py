"""Packing for a cluster, and a real one: two workers on this machine, one of which dies half-way."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from basestation.cli.analyse import JOBS
from basestation.journal.reader import read_segment
from basestation.journal.record_format import encode_header
from spark_jobs import package, run
from spark_jobs.engine import Cores
from spark_jobs.tables.ingest import TABLES, ingest
from spark_jobs.tables.inputs import find
from tests.journal.logs import simulated, write
from tests.waiting import wait_until

PATIENCE_S = 900  # a busy machine takes minutes to start Java


def test_the_zip_holds_all_that_the_jobs_import(tmp_path, root):
    archive = tmp_path / "jobs.zip"
    package.write_zip(root, archive)
    names = zipfile.ZipFile(archive).namelist()
    assert {
        "spark_jobs/run.py",
        "basestation/journal/message_table.py",
        "packet_formats/vectors.json",
    } <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    again = tmp_path / "again.zip"
    package.write_zip(root, again)
    assert again.read_bytes() == archive.read_bytes()
    # From the zip alone, away from the checkout.
    modules = ", ".join(f"basestation.cli.{name}" for name in ("compare", "figures"))
    modules += "".join(f", {module}" for module, _ in JOBS.values()) + ", spark_jobs.run"
    told = subprocess.run(
        [sys.executable, "-c", f"import {modules}, spark_jobs.comparing; print(spark_jobs.__file__)"],
        env={"PYTHONPATH": str(archive), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.startswith(str(archive))


def test_libraries_bring_what_they_need():
    found = package.needed(["pandas"])
    assert {"pandas", "numpy", "python-dateutil"} <= set(found)
    assert "pytest" not in found
    with pytest.raises(package.JobError, match="numba is not installed here"):
        package_without("numba")


def package_without(name):
    original = package.metadata.distribution

    def absent(wanted):
        if wanted == name:
            raise package.metadata.PackageNotFoundError(name)
        return original(wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package.metadata, "distribution", absent)
        return package.needed([name])


# ---- A cluster ----


@pytest.fixture(scope="module")
def packed(tmp_path_factory, root):
    """The two archives, and the environment unpacked, for it is the driver's too."""
    folder = tmp_path_factory.mktemp("dist")
    package.write_zip(root, folder / package.ZIP)
    package.write_environment(folder / package.ENVIRONMENT)
    with tarfile.open(folder / package.ENVIRONMENT) as archive:
        archive.extractall(folder / "environment", filter="fully_trusted")
    return folder


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(command, environment, log):
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        end(process)


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def cluster(folder):
    """A master and two workers of one core each; gives the master's address and the workers."""
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))
    }
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    master += ["--port", str(port), "--webui-port", "0"]
    worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
    worker += ["--memory", "1g", "--webui-port", "0"]
    log = folder / "master.log"
    with running(master, environment, log):
        wait_until(lambda: f"Starting Spark master at {address}" in log.read_text(), "the master", PATIENCE_S)
        workers = []
        try:
            for number in range(2):
                place = ["--work-dir", str(folder / f"work{number}"), address]
                with (folder / f"worker{number}.log").open("wb") as output:
                    workers.append(
                        subprocess.Popen(
                            worker + place,
                            env=environment,
                            stdout=output,
                            stderr=output,
                            start_new_session=True,
                        )
                    )
            wait_until(lambda: log.read_text().count("Registering worker") == 2, "the workers", PATIENCE_S)
            yield address, workers, environment
        finally:
            for process in workers:
                end(process)


def submit(address, environment, packed, script, *arguments):
    import pyspark

    python = str(packed / "environment/bin/python")
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--master", address,
        "--py-files", str(packed / package.ZIP),
        "--archives", f"{packed / package.ENVIRONMENT}#environment",
        "--conf", "spark.pyspark.python=./environment/bin/python",
        "--conf", f"spark.pyspark.driver.python={python}",
        "--conf", "spark.executor.memory=700m",
        "--conf", "spark.ui.enabled=false",
        str(script),
        *map(str, arguments),
    ]  # fmt: skip
    return command, environment


def copies(folder, count):
    """Many runs: one journal at many places."""
    trace, arrivals = simulated("kn", messages=6000, seed=9)
    write(folder / "r0", arrivals, trace.deployment, "r0", site="s0")
    segment = read_segment(folder / "r0/000000.cwj")
    for number in range(1, count):
        (folder / f"r{number}").mkdir()
        header = encode_header(replace(segment.header, run=f"r{number}", site=f"s{number}"))
        (folder / f"r{number}/000000.cwj").write_bytes(header + segment.raw[segment.begin :])


def content(tables):
    files = [path for name in TABLES for path in sorted((tables / name).rglob("*")) if path.is_file()]
    return {str(path.relative_to(tables)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(tmp_path, packed, root, require_tool, capsys):
    require_tool("java")
    pytest.importorskip("pyspark")
    logs, tables = tmp_path / "logs", tmp_path / "tables"
    copies(logs, 24)
    script = tmp_path / "run.py"  # away from the checkout: the packages come from the zip
    shutil.copy(root / "spark_jobs/run.py", script)
    with cluster(tmp_path) as (address, workers, environment):
        command, environment = submit(
            address, environment, packed, script, "ingest", logs, "--tables", tables
        )
        log = tmp_path / "submit.log"
        with running(command, environment, log) as job:
            staged = tables / ".stage"
            wait_until(
                lambda: job.poll() is not None or len(list(staged.glob("*/messages/*.parquet"))) >= 6,
                "the first runs",
                PATIENCE_S,
            )
            assert job.poll() is None, log.read_text()
            os.killpg(workers[0].pid, signal.SIGKILL)
            assert len(list(staged.glob("*"))) < 24, "too late: all was done"
            assert job.wait(PATIENCE_S) == 0, log.read_text()
        lost = "Lost executor" in log.read_text() or "lost" in (tmp_path / "master.log").read_text().lower()
        assert lost
        # The kernels, compiled from the zip on the worker that is left, count as they do here.
        trace = next((tables / "messages").rglob("run=r0"))
        wanted = ["continuum", str(trace), "--scheme", "kn", "--phi", "50", "--phi", "100", "--json"]
        command, environment = submit(address, environment, packed, script, *wanted, "--spark")
        told = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert told.returncode == 0, told.stderr
        capsys.readouterr()
        assert run.main([*wanted, "--no-spark"]) == 0
        assert told.stdout == capsys.readouterr().out != ""
    ingest(find([logs]), tmp_path / "here", Cores(1))
    assert content(tables) == content(tmp_path / "here")
