"""Links: losses, bursts, copies, reboots and strength, window by window, against counting by hand."""

import json
import random
import re
import sys
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from basestation.analysis.columns import filled
from basestation.analysis.link_health import LINKS, MOTES, in_order
from basestation.journal.reader import read_journal
from basestation.journal.summary import summarise
from spark_jobs import run
from spark_jobs.engines import Cores, Spark
from spark_jobs.health.link_tables import links
from spark_jobs.tables.inputs import find
from spark_jobs.tables.intake import ingest
from tests.journal.logs import simulated, write


def counted(rows, window_s, mix=0):
    """The tables of motes and links of rows (at, first, mote, life, sequence, gateway, rssi), in any order."""
    names = ("at", "first", "source", "life", "sequence", "gateway", "rssi")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    at, first, rssi = (columns.pop(name) for name in ("at", "first", "rssi"))
    table = pa.table(
        {name: pa.array(values, pa.int64()) for name, values in columns.items()}
        | {
            "site": pa.array(["a"] * len(rows), pa.string()),
            "run": pa.array(["a"] * len(rows), pa.string()),
            "fate": pa.array(["message" if one else "duplicate" for one in first], pa.string()),
            "line": pa.array([0] * len(rows), pa.int32()),
            "wall_ns": pa.array([round(one * 10**9) for one in at], pa.int64()),
            "heard": pa.nulls(len(rows), pa.int64()),
            "rssi": pa.array(rssi, pa.float32(), from_pandas=True),
            "lqi": pa.array(rssi, pa.float32(), from_pandas=True),
        }
    )
    table = table.take(np.random.default_rng(mix).permutation(len(table))) if mix else table
    motes, of_links = links(Cores(1), table, window_s)
    return in_order(motes, MOTES), in_order(of_links, LINKS)


@pytest.mark.parametrize("mix", [0, 3])
def test_a_small_log_by_hand(mix):
    rows = [
        (1, True, 5, 8, 10, 20, -60),
        (2, False, 5, 8, 10, 21, -80),  # another gateway's
        (3, True, 5, 8, 13, 20, -62),  # 11 and 12 lost
        (4, True, 5, 8, 11, 21, np.nan),  # no, 11 only took long
        (11, True, 5, 8, 14, 20, -64),
        (12, True, 5, 10, 1, 20, -66),  # two boots later
        (13, False, 5, 8, 14, 20, -70),  # a copy of the old life
        (14, True, 7, 0, 200, 20, -50),
        (25, True, 7, 0, 205, 20, -50),
    ]
    motes, links = counted(rows, 10, mix)
    assert motes.drop(["start_utc"]).to_pylist() == [
        {"start": 0, "mote": 5, "received": 3, "lost": 1, "delivery": 0.75, "copies": 1, "bursts": 1,
         "longest_burst": 1, "reboots": 0, "rssi": pytest.approx(-202 / 3)},
        {"start": 10, "mote": 5, "received": 2, "lost": 0, "delivery": 1, "copies": 1, "bursts": 0,
         "longest_burst": 0, "reboots": 2, "rssi": pytest.approx(-200 / 3)},
        {"start": 10, "mote": 7, "received": 1, "lost": 0, "delivery": 1, "copies": 0, "bursts": 0,
         "longest_burst": 0, "reboots": 0, "rssi": -50},
        {"start": 20, "mote": 7, "received": 1, "lost": 4, "delivery": 0.2, "copies": 0, "bursts": 1,
         "longest_burst": 4, "reboots": 0, "rssi": -50},
    ]  # fmt: skip
    names = ("start", "mote", "gateway", "frames", "messages", "delivery")
    assert [tuple(row[name] for name in names) for row in links.to_pylist()] == [
        (0, 5, 20, 2, 2, 0.5),
        (0, 5, 21, 2, 2, 0.5),
        (10, 5, 20, 3, 2, 1.0),
        (10, 7, 20, 1, 1, 1.0),
        (20, 7, 20, 1, 1, 0.2),
    ]
    assert links["rssi_least"].to_pylist()[2] == -70


def test_a_mote_that_started_anew_has_booted_once():
    """It is in boot 0 again, which is eight lives later."""
    motes, _ = counted([(1, True, 5, 0, 200, 20, -60), (2, True, 5, 8, 0, 20, -60)], 10)
    assert (motes["reboots"].to_pylist(), motes["lost"].to_pylist()) == ([1], [0])


