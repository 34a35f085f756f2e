"""Computes the column of a trace that holds stamps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from basestation.causality.modular import unwrap
from basestation.traces.schema import stamp_column
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

Ints = NDArray[np.int64]


def read_stamps(data: NDArray[np.void], now: Ints, deployment: Deployment) -> pa.StructArray:
    """The stamps of rows of `bulk.data_dtype` that were heard at the ticks `now`.

    Our stamps are read as the observer reads them: `Scheme.decode` and `Scheme.observe` over arrays. The papers'
    entries stay as they were on the wire, since the meaning of a counter depends on all earlier messages. For a stamp
    without a clock, `r` is the tick at which the message was heard.
    """
    layout, latest = layout_of(deployment).stamp, now + deployment.lead
    c = data["c"].astype(np.int64)
    r = unwrap(data["clock"].astype(np.int64), latest, layout.modulus) if layout.clock_bits else now
    beyond = (r + c > latest) if deployment.scheme.is_ordered else np.zeros(len(data), np.bool_)
    kn = np.where(beyond[:, None], 0, data["entries"])
    return stamp_column(r, np.where(beyond, latest - r, c), kn)
