"""The guard of a network with a key: nothing that has a wrong MIC, or is played again, goes on to the station.

It looks at a frame before anybody acts on it and gives a verdict. Times come from the timeline; what it remembers
of each mote is bounded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from enum import Enum

from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import Data, Message, Unknown
from packet_formats.records import Beacon, Downlink, Health, Proof
from packet_formats.seal import BLOCK, Seal, command_time

REMEMBERED = 128  # payloads of each mote: fewer than a round of its sequence, in which one may come again
PENDING = 16  # beacons that wait for their proofs
PROOF_NS = 2_000_000_000  # so long a beacon waits: later, another of its sender and number may have been lost
COPY_NS = 10_000_000_000  # a copy on another way comes within this time; later it is played again
FRESH = 60 * CRYSTAL_HZ  # cycles by which the time in a health report may be behind ours
SETTLING_NS = 30_000_000_000  # after the time started afresh, messages of the time before are still about
WINDOWS = 3  # of a clock, or periods of 16 s, that are tried where the time is a guess


class Verdict(Enum):
    GOOD = "good"
    UNPROTECTED = "unprotected"  # right, but it holds no time: it could be an old one, played again
    FORGED = "forged"
    REPLAYED = "replayed"
    UNCHECKED = "unchecked"  # nobody can tell: no time is known, or it has just started afresh

    @property
    def is_let_in(self) -> bool:
        return self in (Verdict.GOOD, Verdict.UNPROTECTED)


WORDS = {
    Verdict.FORGED: "its MIC is wrong: whoever sent it has not the network's key",
    Verdict.REPLAYED: "it is an old message, played again",
    Verdict.UNCHECKED: "its MIC cannot be checked: the network's time is not known yet, or has just started afresh",
}


class Guard:
    """Judges the messages of a network with a key, and counts its verdicts."""

    def __init__(self, deployment: Deployment) -> None:
        assert deployment.key is not None
        self._seal = Seal(deployment.key, layout_of(deployment))
        self._motes = deployment.network.motes
        self.verdicts: Counter[Verdict] = Counter()
        self._seen: dict[int, OrderedDict[bytes, int]] = {}  # by mote: what came, and when it first did
        self._health: dict[int, Health] = {}
        self._beacons: deque[tuple[Beacon, bytes, int, int]] = deque(maxlen=PENDING)
        self._afresh_ns = -SETTLING_NS  # when the time last started afresh

    def started_afresh(self, mono_ns: int) -> None:
        self._afresh_ns = mono_ns

    def judge(
        self,
        payload: bytes,
        message: Message | Unknown | None,
        epoch: int | None,
        cycles: int | None,
        mono_ns: int,
        tries: int = 1,
    ) -> Verdict:
        """The verdict on a message that was heard at `cycles`, or None where no time is known, in a root epoch.

        Gateways' own records are not judged: they come by the line.
        """
        if isinstance(message, Data):
            found = self._judge_data(payload, message, epoch, cycles, mono_ns, tries)
        elif isinstance(message, Health):
            found = self._judge_health(payload, message, epoch, cycles)
        elif isinstance(message, Downlink):
            found = self._judge_command(payload, message, epoch, cycles)
        else:
            return Verdict.GOOD
        if found is Verdict.FORGED and mono_ns - self._afresh_ns < SETTLING_NS:
            found = Verdict.UNCHECKED
        self.verdicts[found] += 1
        return found

    # ---- Data ----

    def _judge_data(
        self, payload: bytes, data: Data, epoch: int | None, cycles: int | None, mono_ns: int, tries: int
    ) -> Verdict:
        seal = self._seal
        if not data.in_sync:
            right = seal.data(payload, data.source, False, 0, 0) == data.mic
        elif cycles is None or epoch is None:
            return Verdict.UNCHECKED
        else:
            times = seal.data_times(data, cycles, tries if seal.has_clock else WINDOWS)
            right = any(seal.data(payload, data.source, True, epoch, time) == data.mic for time in times)
        covered = seal.covered_data(payload, data.source, False, 0, 0)[BLOCK:] + data.mic
        if data.source >= self._motes:
            return Verdict.GOOD if right else Verdict.FORGED
        first = self._first_seen(data.source, covered, mono_ns, right)
        if not right:
            return Verdict.FORGED if first is None else Verdict.REPLAYED
        if first is not None and mono_ns - first > COPY_NS:
            return Verdict.REPLAYED
        return Verdict.GOOD if data.in_sync else Verdict.UNPROTECTED

    def _first_seen(self, mote: int, covered: bytes, mono_ns: int, keep: bool) -> int | None:
        """When this very message came first; None if it did not. `keep`: it is right, so remember it."""
        seen = self._seen.get(mote)
        if seen is None:
            if not keep:
                return None
            seen = self._seen[mote] = OrderedDict()
        first = seen.get(covered)
        if first is None and keep:
            seen[covered] = mono_ns
            if len(seen) > REMEMBERED:
                seen.popitem(last=False)
        return first

    # ---- Health ----

    def _judge_health(self, payload: bytes, health: Health, epoch: int | None, cycles: int | None) -> Verdict:
        if self._seal.health(payload, health) != health.mic:
            return Verdict.FORGED
        last = self._health.get(health.source)
        if not self._is_news(health, last, epoch, cycles):
            return Verdict.REPLAYED
        self._health[health.source] = health
        return Verdict.GOOD

    def _is_news(self, health: Health, last: Health | None, epoch: int | None, cycles: int | None) -> bool:
        """Whether a report is not an old one: by its time if that can be compared, else by what it counts."""
        if health.in_sync and cycles is not None and health.epoch == epoch:
            if _ahead(health.time, cycles, 32) < -FRESH:  # one ahead of us is news: it was not there before
                return False
            if last is None or not last.in_sync or last.epoch != health.epoch:
                return True
            return _ahead(health.time, last.time, 32) >= 0
        if last is None:
            return True
        if health.boots != last.boots:
            return _ahead(health.boots, last.boots, 16) > 0
        return all(
            _ahead(now, before, 16) >= 0
            for now, before in ((health.sent, last.sent), (health.received, last.received))
        )

    # ---- Commands and beacons ----

    def _judge_command(
        self, payload: bytes, downlink: Downlink, epoch: int | None, cycles: int | None
    ) -> Verdict:
        if cycles is None or epoch is None:
            return Verdict.UNCHECKED
        now = command_time(cycles)
        number = (now + _ahead(downlink.sequence, now, 16)) % (1 << 28)
        right = self._seal.downlink(payload, downlink.target, epoch, number) == downlink.mic
        return Verdict.GOOD if right else Verdict.FORGED

    def keep_beacon(self, payload: bytes, beacon: Beacon, gateway: int, mono_ns: int) -> None:
        """A beacon waits for its proof. Several of one sender and number may wait: one of them may be forged."""
        self._beacons.append((beacon, payload, gateway, mono_ns))

    def proven(self, proof: Proof, gateway: int, now_ns: int) -> tuple[Beacon, int] | Verdict:
        """The beacon that this proves, and when it came; or the verdict on a proof of no beacon that waits."""
        mine = [
            kept
            for kept in self._beacons
            if (kept[0].sender, kept[0].sequence, kept[2]) == (proof.sender, proof.sequence, gateway)
            and now_ns - kept[3] < PROOF_NS
        ]
        for beacon, payload, _, mono_ns in mine:
            if self._seal.beacon(payload, beacon) == proof.mic:
                self.verdicts[Verdict.GOOD] += 1
                return beacon, mono_ns
        if not mine:  # without its beacon, which may be lost, a proof tells nothing
            return Verdict.GOOD
        self.verdicts[Verdict.FORGED] += 1
        return Verdict.FORGED


def _ahead(value: int, other: int, bits: int) -> int:
    """By how much a value is ahead of another, both modulo 2^bits; negative: behind."""
    return (value - other + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
