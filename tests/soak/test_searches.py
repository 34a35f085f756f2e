"""A short run of each search: it works, it counts, it goes on where it ended, and it would notice a fault."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import replace

import pytest

from basestation.causality.boots import BOOTS
from basestation.causality.truth import Send
from basestation.live import guard, overtakings
from basestation.live.guard import GOOD, Guard
from basestation.live.station import Station
from basestation.testbed.recorded_messages import Sent
from basestation.testbed.truth_log import Signal
from packet_formats.messages import Data
from tests.soak import __main__ as soak_command
from tests.soak import c_fuzz, kills, memory, poison, py_fuzz, report, running, storm, venom
from tests.soak.running import ROOT, Piece, Search, State
from tests.soak.scheduled_storm import SCHEDULED


@pytest.fixture(autouse=True)
def soak_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSEWAY_SOAK", str(tmp_path))
    monkeypatch.setenv("CAUSEWAY_SOAK_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def short_runs(monkeypatch):
    monkeypatch.setattr(py_fuzz, "MESSAGES", 100)


def test_a_search_goes_on_where_it_ended():
    search = Search(
        "made_up", "things", 10, lambda number: Piece(f"r{number % 2}", {"things": 3}, ["x"] * (number == 1))
    )
    assert search.run(pieces=2).rows == {"r0": {"things": 3, "faults": 0}, "r1": {"things": 3, "faults": 1}}
    state = search.run()
    assert (state.pieces, state.total("things"), state.faults) == (4, 12, ["x"])
    assert search.run().pieces == 4, "the aim was reached"


def test_searches_side_by_side_do_different_pieces(monkeypatch):
    """The second process begins while the first one does a piece, and that one is broken off."""
    done = []
    other = Search("made_up", "things", 10, lambda number: done.append(number) or Piece("r", {"things": 1}))

    def broken_off(number):
        done.append(number)
        if os.fork() == 0:
            other.run(pieces=2)
            os._exit(0)
        os.wait()
        raise KeyboardInterrupt

    first = Search("made_up", "things", 10, broken_off)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert (first.load().pieces, first.load().ahead, done) == (0, [1, 2], [0])
    os.close(first._locks)  # as the end of its process does
    assert other.run(pieces=2).pieces == 4
    assert done == [0, 0, 3]


def test_tables_are_made_of_what_was_done(monkeypatch):
    monkeypatch.setattr(running, "version", lambda: "0123abcd")
    state = State()
    state.add(0, Piece("listen", {"kills": 1234}), 1.0, 1234)
    state.add(1, Piece("watch", {"kills": 2}), 1.0, 2)
    report.search_of("kills").save(state)
    text = "\n".join(report.lines())
    assert (
        f"1,236 of {kills.AIM:,} kills done ({1236 * 100 // kills.AIM}%).\nBy commit: 0123abcd 1,236.\n"
        in text
    )
    assert "| listen | 1,234 | 0 |" in text
    assert "| all | 1,236 | 0 |" in text
    assert text.count("\n0 of ") == len(report.SEARCHES) - 1


def test_the_page_has_the_tables_of_the_committed_results(tmp_path, monkeypatch):
    monkeypatch.delenv("CAUSEWAY_SOAK_RESULTS")
    page = tmp_path / "reliability.md"
    page.write_text(report.PLACE.page.read_text())
    monkeypatch.setattr(report, "PLACE", report.PLACE._replace(page=page))
    report.write()
    assert page.read_text() == (ROOT / "docs" / "evidence" / "reliability.md").read_text()


def test_make_soak_starts_every_search(monkeypatch, capsys):
    """In this process: each reads its command line, and has no time for a piece."""

    class Started:
        def __init__(self, words):
            monkeypatch.setattr(sys, "argv", words[2:])
            self.code = report.search_of(words[2].rpartition(".")[2]).main()

        def wait(self):
            return self.code

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(sys, "argv", ["soak", "--no-write", "--minutes", "0"])
    assert soak_command.main() == 0
    told = capsys.readouterr().err
    assert [name for name in report.SEARCHES if f"{name}: 0 of " in told] == list(report.SEARCHES)


def test_a_piece_is_done_again_by_itself(monkeypatch, capsys, soak_folder):
    monkeypatch.setattr(sys, "argv", ["made_up", "--piece", "3", "--json"])
    search = Search("made_up", "things", 10, lambda number: Piece("r", {"things": number}, ["x"]))
    assert search.main() == 1
    assert '"things": 3' in capsys.readouterr().out
    assert not search.path.exists()


def test_a_search_is_a_command():
    words = [sys.executable, "-m", "tests.soak.py_fuzz", "--pieces", "0", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 of 10,000,000 executions" in done.stderr


def test_hostile_frames(short_runs):
    for number in range(4):
        found = py_fuzz.piece(number, 300)
        assert found.faults == []
        assert found.counts["executions"] >= 100


def test_a_station_that_fails_is_a_fault(monkeypatch, short_runs):
    monkeypatch.setattr(py_fuzz, "row_of", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in py_fuzz.piece(1, 100).faults[0]


def test_a_station_that_lets_anybody_in_is_a_fault(monkeypatch, short_runs):
    """With a key what it delivers must be by somebody who has the key; some of it is."""
    monkeypatch.setattr(py_fuzz, "any_run", lambda draw: py_fuzz.run_of("kn", True))
    assert py_fuzz.piece(3, 1000).faults == []
    monkeypatch.setattr(Guard, "judge", lambda *_: GOOD)
    assert any("by nobody who has the key" in fault for fault in py_fuzz.piece(3, 1000).faults)


def test_every_scheme_of_the_firmware_is_searched(require_tool):
    require_tool("clang")
    assert {one.stamp.scheme for one in c_fuzz.layouts()} >= {
        "barrier",
        "kn",
        "shlc",
        "vector",
        "delta-vector",
    }
    for runs in range(2):  # a thorough one, a quick one
        found = c_fuzz.search(runs * len(c_fuzz.layouts()), 10_000)
        assert (found.faults, found.counts["executions"]) == ([], 10_000)


def test_killed_stations_and_a_poisoned_table(monkeypatch):
    monkeypatch.setattr(kills, "KILLS", 2)
    found = kills.piece(0)
    assert (found.counts["kills"], found.faults) == (2, [])
    assert poison.here(0).faults == []


@pytest.mark.parametrize("example", ["micaz", "micaz_months"])
def test_a_stranger_sends_as_many_frames_as_he_likes(example):
    """More than the 256 numbers of a frame; under a schedule mostly when somebody is awake."""
    deployment = memory.deployment_of(False, example)
    climate = storm.ALWAYS_ON if example == "micaz" else SCHEDULED
    heard = [Signal(0, 0, 0, 0, 0.0, 20 * 10**9, 0, 0, False, b"x")]
    text = storm.timeline(random.Random(5), climate, deployment, 1200, heard)
    times = [one["at"] for one in tomllib.loads(text)["fault"] if one["do"] == "inject"]
    assert len(times) > 300
    assert climate.heard <= min(times) < max(times) <= 1200
    near = [abs((at - 20 + 8) % 16 - 8) < 0.1 for at in times]
    assert (sum(near) > len(near) / 2) == (example == "micaz_months")


def test_what_a_station_holds_is_measured_by_its_parts():
    station = Station(memory.deployment_of(True, "micaz_months"))
    (row,) = memory.measure(station, memory.listen(station, 0.02))
    assert row["frames"] > 100
    assert row["all"] > row["graph"] > 20
    assert abs(row["all"] - sum(row[part] for part in memory.sizes(station))) < 10
    assert station.delivered > 50


@pytest.mark.parametrize(
    ("keyed", "timed"),
    [(False, False), *(pytest.param(keyed, True, marks=pytest.mark.wide) for keyed in (False, True))],
)
def test_a_station_that_is_full_does_not_grow(monkeypatch, keyed, timed):
    """Two motes, each of which has booted eight times within the first half of the line."""
    monkeypatch.setattr(overtakings, "MOST_WINDOW", overtakings.LEAST_WINDOW)
    monkeypatch.setattr(guard, "REMEMBERED", 32)
    monkeypatch.setattr(memory, "BOOT", 1 / 16)
    whole = memory.deployment_of(keyed)
    station = Station(replace(whole, network=replace(whole.network, motes=2)))
    found, boots, step = [], [], memory.HOUR_NS // 30
    for now in memory.listen(station, hours=0.41, timed=timed):
        if now >= step * (len(found) + 1):
            found.append(memory.sizes(station))
            boots.append(min(mote.reboots for mote in station.motes.values()))
    assert boots[5] >= BOOTS
    assert len(found) == 12
    for part in ("numbers", "graph", "guard", "counts"):
        most = max(one[part] for one in found[:6])
        assert max(one[part] for one in found[6:]) <= 1.05 * most, part


def test_a_strangers_message_is_not_the_motes():
    """Under the name of a mote's message, or the same one with fewer hops to go."""
    sent = Sent(Send(3, 1, (0, 0, 0, 1)), 0, 0, data=Data(3, 26, (6, 0), hops=2, data=b"ab"))
    assert storm.is_of(sent, Data(3, 26, (6, 0), hops=1, data=b"ab"))
    assert not storm.is_of(sent, Data(3, 26, (6, 1), hops=2, data=b"ab"))
    assert not storm.is_of(sent, Data(3, 26, (6, 0), hops=2, data=b"xb"))


