"""Why messages came out before their causes: which fault, if any, took from a mote what it knew, or broke what the
order rests on. What none explains is a fault of ours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from basestation.testbed.recorded_messages import Sent
from packet_formats.deployment import CRYSTAL_HZ, Deployment

NS = 1_000_000_000


@dataclass(frozen=True)
class Storm:
    """The faults of a run: by mote when it booted and when its memory was damaged; when a stranger's frames came that a
    network without a key believes; and when the root spoke, of which epoch. All in nanoseconds.

    The reasons, the most certain first:

    - `late`: the cause came to the gateway later than delta; a station does not wait longer for it.
    - `new_time`: the network's time began afresh between the two, or at the root, of which their motes had not heard
      when they came; stamps of two epochs do not compare.
    - `lost_past`: a mote booted between the two, so that it no longer knew what it had heard.
    - `damaged`: the memory of one of the two motes was damaged, and it has not booted since.
    - `believed`: an attacker's frame came before, in a network without a key.
    """

    REASONS: ClassVar = ("late", "new_time", "lost_past", "damaged", "believed")

    boots: dict[int, list[int]]
    damages: dict[int, list[int]]
    believed: list[int]
    deployment: Deployment
    root_spoke: Sequence[tuple[int, int]] = ()

    def reason(self, cause: Sent, effect: Sent) -> str | None:
        delta_ns = NS * (self.deployment.clock.delta << self.deployment.clock.tick_log2) // CRYSTAL_HZ
        if cause.arrived is not None and cause.arrived - cause.t > delta_ns:
            return "late"
        if cause.epoch != effect.epoch or any(map(self._is_read_in_another_time, (cause, effect))):
            return "new_time"
        if any(cause.t <= at <= effect.t for times in self.boots.values() for at in times):
            return "lost_past"
        if any(self._is_damaged(one.send.source, one.t) for one in (cause, effect)):
            return "damaged"
        if any(at <= max(cause.t, effect.t) for at in self.believed):
            return "believed"
        return None

    def _is_read_in_another_time(self, sent: Sent) -> bool:
        """Whether the root's epoch was not the sender's when the message came."""
        at = bisect_right(self.root_spoke, sent.arrived or sent.t, key=lambda spoke: spoke[0])
        return at > 0 and self.root_spoke[at - 1][1] != sent.epoch

    def _is_damaged(self, mote: int, t: int) -> bool:
        """Whether its memory was damaged since its last boot before `t`."""
        boots = self.boots[mote]
        at = bisect_right(boots, t)
        since = boots[at - 1] if at else 0
        return any(since <= damage <= t for damage in self.damages[mote])


def pairs(order: Sequence[Sent]) -> Iterator[tuple[Sent, Sent]]:
    """Each cause that came out after its effect, with the effect."""
    places = {(sent.send.source, sent.send.index): place for place, sent in enumerate(order)}
    latest: list[list[int]] = []
    motes = len(order[0].send.vector) if order else 0
    for mote in range(motes):
        count = max((sent.send.vector[mote] for sent in order), default=0)
        row = [-1]
        for index in range(1, count + 1):
            row.append(max(row[-1], places.get((mote, index), -1)))
        latest.append(row)
    for place, sent in enumerate(order):
        for mote, known in enumerate(sent.send.vector):
            causes = known - (mote == sent.send.source)
            while latest[mote][causes] > place:
                if places.get((mote, causes), -1) > place:
                    yield order[places[mote, causes]], sent
                causes -= 1


def explained(order: Sequence[Sent], storm: Storm) -> tuple[Counter[str], list[str]]:
    """How many violations each reason explains, and those that none does."""
    why: Counter[str] = Counter()
    unexplained = []
    for cause, effect in pairs(order):
        reason = storm.reason(cause, effect)
        if reason is None:
            unexplained.append(_told(cause, effect))
        else:
            why[reason] += 1
    return why, unexplained


def _told(cause: Sent, effect: Sent) -> str:
    def one(sent: Sent) -> str:
        arrived = "never" if sent.arrived is None else f"{sent.arrived / NS:.3f} s"
        return (
            f"{sent.send.source}#{sent.send.index} (sent {sent.t / NS:.3f} s, arrived {arrived}, {sent.data})"
        )

    return f"{one(effect)} was delivered before its cause {one(cause)}"
