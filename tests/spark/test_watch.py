"""Watch: the tables are those of all parts in the folder, however often the job is killed and started again."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_jobs
from basestation.analysis.choices import Choice
from basestation.analysis.columns import column, filled
from basestation.analysis.link_health import LINKS, MOTES, PARTS_AS_FRAMES, in_order, summary
from basestation.analysis.sql import query
from basestation.journal.parquet_parts import PARTS, make_parts
from basestation.journal.reader import read_journal
from basestation.journal.recovery import write_whole
from basestation.journal.summary import summarise
from basestation.traces import schema
from spark_jobs import run
from spark_jobs.engines import Cores
from spark_jobs.health import growing_logs
from spark_jobs.health.growing_logs import continuum_of, follow, health_of, take_batch
from spark_jobs.health.link_tables import links
from tests.journal.logs import simulated, write
from tests.waiting import wait_until

HERE = Cores(1)


def write_logs(folder):
    """Two runs with losses, their parts made; the trace of both."""
    trace, arrivals = simulated("kn", messages=500)
    for seed, name in enumerate("ab"):
        chance = random.Random(seed)
        pairs = [arrivals[i : i + 2] for i in range(0, len(arrivals), 2)]
        lines = [arrival for pair in pairs if chance.random() < 0.8 for arrival in pair]
        write(folder / name, lines, trace.deployment, name, segment_bytes=9_000)
        make_parts(folder / name, lambda fault: None)
    return trace


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logged")
    return folder, write_logs(folder)


def parts_of(folder):
    return sorted(str(path) for path in folder.rglob("messages/*.parquet"))


def test_a_run_is_what_its_journal_says(logged):
    folder, trace = logged
    found = health_of(folder / "a", 1)
    known = summarise(read_journal(folder / "a"), trace.deployment).motes.values()
    assert sum(found.motes["received"].to_pylist()) == sum(mote.messages for mote in known)
    assert sum(found.motes["lost"].to_pylist()) == sum(mote.lost for mote in known) > 20
    assert not found.faults


def test_a_boot_count_that_wraps_is_a_later_life():
    boot, mote = [6, 7, 6, 0, 2, 3, 1], [1, 1, 1, 1, 1, 2, 1]
    rows = {"source": mote, "boot": boot, "place": range(7), "wall_ns": range(1, 8), "sequence": [0] * 7}
    rows |= {name: [None] * 7 for name in ("gateway", "rssi", "lqi")}
    frames = query(PARTS_AS_FRAMES, parts=pa.table({name: pa.array(list(one)) for name, one in rows.items()}))
    assert column(frames.sort_by("wall_ns"), "life").tolist() == [6, 7, 6, 8, 10, 3, 9]


def content(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for name in ("health", "links", "continuum")
        for path in sorted((out / name).rglob("*.parquet"))
    }


def copied(paths, logs):
    """These parts in a folder of logs, as they come."""
    for path in map(Path, paths):
        place = logs / path.parts[-3] / PARTS
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / f".{path.name}")
        (place / f".{path.name}").rename(place / path.name)


def runs_in(logs):
    return sorted(logs.iterdir())


def test_parts_in_any_order_and_batches_done_again_come_to_the_same(tmp_path, logged):
    folder, _ = logged
    paths = parts_of(folder)
    take_batch(runs_in(folder), tmp_path / "whole", 1, HERE)
    random.Random(4).shuffle(paths)
    logs = tmp_path / "logs"
    for number in range(4):
        copied(paths[number::4], logs)
        for _ in range(2):  # killed before its end was noted
            take_batch(runs_in(logs), tmp_path / "cut", 1, HERE)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


MINUTE = 60 * 10**9
SPARK_SECONDS = 3600  # for Spark to start on a machine that has no time for it


SAME = {
    "am_type": 6, "payload": b"", "batch": 0, "fresh": True, "in_sync": True, "saturated": False,
    "stamp": {"r": 0, "c": 0, "kn": []},
}  # fmt: skip


def long_log(folder, parts, chance, run="a", late_ns=20 * 10**9, reboots=0.02):
    """Parts of a long run: losses, messages that come late, reboots, three motes, one of them rarely heard."""
    deployment = simulated("kn", messages=10)[0].deployment
    rows, sequence, boots = [], [0, 0, 0], [0, 0, 0]
    part_ns = 10 * MINUTE
    at = WALL = 1_700_000_000 * 10**9
    while at < WALL + parts * part_ns:
        at += int(chance.expovariate(1) * 5 * 10**9)
        mote = chance.choice((0, 0, 1, 1, 1, 2)) if chance.random() < 0.5 else chance.randrange(2)
        if chance.random() < reboots:
            boots[mote], sequence[mote] = boots[mote] + 1, 0
        sequence[mote] += 1
        if chance.random() < 0.8:
            came = at + chance.randrange(late_ns if chance.random() < 0.1 else 10**8)
            rows.append((came, mote, boots[mote] % 8, sequence[mote]))
    rows.sort()
    (folder / run / PARTS).mkdir(parents=True)
    for number in range(parts):
        end = WALL + (number + 1) * part_ns
        mine = [row for row in rows if end - part_ns <= row[0] < end]
        came, source, boot, numbers = (np.array(column, np.int64) for column in zip(*mine, strict=True))
        columns = {
            "source": source, "boot": boot, "sequence": numbers, "wall_ns": came, "heard": came // 10**6,
            "gateway": 20 + came % 2, "rssi": -60 - came % 30, "lqi": came % 100,
        }  # fmt: skip
        table = filled(columns | SAME, schema.messages_schema(), len(mine))
        said = schema.metadata(run, deployment, "journal")
        pq.write_table(table.replace_schema_metadata(said), folder / run / PARTS / f"{number:06d}.parquet")
    return parts_of(folder)


def test_the_tables_are_those_of_links_over_all_parts(tmp_path):
    """Losses, late messages and reboots are counted across the borders of parts."""
    paths = long_log(tmp_path / "logs", 8, random.Random(1))
    (found,) = take_batch(runs_in(tmp_path / "logs"), tmp_path / "out", 60, HERE)
    rows = pa.concat_tables(
        pq.read_table(path, partitioning=None) for path in paths
    ).replace_schema_metadata()
    mote, boot = column(rows, "source"), column(rows, "boot")
    life = np.zeros(len(rows), np.int64)
    for one in np.unique(mote):  # a life at a time, as the boots go on
        mine = np.flatnonzero(mote == one)
        life[mine] = boot[mine[0]] + np.cumsum((np.diff(boot[mine], prepend=boot[mine[0]]) + 3) % 8 - 3)
    words = {"site": "", "run": "", "fate": "message"}
    frames = rows.set_column(rows.column_names.index("heard"), "heard", pa.nulls(len(rows), pa.int64()))
    frames = frames.append_column("life", pa.array(life)).append_column(
        "line", pa.nulls(len(rows), pa.int32())
    )
    for name, word in words.items():
        frames = frames.append_column(name, pa.repeat(word, len(rows)))
    tables = [in_order(*pair) for pair in zip(links(HERE, frames, 60), (MOTES, LINKS), strict=True)]
    assert [found.motes, found.links] == tables
    assert pq.read_table(tmp_path / "out/health/a/motes.parquet") == tables[0]
    assert pq.read_table(tmp_path / "out/links/a/links.parquet") == tables[1]
    assert found.total == summary(tables[0])
    assert found.total["reboots"] > 10
    assert found.total["lost"] > 100


@pytest.mark.wide
def test_killed_at_any_write_it_comes_to_the_same(tmp_path):
    long_log(tmp_path / "logs", 3, random.Random(2))
    long_log(tmp_path / "logs", 3, random.Random(3), "b")
    runs = runs_in(tmp_path / "logs")
    take_batch(runs, tmp_path / "whole", 60, HERE)
    for kill in range(4):  # of each run: motes, links
        for written in (False, True):
            out = tmp_path / f"out{kill}{written}"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(growing_logs, "write_whole", dying(kill, written))
                with pytest.raises(Killed):
                    take_batch(runs, out, 60, HERE)
            take_batch(runs, out, 60, HERE)
            assert content(out) == content(tmp_path / "whole")


class Killed(Exception):
    pass


def dying(kill, written):
    """A way to write that dies at a write, before it or after it."""
    left = [kill]

    def write(path, raw):
        if left[0] or written:
            write_whole(path, raw)
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    return write


def test_a_folder_of_another_window_or_version_is_refused(tmp_path, capsys):
    (tmp_path / "logs/a/messages").mkdir(parents=True)
    (tmp_path / "logs/a/messages/0.parquet").touch()
    out = tmp_path / "o"
    out.mkdir()
    (out / "window").write_text("600 s")
    arguments = ["watch", str(tmp_path / "logs"), "--out", str(out), "--window", "60"]
    assert run.main(arguments) == 1
    assert "another window needs another --out" in capsys.readouterr().err
    (out / "state").mkdir()
    assert run.main(arguments) == 1
    assert "older version" in capsys.readouterr().err


def test_the_continuum_so_far(logged):
    folder, _ = logged
    paths = [Path(path) for path in parts_of(folder / "a")]
    found = continuum_of("a", paths[:2], HERE, Choice(schemes=["kn"], entries=[1], phis=[100]))
    answered = [row for row in found.to_pylist() if row["answered"] != "no"]
    assert {row["arrived"] for row in answered} == {
        sum(pq.read_metadata(path).num_rows for path in paths[:2])
    }
    assert max(row["hold_mean"] for row in answered) > 0


def test_what_can_not_be_read_is_named_and_counts_once_it_is_repaired(tmp_path, logged):
    folder, _ = logged
    logs = tmp_path / "logs"
    copied(parts_of(folder / "a"), logs)
    paths = [Path(path) for path in parts_of(logs / "a")]
    assert len(paths) >= 4
    sound = health_of(logs / "a", 1)
    cut, foreign, other = (paths[0].with_name(f"{name}.parquet") for name in ("000000", "000001", "000900"))
    whole, second = cut.read_bytes(), foreign.read_bytes()
    cut.write_bytes(whole[:200])
    pq.write_table(pa.table({"a": [1]}), foreign)
    shutil.copy(parts_of(folder / "b")[0], other)
    (found,) = take_batch([logs / "a"], tmp_path / "out", 1, HERE)
    assert "cut off" in found.faults[str(cut)]
    assert "foreign schema" in found.faults[str(foreign)]
    assert found.faults[str(other)] == "a part of another run, b"
    cut.write_bytes(whole)
    foreign.write_bytes(second)
    other.unlink()
    (found,) = take_batch([logs / "a"], tmp_path / "out", 1, HERE)
    assert (found.motes, found.links, found.faults) == (sound.motes, sound.links, {})


def test_a_part_whose_name_is_not_a_number_is_reported_and_left_out(tmp_path, logged, spark):
    folder, _ = logged
    shutil.copytree(folder / "a", tmp_path / "logs" / "a")
    odd = tmp_path / "logs/a/messages/000001 (copy).parquet"
    shutil.copy(parts_of(folder / "a")[1], odd)
    for _ in range(2):
        found = spark_jobs.watch(spark, tmp_path / "logs", tmp_path / "out", window_s=1)
        assert found == {str(odd): "its name is not a number, so it is not a part"}


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
    logs, out = tmp_path / "logs", tmp_path / "out"
    paths, reported = parts_of(folder / "a"), []

    def watch():
        follow(spark, logs, out, 1, None, report=lambda *batch: reported.append(batch))

    copied(paths[1:3], logs)
    watch()
    copied([paths[0], *paths[3:]], logs)  # one of them comes late
    watch()
    last = sorted((out / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))[-1]
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)  # as if killed after the results were written
    watch()
    watch()
    take_batch(runs_in(logs), tmp_path / "once", 1, HERE)
    assert content(out) == content(tmp_path / "once")
    assert [number for number, _ in reported] == [0, 1, 1]
    assert [one.total for one in reported[1][1]] == [one.total for one in reported[2][1]]


@pytest.mark.wide
def test_killed_again_and_again(tmp_path, logged, root, require_tool):
    require_tool("java")
    folder, _ = logged
    killed_and_gone_on(tmp_path, folder, root, 3, random.Random(5))


def killed_and_gone_on(place, folder, root, kills, chance):
    """Kill a watch, again and again, while parts come; what it has in the end is right. How many batches it took.

    A kill comes after the next batch has begun, or after it is done.
    """
    logs, out = place / "logs", place / "out"
    logs.mkdir()
    command = [sys.executable, "-m", "spark_jobs.run", "watch", str(logs), "--out", str(out), "--window", "1"]
    waiting = parts_of(folder)

    def add(count):
        copied([waiting.pop(0) for _ in range(min(count, len(waiting)))], logs)

    def seen(begun):
        return len(list((out / "checkpoint" / ("offsets" if begun else "commits")).glob("[0-9]*")))

    for _ in range(kills):
        add(1)
        begun = chance.random() < 0.5
        before = seen(begun)
        with subprocess.Popen(
            [*command, "--every", "0.2"], cwd=root, stdout=subprocess.DEVNULL, start_new_session=True
        ) as job:

            def new_batch(job=job, before=before, begun=begun):
                return seen(begun) != before or job.poll() is not None

            try:
                wait_until(new_batch, "a batch", seconds=SPARK_SECONDS)
                assert job.poll() is None
                add(1)
                time.sleep(chance.uniform(0, 1.5))
            finally:
                os.killpg(job.pid, signal.SIGKILL)
    assert len(waiting) > 0
    add(len(waiting))
    subprocess.run(
        [*command, "--once"], cwd=root, check=True, stdout=subprocess.DEVNULL, timeout=SPARK_SECONDS
    )
    take_batch(runs_in(logs), place / "once", 1, HERE)
    assert content(out) == content(place / "once")
    return seen(False)
