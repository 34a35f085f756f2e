"""The messages of a run: their flight records, and their fates."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from basestation.causality.truth import Send
from packet_formats.messages import Data


@dataclass(slots=True)
class Sent:
    """A message as its mote recorded it, and its fate."""

    send: Send
    t: int
    epoch: int
    data: Data | None = None
    began: int = 0  # true time of its first frame's delimiter
    arrived: int | None = None
    relayed: bool = False
    late: bool = False


class MessageBook:
    """The messages by source and sequence. A sequence repeats after 256: `find` gives the last one before a moment."""

    def __init__(self) -> None:
        self.all: list[Sent] = []
        self._by_number: dict[tuple[int, int], list[Sent]] = defaultdict(list)

    def add(self, sequence: int, sent: Sent) -> None:
        self.all.append(sent)
        self._by_number[sent.send.source, sequence].append(sent)

    def find(self, source: int, sequence: int, t: int) -> Sent | None:
        known = self._by_number.get((source, sequence), [])
        at = bisect_right(known, t, key=lambda sent: sent.t)
        return known[at - 1] if at else None
