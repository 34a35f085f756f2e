"""The measured tables: their places on the pages, and the networks that they run."""

from __future__ import annotations

import pytest

from basestation.planning.stamp_trials import Effort
from packet_formats.layout import layout_of
from tools.pages import PageError, place_of, table
from tools.tables import Workload, by_row, power, power_runs, urgent
from tools.tables.__main__ import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_each_table_has_a_place_on_its_page(name: str) -> None:
    place = place_of(name)
    page = place.page.read_text()
    again = place.insert(page, "nothing")
    assert len(again) < len(page)
    assert place.insert(again, "nothing") == again


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(PageError, match=r"power\.md lacks the marks"):
        place_of("power").insert("a page without them", "text")
    with pytest.raises(PageError, match="no page has the mark"):
        place_of("nowhere")


def test_numbers_are_on_the_right() -> None:
    assert list(table(("name", "count"), [("a", "1,000"), ("b", "-")])) == [
        "| name | count |",
        "| --- | ---: |",
        "| a | 1,000 |",
        "| b | - |",
    ]


def test_each_row_gets_the_results_of_its_seeds() -> None:
    assert dict(by_row(pow, {10: 2, 2: 3}, Workload())) == {10: [10, 100], 2: [2, 4, 8]}
    assert dict(by_row(pow, {10: 2, 2: 3}, Workload(seeds=1))) == {10: [10], 2: [2]}


def test_both_stamps_are_exact_with_a_schedule() -> None:
    found = list(power.rows("micaz", 16000, Effort(300, seeds=1, busier=True)))
    assert [row[2] for row in found] == ["shlc", "barrier"]
    assert all(row[7].startswith(("0 of 2", "0 of 3")) for row in found)


def test_the_runs_are_those_that_plan_would_build() -> None:
    for field in (*power_runs.FIELDS.values(), *urgent.FIELDS):
        deployment = power_runs.deployment_of(field)
        assert deployment.schedule is not None
        assert deployment.clock.delta >= deployment.schedule.delta_ticks(deployment.clock.tick_log2)
        assert power_runs.modelled(field).schedule == deployment.schedule
        assert layout_of(deployment).bundle_bytes, "two messages share a frame, with a key too"
