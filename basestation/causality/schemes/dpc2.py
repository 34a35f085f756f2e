"""The sender's clock, and how far ahead the largest clock is that it knows of: kn without entries."""

from __future__ import annotations

from .kn import Kn


class Dpc2(Kn):
    name = "dpc2"


SCHEME = Dpc2
