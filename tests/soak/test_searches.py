"""A short run of each search: it works, it counts, it goes on where it ended, and it would notice a fault."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.soak import c_fuzz, kills, poison, py_fuzz, report
from tests.soak.running import ROOT, Piece, Search


@pytest.fixture(autouse=True)
def soak_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSEWAY_SOAK", str(tmp_path))
    return tmp_path


def test_a_search_goes_on_where_it_ended():
    search = Search(
        "made_up", "things", 10, lambda number: Piece(f"r{number % 2}", {"things": 3}, ["x"] * (number == 1))
    )
    assert search.run(pieces=2).rows == {"r0": {"things": 3, "faults": 0}, "r1": {"things": 3, "faults": 1}}
    state = search.run()
    assert (state.pieces, state.total("things"), state.faults) == (4, 12, ["x"])
    assert search.run().pieces == 4, "the aim was reached"


def test_tables_are_made_of_what_was_said():
    report.keep(
        "kills",
        '{"search": "kills", "row": "listen", "kills": 1234, "faults": 0}\n{"row": "watch", "kills": 2}\n',
    )
    text = "\n".join(report.lines())
    assert "| listen | 1,234 | 0 |" in text
    assert "| all | 1,236 | 0 |" in text
    assert text.count("Not run yet.") == len(report.SEARCHES) - 1
    assert report.PLACE.insert(report.PLACE.page.read_text(), text)


def test_a_search_is_a_command():
    words = [sys.executable, "-m", "tests.soak.py_fuzz", "--pieces", "0", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 of 10,000,000 executions" in done.stderr


def test_hostile_frames():
    for number in range(4):
        found = py_fuzz.piece(number, 300)
        assert found.faults == []
        assert found.counts["executions"] >= 100


def test_a_station_that_fails_is_a_fault(monkeypatch):
    monkeypatch.setattr(py_fuzz, "row_of", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in py_fuzz.piece(1, 100).faults[0]


def test_every_scheme_of_the_firmware_is_searched(require_tool):
    require_tool("clang")
    assert {one.stamp.scheme for one in c_fuzz.layouts()} >= {
        "barrier",
        "kn",
        "shlc",
        "vector",
        "delta-vector",
    }
    found = c_fuzz.search(0, 1)
    assert found.faults == []
    assert found.counts["executions"] > 1000


def test_a_killed_station_and_a_poisoned_table():
    assert kills.piece(0).faults == []
    assert poison.piece(0).faults == []


def test_a_row_that_nobody_sent_is_a_fault(monkeypatch):
    """Of the pieces some are whole all the same: a job that invents is noticed at the first."""
    monkeypatch.setattr(poison, "_true_rows", lambda kind: poison.Counter())
    found = [poison.piece(number) for number in range(6)]
    assert any("invented" in fault for one in found for fault in one.faults)
