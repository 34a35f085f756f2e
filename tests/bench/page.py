"""How smoothly the page draws: script time and frame interval with 1,000 and 10,000 messages in view.

The diagram is dragged at every frame; in the last rows it follows a run of 100 messages a second instead.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.waiting import wait_until
from tests.web.made_run import made_hello, made_picture, made_rows
from tests.web.stage import StandIn

FRAMES = 120
A_SECOND = 100
BATCH = A_SECOND // 10
SCREENS: dict[str, dict[str, Any]] = {
    "desk, 1920x1080": {"viewport": {"width": 1920, "height": 1080}},
    "phone, 390x844 at ratio 3": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 3,
        "is_mobile": True,
        "has_touch": True,
    },
}
LOOK = """async ([frames, drag]) => {
  const canvas = document.getElementById("diagram");
  const frame = () => new Promise(requestAnimationFrame);
  const measured = { intervals: [], scripts: [] };
  let before = await frame();
  for (let at = 0; at < frames; at += 1) {
    if (drag) canvas.dispatchEvent(new WheelEvent("wheel", { deltaX: at % 2 ? 9 : -9, cancelable: true }));
    const now = await frame();
    measured.intervals.push(now - before);
    measured.scripts.push(Number(canvas.dataset.scriptMs));
    before = now;
  }
  return measured;
}"""


@dataclass(frozen=True)
class PageRow:
    screen: str
    what: str
    in_view: int
    script_ms: float  # median
    frame_ms: float  # median
    p95_ms: float
    worst_ms: float


def bench_page() -> list[PageRow]:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise ImportError("chromium is not on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        found = []
        for name, screen in SCREENS.items():
            found += [_dragged(browser, name, screen, count) for count in (1000, 10_000)]
            found.append(_followed(browser, name, screen))
        browser.close()
    return found


def _dragged(browser: Any, name: str, screen: dict[str, Any], messages: int) -> PageRow:
    rows = made_rows(messages)
    with StandIn(made_hello(live=False), rows, made_picture(rows)) as server:
        return _looked_at(browser, server, screen, PageRow(name, "dragged", messages, 0, 0, 0, 0))


def _followed(browser: Any, name: str, screen: dict[str, Any]) -> PageRow:
    rows = made_rows(20_000, a_second=A_SECOND)
    start, rest = rows[:10_000], rows[10_000:]
    over = threading.Event()
    with StandIn(made_hello(live=True), start, made_picture(start)) as server:

        def play() -> None:
            for at in range(0, len(rest), BATCH):
                if over.wait(BATCH / A_SECOND):
                    return
                server.send("rows", rest[at : at + BATCH])

        player = threading.Thread(target=play)
        player.start()
        try:
            return _looked_at(browser, server, screen, PageRow(name, "followed", len(start), 0, 0, 0, 0))
        finally:
            over.set()
            player.join()


def _looked_at(browser: Any, server: StandIn, screen: dict[str, Any], row: PageRow) -> PageRow:
    """Zoom out until all is in view, then look at some frames."""
    context = browser.new_context(**screen)
    page = context.new_page()
    page.goto(server.url)
    wait_until(lambda: page.evaluate(f"Number(document.body.dataset.rows) >= {row.in_view}"), "the rows")
    for _ in range(40):
        if page.evaluate("Number(diagram.dataset.inView)") >= row.in_view:
            break
        page.click("#zoom-out")
        page.evaluate("new Promise(requestAnimationFrame)")
    measured = page.evaluate(LOOK, [FRAMES, row.what == "dragged"])
    in_view = page.evaluate("Number(diagram.dataset.inView)")
    context.close()
    intervals = sorted(measured["intervals"])
    times = (median(measured["scripts"]), median(intervals), intervals[int(0.95 * FRAMES)], intervals[-1])
    return PageRow(row.screen, row.what, in_view, *(round(time, 1) for time in times))
