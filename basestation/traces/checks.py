"""Whether the rows of a trace are what their payloads say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packet_formats import bulk
from packet_formats.bulk import Frames
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.records import Reason


def row_faults(table: pa.Table, deployment: Deployment) -> list[str | None]:
    """The reason why each row is refused: its columns must agree with its payload."""
    layout = layout_of(deployment)
    data, reasons = bulk.decode_data(Frames.of_payload_list(table["payload"].to_pylist(), layout), layout)
    column = {name: table[name].to_numpy() for name in ("source", "boot", "sequence", "am_type")}
    r = pc.struct_field(table["stamp"], "r").to_numpy()
    motes = deployment.network.motes
    told: list[str | None] = [None] * len(table)
    checks = (
        ("its stamp is not what its payload says", r % layout.stamp.modulus != data["clock"]),
        ("its number is not what its payload says", column["sequence"] % 256 != data["sequence"]),
        ("its boot count is not what its payload says", column["boot"] != data["boot"]),
        ("its source is not what its payload says", column["source"] != data["source"]),
        ("its payload can't be read", reasons != Reason.OK),
        ("another message type: another layout", column["am_type"] != layout.am_type),
        (f"its source is no mote of this deployment, which has 0..{motes - 1}", column["source"] >= motes),
    )
    for why, wrong in checks:
        for at in np.flatnonzero(wrong).tolist():
            told[at] = why
    return told
