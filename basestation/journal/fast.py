"""The compiled forms of what reads journals, where numba is installed; else the plain ones. Results are the same."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .message_table import Ints, Motes, Named, Numbering, digests_in, number_by_objects
from .record_format import Walk, walk_intact


@cache
def walk() -> Walk:
    """Loaded when first needed: numba takes half a second."""
    try:
        from .walking import walk_fast
    except ImportError:
        return walk_intact
    return walk_fast


@cache
def numbering() -> Numbering:
    try:
        from basestation.causality.kernels.numbering import BootState, number_messages
    except ImportError:
        return number_by_objects

    def number_by_kernel(
        data: NDArray[np.void], ticks: Ints, patience: int, before: Motes
    ) -> tuple[Named, Motes]:
        source, boot, field = (data[name].astype(np.int64) for name in ("source", "boot", "sequence"))
        digest = digests_in(data)
        state = BootState.of(before, max([int(source.max(initial=-1)), *before]) + 1)
        return Named(*number_messages(source, boot, field, ticks, digest, patience, state)), state.motes()

    return number_by_kernel
