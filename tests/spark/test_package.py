"""Packing for a cluster, and a real one on this machine: the manual's commands, as printed, while workers die."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import ExitStack, contextmanager

import pytest

from basestation.cli.analyse import JOBS
from basestation.journal.parquet_parts import make_parts
from basestation.simulator.options import WorldOptions
from spark_jobs import package as zipped
from tests.bench import big_journal
from tests.spark.servers import PATIENCE_S, free_port, running, spark_home, without_python
from tests.waiting import wait_until
from tools import cluster_package as package


def test_the_zip_holds_all_that_the_jobs_import(tmp_path, root):
    archive = tmp_path / "jobs.zip"
    zipped.write_zip(root, archive)
    names = zipfile.ZipFile(archive).namelist()
    assert {
        "spark_jobs/run.py",
        "basestation/journal/projection.py",
        "packet_formats/vectors.json",
    } <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    again = tmp_path / "again.zip"
    zipped.write_zip(root, again)
    assert again.read_bytes() == archive.read_bytes()
    # Only from the zip, away from the checkout.
    modules = (
        "basestation.cli.compare" + "".join(f", {module}" for module, _ in JOBS.values()) + ", spark_jobs.run"
    )
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


def test_the_settings_name_the_driver_s_python(tmp_path):
    """Without it the driver would look for the workers' environment, which is unpacked only for them."""
    told = package.settings(tmp_path)
    assert told["spark.pyspark.driver.python"] == sys.executable
    assert told["spark.archives"] == f"{tmp_path}/{package.ENVIRONMENT}#environment"


# ---- A cluster ----


def manual(root):
    """The commands that the manual prints: those before `spark-submit`, and that of each job."""
    section = (
        (root / "docs/reference/analysis.md")
        .read_text()
        .partition("## On a cluster\n")[2]
        .partition("\n## ")[0]
    )
    lines = re.findall(r"^ {4}(.*)$", section, re.M)
    commands = "\n".join(lines).replace("\\\n", "").splitlines()
    commands = [
        command for command in commands if not re.search("--master (yarn|k8s)", command)
    ]  # not tried here
    before = [command for command in commands if "spark-submit" not in command]
    jobs = {command.split("run.py")[1].split()[0]: command for command in commands if command not in before}
    return before, jobs


def test_the_manual_prints_each_step(root):
    before, jobs = manual(root)
    assert before == ["make package", "source .venv/bin/activate"]
    assert list(jobs) == ["ingest", "continuum", "links", "watch"]
    assert all("--master spark://HOST:7077 " in command for command in jobs.values())


