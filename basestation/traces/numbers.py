"""Which message of its mote an event or an arrival is about."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.traces.files import TraceError


def numbered_by(events: pa.Table | pa.RecordBatch) -> str:
    """The column of these events that distinguishes a mote's messages. Older tables have only the sequence, which
    repeats after a reboot."""
    has_numbers = "number" in events.schema.names and not events["number"].null_count
    return "number" if has_numbers else "sequence"


def arrival_numbers(messages: pa.Table, by: str) -> NDArray[np.int64]:
    """The numbers of messages that arrived, by this column; -1 where it is not known."""
    numbers: NDArray[np.int64] = messages[by].fill_null(-1).to_numpy().astype(np.int64)
    return numbers


def not_in_a_row(mote: int, by: str) -> TraceError:
    """The fault of events in which a mote's sends are not numbered one after the other."""
    way_on = "; older events have no numbers, so a reboot can't be followed: make this trace anew"
    return TraceError(
        f"the sends of mote {mote} are not numbered one after the other{way_on if by == 'sequence' else ''}"
    )
