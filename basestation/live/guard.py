"""The guard of a network with a key: nothing that has a wrong MIC, or is played again, goes on to the station.

It gives a verdict on each frame before the frame has any effect. Times come from the timeline, in cycles with the
network's round above its 32 bits; what it remembers of each mote is bounded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple

from basestation.causality.boots import BOOTS
from basestation.live.clock import cycles_in
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import Data, Message, Unknown
from packet_formats.records import Beacon, Downlink, Health, Proof
from packet_formats.seal import BLOCK, ROUNDS, Seal, command_time, round_at, rounds_later

REMEMBERED = 128  # payloads of each mote: fewer than a round of its sequence, in which one may come again
# Beacons that wait for their proofs, each known by gateway, sender, number and MIC. To push one out, a stranger would
# have to send as many between it and its proof: no line carries that.
PENDING = 1024
OTHERS = 16  # gateways; ids beyond the motes' are theirs, and an attacker may use any number of them
STRAY_BYTES = 8  # of a digest
LONG_AGO = -(1 << 62)
PENDING_NS = 10_000_000_000  # a proof follows its beacon at once; later it is another one's
PROOF_NS = 2_000_000_000  # a proof comes at most this long after its beacon: the sender tries for a second
COPY_NS = 10_000_000_000  # a copy on another way comes within this time; later it is played again
FRESH = 60 * CRYSTAL_HZ  # cycles by which the time in a health report may differ from ours
SETTLING_NS = 30_000_000_000  # after the time started afresh, messages from before the reset may still arrive
LATE_WINDOWS = 2  # of a clock: a message or a copy that took longer than delta allows is not forged
TIMES_BEFORE = 2  # that are remembered during that time
WINDOWS = 3  # of a clock, or periods of 16 s, that are tried where the time is a guess


class Verdict(Enum):
    GOOD = "good"
    UNPROTECTED = "unprotected"  # right, but it holds no time: it could be an old one, played again
    FORGED = "forged"
    REPLAYED = "replayed"
    LATE = "late"  # right, but a newer report was there, or the window of its clock is just over
    UNCHECKED = "unchecked"  # no time is known, or it is right for the time before that started afresh

    def __init__(self, word: str) -> None:
        self.is_let_in = word in ("good", "unprotected")


WORDS = {
    Verdict.FORGED: "its MIC is wrong: the sender lacks the network key",
    Verdict.REPLAYED: "it is an old message, sent again",
    Verdict.LATE: "it is right, but it took too long to be read",
    Verdict.UNCHECKED: "its MIC cannot be checked: the network's time is not known yet, or it is of the time before",
}


class Judgement(NamedTuple):
    """`sent`: of a data message that is right, the whole value of its stamp's clock, as far as its MIC covers it; None
    where the stamp has no clock."""

    verdict: Verdict
    sent: int | None = None


GOOD = Judgement(Verdict.GOOD)
Seen = dict[int, OrderedDict[bytes, int]]  # of each node what came, and when it first did


class Guard:
    """Judges the messages of a network with a key, and counts its verdicts."""

    def __init__(self, deployment: Deployment) -> None:
        assert deployment.key is not None
        self._seal = Seal(deployment.key, layout_of(deployment))
        self._motes = deployment.network.motes
        self.verdicts: Counter[Verdict] = Counter()
        self._seen: Seen = {}  # data, by mote
        self._strays: Seen = {}  # what was let in though its MIC holds no time, by boot and digest
        self._boots: dict[int, int] = {}  # of each mote, as what has a time told it
        self.on_stray: Callable[[tuple[int, bytes]], None] = lambda stray: None  # called with each new one
        self._reports: Seen = {}  # health
        self._health: dict[int, Health] = {}
        self._beacons: OrderedDict[tuple[int, int, int, bytes], tuple[Beacon, int]] = OrderedDict()
        # Times that are over: when they ended, their epoch, and their cycles then.
        self._before: deque[tuple[int, int, int]] = deque(maxlen=TIMES_BEFORE)

    def remember(self, strays: Iterable[tuple[int, bytes]]) -> None:
        """Strays that were let in before this run: if one comes now, it is replayed."""
        for mote, name in strays:
            _first_seen(self._strays, mote, name, LONG_AGO)

    def strays(self) -> list[tuple[int, bytes]]:
        """What to remember beyond our end."""
        return [(mote, name) for mote, seen in self._strays.items() for name in seen]

    def started_afresh(self, mono_ns: int, before: tuple[int, int] | None) -> None:
        """The network's time has started afresh; `before`: the epoch and the cycles that it had got to, if known."""
        if before is not None:
            self._before.append((mono_ns, *before))

    def judge(
        self,
        payload: bytes,
        message: Message | Unknown | None,
        epoch: int | None,
        cycles: int | None,
        mono_ns: int,
        tries: int = 1,
    ) -> Judgement:
        """The verdict on a message that was heard at `cycles`, or None where no time is known, in a root epoch.

        Gateways' own records are not judged: they come by the line. Nor are beacons: their proofs are, by `proven`.
        """
        if isinstance(message, Data):
            found = self._judge_data(payload, message, epoch, cycles, mono_ns, tries)
        elif isinstance(message, Health):
            found = Judgement(self._judge_health(payload, message, epoch, cycles, mono_ns, tries == 1))
        elif isinstance(message, Downlink):
            found = Judgement(self._judge_command(payload, message, epoch, cycles, mono_ns))
        else:
            return GOOD
        self.verdicts[found.verdict] += 1
        return found

    def _times_before(self, mono_ns: int) -> list[tuple[int, int]]:
        """Epochs that were over a short while ago, and what their cycles would be by now."""
        return [
            (epoch, cycles + cycles_in(mono_ns - ended_ns))
            for ended_ns, epoch, cycles in self._before
            if mono_ns - ended_ns < SETTLING_NS
        ]

    # ---- Data ----

    def _judge_data(
        self, payload: bytes, data: Data, epoch: int | None, cycles: int | None, mono_ns: int, tries: int
    ) -> Judgement:
        if not data.in_sync:
            right = self._seal.data(payload, data.source, False, 0, 0) == data.mic
            return Judgement(self._judge_stray(payload, data, mono_ns) if right else Verdict.FORGED)
        if cycles is None or epoch is None:
            return Judgement(Verdict.UNCHECKED)
        sent = self._sent(payload, data, epoch, cycles, tries)
        if sent is None:
            return Judgement(self._why_wrong(payload, data, epoch, cycles, mono_ns))
        if data.source < self._motes:
            first = _first_seen(self._seen, data.source, self._content(payload, data), mono_ns)
            if first is not None and mono_ns - first > COPY_NS:
                return Judgement(Verdict.REPLAYED)
            self._note_boot(data.source, data.boot)
        return Judgement(Verdict.GOOD, sent if self._seal.has_clock else None)

    def _why_wrong(self, payload: bytes, data: Data, epoch: int, cycles: int, mono_ns: int) -> Verdict:
        """The verdict on a message whose MIC is not right at this time."""
        before = self._times_before(mono_ns)
        if any(self._sent(payload, data, *time, WINDOWS) is not None for time in before):
            return Verdict.UNCHECKED
        if self._is_late(payload, data, epoch, cycles):
            return Verdict.LATE
        seen = self._seen.get(data.source, ())
        return Verdict.REPLAYED if self._content(payload, data) in seen else Verdict.FORGED

    def _content(self, payload: bytes, data: Data) -> bytes:
        """What copies of a message have in common: all but how often they may be passed on."""
        return self._seal.covered_data(payload, data.source, False, 0, 0)[BLOCK:] + data.mic

    def _judge_stray(self, payload: bytes, data: Data, mono_ns: int) -> Verdict:
        """One whose MIC holds no time is let in once, and known again for as long as it is remembered."""
        if data.source >= self._motes:
            return Verdict.UNPROTECTED
        content = self._content(payload, data)
        name = bytes([data.boot]) + blake2b(content, digest_size=STRAY_BYTES).digest()
        first = _first_seen(self._strays, data.source, name, mono_ns)
        if first is None:
            self.on_stray((data.source, name))
        elif mono_ns - first > COPY_NS:
            return Verdict.REPLAYED
        return Verdict.UNPROTECTED

    def _note_boot(self, mote: int, boot: int) -> None:
        """A mote has surely got to this boot. What it sent out of sync eight boots ago it may say again now."""
        before = self._boots.get(mote)
        if before == boot:
            return
        self._boots[mote] = boot
        if before is not None and mote in self._strays:
            begun = (boot - before) % BOOTS
            seen = self._strays[mote]
            for name in [name for name in seen if 0 < (name[0] - before) % BOOTS <= begun]:
                del seen[name]

    def _sent(self, payload: bytes, data: Data, epoch: int, cycles: int, tries: int) -> int | None:
        """The time that the MIC of a message in sync covers; None if it is wrong."""
        seal = self._seal
        for time in seal.data_times(data, cycles, tries if seal.has_clock else WINDOWS):
            if seal.data(payload, data.source, True, epoch, time) == data.mic:
                return time
        return None

    def _is_late(self, payload: bytes, data: Data, epoch: int, cycles: int) -> bool:
        """Whether it would have been right a moment ago."""
        window = self._seal.layout.stamp.modulus << self._seal.layout.tick_log2
        return self._seal.has_clock and any(
            self._sent(payload, data, epoch, cycles - back * window, 1) is not None
            for back in range(1, LATE_WINDOWS + 1)
        )

    # ---- Health ----

    def _judge_health(
        self,
        payload: bytes,
        health: Health,
        epoch: int | None,
        cycles: int | None,
        mono_ns: int,
        sure: bool,
    ) -> Verdict:
        expected = None
        if health.in_sync and health.epoch == epoch and cycles is not None:
            expected = round_at(health.time, cycles)
        found = self._round_of(payload, health, expected)
        if found is None:
            return Verdict.FORGED
        if expected is not None and found != expected:
            if rounds_later(found, expected) < 0:
                return Verdict.REPLAYED
            cycles = None  # our clock has stood still, or is wrong
        last = self._health.get(health.source)
        first = _first_seen(self._reports, health.source, health.mic, mono_ns)
        limit_others(self._motes, self._reports)
        if not self._is_news(health, last, epoch, cycles, sure):
            copy = first is not None and mono_ns - first <= COPY_NS
            return Verdict.LATE if copy or _is_recent(health, epoch, cycles) else Verdict.REPLAYED
        self._health[health.source] = health
        limit_others(self._motes, self._health)
        if last is None and not _is_told(health, epoch, cycles):
            return Verdict.UNPROTECTED
        if health.source < self._motes:
            self._note_boot(health.source, health.boots % BOOTS)
        return Verdict.GOOD

    def _round_of(self, payload: bytes, health: Health, expected: int | None) -> int | None:
        """The round of a report's time by its MIC, None if that is wrong. All rounds are tried: it may be old."""
        first = 0 if expected is None else expected
        for step in range(ROUNDS if health.in_sync else 1):
            if self._seal.health(payload, health, first - step) == health.mic:
                return (first - step) % ROUNDS
        return None

    def _is_news(
        self, health: Health, last: Health | None, epoch: int | None, cycles: int | None, sure: bool
    ) -> bool:
        """Whether a report is new: by its time if that can be compared, else by its counters.

        `sure`: the time is no guess. Then one far ahead is older than 18 hours, half a round of 32 bits; else our clock
        may have stood still, and what it counts decides.
        """
        if cycles is not None and _is_told(health, epoch, cycles):
            ahead = _ahead(health.time, cycles, 32)
            if ahead < -FRESH or (sure and ahead > FRESH):
                return False
            if ahead <= FRESH:
                timed = last is not None and last.in_sync and last.epoch == health.epoch
                return last is None or not timed or _ahead(health.time, last.time, 32) >= 0
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
        self, payload: bytes, downlink: Downlink, epoch: int | None, cycles: int | None, mono_ns: int
    ) -> Verdict:
        if cycles is None or epoch is None:
            return Verdict.UNCHECKED
        if self._is_command_of(payload, downlink, epoch, cycles):
            return Verdict.GOOD
        before = self._times_before(mono_ns)
        old = any(self._is_command_of(payload, downlink, *time) for time in before)
        return Verdict.UNCHECKED if old else Verdict.FORGED

    def _is_command_of(self, payload: bytes, downlink: Downlink, epoch: int, cycles: int) -> bool:
        now = command_time(cycles)
        number = now + _ahead(downlink.sequence, now, 16)
        return self._seal.downlink(payload, downlink.target, epoch, number) == downlink.mic

    def keep_beacon(self, payload: bytes, beacon: Beacon, gateway: int, mono_ns: int) -> None:
        """A beacon waits for its proof. Several of one sender and number may wait: one of them may be forged."""
        waiting, mic = self._beacons, self._seal.beacon(payload, beacon)
        waiting.setdefault((gateway, beacon.sender, beacon.sequence, mic), (beacon, mono_ns))
        while len(waiting) > PENDING or mono_ns - next(iter(waiting.values()))[1] > PENDING_NS:
            waiting.popitem(last=False)

    def proven(
        self, proof: Proof, gateway: int, now: tuple[int, int] | None, mono_ns: int
    ) -> tuple[Verdict, Beacon | None, int]:
        """The verdict on a proof, and if it proves a beacon, that and when it came. `now`: epoch and cycles, if known.

        Where no beacon of its sender and number has just come, its own may be lost: the proof is good and
        proves no beacon. An answer has the number of the beacon before.
        """
        name = gateway, proof.sender, proof.sequence
        beacon, came_ns = self._beacons.get((*name, proof.mic), (None, 0))
        if beacon is None:
            wrong = any(
                waiting[:3] == name and mono_ns - came < PROOF_NS
                for waiting, (_, came) in self._beacons.items()
            )
            verdict = Verdict.FORGED if wrong else Verdict.GOOD
        elif rounds_ahead(beacon, now) < 0:
            verdict, beacon = Verdict.REPLAYED, None
        else:
            verdict = Verdict.GOOD
        self.verdicts[verdict] += 1
        return verdict, beacon, came_ns


