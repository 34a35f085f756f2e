"""How a live run ends: by Ctrl-C, by SIGTERM, or as its terminal closes. Each of them ends it in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Ending:
    """While it is entered, the first Ctrl-C, SIGTERM and SIGHUP ask the run to end; a second Ctrl-C breaks it off.

    Nothing is raised before that: between the moment when a log is begun and the moment when somebody will close it, an
    exception would leave it without an end.
    """

    def __init__(self) -> None:
        self.asked = False
        self._stop: Callable[[], None] = lambda: None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        with contextlib.suppress(ValueError):  # not the main thread
            for number in _signals():
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, _frame: object) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._ask()

    def _ask(self) -> None:
        self.asked = True
        self._stop()

    def stop_by(self, stop: Callable[[], None], on_screen: bool = False) -> None:
        """Have `stop` called in the running event loop when somebody asks, or asked before.

        What is written to a terminal that is gone goes nowhere: it must not break the run off before its end.
        """
        loop = asyncio.get_running_loop()

        def soon() -> None:
            with contextlib.suppress(RuntimeError):  # the run is over
                loop.call_soon_threadsafe(stop)

        self._stop = soon
        if self.asked:
            stop()
        # A run that is to outlive its terminal, by `nohup`, does; but no screen does.
        ends_with_it = on_screen or getattr(signal, "SIGHUP", None) in tuple(_signals())
        for name in ("stdout", "stderr"):
            _outlive_terminal(name, self._ask if ends_with_it else lambda: None)


def _signals() -> Iterator[int]:
    """Those that end a run. Whoever has us ignore one, as `nohup` does, means it; but a script's shell has each program
    in the background ignore SIGINT."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and (name == "SIGINT" or signal.getsignal(number) is not signal.SIG_IGN):
            yield number


def _outlive_terminal(name: str, gone: Callable[[], None]) -> None:
    stream = getattr(sys, name)
    if not isinstance(stream, io.TextIOWrapper) or not stream.isatty():
        return
    stream.flush()
    raw = io.BufferedWriter(_Terminal(stream.fileno(), gone))
    lasting = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)
    setattr(sys, name, lasting)
    setattr(sys, f"__{name}__", lasting)  # the full screen writes to this


class _Terminal(io.FileIO):
    """A terminal. Once it is closed, all that is written to it is dropped."""

    def __init__(self, handle: int, gone: Callable[[], None]) -> None:
        super().__init__(handle, "w", closefd=False)
        self._gone = gone

    def write(self, raw: ReadableBuffer, /) -> int:
        try:
            return super().write(raw)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._gone()
            return memoryview(raw).nbytes
