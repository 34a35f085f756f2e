"""How a live run ends: by Ctrl-C, by SIGTERM, or as its terminal closes. Each of them ends it in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def _signals() -> Iterator[int]:
    """SIGTERM, and SIGHUP where there is one; whoever has us ignore one, as `nohup` does, means it."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            yield number


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP do what Ctrl-C does, while no event loop runs: what is open is closed."""
    before: dict[int, object] = {}
    with contextlib.suppress(ValueError):  # not the main thread
        for number in _signals():
            before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def end_by_signals(stop: Callable[[], None], on_screen: bool = False) -> None:
    """Call `stop` in the event loop when the terminal is closed or the machine is shut down.

    What is written to a terminal that is gone goes nowhere: it must not break the run off before its end.
    """
    loop = asyncio.get_running_loop()
    ends = tuple(_signals())
    for number in ends:
        with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, or not the main thread
            loop.add_signal_handler(number, stop)

    def gone() -> None:
        with contextlib.suppress(RuntimeError):  # the run is over
            loop.call_soon_threadsafe(stop)

    # A run that is to outlive its terminal, by `nohup`, does; but no screen does.
    ends_with_it = on_screen or getattr(signal, "SIGHUP", None) in ends
    for name in ("stdout", "stderr"):
        _outlive_terminal(name, gone if ends_with_it else lambda: None)


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
