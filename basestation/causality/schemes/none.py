"""No stamp and arrival order: the baseline for all other schemes (DEW "unfiltered")."""

from __future__ import annotations

from basestation.causality.order import Stamp
from basestation.causality.rules import Rule, Unfiltered

from .scheme import NoStampCodec, NoStampProgram, Program, Scheme, StampCodec


class Unordered(Scheme):
    name = "none"

    def start(self, mote: int) -> Program:
        return NoStampProgram()

    def codec(self) -> StampCodec:
        return NoStampCodec()

    def rule(self) -> Rule:
        return Unfiltered()

    def stamp_bits(self, stamp: Stamp) -> int:
        return 0


SCHEME = Unordered
