"""Ctrl-C ends the tests wherever it lands."""

import gc
import signal
import time

import pytest
from hypothesis.internal.conjecture import junkdrawer

from tests.waiting import PATIENCE


def test_an_interrupt_inside_the_callback_of_hypothesis_is_not_dropped(monkeypatch):
    """The garbage collector calls it, and drops what it raises."""
    junkdrawer.gc_cumulative_time()  # from now on it is called
    clock = iter([lambda: signal.raise_signal(signal.SIGINT)])
    monkeypatch.setattr(junkdrawer, "_perf_counter", lambda: next(clock, lambda: None)() or 0.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            collect_and_wait()
    finally:
        signal.signal(signal.SIGINT, before)


def collect_and_wait():
    gc.collect()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(0.01)
