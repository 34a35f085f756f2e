"""How smoothly the page draws: script time and frame interval with 1,000 and 10,000 messages in view, being dragged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.waiting import wait_until
from tests.web.made_run import made_hello, made_picture, made_rows
from tests.web.stage import StandIn

FRAMES = 120
DRAG = """async (frames) => {
  const canvas = document.getElementById("diagram");
  const frame = () => new Promise(requestAnimationFrame);
  const measured = { intervals: [], scripts: [] };
  let before = await frame();
  for (let at = 0; at < frames; at += 1) {
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaX: at % 2 ? 9 : -9, cancelable: true }));
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
    in_view: int
    script_ms: float  # median
    frame_ms: float  # median
    worst_ms: float


def bench_page() -> list[PageRow]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        screens = {
            "desk, 1920x1080": {"viewport": {"width": 1920, "height": 1080}},
            "phone, 390x844 at ratio 3": {
                "viewport": {"width": 390, "height": 844},
                "device_scale_factor": 3,
                "is_mobile": True,
                "has_touch": True,
            },
        }
        found = [
            _dragged(browser, name, screens[name], count) for name in screens for count in (1000, 10_000)
        ]
        browser.close()
    return found


def _dragged(browser: Any, name: str, screen: dict[str, Any], messages: int) -> PageRow:
    rows = made_rows(messages)
    with StandIn(made_hello(live=False), rows, made_picture(rows)) as server:
        context = browser.new_context(**screen)
        page = context.new_page()
        page.goto(server.url)
        wait_until(lambda: page.evaluate(f"document.body.dataset.rows === '{messages}'"), "the rows")
        for _ in range(40):
            if page.evaluate("Number(diagram.dataset.inView)") >= messages:
                break
            page.click("#zoom-out")
            page.evaluate("new Promise(requestAnimationFrame)")
        measured = page.evaluate(DRAG, FRAMES)
        in_view = page.evaluate("Number(diagram.dataset.inView)")
        context.close()
    intervals = sorted(measured["intervals"])
    return PageRow(
        name,
        in_view,
        round(median(measured["scripts"]), 1),
        round(median(intervals), 1),
        round(intervals[-1], 1),
    )
