"""The table of what a schedule costs and gains."""

from basestation.planning.candidates import Effort
from tools import power_table


def test_both_stamps_are_exact_and_the_page_has_its_place() -> None:
    found = list(power_table.rows("micaz", 16000, Effort(300, seeds=1, busier=True), 0.05))
    assert [row[2] for row in found] == ["shlc", "barrier"]
    assert all(row[7].startswith("0 of 2") or row[7].startswith("0 of 3") for row in found)
    assert "| shlc |" in power_table.PAGE.read_text()
    power_table.PLACE.insert(power_table.PAGE.read_text(), "")
