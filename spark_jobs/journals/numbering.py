"""Names messages by the compiled kernel, as `message_table.number_by_objects` does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from basestation.causality.kernels.numbering import BootState, number_messages
from basestation.journal.message_table import Ints, Motes, Named


def number_by_kernel(
    data: NDArray[np.void], ticks: Ints, patience: int, before: Motes
) -> tuple[Named, Motes]:
    source, boot, field = (data[name].astype(np.int64) for name in ("source", "boot", "sequence"))
    state = BootState.of(before, max([int(source.max(initial=-1)), *before]) + 1)
    lives, sequences, numbers, first = number_messages(source, boot, field, ticks, patience, state)
    return Named(lives, sequences, numbers, first), state.motes()
