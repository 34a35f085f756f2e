"""Compiles the kernels: cached on disk where possible, and without holding Python's lock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function at its first call, without a cache if neither the package nor the home can be written to."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(F, numba.njit(nogil=True)(function))


class _Notice(event.Listener):
    """Says once on a terminal that the kernels are being compiled, which takes half a minute."""

    def on_start(self, begun: Any) -> None:
        event.unregister("numba:compile", self)  # type: ignore[no-untyped-call]
        print("compiling, once on this machine: half a minute", file=sys.stderr, flush=True)

    def on_end(self, ended: Any) -> None:
        pass


if sys.stderr is not None and sys.stderr.isatty():
    event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]
