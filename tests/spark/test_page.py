"""The page of a report: names as text, tables that sort, and a phone's width, in a real browser."""

from itertools import pairwise

import pytest
from rich.console import Console

from basestation.analysis import page, report
from tests.spark.test_recommend import row

NASTY = "<img src=x onerror=alert(1)>"
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def browser(require_tool, require_module):
    path = require_tool("chromium")
    playwright = require_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path)
        yield chromium
        chromium.close()


def test_names_are_text():
    text = page.page(NASTY, [page.heading(NASTY), page.folded(NASTY, [page.sheet([NASTY], [[NASTY]])])])
    assert "<img" not in text
    assert text.count("&lt;img") == 6


def test_no_two_stamps_have_one_colour():
    lines = [(f"stamp {number}", [row(1, 0.0, 1.0)]) for number in range(30)]
    looks = report._looks(lines)
    assert len({look["color"] for look in looks}) == 30


def test_a_refusal_is_printed_once_with_its_count(capsys):
    refused = [
        row(1, None, 0.0, answered="no", reason="there are no events", scheme=scheme, entries=k, phi=phi)
        for scheme, k in (("kn", 1), ("kn", 2), ("hlc", 1))
        for phi in (0, 40, 100)
    ]
    other = row(1, None, 0.0, answered="no", reason="too long", scheme="dpc1")
    report.show(Console(width=200), [*refused, other])
    assert capsys.readouterr().out.splitlines() == [
        "9 configurations (kn 1 events, kn 2 events, hlc 4 bits) can't be answered: there are no events",
        "1 configuration (dpc1) can't be answered: too long",
    ]


def test_tables_sort_and_the_page_fits_a_phone(browser, tmp_path):
    wide = [f"a column with a long name {number}" for number in range(12)]
    cells = ["10", "9", "<0.01", "0.1..0.3", "", "?", "0", "b", "a"]
    table = page.sheet(["share %", *wide], [[cell, *wide] for cell in cells], taken=[True])
    rows = [row(1 + number % 4, number / 10, 5.0 + number, phi=20 * number) for number in range(5)]
    picture = page.svg(report.front_picture(rows, "mean", rows[0], 1.0), "front")
    (tmp_path / "report.html").write_text(page.page("A" * 200, [picture, page.folded("All", [table])]))
    asked, faults = [], []
    tab = browser.new_context(viewport=PHONE, is_mobile=True, has_touch=True).new_page()
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto((tmp_path / "report.html").as_uri())
    tab.click("summary")
    assert tab.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [390, 390]

    def first_column():
        return tab.eval_on_selector_all("td:first-child", "cells => cells.map(cell => cell.textContent)")

    heading = tab.locator("th button").first
    heading.click()
    assert first_column() == ["0", "<0.01", "0.1..0.3", "9", "10", "a", "b", "", "?"]
    heading.click()
    assert first_column()[-5:] == ["10", "9", "0.1..0.3", "<0.01", "0"]
    assert tab.locator("tr.take td").first.text_content() == "10"
    assert (len(asked), faults) == (1, [])
    places = tab.eval_on_selector_all(
        "svg text", "all => all.map(text => text.getBoundingClientRect().height)"
    )
    assert min(places) > 8, "letters too small to read"
    assert all(one > 0 for pair in pairwise(places) for one in pair)
