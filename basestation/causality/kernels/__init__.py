"""The algorithms of `basestation.causality` for whole traces at once, in numba.

It needs the extra `analysis`; only bulk work imports it. Tests hold every kernel equal to the plain objects.
"""

from .counting import Counts, count_pairs, first_sends
from .delivery import cbd_order, dapw_order, due_ticks, ledger_order, ranks
from .stamping import observe_stamps, stamp_events, vector_clocks

__all__ = [
    "Counts",
    "cbd_order",
    "count_pairs",
    "dapw_order",
    "due_ticks",
    "first_sends",
    "ledger_order",
    "observe_stamps",
    "ranks",
    "stamp_events",
    "vector_clocks",
]
