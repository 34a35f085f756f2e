"""A progress bar for long work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from basestation.cli import common

SHOWN_AFTER = 2.0  # seconds


@contextmanager
def progress(total: int | None, description: str, line: str = "") -> Iterator[Callable[..., None]]:
    """Show a bar on standard error if the work takes longer than two seconds; give ``advance(count=1)``.

    If standard error goes elsewhere than to a terminal, print `line` instead, unless it is empty. `total` is None if it
    is not known.
    """
    draws = common.err.is_terminal and not common.err.is_dumb_terminal
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=common.err,
        transient=True,
        # Lines on standard output go above the bar on the same terminal, and stay untouched elsewhere.
        redirect_stdout=sys.stdout.isatty(),
    )
    task = bar.add_task(description, total=total)
    timer = threading.Timer(SHOWN_AFTER, bar.start if draws else partial(common.note, line))
    timer.daemon = True
    if draws or line:
        timer.start()
    try:
        yield partial(bar.advance, task)
    finally:
        timer.cancel()
        if draws:
            timer.join()  # it may be about to show the bar
            bar.stop()
