"""The live page in a real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packet_formats.deployment import load
from tests.waiting import wait_until
from tests.web.made_run import NAMES, made_hello, made_picture, made_recording, made_rows
from tests.web.stage import PAGE, StandIn

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")

PATIENCE_MS = 60_000
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
DESK = {"viewport": {"width": 1440, "height": 900}}
DRAWN = "Number(document.body.dataset.rows) > 0 && Number(diagram.dataset.inView) > 0"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(require_tool: Callable[[str], str]) -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=require_tool("chromium"))
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """``open_page(url)`` is the page, once it is `ready`; at the end nothing may have gone wrong in it."""
    contexts, errors = [], []

    def opened(url: str, settings: dict[str, Any] = DESK, ready: str = DRAWN) -> Any:
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        wait_for(page, ready)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


def stand_in(messages: int = 200, port: int = 0, **hello: Any) -> StandIn:
    rows = made_rows(messages)
    return StandIn(made_hello(**({"live": True} | hello)), rows, made_picture(rows), port)


def wait_for(page: Any, expression: str) -> None:
    """Playwright's own waiting would need `eval`, which the page's policy forbids."""
    wait_until(lambda: page.evaluate(expression), expression)


def text_of(page: Any, place: str) -> str:
    return str(page.text_content(place))


def test_it_follows_a_run(open_page: Open) -> None:
    with stand_in() as server:
        page = open_page(server.url)
        assert text_of(page, "#network-name") == "meadow"
        wait_for(page, "document.getElementById('network-note').textContent !== ''")
        assert "mote 9 was never heard" in text_of(page, "#alarms")
        assert text_of(page, "#status") == "Live · stamp barrier, policy cbd, phi 100%"
        assert text_of(page, "#network-note") == "9 of 10 motes heard; 1 not heard yet; 1 in trouble"
        assert page.get_attribute("#motes [data-mote='9']", "class") == "mote bad unheard"
        assert page.evaluate("document.getElementById('order-came-bar').style.width") == "2%"  # 4 of 200
        assert text_of(page, "#order-came") == "4 of 200 (2%)"
        assert text_of(page, "#order-left") == "at least 1, at most 3 of 200 (0.5% to 1.5%)"
        drawn = int(page.get_attribute("#diagram", "data-drawn"))
        more = made_rows(230)[200:]
        server.send("rows", more)
        wait_for(page, "Number(document.body.dataset.rows) === 230")
        wait_for(page, f"Number(diagram.dataset.drawn) > {drawn}")
        page.click("#follow")
        assert text_of(page, "#follow") == "Follow"
        assert page.locator("#head-guard").is_hidden()  # a network without a key
        refused = {"forged": 3, "replayed": 1, "unprotected": 2, "unchecked": 0}
        server.send("picture", server.picture | {"refused": refused})
        wait_for(page, "document.getElementById('head-refused').textContent === '3, 1, 2'")
        assert text_of(page, "#head-verdicts") == "forged, replayed, unprotected"


@pytest.mark.wide
def test_a_quiet_network_is_told_from_one_that_was_never_heard(open_page: Open) -> None:
    rows = made_rows(60)
    picture = made_picture(rows)
    unheard = picture | {"at_ms": made_hello()["began_ms"], "received": 0, "motes": []}
    with StandIn(made_hello(live=True), [], unheard) as server:
        page = open_page(server.url, ready="document.getElementById('network-note').textContent !== ''")
        assert text_of(page, "#status").startswith("Waiting for the first message · stamp barrier")
        assert text_of(page, "#network-note") == "waiting for the first message"
        assert page.locator("#motes .mote.fine.unheard").count() == 10
        server.send("rows", rows)
        server.send("picture", picture | {"at_ms": picture["at_ms"] + 20_000})
        wait_for(page, "document.getElementById('quiet-text').textContent.startsWith('Last message ')")
        page.click("#quiet-show")
        wait_for(page, "Number(diagram.dataset.inView) > 0")
        assert page.locator("#quiet").is_hidden()


def test_a_click_explains_a_violation_in_words_that_are_no_html(open_page: Open) -> None:
    with stand_in() as server:
        page = open_page(server.url)
        page.click("#follow")
        page.click("#wrong-before")  # brings the newest message that was delivered or came out of order
        page.click("#details-close")
        wrong = next(row for row in reversed(server.rows) if row["wrong"])
        at = page.evaluate(f"diagram.whereIs({wrong['key']}).mark")
        page.click("#diagram", position=at)
        wait_for(page, "document.getElementById('details-text').textContent.includes('was held 3 ms')")
        assert text_of(page, "#details-name") == wrong["name"]
        assert "2#7 left after it" in text_of(page, "#details-text .violation")
        assert "<b>2#7</b>" in text_of(page, "#details-text")
        assert page.locator("#details-text b").count() == 0
        page.keyboard.press("Escape")
        assert page.locator("#details").is_hidden()


def test_it_survives_a_restart_and_begins_anew_with_another_run(open_page: Open) -> None:
    with stand_in() as server:
        page = open_page(server.url)
    wait_for(page, "document.getElementById('status').textContent.startsWith('Connection lost since')")
    with stand_in(port=server.port):
        wait_for(page, "document.getElementById('status').className === 'live'")
        assert page.get_attribute("body", "data-rows") == "200"
    wait_for(page, "document.getElementById('status').className === 'lost'")
    with stand_in(messages=50, port=server.port, run="another", network="heath"):
        wait_for(page, "document.body.dataset.rows === '50'")
        assert text_of(page, "#network-name") == "heath"


@pytest.mark.wide
def test_a_phone_has_no_sideways_scrolling(open_page: Open) -> None:
    with stand_in() as server:
        page = open_page(server.url, PHONE)
        for part in ("network", "queue", "values", "events", "diagram"):
            page.tap(f"nav [data-to={part}]")
            assert page.locator(f"[data-part={part}]").is_visible()
            assert page.evaluate("innerWidth") == 390, part
        page.tap("#wrong-before")
        assert page.locator("#details").is_visible()
        assert page.evaluate("innerWidth") == 390
        small = "[...document.querySelectorAll('nav button, .toolbar button, .toolbar summary, #find-name')]"
        assert page.evaluate(f"Math.min(...{small}.map((one) => one.getBoundingClientRect().height))") >= 44


def test_ten_thousand_messages_are_drawn(open_page: Open) -> None:
    with stand_in(10_000, live=False) as server:
        page = open_page(server.url)
        wait_for(page, "document.body.dataset.rows === '10000'")
        for _ in range(30):
            page.click("#zoom-out")
        page.focus("#diagram")
        wait_for(page, "diagram.dataset.inView === '10000'")
        inked = "const c = diagram.getContext('2d').getImageData(0, 0, diagram.width, diagram.height).data;"
        assert page.evaluate(f"(() => {{ {inked} return new Set(new Uint32Array(c.buffer)).size; }})()") > 20


def test_names_are_shown_as_text(open_page: Open) -> None:
    hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    names = (hostile, *NAMES[1:])
    rows = made_rows(60)
    picture = made_picture(rows) | {"alarms": [f"{hostile} is silent"]}
    with StandIn(made_hello(names=names, network=hostile, live=True), rows, picture) as server:
        page = open_page(server.url)
        event = {"key": "e1", "kind": "event", "at_ms": rows[-1]["came_ms"]}
        server.send("rows", [event | {"what": hostile, "subject": hostile, "text": hostile}])
        wait_for(page, "document.getElementById('events').children.length === 1")
        for place in ("#network-name", "#alarms", "#motes", "#filter-list", "#values", "#events"):
            assert hostile in text_of(page, place), place
        assert page.locator("img, body script").count() == 0
        assert page.title().endswith("Causeway")


@pytest.mark.wide
def test_search_and_filter(open_page: Open) -> None:
    with stand_in() as server:
        page = open_page(server.url)
        wanted = server.rows[120]
        page.fill("#find-name", wanted["name"])
        page.press("#find-name", "Enter")
        wait_for(page, "document.getElementById('find-answer').textContent === 'found, shown'")
        assert text_of(page, "#details-name") == wanted["name"]
        page.fill("#find-name", "3#99999")
        page.press("#find-name", "Enter")
        wait_for(page, "document.getElementById('find-answer').textContent === '3#99999 is not known'")
        before = int(page.get_attribute("#diagram", "data-in-view"))
        page.click("#filter summary")
        page.click("#filter-none")
        page.click("#filter-list li:nth-child(3) label")
        assert text_of(page, "#filter-text") == "1 of 10"
        wait_for(page, f"Number(diagram.dataset.inView) > 0 && Number(diagram.dataset.inView) < {before}")


@pytest.mark.wide
def test_older_messages_are_fetched_when_one_scrubs_back(open_page: Open) -> None:
    rows = made_rows(300)
    with StandIn(made_hello(live=True), rows[200:], made_picture(rows)) as server:
        server.older = rows[:200]
        page = open_page(server.url)
        page.focus("#diagram")
        page.keyboard.press("Home")
        wait_for(page, "document.body.dataset.rows === '300'")
        assert ("/rows", {"before": str(rows[200]["came_ms"]), "limit": "5000"}) in server.asked


def test_a_policy_is_tried_out_and_changed_only_when_confirmed(open_page: Open) -> None:
    with stand_in(control=True) as server:
        page = open_page(server.url)
        assert page.locator("#policy-change").is_disabled()
        page.fill("#policy-slider", "40")
        wait_for(page, "document.getElementById('trial').textContent.includes('At phi = 40%')")
        page.click("#policy-change")
        assert "from cbd, phi 100% to cbd, phi 40%" in text_of(page, "#ask-text")
        page.click("#ask button[value=no]")
        assert not [path for path, _ in server.asked if path == "/policy"]
        page.click("#policy-change")
        page.click("#ask-yes")
        wait_for(page, "document.getElementById('trial').textContent.includes('from now on')")
        assert server.asked[-1] == ("/policy", {"policy": "cbd", "phi": 40})
        page.fill("#policy-slider", "100")
        wait_for(page, "document.getElementById('trial').textContent.includes('At phi = 100%')")
        assert page.locator("#policy-change").is_disabled()
        assert text_of(page, "#policy-why") == "This is the policy now."


def test_a_setting_is_sent_to_a_mote_and_a_reboot_only_when_confirmed(open_page: Open) -> None:
    with stand_in(control=True) as server:
        page = open_page(server.url)
        assert "never heard" in text_of(page, "#motes li:first-child")  # troubled ones first
        page.click("#motes [data-mote='2'] .mote-head")
        page.click("#motes [data-mote='2'] .buttons >> text=Blink")
        wait_for(page, "document.getElementById('toast').textContent === 'blink red to mote 2: sent'")
        page.click("#motes [data-mote='2'] .buttons >> text=Reboot")
        page.click("#ask button[value=no]")
        page.click("#motes [data-mote='2'] .buttons >> text=Only this mote")
        assert text_of(page, "#filter-text") == "1 of 10"
        assert server.asked == [("/command", {"mote": 2, "setting": "blink red"})]


@pytest.mark.wide
def test_a_page_that_may_only_look_says_so(open_page: Open) -> None:
    with stand_in() as server:
        page = open_page(server.url)
        page.fill("#policy-slider", "40")
        wait_for(page, "document.getElementById('trial').textContent.includes('At phi = 40%')")
        assert page.locator("#policy-change").is_disabled()
        assert "--web-control" in text_of(page, "#policy-why")


def test_the_real_server_is_followed_explains_and_comes_back(open_page: Open, root: Path) -> None:
    serving = pytest.importorskip("tests.web.serving", reason="the extra web is not installed")
    deployment = load(root / "examples" / "barrier.toml")
    unordered = replace(deployment, observer=replace(deployment.observer, policy="none"))
    source = "simulate@?messages=2000&rate=0.05&seed=2"
    with serving.serve(unordered, source, control=True) as run:
        run.begin.set()
        page = open_page(f"http://127.0.0.1:{run.port}/")
        wait_for(page, "Number(document.body.dataset.rows) > 200")
        wait_for(page, "document.getElementById('wrong-count').classList.contains('red')")
        page.click("#wrong-before")
        wait_for(page, "document.querySelector('#details-text .violation.delivery') !== null")
        assert "delivered before its cause" in text_of(page, "#details-text")
        page.select_option("#policy-choice", "barrier")
        wait_for(page, "document.getElementById('trial').textContent.includes('messages out of order')")
        page.click("#policy-change")
        page.click("#ask-yes")
        wait_for(page, "document.getElementById('policy-now').textContent === 'barrier'")
    wait_for(page, "document.getElementById('status').className === 'lost'")
    with serving.serve(unordered, source, where=f"127.0.0.1:{run.port}") as again:
        again.begin.set()
        wait_for(page, "document.getElementById('status').className === 'live'")


def test_a_run_as_one_file_needs_no_server(open_page: Open, tmp_path: Path) -> None:
    export = pytest.importorskip("basestation.web.export", reason="the extra web is not installed")
    path = tmp_path / "run.html"
    path.write_text(export.inlined(PAGE, json.dumps(made_recording(200))))
    page = open_page(path.as_uri())
    assert text_of(page, "#status") == "Recorded run · stamp barrier, policy cbd, phi 100%"
    assert page.locator("#try").is_hidden()
    page.click("#wrong-before")
    wait_for(page, "/was held .* ms/.test(document.getElementById('details-text').textContent)")
