"""No stamp, arrival order: the measure of what anything else gains (DEW "unfiltered")."""

from __future__ import annotations

from basestation.causality.order import Stamp
from basestation.causality.policies import Policy, Unfiltered

from .notices import Notice, ignore
from .scheme import NoStamp, Program, Scheme, Silent, StampCodec


class Unordered(Scheme):
    name = "none"

    def start(self, mote: int) -> Program:
        return Silent()

    def codec(self) -> StampCodec:
        return NoStamp()

    def rule(self, notice: Notice = ignore) -> Policy:
        return Unfiltered()

    def stamp_bits(self, stamp: Stamp) -> int:
        return 0


SCHEME = Unordered
