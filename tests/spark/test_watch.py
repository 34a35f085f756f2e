"""Watch: each part counts once, however often the job is killed and started again."""

import contextlib
import json
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
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import spark_jobs
from basestation.analysis.choices import Choice
from basestation.analysis.links import health, summary
from basestation.analysis.windows import ROWS, lives, named, seen_in
from basestation.journal.parquet_parts import PARTS, make_parts
from basestation.journal.reader import read_journal
from basestation.journal.recovery import write_whole
from basestation.journal.summary import summarise
from basestation.traces import schema
from spark_jobs import run
from spark_jobs.engine import Cores
from spark_jobs.health import watch
from spark_jobs.health.watch import (
    RANGE,
    Book,
    Parts,
    _read,
    continuum_of,
    follow,
    health_of,
    take_batch,
)
from tests.journal.logs import simulated, write
from tests.waiting import wait_until


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
    assert lives(mote, boot).tolist() == [6, 7, 6, 8, 10, 3, 9]


def content(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for name in ("health", "links", "continuum")
        for path in sorted((out / name).rglob("*.parquet"))
    }


def new_out(path):
    for name in ("batches", "health", "links", "continuum", "state"):
        (path / name).mkdir(parents=True)
    return path


@pytest.mark.wide
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


MINUTE = 60 * 10**9
SPARK_SECONDS = 3600  # for Spark to start on a machine that has no time for it


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
        kinds = schema.messages_schema()
        table = pa.table({name: pa.array(values, kinds.field(name).type) for name, values in columns.items()})
        said = schema.metadata(run, deployment, "journal")
        pq.write_table(table.replace_schema_metadata(said), folder / run / PARTS / f"{number:06d}.parquet")
    return parts_of(folder)


def counted_at_once(paths, window_s):
    """What `health` makes of all rows at once, with no state and no windows that end."""
    tables = [_read(Path(path))[0] for path in paths]
    return health(named(seen_in(pa.concat_tables(tables), ROWS.empty_table())), window_s)


def stored(out, name, run="a"):
    files = sorted((out / name / run).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(path) for path in files]), files


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (0, 2))])
def test_windows_that_end_are_what_all_parts_say(tmp_path, seed):
    chance = random.Random(seed)
    paths = long_log(tmp_path / "logs", 30, chance)
    out, waiting, number = new_out(tmp_path / "out"), list(paths), 0
    while waiting:
        count = chance.randrange(1, 4)
        (found,) = take_batch(number, waiting[:count], Book(out), 60, here)
        waiting, number = waiting[count:], number + 1
        assert not found.late
    for name, whole in zip(("health", "links"), counted_at_once(paths, 60), strict=True):
        table, files = stored(out, name)
        order = [(key, "ascending") for key in ("mote", "start", "gateway") if key in table.column_names]
        assert table.sort_by(order) == whole.sort_by(order)
        assert len(files) >= 300 // RANGE
    total = summary(counted_at_once(paths, 60)[0])
    assert found.total == total
    assert total["reboots"] > 10
    assert total["lost"] > 100
    assert len(list((out / "state/a").glob("*"))) == 2


@pytest.mark.wide
def test_a_batch_reads_as_much_however_many_came_before(tmp_path):
    paths = long_log(tmp_path / "logs", 40, random.Random(1))
    out, reads = new_out(tmp_path / "out"), []
    for number, path in enumerate(paths):
        with watched_reads() as opened:
            take_batch(number, [path], Book(out), 60, here)
        reads.append(
            sorted(name.split("/")[-3] for name in opened if Path(name).suffix in (".parquet", ".json"))
        )
    assert reads[30] == reads[5] == ["a", "health", "links", "state", "state"]  # "a": the part


