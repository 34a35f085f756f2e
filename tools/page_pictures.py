"""Pictures of the page for docs/: `python -m tools.page_pictures docs/figures`.

A browser watches ten emulated motes with the alarm app; then their log is shown again in arrival order, with the
explanation of a message out of order. Needs chromium, and the tools of `basestation testbed`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

EXAMPLE = Path(__file__).parents[1] / "examples" / "alarm.toml"
STYLE = Path(__file__).parents[1] / "basestation" / "web" / "page" / "style.css"
# Where ten motes on a hillside may stand, in metres; the first four are near the gateway.
PLACES = {
    "hut": (52, 22),
    "gate": (38, 30),
    "well": (64, 32),
    "oak": (48, 40),
    "ford": (20, 36),
    "barn": (82, 30),
    "ridge": (30, 56),
    "pond": (68, 54),
    "cairn": (12, 62),
    "summit": (90, 60),
}
SECONDS = 40
QUICK_MS = 80  # from the sending to the gateway, over up to three hops
WIDE = {"viewport": {"width": 1920, "height": 1080}}
DESK = {"viewport": {"width": 1440, "height": 900}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}


def deployment_text() -> str:
    """The example with names and places for its motes."""
    motes = [
        f'[[mote]]\nid = {id}\nname = "{name}"\nx = {x}\ny = {y}\n'
        for id, (name, (x, y)) in enumerate(PLACES.items())
    ]
    return EXAMPLE.read_text() + "\n" + "\n".join(motes)


def shadows() -> str:
    """Light for the motes: a shadow on one after another."""
    lines = ["time,mote,sensor,value", *(f"0,{mote},light,800" for mote in range(len(PLACES)))]
    for number in range(2 * SECONDS):
        at, mote = 3 + 1.1 * number, (7 * number + 3) % len(PLACES)
        lines += [f"{at:.2f},{mote},light,120", f"{at + 0.8:.2f},{mote},light,800"]
    return "\n".join(lines) + "\n"


@contextmanager
def served(*command: str) -> Iterator[str]:
    """Run a command of the base station with `--web`: the page's address."""
    started = [sys.executable, "-m", "basestation", *command, "--view", "none", "--web"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if found := re.search(r"http://\S+", line):
                yield found[0]
                break
        else:
            sys.exit("".join(told))
        process.terminate()
        process.stderr.read()


class Camera:
    """A browser that takes pictures of a page on screens of several sizes."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder

    def take(
        self, name: str, url: str, screen: dict[str, Any], act: Callable[[Any], None], dark: bool = False
    ) -> None:
        context = self.browser.new_context(**screen, color_scheme="dark" if dark else "light")
        page = context.new_page()
        page.goto(url)
        _wait(page, "Number(document.body.dataset.rows) > 20")
        page.wait_for_timeout(2500)  # the lists and the first picture
        act(page)
        path = self.folder / f"page-{name}.png"
        page.screenshot(path=path)
        context.close()
        _with_few_colours(path)
        print(f"{path}: {path.stat().st_size // 1024} KB")


def _with_few_colours(path: Path) -> None:
    """Reduce the picture to a third of its bytes. The page's own colours stay, even of few pixels."""
    image = Image.open(path).convert("RGB")
    own = sorted(set(re.findall(r"#([0-9a-f]{6})", STYLE.read_text())))
    common = image.quantize(256 - len(own), dither=Image.Dither.NONE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*common[: 3 * (256 - len(own))], *bytes.fromhex("".join(own))])
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def _wait(page: Any, expression: str) -> None:
    while not page.evaluate(expression):
        page.wait_for_timeout(200)


def _explain(page: Any) -> None:
    """Choose a message out of order that travelled fast, and not the last, so that others follow."""
    for back in range(60):
        page.click("#wrong-before")
        travelled = re.search(r"(\d+) ms later", page.text_content("#details-way"))
        if back >= 5 and travelled and int(travelled[1]) < QUICK_MS:
            break
    _wait(page, "document.querySelector('#details-text .violation') !== null")
    _settle(page)


def _stop_at_a_burst(page: Any) -> None:
    _explain(page)
    page.click("#details-close")
    _settle(page)


def _settle(page: Any) -> None:
    if page.locator("#values").is_visible():
        page.click("#values-choice button:last-child")
    page.mouse.move(5, 5)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.wait_for_timeout(500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("pictures of the page need chromium: apt install chromium")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        site, light, logs = Path(made) / "hillside.toml", Path(made) / "light.csv", Path(made) / "logs"
        site.write_text(deployment_text().replace('name = "demo"', 'name = "hillside"'))
        light.write_text(shadows())
        browser = playwright.chromium.launch(executable_path=chromium)
        camera = Camera(browser, folder)
        source = f"testbed@?app=alarm&sensors={light}&seed=4"
        with served("listen", source, "-d", str(site), "--log", str(logs)) as url:
            page = browser.new_page()
            page.goto(url)
            _wait(page, "Number(document.body.dataset.rows) > 250")
            page.close()
            camera.take("wide", url, WIDE, _stop_at_a_burst)
            camera.take("dark", url, DESK, _stop_at_a_burst, dark=True)
            camera.take("phone", url, PHONE, _stop_at_a_burst)
        (run,) = logs.iterdir()
        with served("replay", str(run), "--policy", "none") as url:
            camera.take("violation", url, DESK, _explain)
        browser.close()


if __name__ == "__main__":
    main()
