"""Computes the columns of a trace that hold stamps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from basestation.causality.modular import unwrap
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

Ints = NDArray[np.int64]


def stamp_columns(data: NDArray[np.void], now: Ints, deployment: Deployment) -> dict[str, Any]:
    """The columns `r`, `c` and `kn0`, ... for rows of `bulk.data_dtype` that were heard at the ticks `now`.

    Our stamps are read as the observer reads them: `Scheme.decode` and `Scheme.observe` over arrays. The papers'
    entries stay as they were on the wire, since the meaning of a counter depends on all earlier messages. For a stamp
    without a clock, `r` is the tick at which the message was heard.
    """
    layout, latest = layout_of(deployment).stamp, now + deployment.lead
    c = data["c"].astype(np.int64)
    r = unwrap(data["clock"].astype(np.int64), latest, layout.modulus) if layout.clock_bits else now
    beyond = (r + c > latest) if deployment.scheme.is_ordered else np.zeros(len(data), np.bool_)
    columns: dict[str, Any] = {"r": r, "c": np.where(beyond, latest - r, c).astype(np.uint16)}
    for i in range(layout.entries):
        columns[f"kn{i}"] = np.where(beyond, 0, data["entries"][:, i]).astype(np.uint16)
    return columns
