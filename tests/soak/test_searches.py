"""A short run of each search: it finds no fault, and it counts what it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from basestation.causality.boots import BOOTS
from basestation.live import guard, overtakings
from basestation.live.station import Station
from tests.soak import c_fuzz, crash_states, kills, memory, py_fuzz, report
from tests.soak.running import ROOT


@pytest.fixture(autouse=True)
def _soak_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSEWAY_SOAK", str(tmp_path))


def test_the_page_has_the_tables_of_the_committed_results(tmp_path, monkeypatch):
    page = tmp_path / "soak.md"
    page.write_text(report.PLACE.page.read_text())
    monkeypatch.setattr(report, "PLACE", report.PLACE._replace(page=page))
    report.write()
    assert page.read_text() == (ROOT / "docs" / "figures" / "soak.md").read_text()


@pytest.mark.wide
def test_hostile_frames(monkeypatch):
    monkeypatch.setattr(py_fuzz, "MESSAGES", 100)
    for number in range(4):
        found = py_fuzz.piece(number, 300)
        assert found.faults == []
        assert found.counts["executions"] >= 100


@pytest.mark.wide
def test_every_scheme_of_the_firmware_is_searched(require_tool):
    require_tool("clang")
    schemes = {one.stamp.scheme for one in c_fuzz.layouts()}
    assert schemes >= {"barrier", "kn", "shlc", "vector", "delta-vector"}
    for runs in range(2):  # a thorough piece, a quick piece
        found = c_fuzz.search(runs * len(c_fuzz.layouts()), 10_000)
        assert (found.faults, found.counts["executions"]) == ([], 10_000)


@pytest.mark.wide
def test_states_after_a_loss_of_power():
    assert crash_states.run_states(0, 60) == {}


@pytest.mark.wide
def test_killed_stations(monkeypatch):
    monkeypatch.setattr(kills, "KILLS", 2)
    found = kills.piece(0)
    assert (found.counts["kills"], found.faults) == (2, [])


@pytest.mark.wide
def test_killed_ingests():
    found = kills.piece(kills.TURN - 2)
    assert found.faults == []
    assert 0 < found.counts["kills"] <= kills.KILLS


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("keyed", "timed"),
    [(False, False), (False, True), (True, True)],
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