@pytest.mark.wide
def test_killed_ingests():
    found = kills.piece(kills.TURN - 2)
    assert found.faults == []
    assert 0 < found.counts["kills"] <= kills.KILLS


def test_a_killed_ingest_that_goes_on_wrongly_is_a_fault(monkeypatch):
    def kill(*_):
        yield 1, 7
        raise AssertionError("the tables differ")

    monkeypatch.setattr(kills, "ingest_killed", kill)
    found = kills.piece(kills.TURN - 2)
    assert dict(found.counts) == {"kills": 2, "done_before": 7}
    assert "the tables differ" in found.faults[0]


def test_a_false_answer_of_a_job_is_a_fault():
    true = {"good": Counter("ab"), "bad": Counter("cd")}

    def faults(code, answer, said, by_chance=True):
        return list(poison.wrong((code, answer, said), ("good", true), by_chance))

    assert faults(0, true, "") == []
    assert faults(1, {"good": Counter("ab")}, "bad can't be read") == []
    assert faults(0, {"good": Counter("ab"), "bad": Counter("cx")}, "x", by_chance=False) == []
    assert "without a word" in faults(1, true, "")[0]
    assert "nothing was said" in faults(0, {"good": Counter("ab"), "bad": Counter("c")}, "")[0]
    assert "invented" in faults(0, {"good": Counter("ab"), "odd": Counter("cdd")}, "odd")[0]
    assert "the good run" in faults(0, {"good": Counter("a"), "bad": Counter("cd")}, "x")[0]
    assert "code 3" in faults(3, true, "x")[0]


def test_a_crash_of_a_job_is_a_fault(monkeypatch):
    worker = poison.Worker()
    worker.process.kill()
    monkeypatch.setattr(poison, "_WORKERS", [worker])
    assert "it crashed with code -9" in poison.piece(0).faults[0]


@pytest.mark.parametrize("name", [*venom.CHANCE, *venom.TABLES, *venom.JOURNALS])
def test_poison_changes_a_file(name, tmp_path):
    kind, suffix = ("journals", "cwj") if name in venom.JOURNALS else ("traces", "parquet")
    shutil.copytree(poison.good() / kind, tmp_path / kind)
    (victim, *_) = sorted((tmp_path / kind / "bad").rglob(f"*.{suffix}"))
    before = {path.name: path.read_bytes() for path in victim.parent.iterdir()}
    for seed in range(3):
        (venom.CHANCE | venom.TABLES | venom.JOURNALS)[name](random.Random(seed), victim)
        if {path.name: path.read_bytes() for path in victim.parent.iterdir()} != before:
            return
    raise AssertionError("it is as it was")
