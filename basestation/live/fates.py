"""The fate of a frame: from what timeline and observer say of it to the decision that the log keeps."""

from __future__ import annotations

from basestation.journal.decision import (
    BOUNDED,
    CHECKED,
    DIFFERS,
    DISCARDED,
    FRESH,
    GUESSED,
    IN_SYNC,
    LATE,
    REBOOTED,
    STRAY,
    Decision,
    Fate,
)
from basestation.live.guard import Verdict
from basestation.live.timeline import TimedFrame
from basestation.observer import Reception
from packet_formats.messages import Unknown
from packet_formats.tinyos import ActiveMessage

REFUSED = {
    Verdict.FORGED: Fate.FORGED,
    Verdict.REPLAYED: Fate.REPLAYED,
    Verdict.LATE: Fate.LATE,
    Verdict.UNCHECKED: Fate.UNCHECKED,
}


def fate_of(read: TimedFrame) -> Fate:
    """The fate of a packet that is neither data of our motes nor a heard record that is believed."""
    if not read.verdict.is_let_in:
        return REFUSED[read.verdict]
    if read.posed:
        return Fate.POSED
    if not isinstance(read.frame, ActiveMessage):
        return Fate.NO_MESSAGE
    return Fate.FOREIGN if isinstance(read.message, Unknown) else Fate.RECORD


def plain_decision(fate: Fate, read: TimedFrame) -> Decision:
    """The decision on such a packet."""
    if fate is Fate.NO_MESSAGE:
        return Decision(fate)
    return Decision(fate, read.cycles, read.heard)


def data_decision(
    read: TimedFrame, reception: Reception, in_sync: bool, clock: int | None, checked: bool
) -> Decision:
    """The decision on a data message of one of our motes. `clock`: how far deliveries had got; `checked`: its MIC."""
    life, sequence, number, fresh, before, differs = reception.numbered
    timed = read.cycles is not None
    fate = Fate.MESSAGE if timed or clock is not None else Fate.UNTIMED
    if reception.message is None:
        fate = Fate.DUPLICATE
    marks = (
        IN_SYNC * in_sync
        | LATE * reception.late
        | BOUNDED * reception.bounded
        | DIFFERS * differs
        | STRAY * reception.stray
        | FRESH * fresh
        | DISCARDED * reception.discarded
        | REBOOTED * (before is not None)
    )
    bits = GUESSED * (timed and read.heard is None) | CHECKED * checked
    kept = 0 if number is None or reception.stray else number
    return Decision(fate, read.cycles, read.heard, bits, True, clock, sequence, kept, life, marks)