def test_nothing_seen_is_an_empty_table():
    motes, links = counted([], 10)
    assert len(motes) == len(links) == 0


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(20))
def test_random_logs_by_plain_counting(seed):
    chance = random.Random(seed)
    rows, lives, sequence = [], Counter(), Counter()
    for step in range(400):
        mote = chance.randrange(3)
        if chance.random() < 0.02:
            lives[mote] += 1
            sequence[mote] = 0
        sequence[mote] += 1
        if chance.random() < 0.7:
            heard = [20, 21] if chance.random() < 0.3 else [chance.choice([20, 21])]
            for place, gateway in enumerate(heard):
                rows.append((step / 4 + place, place == 0, mote, lives[mote], sequence[mote], gateway, -60))
    rows.sort(key=lambda row: row[0])
    motes, links = counted(rows, 7)
    assert [*counted(rows, 7, mix=seed)] == [motes, links]
    arrived = defaultdict(dict)
    for at, first, mote, life, number, *_ in rows:
        if first:
            arrived[mote, life][number] = int(at // 7) * 7
    received, lost, bursts = Counter(), Counter(), Counter()
    for (mote, _), numbers in arrived.items():
        for start in numbers.values():
            received[start, mote] += 1
        for number in range(min(numbers), max(numbers)):
            if number not in numbers:
                following = min(other for other in numbers if other > number)
                lost[numbers[following], mote] += 1
                bursts[numbers[following], mote] += number + 1 in numbers
    for row in motes.to_pylist():
        key = row["start"], row["mote"]
        assert (row["received"], row["lost"], row["bursts"]) == (received[key], lost[key], bursts[key])
    assert sum(motes["received"].to_pylist()) == sum(received.values())
    for row in links.to_pylist():
        assert row["messages"] <= row["frames"]
        assert row["delivery"] is None or row["delivery"] <= 1


def frames(count, seed=1):
    """Frames of two motes of two runs, as in the table. Each second one is a copy; the first of some has no name."""
    chance = np.random.default_rng(seed)
    number = np.arange(count)
    columns = {
        "site": pa.array(np.where(number // 2 % 3, "here", "there")),
        "run": pa.array(np.where(number // 2 % 3, "a", "b")),
        "fate": pa.array(np.where(number % 2, "duplicate", "message")),
        "line": pa.array(number % 3 // 2, pa.int32()),
        "wall_ns": pa.array(number * 10**8, pa.int64()),
        "heard": pa.array(number * 3276, pa.int64()),
        "source": pa.array(chance.integers(0, 2, count)[number // 2], pa.int32(), mask=number % 7 == 0),
        "life": pa.array(number // 2 // 150, pa.int64()),
        "sequence": pa.array(number // 2, pa.int64()),
        "gateway": pa.array(20 + number % 2, pa.int32(), mask=number % 5 == 0),
        "rssi": pa.array(chance.integers(-90, -40, count), pa.int32()),
        "lqi": pa.array(chance.integers(0, 255, count), pa.int32(), mask=number % 5 == 0),
        "payload": pa.nulls(count, pa.binary()),
    }
    return pa.table(columns)


def sorted_rows(table):
    return sorted(map(str, table.to_pylist()))


def test_frames_in_any_order_and_on_both_engines_give_the_same_tables(spark):
    table = frames(1000)
    mixed = table.take(np.random.default_rng(2).permutation(1000))
    cores, cluster = Cores(2), Spark(spark)
    here = [sorted_rows(found) for found in links(cores, table, 10)]
    assert [sorted_rows(found) for found in links(cores, mixed, 10)] == here
    there = links(cluster, spark.createDataFrame(mixed.drop(["payload"])).repartition(3), 10)
    assert [sorted_rows(found.toArrow()) for found in there] == here
    motes, _ = links(cores, table, 10)
    for row in motes.to_pylist():
        assert row["start_utc"].timestamp() == row["start"]
        assert row["site"] == {"a": "here", "b": "there"}[row["run"]]
    counted = pc.and_(pc.equal(table["fate"], "message"), table["source"].is_valid())
    assert sum(motes["received"].to_pylist()) == pc.sum(counted).as_py()


def test_without_a_wall_clock_windows_are_of_the_networks_time():
    table = frames(100)
    table = table.set_column(4, "wall_ns", pa.nulls(100, pa.int64()))
    motes, _ = links(Cores(1), table, 1)
    assert motes["start_utc"].null_count == len(motes) > 5
    assert max(motes["start"].to_pylist()) == 99 * 3276 // 32768


def test_the_job_agrees_with_the_summary_of_the_journal(tmp_path, capsys, monkeypatch):
    trace, arrivals = simulated("kn", messages=600)
    chance = random.Random(1)
    pairs = [arrivals[i : i + 2] for i in range(0, len(arrivals), 2)]
    lines = [
        arrival for pair in pairs if chance.random() < 0.8 for arrival in pair * (1 + (chance.random() < 0.1))
    ]
    write(tmp_path / "run", lines, trace.deployment, "r")
    ingest(find([tmp_path / "run"]), tmp_path / "tables", Cores(1))
    arguments = [str(tmp_path / "tables"), "--no-spark", "--window", "2", "--out", str(tmp_path / "out")]
    assert run.main(["links", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    known = summarise(read_journal(tmp_path / "run"), trace.deployment).motes.values()
    assert told["received"] == sum(mote.messages for mote in known)
    assert told["lost"] == sum(mote.lost for mote in known) > 50
    assert told["copies"] == sum(mote.duplicates for mote in known) > 10
    motes = pq.read_table(tmp_path / "out/motes.parquet")
    assert sum(motes["lost"].to_pylist()) == told["lost"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # a person sees tables
    assert run.main(["links", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert run.main(["links", *arguments]) == 0
    seen = capsys.readouterr().out.splitlines()
    assert f"r {told['received']}{told['lost']:>5}{told['delivery']:>9.1%}".split() == seen[-2].split()[:4]
    assert run.main(["clocks", str(tmp_path / "tables"), "--no-spark"]) == 0
    seen = capsys.readouterr().out
    assert re.search(r"epsilon +\d+ +0 +\? +\? +\? +\? no beacon", seen)
    assert (tmp_path / "out/links.csv").read_text().startswith('"site","run","start","mote","gateway"')


def test_bad_input_is_named(tmp_path, capsys):
    trace, arrivals = simulated("kn", messages=100)
    write(tmp_path / "a", arrivals, trace.deployment, "a")
    write(tmp_path / "b", arrivals, trace.deployment, "b", site="other")
    tables = tmp_path / "tables"
    ingest(find([tmp_path / "a", tmp_path / "b"]), tables, Cores(1))
    assert run.main(["links", str(tables), "--no-spark", "--run", "c"]) == 1
    assert "no run c; there are a, b" in capsys.readouterr().err
    broken = next((tables / "frames").rglob("run=a/*.parquet"))
    broken.write_bytes(broken.read_bytes()[:300])
    capsys.readouterr()
    assert run.main(["links", str(tables), "--no-spark"]) == 1
    told = capsys.readouterr()
    assert "cut off" in told.err
    assert [json.loads(line)["run"] for line in told.out.splitlines()] == ["b"]


@pytest.mark.parametrize("way", ["--spark", "--no-spark"])
def test_a_run_with_a_strangers_id_is_refused_and_the_others_go_on(tmp_path, capsys, request, way):
    if way == "--spark":
        request.getfixturevalue("spark")
    trace, arrivals = simulated("kn", messages=100)
    for name in "ab":
        write(tmp_path / name, arrivals, trace.deployment, name, site=name)
    tables = tmp_path / "tables"
    ingest(find([tmp_path / "a", tmp_path / "b"]), tables, Cores(1))
    path = next((tables / "frames").rglob("run=a/*.parquet"))
    rows = pq.read_table(path, partitioning=None)
    at = rows.column_names.index("source")
    rows = rows.set_column(at, rows.field(at), pa.repeat(999, len(rows)).cast(rows.field(at).type))
    pq.write_table(rows, path)
    assert run.main(["links", str(tables), way]) == 1
    told = capsys.readouterr()
    assert "mote 999, but the deployment has" in told.err
    assert [json.loads(line)["run"] for line in told.out.splitlines()] == ["b"]


def test_the_worst_come_first(tmp_path, capsys):
    trace, arrivals = simulated("kn", messages=400)
    pairs = [arrivals[i : i + 2] for i in range(0, len(arrivals), 2)]
    chance = random.Random(3)
    write(
        tmp_path / "a",
        [one for pair in pairs if chance.random() < 0.7 for one in pair],
        trace.deployment,
        "a",
    )
    write(tmp_path / "b", arrivals, trace.deployment, "b", site="s")
    ingest(find([tmp_path / "a", tmp_path / "b"]), tmp_path / "tables", Cores(1))
    out = str(tmp_path / "out")
    arguments = [str(tmp_path / "tables"), "--no-spark", "--window", "1", "--out", out, "--worst", "3"]
    assert run.main(["links", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    headings = [" ".join(line.split()[:-3]) for line in lines[::4]]
    assert headings == ["site run mote", "site run mote gateway", "site run start"]
    motes = pq.read_table(tmp_path / "out/motes.parquet").to_pylist()
    found = []
    for mote in {row["mote"] for row in motes if row["run"] == "a"}:
        mine = [row for row in motes if (row["run"], row["mote"]) == ("a", mote)]
        received, lost = (sum(row[name] for row in mine) for name in ("received", "lost"))
        found.append((received / (received + lost), mote, received, lost))
    share, mote, received, lost = min(found)
    assert lines[1].split()[-5:] == ["a", str(mote), str(received), str(lost), f"{share:.1%}"]
    shares = [float(line.split()[-1].rstrip("%")) for line in lines[5:8]]
    assert shares == sorted(shares)


def test_a_number_that_a_real_column_rounds_is_taken():
    """A hostile table has strengths that no radio reports."""
    found = filled({"rssi": pa.array([1 - 2**31], pa.int32())}, pa.schema([("rssi", pa.float32())]), 1)
    assert found["rssi"].to_pylist() == [-(2.0**31)]