@pytest.mark.wide
def test_killed_after_any_write_it_comes_to_the_same(tmp_path, monkeypatch):
    paths = long_log(tmp_path / "logs", 6, random.Random(2))
    paths += long_log(tmp_path / "logs", 6, random.Random(3), "b")[6:]
    batches = [[path for path in paths if int(Path(path).stem) // 2 == number] for number in range(3)]
    whole = new_out(tmp_path / "whole")
    writes = []
    monkeypatch.setattr(watch, "write_whole", lambda path, raw: (writes.append(path), write_whole(path, raw)))
    for number, batch in enumerate(batches):
        before = len(writes)
        take_batch(number, batch, Book(whole), 60, here)
    last = len(writes) - before
    assert last >= 7  # of each run: motes, links, state; then the book
    for kill in range(last):
        for written in (False, True):
            out = new_out(tmp_path / f"out{kill}{written}")
            for number, batch in enumerate(batches):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(watch, "write_whole", dying(kill, written))
                    with contextlib.suppress(Killed):
                        take_batch(number, batch, Book(out), 60, here)
                take_batch(number, batch, Book(out), 60, here)
            assert content(out) == content(whole)
            assert entries(out) == entries(whole)


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


def entries(out):
    return [json.loads(path.read_text()) for path in sorted((out / "batches").glob("*.json"))]


def test_a_part_that_comes_late_is_told_and_counted(tmp_path):
    paths = long_log(tmp_path / "logs", 12, random.Random(4))
    out, whole = new_out(tmp_path / "out"), new_out(tmp_path / "whole")
    take_batch(0, paths, Book(whole), 60, here)
    for number, batch in enumerate((paths[:4], paths[6:9], [paths[5], paths[9]], paths[10:], [paths[4]])):
        take_batch(number, batch, Book(out), 60, here)
    assert content(out) == content(whole)
    late = [entry["late"] for entry in entries(out)]
    assert late[0] == late[1] == late[3] == {}
    told = "000005.parquet came after part 8: the run is counted again from its first part"
    assert late[2] == {"a": told}
    assert "000004.parquet came after part 11" in late[4]["a"]


def test_messages_that_come_when_their_window_is_final_are_told(tmp_path):
    """A clock that is set back, and a message that was on its way for longer than windows stay open."""
    paths = long_log(tmp_path / "logs", 4, random.Random(5), late_ns=10**9, reboots=0)
    table = pq.read_table(paths[3], partitioning=None)
    at = table.column_names.index("wall_ns")
    back = table.set_column(at, table.field(at), pc.subtract(table["wall_ns"], 25 * MINUTE))
    pq.write_table(back, paths[3])
    first = pq.read_table(paths[0], partitioning=None)
    numbers = first["sequence"].to_pylist()
    gone, straggler = first.slice(0, 40), first.slice(40, 1)
    pq.write_table(pa.concat_tables([gone, first.slice(41)]), paths[0])
    second = pq.read_table(paths[2], partitioning=None)
    moved = straggler.set_column(at, table.field(at), second["wall_ns"].slice(0, 1))
    pq.write_table(pa.concat_tables([moved, second]), paths[2])
    out, told = new_out(tmp_path / "out"), []
    for number, path in enumerate(paths):
        told += [found.late for found in take_batch(number, [path], Book(out), 60, here)]
    assert len(numbers) > 41
    assert told[:2] == [{}, {}]
    assert told[2][paths[2]].startswith("1 messages came when their numbers were lost for good")
    assert told[3][paths[3]].startswith(
        f"the clock was set back: {len(back)} messages count in the oldest window"
    )
    motes, _ = stored(out, "health")
    assert sum(motes["received"].to_pylist()) == sum(pq.read_metadata(path).num_rows for path in paths)


def test_a_folder_of_another_window_or_version_is_refused(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    out = new_out(tmp_path / "o")
    (out / "window").write_text("600 s")
    arguments = ["watch", str(tmp_path / "logs"), "--out", str(out), "--window", "60"]
    assert run.main(arguments) == 1
    assert "another window needs another --out" in capsys.readouterr().err
    (out / "health/a.parquet").touch()
    assert run.main(arguments) == 1
    assert "older version" in capsys.readouterr().err


@contextlib.contextmanager
def watched_reads():
    """The files that Python opens to read them, each time."""
    opened = []
    HOOKS.append(opened)
    try:
        yield opened
    finally:
        HOOKS.remove(opened)


HOOKS = []


def _audit(event, arguments):
    if event == "open" and HOOKS and isinstance(arguments[0], str | Path) and "w" not in (arguments[1] or ""):
        HOOKS[-1].append(str(arguments[0]))


sys.addaudithook(_audit)


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


def test_a_part_whose_name_is_no_number_is_told_and_left_out(tmp_path, logged, spark):
    """It would be in the checkpoint for good, and no batch could ever be done again."""
    folder, _ = logged
    shutil.copytree(folder / "a", tmp_path / "logs" / "a")
    odd = tmp_path / "logs/a/messages/000001 (copy).parquet"
    shutil.copy(parts_of(folder / "a")[1], odd)
    for _ in range(2):
        found = spark_jobs.watch(spark, tmp_path / "logs", tmp_path / "out", window_s=1)
        assert found == {str(odd): "its name is no number, so it is no part"}


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
    assert [(one.total, one.motes, one.links) for one in told[1][1]] == [
        (one.total, one.motes, one.links) for one in told[2][1]
    ]


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
    command = [sys.executable, "-m", "spark_jobs.run", "watch", str(logs), "--out", str(out), "--window", "1"]
    waiting = parts_of(folder)

    def add(count):
        for path in [waiting.pop(0) for _ in range(min(count, len(waiting)))]:
            place = logs / path.split("/")[-3] / "messages"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place / f".{path.split('/')[-1]}")
            (place / f".{path.split('/')[-1]}").rename(place / path.split("/")[-1])

    def seen(begun):
        names = "checkpoint/offsets/[0-9]*" if begun else "batches/*.json"
        return len(list(out.glob(names)))

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
    once = new_out(place / "once")
    take_batch(0, parts_of(logs), Book(once), 1, here)
    assert content(out) == content(once)
    batch_parts = [json.loads(path.read_text())["parts"] for path in (out / "batches").glob("*.json")]
    seen = [part for parts in batch_parts for run_parts in parts.values() for part in run_parts]
    assert sorted(seen) == parts_of(logs)
    return len(batch_parts)
