"""The interface of the two simulation engines, and the faster one that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from basestation.causality.order import Ties
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import Int32, Int64, Stream
from basestation.causality.violations import Violations

from . import engine_objects
from .corruption import Corruption
from .options import WorldOptions
from .results import DeliveryOrder, Observed, Stamped


class Engine(Protocol):
    """The functions of `engine_objects` and `engine_numba`. Both give the same answers to the same questions."""

    def generate(self, options: WorldOptions) -> Stream:
        """Simulate the network; no scheme is involved yet."""

    def parts(self, options: WorldOptions) -> Iterator[tuple[Int64, Int64]]:
        """The events and arrivals of the same stream as they happen, as rows of `Stream.from_tables`, a few at a time.
        The next ones overwrite them."""

    def vector_clocks(self, stream: Stream) -> Int32:
        """The truth, one row for each message: how many sends of each mote led to it, itself included."""

    def stamp(self, stream: Stream, scheme: TimedScheme, corruption: Corruption | None = None) -> Stamped:
        """Run the scheme's program on every mote."""

    def observe(self, stream: Stream, stamped: Stamped, scheme: TimedScheme) -> Observed:
        """Read each arrival's stamp by the observer's clock at its reception, and bound it."""

    def rank(self, stream: Stream, observed: Observed, ties: Ties = "sequence") -> Int64 | None:
        """Each arrival's place in the total order, for `deliver`; None if `deliver` orders by itself."""

    def deliver(
        self,
        stream: Stream,
        observed: Observed,
        scheme: TimedScheme,
        policy: str,
        phi: int,
        ties: Ties = "sequence",
        ranked: Int64 | None = None,
        tolerate: float | None = None,
    ) -> DeliveryOrder:
        """Deliver the arrivals by a policy. Pass `ranked` to order once and deliver by many policies.

        `tolerate`: the share in per cent that the ledger may have in violations.
        """

    def violations(self, stream: Stream, vectors: Int32, order: Int64) -> Violations:
        """Count the violations among messages (by number) in their order of delivery."""

    def in_violation(self, stream: Stream, vectors: Int32, order: Int64) -> NDArray[np.bool_]:
        """For each message, whether it is in a violated pair."""


def _installed() -> Engine:
    """Choose the kernels, or the slower objects if the extra `analysis` is not installed."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return engine_objects
    from . import engine_numba

    return engine_numba


engine = _installed()
IS_FAST = engine is not engine_objects
