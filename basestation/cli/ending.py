"""The end of a live run: by Ctrl-C, by SIGTERM, or when its terminal closes. Each of them ends the run in order."""

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
    """Within this context the first Ctrl-C, SIGTERM or SIGHUP asks the run to end; a second Ctrl-C interrupts it.

    The first one raises nothing: an exception between the beginning of a log and the `try` that closes it would leave
    the log without an end.
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
        """Call `stop` in the running event loop once a signal comes, or if one has come.

        Output to a terminal that was closed is dropped, so that it cannot interrupt the run before its end.
        """
        loop = asyncio.get_running_loop()

        def soon() -> None:
            with contextlib.suppress(RuntimeError):  # the run is over
                loop.call_soon_threadsafe(stop)

        self._stop = soon
        if self.asked:
            stop()
        # A run under `nohup` outlives its terminal; a full screen does not.
        ends_with_it = on_screen or getattr(signal, "SIGHUP", None) in tuple(_signals())
        for name in ("stdout", "stderr"):
            _outlive_terminal(name, self._ask if ends_with_it else lambda: None)


def _signals() -> Iterator[int]:
    """The signals that end a run. One that is ignored stays ignored, as `nohup` wants; but not SIGINT, since a script's
    shell ignores it for all programs in the background."""
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
    """A terminal. Once it is closed, output to it is dropped."""

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