def rounds_ahead(beacon: Beacon, now: tuple[int, int] | None) -> int:
    """By how many rounds a beacon is ahead of the time, negative: behind; 0: less than half a round, or the
    time of its epoch is unknown."""
    if now is None or beacon.epoch != now[0]:
        return 0
    return rounds_later(beacon.round, round_at(beacon.time, now[1]))


def limit_others(motes: int, *known: dict[int, Any]) -> None:
    """Keep only the newest few nodes in each of these that are not motes."""
    for nodes in known:
        if len(nodes) > OTHERS:
            for node in [node for node in nodes if node >= motes][:-OTHERS]:
                del nodes[node]


def _first_seen(all_seen: Seen, node: int, said: bytes, mono_ns: int) -> int | None:
    """When this very message came first; None if it is new. It is remembered from now on."""
    seen = all_seen.setdefault(node, OrderedDict())
    first = seen.get(said)
    if first is None:
        seen[said] = mono_ns
        if len(seen) > REMEMBERED:
            seen.popitem(last=False)
    return first


def _is_told(health: Health, epoch: int | None, cycles: int | None) -> bool:
    """Whether its time can be compared with ours."""
    return health.in_sync and cycles is not None and health.epoch == epoch


def _is_recent(health: Health, epoch: int | None, cycles: int | None) -> bool:
    """Whether its time is that of a moment ago."""
    known = _is_told(health, epoch, cycles)
    return known and 0 <= _ahead(cycles or 0, health.time, 32) <= COPY_NS * CRYSTAL_HZ // 1_000_000_000


def _ahead(value: int, other: int, bits: int) -> int:
    """By how much a value is ahead of another, both modulo 2^bits; negative: behind."""
    return (value - other + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
