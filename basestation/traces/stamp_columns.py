"""Stamps as columns of a trace's messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.causality.modular import unwrap
from packet_formats.deployment import Deployment
from packet_formats.layout import ORDERED, layout_of

Ints = NDArray[np.int64]


def stamp_columns(data: NDArray[np.void], now: Ints, deployment: Deployment) -> dict[str, Any]:
    """`r`, `c` and `kn0`, ... of rows of `bulk.data_dtype` that were heard at the ticks `now`.

    Ours as the observer reads them: `Scheme.decode` and `Scheme.observe` over arrays. The papers' entries are left as
    they travelled, since what a counter means depends on all that came before it; and where a stamp carries no clock,
    the tick at which the message was heard is the best that is known of when it was sent.
    """
    layout, latest = layout_of(deployment).stamp, now + deployment.clock.epsilon
    c = data["c"].astype(np.int64)
    r = unwrap(data["clock"].astype(np.int64), latest, layout.modulus) if layout.clock_bits else now
    beyond = (r + c > latest) if layout.scheme in ORDERED else np.zeros(len(data), np.bool_)
    columns: dict[str, Any] = {"r": r, "c": np.where(beyond, latest - r, c).astype(np.uint16)}
    for i in range(layout.entries):
        columns[f"kn{i}"] = np.where(beyond, 0, data["entries"][:, i]).astype(np.uint16)
    return columns
