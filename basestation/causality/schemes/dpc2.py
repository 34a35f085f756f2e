"""The sender's clock, and how far ahead the largest clock it knows is: kn without entries."""

from __future__ import annotations

from .kn import Kn


class Dpc2(Kn):
    name = "dpc2"


SCHEME = Dpc2
