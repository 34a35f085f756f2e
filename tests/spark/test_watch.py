"""Watch: each part counts once, however often the job is killed and started again."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.journal.parquet_parts import make_parts
from basestation.journal.reader import read_journal
from basestation.journal.summary import summarise
from spark_jobs import run
from spark_jobs.engine import Cores
from spark_jobs.health.watch import Book, Parts, _lives, continuum_of, follow, health_of, take_batch
from spark_jobs.measuring.choices import Choice
from tests.journal.logs import simulated, write
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Two runs with losses, their parts made."""
    folder = tmp_path_factory.mktemp("logged")
    trace, arrivals = simulated("kn", messages=900)
    for seed, name in enumerate("ab"):
        chance = random.Random(seed)
        pairs = [arrivals[i : i + 2] for i in range(0, len(arrivals), 2)]
        lines = [arrival for pair in pairs if chance.random() < 0.8 for arrival in pair]
        write(folder / name, lines, trace.deployment, name, segment_bytes=9_000)
        make_parts(folder / name, lambda fault: None)
    return folder, trace


def parts_of(folder):
    return sorted(str(path) for path in folder.rglob("messages/*.parquet"))


def here(tasks):
    return [health_of(task) for task in tasks]


def test_a_run_is_what_its_journal_says(logged):
    folder, trace = logged
    found = health_of(Parts("a", tuple(parts_of(folder / "a")), 1))
    known = summarise(read_journal(folder / "a"), trace.deployment).motes.values()
    assert sum(found.motes["received"].to_pylist()) == sum(mote.messages for mote in known)
    assert sum(found.motes["lost"].to_pylist()) == sum(mote.lost for mote in known) > 20
    assert not found.faults


def test_lives():
    boot = np.array([6, 7, 6, 0, 2, 3, 1])
    mote = np.array([1, 1, 1, 1, 1, 2, 1])
    assert _lives(mote, boot).tolist() == [6, 7, 6, 8, 10, 3, 9]


def content(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for name in ("health", "links", "continuum")
        for path in sorted((out / name).glob("*"))
    }


def new_out(path):
    for name in ("batches", "health", "links", "continuum"):
        (path / name).mkdir(parents=True)
    return path


def test_batches_in_any_cut_and_done_again_come_to_the_same(tmp_path, logged):
    folder, _ = logged
    paths = parts_of(folder)
    whole = new_out(tmp_path / "whole")
    take_batch(0, paths, Book(whole), 1, here)
    out = new_out(tmp_path / "cut")
    chance = random.Random(4)
    chance.shuffle(paths)
    for number in range(4):
        for _ in range(2):  # killed before its end was noted
            take_batch(number, paths[number::4], Book(out), 1, here)
    assert content(out) == content(whole)


def test_the_continuum_so_far(tmp_path, logged):
    folder, _ = logged
    paths = parts_of(folder / "a")
    out = new_out(tmp_path / "out")

    def measure(parts):
        return continuum_of(parts, Cores(1).each, Choice(schemes=["kn"], entries=[1], phis=[100]))

    for number in range(2):
        take_batch(number, paths[number::2], Book(out), 1, here, measure)
    found = pq.read_table(out / "continuum/a.parquet")
    assert found == measure(Parts("a", tuple(paths), 1))
    answered = [row for row in found.to_pylist() if row["answered"] != "no"]
    arrived = sum(pq.read_metadata(path).num_rows for path in paths)
    assert {row["arrived"] for row in answered} == {arrived}
    assert max(row["hold_mean"] for row in answered) > 0


