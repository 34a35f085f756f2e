"""A scheme of one's own: `recent` names the newest messages its mote knows of, and no more than there are.

It is `history` with a stamp of variable length: a mote that has heard little sends a short stamp. A scheme needs a
descriptor, which says what its stamp holds, and a class with its program, its codec and its rule.
"""

from __future__ import annotations

from basestation.causality.order import Stamp
from basestation.causality.rules import Rule
from basestation.causality.schemes.history import RecentHistoryProgram, RecentHistoryRule
from basestation.causality.schemes.names import NamesCodec, names_in
from basestation.causality.schemes.scheme import COUNTER_BITS, ROUND, Fields, Program, Scheme, StampCodec
from packet_formats.schemes import (
    NAMES,
    SchemeDescriptor,
    StampChoice,
    StampForm,
    name_meaning,
    named_messages,
)


def form(choice: StampChoice) -> StampForm:
    """Up to a number of names; the stamp's length gives how many."""
    most = NAMES if isinstance(choice.entries, str) else choice.entries
    return StampForm(item=named_messages(choice), least=0, most=most)


class RecentNames(Scheme):
    name = "recent"
    descriptor = SchemeDescriptor(
        name,
        "the names of the newest messages known, and no more bytes than they take",
        form,
        name_meaning,
        settings=("entries",),
        has_clock=False,
    )

    @property
    def most(self) -> int:
        return self.setting.entries or NAMES

    def start(self, mote: int) -> Program:
        return RecentHistoryProgram(self.most, mote)

    def codec(self) -> StampCodec:
        return ShortNames(self.most)

    def rule(self) -> Rule:
        return RecentHistoryRule(self.setting)

    def stamp_bits(self, stamp: Stamp) -> int:
        return len(names_in(stamp)) * (self.setting.source_bits + COUNTER_BITS)


class ShortNames(NamesCodec):
    """The names that there are; none is filled up."""

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return tuple(value for mote, known in names_in(stamp) for value in (mote, (known - 1) % ROUND))
