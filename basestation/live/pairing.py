"""Heard records and the frames they belong to, on one line."""

from __future__ import annotations

from packet_formats.framing import crc16
from packet_formats.records import Heard

SURE = 64  # frames without a record


class Pairing:
    """A record precedes its frame and holds that frame's check sum, so neither is taken for another's.

    A gateway announces every frame that it heard. So a record that the record before it announces came by air: it is
    not the gateway's. A record is sure when the frame that it announces has followed it.
    """

    def __init__(self) -> None:
        self.paired = self.alone = 0  # frames with their record, and radio frames without
        self.doubted_ns: int | None = None  # when the held record came, if it is believed with its frame
        self.cycles: int | None = None  # the held record's time, unwrapped; None: the gateway has none
        self._held: Heard | None = None
        self._next: int | None = None

    @property
    def native(self) -> bool:
        """Heard records do come on this line: it is one of Causeway's gateways."""
        return self.paired > self.alone

    @property
    def surely_foreign(self) -> bool:
        """So many frames came without a record, and so few with one, that records must come by air."""
        return self.alone >= SURE and not self.native

    def announces(self, payload: bytes) -> bool:
        """Whether this is what the held record announces; if so, the record is used up."""
        if self._held is None or self._held.check != crc16(payload):
            return False
        self._held = None
        return True

    def take(self, heard: Heard) -> tuple[int, int]:
        """Keep a record for its frame; how many records before it have no frame, and how many were lost."""
        orphans = self.drop()
        lost = 0 if self._next is None else (heard.sequence - self._next) % 256
        self._held, self._next = heard, (heard.sequence + 1) % 256
        self.cycles = self.doubted_ns = None
        return orphans, lost

    def match(self, payload: bytes) -> tuple[Heard | None, int]:
        """The record of this frame, if it came; and how many came that are of no frame.

        A gateway's own reports, which have no record, never come between the two.
        """
        heard, self._held = self._held, None
        if heard is None:
            return None, 0
        if heard.check == crc16(payload):
            self.paired += 1
            return heard, 0
        return None, 1

    def drop(self) -> int:
        """Forget the held record; how many that were."""
        held, self._held = self._held, None
        return int(held is not None)
