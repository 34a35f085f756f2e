"""Links: losses, bursts, copies, reboots and strength, window by window, against counting by hand."""

import json
import random
from collections import Counter, defaultdict

import numpy as np
import pyarrow.parquet as pq
import pytest

from basestation.journal.reader import read_journal
from basestation.journal.summary import summarise
from spark_jobs import run
from spark_jobs.engine import Cores
from spark_jobs.health.links import Seen, health
from spark_jobs.tables.ingest import ingest
from spark_jobs.tables.inputs import find
from tests.journal.logs import simulated, write


def seen(rows):
    """Rows (at, first, mote, life, sequence, gateway, rssi)."""
    at, first, mote, life, sequence, gateway, rssi = zip(*rows, strict=True) if rows else [()] * 7
    number = [np.array(column, np.int64) for column in (mote, life, sequence, gateway)]
    line = np.zeros(len(rows), np.int64)
    strength = np.array(rssi, np.float64)
    return Seen(np.array(at, np.float64), np.array(first, np.bool_), *number, line, strength, strength)


def test_a_small_log_by_hand():
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
    motes, links = health(seen(rows), 10)
    assert motes.to_pylist() == [
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


def test_nothing_seen_is_an_empty_table():
    motes, links = health(seen([]), 10)
    assert len(motes) == len(links) == 0


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
    motes, links = health(seen(rows), 7)
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


def test_the_job_agrees_with_the_summary_of_the_journal(tmp_path, capsys):
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
    assert (tmp_path / "out/links.csv").read_text().startswith('"site","run","start","mote","gateway"')


def test_spark_gives_the_same(tmp_path, capsys, spark):
    trace, arrivals = simulated("shlc", messages=200)
    write(tmp_path / "a", arrivals, trace.deployment, "a")
    write(tmp_path / "b", arrivals[:100], trace.deployment, "b", site="other")
    ingest(find([tmp_path]), tmp_path / "tables", Cores(1))
    ways = ("--spark", "--no-spark")
    for way in ways:
        out = tmp_path / f"out{way}"
        assert run.main(["links", str(tmp_path / "tables"), "--window", "1", "--out", str(out), way]) == 0
    one, other = (pq.read_table(tmp_path / f"out{way}/links.parquet") for way in ways)
    assert one == other
    assert set(one["run"].to_pylist()) == {"a", "b"}


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
