"""Waiting for what a test is about: never for a fixed time, and never for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds; a busy machine may need them, and only a fault costs them all
LOOK = 0.005  # seconds between two looks


async def until(
    true: Callable[[], object], what: object = "", seconds: float = PATIENCE, look: float = LOOK
) -> None:
    """Let everybody else run until `true()` holds. `what` says what is missing if it never does.

    `look`: seconds between two looks, more where a look is costly.
    """
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, _missing(what, seconds)
        await asyncio.sleep(look)


def wait_until(true: Callable[[], object], what: object = "", seconds: float = PATIENCE) -> None:
    """Do the same without an event loop."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, _missing(what, seconds)
        time.sleep(LOOK)


def _missing(what: object, seconds: float) -> str:
    return f"not within {seconds:g} s: {what() if callable(what) else what}"
