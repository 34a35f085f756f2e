"""The full screen on a made-up terminal: run a script on it, and see what it shows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rich.console import Console

from basestation.live.happenings import (
    Happening,
)
from basestation.live.station import Station
from basestation.views.terminal import TerminalView
from tests.live.world import MS, TICK, Gateway, Motes, play
from tests.views.runs import SETUP, START, FakeStage, busy
from tests.waiting import PATIENCE, until


def text_of(app: TerminalView, name: str) -> str:
    widget = app.query_one(f"#{name}")
    console = Console(width=160, height=60, color_system=None)
    with console.capture() as captured:
        console.print(widget.content)  # type: ignore[attr-defined]
    return captured.get()


SMALL, WIDE, LARGE = (80, 24), (150, 24), (150, 48)  # the smaller, the faster to draw


def on_screen(script, size: tuple[int, int] = SMALL, run=busy, final: bool = False, order=None) -> None:
    """Run a script with the view on a made-up terminal, once its first picture is complete."""

    async def work() -> None:
        stage = FakeStage(run)
        app = TerminalView(stage, final, order=order)
        app.NOTIFICATION_TIMEOUT = 5 * PATIENCE  # a busy machine may look for it late
        for happening in stage.found:
            app.take(happening)
        async with app.run_test(size=size, notifications=True) as pilot:
            await shows(app, "too small" if app.screen.has_class("small") else "q Quit")
            await script(app, pilot, stage)

    asyncio.run(asyncio.wait_for(work(), 5 * PATIENCE))  # a script waits for several things


def picture(app: TerminalView) -> str:
    """What is really on the terminal, after all clipping."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def shows(app: TerminalView, *texts: str) -> None:
    """Wait until the terminal shows these texts."""

    def is_shown() -> bool:
        seen = picture(app)
        return all(text in seen for text in texts)

    await until(
        is_shown,
        lambda: f"{texts} in\n{picture(app)}",
        look=0.05,  # a picture takes some milliseconds to draw
    )


async def redrawn(app: TerminalView) -> None:
    """Wait for a picture that was drawn after this call."""
    drawn, again = app._draw, asyncio.Event()

    def draw(*args, **more):
        drawn(*args, **more)
        again.set()

    app._draw = draw  # type: ignore[method-assign]
    app.call_later(draw)
    await asyncio.wait_for(again.wait(), PATIENCE)
    app._draw = drawn  # type: ignore[method-assign]


def rows_of(app: TerminalView) -> list[str]:
    """The marks and names of the deliveries' rows: `?` where a row is tentative."""
    words = [line.split() for line in text_of(app, "deliveries").splitlines()]
    return [f"? {row[1]}" if row[0] == "?" else row[1] for row in words]


def crowd(count: int = 20, quiet: tuple[int, ...] = ()) -> tuple[Station, list[Happening], int]:
    """So many motes that send in turn, and some that fell silent."""
    setup = replace(SETUP, network=replace(SETUP.network, motes=count))
    station, motes, gateway = Station(setup), Motes(setup, START), Gateway(setup)
    station.add_gateway(0, "serial@/dev/ttyUSB1:micaz")
    for number in range(24 * count):
        mote, at = number % count, START + number * 20 * TICK
        if mote not in quiet or number < 12 * count:
            gateway.hear(motes.send(mote, at), at + TICK)
    found = play(station, gateway.out)
    found += station.advance(gateway.last_ns + MS)
    return station, found, gateway.last_ns + MS
