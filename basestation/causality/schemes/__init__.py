"""The papers' other schemes, each a stamp with its delivery rule, behind one interface; looked up by name.

`docs/schemes.md` says what each is, what it costs and what it is worth.
"""

from __future__ import annotations

from collections.abc import Callable

from .base import Method, Setting
from .delta_causal import DeltaCausal
from .delta_vector import DeltaVector
from .history import History
from .last_sender import LastSender
from .matrix import Matrix
from .scalar import Scalar
from .sequence import Sequence
from .timed import Timed, physical
from .two_hop import TwoHop
from .unordered import Unordered
from .vector import Vector

METHODS: dict[str, Callable[[Setting], Method]] = {
    "none": Unordered,
    "physical": physical,
    "sequence": Sequence,
    "scalar": Scalar,
    "last-sender": LastSender,
    "history": History,
    "vector": Vector,
    "matrix": Matrix,
    "delta-causal": DeltaCausal,
    "delta-vector": DeltaVector,
    "two-hop": TwoHop,
}

__all__ = ["METHODS", "Method", "Setting", "Timed", "make_method"]


def make_method(name: str, setting: Setting) -> Method:
    """A scheme of the papers by its name."""
    if name not in METHODS:
        raise ValueError(f"no scheme {name!r}: it is one of {', '.join(METHODS)}")
    return METHODS[name](setting)
