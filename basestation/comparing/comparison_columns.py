"""A comparison as an Arrow table, with a row for each scheme at each spot."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from .catalogue import Terms
from .comparison import ComparisonRow
from .spread import Compared, Spot

TEXT = ("run", "scheme", "policy")
MOST = ("mean", "any", "pairs")
KINDS = {int: pa.int64(), float: pa.float64()}
# The numbers of a row that the table takes unchanged.
SAME = {name: KINDS[hint] for name, hint in typing.get_type_hints(ComparisonRow).items() if hint in KINDS}


def table_of(found: Sequence[Compared], terms: Terms) -> pa.Table:
    """One row for each scheme at each spot. A trace has `run`; a simulation has rate, loss and seeds."""
    rows = [_plain(one.spot, row, terms) for one in found for row in one.rows]
    real = ["rate", "loss", *found[0].rows[0].violations.percent(), *(f"{name}_most" for name in MOST)]
    kinds = dict.fromkeys(TEXT, pa.string()) | dict.fromkeys(real, pa.float64()) | SAME | {"fits": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in rows[0]])
    return pa.Table.from_pylist(rows, schema)


def _plain(spot: Spot, row: ComparisonRow, terms: Terms) -> dict[str, Any]:
    most = row.violations_most.percent() if row.violations_most else {}
    return {
        "run": spot.run,
        "scheme": row.scheme,
        **asdict(row.place),
        "seeds": None if spot.run is not None else len(spot.sources),
        "policy": terms.policy,
        "phi": terms.phi,
        "delivered": row.violations.delivered,
        **row.violations.percent(),
        "violated_pairs": row.violations.pairs,
        **{f"{name}_most": most.get(name) for name in MOST},
        "stamp_bytes": row.size,
        "fits": row.fits,
        **{name: getattr(row, name) for name in SAME},
    }
