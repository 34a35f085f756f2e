"""The table of what a schedule costs and gains."""

from pathlib import Path

from basestation.planning.candidates import Effort
from packet_formats.layout import layout_of
from tools import power_runs, power_table, urgent_runs


def test_both_stamps_are_exact_and_the_page_has_its_places() -> None:
    found = list(power_table.rows("micaz", 16000, Effort(300, seeds=1, busier=True), 0.05))
    assert [row[2] for row in found] == ["shlc", "barrier"]
    assert all(row[7].startswith("0 of 2") or row[7].startswith("0 of 3") for row in found)
    assert "| shlc |" in power_table.PAGE.read_text()
    for place in (
        power_table.PLACE,
        power_table.PERIODS,
        power_runs.PLACE,
        power_runs.NIGHT,
        urgent_runs.PLACE,
    ):
        place.insert(place.page.read_text(), "")


def test_what_is_run_is_what_plan_would_build() -> None:
    for field in (*power_runs.FIELDS.values(), *urgent_runs.FIELDS):
        deployment = power_runs.deployment_of(field)
        assert deployment.schedule is not None
        assert deployment.clock.delta >= deployment.schedule.delta_ticks(deployment.clock.tick_log2)
        assert power_runs.modelled(field).schedule == deployment.schedule
        assert layout_of(deployment).bundle_bytes, "two messages share a frame, with a key too"


def test_runs_that_are_over_are_kept(tmp_path: Path) -> None:
    name = power_runs.RunName("10 MICAz, 16 s", 1, 600.0, "a" * 16)
    point = power_runs.PowerPoint(10, 9, 0, 0.01, 0.4, 260.0, 200.0)
    power_runs.Runs(tmp_path / "runs").keep(name, point)
    again = power_runs.Runs(tmp_path / "runs")
    assert again.found == {name: point}
    again.keep(name._replace(images="b" * 16), point)
    assert len(power_runs.Runs(tmp_path / "runs").found) == 2