class Checkout:
    """A copy of the project in which the manual's commands run; only the master and /shared are put in their place."""

    def __init__(self, root, folder, shared):
        self.before, self.jobs = manual(root)
        self.folder, self.shared, self.master = folder, shared, ""
        for name in (*zipped.PACKAGES, "tools", "Makefile"):
            copy = shutil.copytree if (root / name).is_dir() else shutil.copy
            copy(root / name, folder / name)
        (folder / ".venv").symlink_to(sys.prefix)
        self.environment = without_python()

    def package(self):
        # What `make setup` would do was done before the tests.
        script = 'make() { command make -o setup "$@"; }; set -e; ' + "; ".join(self.before)
        subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, check=True)

    def script(self, job):
        """The printed command of a job, in a shell that has taken the steps before it."""
        command = (
            self.jobs[job].replace("spark://HOST:7077", self.master).replace("/shared", str(self.shared))
        )
        return ["bash", "-c", f"{self.before[1]} && exec {command}"]

    def run(self, job):
        told = subprocess.run(
            self.script(job),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        return told

    @contextmanager
    def running(self, job):
        """The job, and its log, which grows."""
        log = self.shared / f"{job}.log"
        with running(self.script(job), self.environment, log, self.folder) as process:
            yield process, log

    def alone(self, job, folder, *more):
        """The same job without a cluster, on results of its own."""
        words = self.jobs[job].partition("run.py")[2].replace("/shared/logs", f"{self.shared}/logs").split()
        words = [
            word.replace("/shared", str(folder)) if word.startswith("/shared") else word for word in words
        ]
        command = [sys.executable, "spark_jobs/run.py", *words, *more]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, capture_output=True)


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, folder, environment, stack):
        self.folder, self.stack = folder, stack
        self.environment = environment | {"SPARK_HOME": str(spark_home())}
        port = free_port()
        self.address = f"spark://127.0.0.1:{port}"
        self.log = folder / "master.log"
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._start("master.Master", options, self.log)
        ready = f"Starting Spark master at {self.address}"
        wait_until(lambda: ready in self.log.read_text(), "the master", PATIENCE_S)
        self.workers = []
        for _ in range(2):
            self.add_worker()

    def _start(self, name, options, log):
        command = [str(spark_home() / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *options]
        return self.stack.enter_context(running(command, self.environment, log))

    def add_worker(self):
        number = len(self.workers)
        options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        options += ["--work-dir", str(self.folder / f"work{number}"), self.address]
        self.workers.append(self._start("worker.Worker", options, self.folder / f"worker{number}.log"))
        known = "Registering worker"
        wait_until(lambda: self.log.read_text().count(known) > number, "a worker", PATIENCE_S)

    def kill_worker(self):
        """Kill the oldest worker that lives, and let another come."""
        victim = next(worker for worker in self.workers if worker.poll() is None)
        os.killpg(victim.pid, signal.SIGKILL)
        self.add_worker()


def logs_of(folder, runs, records):
    """Runs of one network, each with journal and parts."""
    play = big_journal.play_of(WorldOptions(messages=records // 4, rate=0.05, loss=0.02))
    for number in range(runs):
        run = folder / f"r{number}"
        big_journal.write_big_journal(
            run, records - number, play, run=run.name, site=f"s{number}", segment_bytes=1 << 19
        )
        make_parts(run, lambda fault: None)


def files(folder, *suffixes):
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in suffixes]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def kill_half_way(cluster, checkout, job):
    """A worker dies when the job's first tasks are done and others are not; the job ends well all the same."""
    with checkout.running(job) as (process, log):
        begun = "Starting task 1.0 in stage"
        wait_until(
            lambda: process.poll() is not None or begun in log.read_text(), f"tasks of {job}", PATIENCE_S
        )
        assert process.poll() is None, log.read_text()
        cluster.kill_worker()
        assert process.wait(PATIENCE_S) == 0, log.read_text()
        assert re.search(r"Lost (executor|task)", log.read_text()), "the worker was not missed"


@pytest.mark.wide
def test_the_manual_as_printed(tmp_path, root, require_tool):
    """Ingest, continuum, links and watch on a cluster whose workers die give the results of one machine."""
    require_tool("java")
    pytest.importorskip("pyspark")
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    logs_of(shared / "logs", runs=4, records=24_000)
    checkout = Checkout(root, folder_in(tmp_path / "checkout"), shared)
    checkout.package()
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, checkout.environment, stack)
        checkout.master = cluster.address
        kill_half_way(cluster, checkout, "ingest")
        checkout.alone("ingest", alone, "--no-spark")
        assert files(shared / "tables", ".parquet") == files(alone / "tables", ".parquet") != {}
        kill_half_way(cluster, checkout, "continuum")
        checkout.alone("continuum", alone, "--no-spark")
        told = checkout.run("links")
        assert [json.loads(line)["run"] for line in told.stdout.splitlines()] == [f"r{n}" for n in range(4)]
        checkout.alone("links", alone, "--no-spark")
        assert (
            files(shared / "report", ".parquet", ".csv") == files(alone / "report", ".parquet", ".csv") != {}
        )
        with checkout.running("watch") as (process, log):
            commits = shared / "health/checkpoint/offsets/0"
            wait_until(lambda: process.poll() is not None or commits.exists(), "a batch", PATIENCE_S)
            assert process.poll() is None, log.read_text()
        checkout.run("watch")  # the driver was killed, and this one goes on
    checkout.alone("watch", alone)
    kept = [
        files(place / "health" / name, ".parquet")
        for place in (shared, alone)
        for name in ("health", "links")
    ]
    assert kept[:2] == kept[2:]
    assert all(kept)


def folder_in(path):
    path.mkdir(parents=True)
    return path
