"""Heard records and the frames they belong to, on one line."""

from __future__ import annotations

from packet_formats.framing import crc16
from packet_formats.records import Heard


class Pairing:
    """A record precedes its frame and holds that frame's check sum, so neither is taken for another's."""

    def __init__(self) -> None:
        self.native = False  # heard records do come on this line
        self.cycles: int | None = (
            None  # the held record's time, unwrapped; None while the gateway has no time
        )
        self._held: Heard | None = None
        self._next: int | None = None

    def take(self, heard: Heard) -> tuple[int, int]:
        """Keep a record for its frame; how many records before it have no frame, and how many were lost."""
        orphans = self.drop()
        lost = 0 if self._next is None else (heard.sequence - self._next) % 256
        self._held, self._next = heard, (heard.sequence + 1) % 256
        self.native, self.cycles = True, None
        return orphans, lost

    def match(self, payload: bytes) -> tuple[Heard | None, int]:
        """The record of this frame, if it came; and how many came that are of no frame.

        A gateway's own reports, which have no record, never come between the two.
        """
        heard, self._held = self._held, None
        if heard is None or heard.check == crc16(payload):
            return heard, 0
        return None, 1

    def drop(self) -> int:
        """Forget the held record; how many that were."""
        held, self._held = self._held, None
        return int(held is not None)