def test_what_can_not_be_read_is_named(tmp_path, logged):
    folder, _ = logged
    logs = tmp_path / "logs"
    shutil.copytree(folder / "a", logs / "a")
    paths = parts_of(logs / "a")
    assert len(paths) >= 4
    whole = health_of(Parts("a", tuple(paths[3:]), 1))
    cut, foreign, other = (
        logs / "a/messages" / name for name in ("000000.parquet", "000001.parquet", "000900.parquet")
    )
    cut.write_bytes(cut.read_bytes()[:200])
    pq.write_table(pa.table({"a": [1]}), foreign)
    os.remove(paths[2])
    shutil.copy(parts_of(folder / "b")[0], other)
    out = new_out(tmp_path / "out")
    (found,) = take_batch(0, [*paths[:2], *paths[3:], str(other)], Book(out), 1, here)
    assert found.motes == whole.motes
    faults = json.loads((out / "batches/000000.json").read_text())["faults"]
    assert "cut off" in faults[str(cut)]
    assert faults[str(foreign)] == "no part of Causeway's"
    assert faults[str(other)] == "a part of another run, b"


def test_bad_requests_are_named(tmp_path, capsys):
    assert run.main(["watch", str(tmp_path / "no"), "--out", str(tmp_path / "o")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    (tmp_path / "logs").mkdir()
    (tmp_path / "o").mkdir()
    (tmp_path / "o/logs").write_text("/elsewhere")
    assert run.main(["watch", str(tmp_path / "logs"), "--out", str(tmp_path / "o")]) == 1
    assert "another folder needs another --out" in capsys.readouterr().err


def test_a_growing_folder_and_a_batch_whose_end_was_lost(tmp_path, logged, spark):
    folder, _ = logged
    logs, out = tmp_path / "logs", new_out(tmp_path / "out")
    (logs / "a/messages").mkdir(parents=True)
    paths = parts_of(folder / "a")
    told = []

    def watch():
        follow(spark, logs, out, 1, None, tell=lambda *batch: told.append(batch))

    for path in paths[:2]:
        shutil.copy(path, logs / "a/messages")
    watch()
    for path in paths[2:]:
        shutil.copy(path, logs / "a/messages")
    watch()
    last = sorted((out / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))[-1]
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)  # as if killed after the results were written
    watch()
    watch()
    batches = [json.loads(path.read_text())["parts"] for path in sorted((out / "batches").glob("*"))]
    seen = [part for parts in batches for run_parts in parts.values() for part in run_parts]
    assert sorted(seen) == parts_of(logs)
    once = new_out(tmp_path / "once")
    take_batch(0, parts_of(logs), Book(once), 1, here)
    assert content(out) == content(once)
    assert [number for number, _ in told] == [0, 1, 1]
    assert told[1] == told[2]


@pytest.mark.slow
def test_killed_again_and_again(tmp_path, logged, root, require_tool):
    require_tool("java")
    folder, _ = logged
    logs, out = tmp_path / "logs", tmp_path / "out"
    command = [sys.executable, "-m", "spark_jobs.run", "watch", str(logs), "--out", str(out), "--window", "1"]
    waiting = parts_of(folder)
    chance = random.Random(5)

    def add(count):
        for path in [waiting.pop(0) for _ in range(min(count, len(waiting)))]:
            place = logs / path.split("/")[-3] / "messages"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place / f".{path.split('/')[-1]}")
            (place / f".{path.split('/')[-1]}").rename(place / path.split("/")[-1])

    def batches():
        return len(list((out / "batches").glob("*.json")))

    for _ in range(3):
        add(1)
        before = batches()
        with subprocess.Popen(
            [*command, "--every", "0.2"], cwd=root, stdout=subprocess.DEVNULL, start_new_session=True
        ) as job:

            def new_batch(job=job, before=before):
                return batches() != before or job.poll() is not None

            try:
                wait_until(new_batch, "a batch", seconds=900)
                assert job.poll() is None
                add(1)
                time.sleep(chance.uniform(0, 3))
            finally:
                os.killpg(job.pid, signal.SIGKILL)
    assert len(waiting) > 0
    add(len(waiting))
    subprocess.run([*command, "--once"], cwd=root, check=True, stdout=subprocess.DEVNULL, timeout=900)
    once = new_out(tmp_path / "once")
    take_batch(0, parts_of(logs), Book(once), 1, here)
    assert content(out) == content(once)
    batch_parts = [json.loads(path.read_text())["parts"] for path in (out / "batches").glob("*.json")]
    seen = [part for parts in batch_parts for run_parts in parts.values() for part in run_parts]
    assert sorted(seen) == parts_of(logs)
