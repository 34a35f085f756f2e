"""Saves the full screen after some seconds of a network: `python -m tools.screenshot docs/figures/screen.svg`."""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path

from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.sources import SourceOptions, open_source
from basestation.views.terminal import TerminalView
from packet_formats.deployment import load
from packet_formats.layout import layout_of

# These fonts would be fetched from elsewhere, which a page of docs should not do.
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
SOURCE = "simulate@?motes=10&rate=0.02&loss=0.05&seed=2"


async def save(path: Path, deployment: Path, source: str, seconds: float, size: tuple[int, int]) -> None:
    """Run the source on a hidden full screen, then save what it shows."""
    described = load(deployment)
    opened = open_source(source, 0, SourceOptions(described))
    runner = Runner(Station(described), [opened], [])
    view = TerminalView(runner, layout=layout_of(described))
    runner.sinks.append(view)
    async with view.run_test(size=size) as pilot:
        task = asyncio.create_task(runner.run())
        await asyncio.sleep(seconds)
        await pilot.pause()
        path.write_text(FONTS.sub("", view.export_screenshot()))
        runner.stop()
        await task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--source", default=SOURCE)
    parser.add_argument("--deployment", type=Path, default=Path("examples/micaz.toml"))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--size", type=int, nargs=2, default=(150, 36), metavar=("COLUMNS", "LINES"))
    given = parser.parse_args()
    asyncio.run(save(given.path, given.deployment, given.source, given.seconds, tuple(given.size)))


if __name__ == "__main__":
    main()
