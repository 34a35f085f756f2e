"""Random timelines of a network whose root dies and returns, whose halves part and meet, whose motes restart.

The nodes are the real sources on the host (net_world.py). Every half second it is checked that no clock ran backwards
within an epoch, and that clocks in sync that hear of one another are within epsilon. After each event it is measured
how long it takes until all are in sync in one epoch, and until all follow the one who is to drive: the root if it is
there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations

from packet_formats.deployment import Deployment
from tests.firmware.net_world import Node, World, library

WRAP = 1 << 32
LOOK = 0.5  # seconds
QUIET = "-DMOTE_PERIOD=19660800"  # motes send data every ten minutes: only beacons matter here
SYNC_PERIODS = 2  # beacon periods after any event until all are in sync, while a root or a successor drives
LOST_PERIODS = 2  # more, where frames are lost: a question's answer and two beacons on a mote's only link
DEATH_PERIODS = 4.5  # at most, until a death is noticed
START_SECONDS = 3  # a root's questions, and its first beacons


@dataclass
class Outcome:
    """What happened in a timeline. `synced` and `agreed`: of each event its kind, and the seconds until all were in
    sync, and followed the same one; None if another event came before."""

    seed: int
    seconds: float = 0.0
    synced: list[tuple[str, float | None]] = field(default_factory=list)
    agreed: list[tuple[str, float | None]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    farthest: int = 0  # ticks between clocks in sync
    without: float = 0.0  # seconds in which somebody was not in sync who should have been
    events: list[str] = field(default_factory=list)


def log_uniform(chance: random.Random, least: float, most: float) -> float:
    return math.exp(chance.uniform(math.log(least), math.log(most)))


def some_links(chance: random.Random, ids: list[int], hops: int) -> set[tuple[int, int]]:
    """A connected network, all within these hops of the first: each node hears one of the last three, and some more."""
    links: set[tuple[int, int]] = set()
    depth = {ids[0]: 0}
    for place, node in enumerate(ids[1:], start=1):
        last = [peer for peer in ids[max(0, place - 3) : place] if depth[peer] < hops] or ids[:1]
        heard = {chance.choice(last), *(peer for peer in last if chance.random() < 0.4)}
        depth[node] = 1 + min(depth[peer] for peer in heard)
        links |= {link for peer in heard for link in ((node, peer), (peer, node))}
    return links


class Timeline:
    """One network, and what becomes of it."""

    def __init__(self, deployment: Deployment, seed: int, longest: float) -> None:
        self.chance = chance = random.Random(seed)
        self.outcome = Outcome(seed)
        self.period = 10.0 if deployment.network.board == "micaz" else 20.0
        self.longest = longest
        self.deployment = deployment
        self.world = World(deployment, seed, loss=chance.choice((0.0, 0.05, 0.1)), stride=64)
        self.sync_periods = SYNC_PERIODS + (LOST_PERIODS if self.world.loss else 0)
        motes = chance.sample(range(deployment.network.motes), chance.randint(5, 7))
        root = deployment.clock.root
        self.root = self._add(library(deployment, "gateway"), root)
        mote = library(deployment, "mote", QUIET)
        self.motes = [self._add(mote, id) for id in motes]
        self.nodes = [self.root, *self.motes]
        self.links = self.world.links = some_links(chance, [root, *motes], deployment.network.hops)
        self.cut: set[int] = set()
        self.changed = 0.0
        self.last = "start"
        self.unsynced = self.unagreed = False
        self.without = 0.0  # seconds since all were in sync
        self.seen: dict[int, tuple[int, int, int]] = {}  # generation, epoch, time

    def _add(self, built: object, id: int) -> Node:
        start, ppm = self.chance.randrange(WRAP), self.chance.uniform(-100, 100)
        return self.world.add(built, id, ppm, start, self.chance.uniform(0, 1))  # type: ignore[arg-type]

    # What happens

    def run(self, events: int) -> Outcome:
        self.world.run(1.0)  # all are switched on
        self.event("start", lambda: None)
        self.let(log_uniform(self.chance, 3, 200))
        for _ in range(events):
            kind, what = self.chance.choice(list(self.possible()))
            self.event(kind, what)
            self.let(log_uniform(self.chance, 3, self.longest if self.away() else 120))
        for kind, what in self.repairs():
            self.event(kind, what)
        self.let(10 * self.period)
        self._end_event()
        self.outcome.seconds = self.world.now
        self.outcome.violations += [f"{node.id} ran backwards" for node in self.nodes if node.backwards]
        return self.outcome

    def possible(self) -> Iterable[tuple[str, Callable[[], None]]]:
        if self.root.up:
            yield from 3 * [("root off", self.root.die)]
        else:
            yield from 3 * [("root on", self.root.boot)]
        if self.cut:
            yield "meet", self.heal
        else:
            yield "part", self.part
        mote = self.chance.choice(self.motes)
        yield "mote restarts", lambda: self.restart(mote)

    def repairs(self) -> Iterable[tuple[str, Callable[[], None]]]:
        if self.cut:
            yield "meet", self.heal
        if not self.root.up:
            yield "root on", self.root.boot

    def away(self) -> bool:
        return bool(self.cut) or not self.root.up

    def part(self) -> None:
        order = [node.id for node in self.nodes]
        self.cut = set(order[self.chance.randint(2, len(order) - 2) :])
        self.world.links = {(a, b) for a, b in self.links if (a in self.cut) == (b in self.cut)}

    def heal(self) -> None:
        self.cut = set()
        self.world.links = self.links

    def restart(self, mote: Node) -> None:
        mote.die()
        mote.boot()

    def event(self, kind: str, what: Callable[[], None]) -> None:
        self._end_event()
        self.outcome.events.append(f"{self.world.now:.1f} {kind}")
        what()
        self.changed, self.last = self.world.now, kind
        self.unsynced = self.unagreed = True

    def let(self, seconds: float) -> None:
        self.world.every(seconds, LOOK, self.look)

    # What must hold

    def look(self) -> None:
        for node in self.nodes:
            if node.up:
                self._look_at(node)
        parts = self.parts()
        since = self.world.now - self.changed
        late = since > (DEATH_PERIODS + self.sync_periods) * self.period + START_SECONDS
        if late or not self.unagreed:
            for part in parts:
                self._compare(part)
        synced = all(map(self.in_sync, parts))
        if self.unsynced and synced:
            self.unsynced = False
            self.outcome.synced.append((self.last, since))
        self.without = 0.0 if synced else self.without + LOOK
        self.outcome.without += 0.0 if synced else LOOK
        driven = all(map(self.agrees, parts))
        if (
            self.without
            > (self.sync_periods + (0 if driven else DEATH_PERIODS)) * self.period + START_SECONDS
        ):
            self.violation(f"{self.last}: not in sync for {self.without:.0f} s")
        if self.unagreed and late:
            self.violation(f"{self.last}: no agreement after {since:.0f} s")
        if self.unagreed and synced and driven:
            self.unagreed = False
            self.outcome.agreed.append((self.last, since))

    def _look_at(self, node: Node) -> None:
        if not node.c.timesync_known():
            return
        now = (node.generation, node.c.timesync_epoch(), node.network())
        before = self.seen.get(node.id, now)
        self.seen[node.id] = now
        if now[:2] == before[:2] and (now[2] - before[2]) % WRAP >= WRAP // 2:
            self.violation(f"{node.id} jumped back within an epoch")

    def _compare(self, part: list[Node]) -> None:
        shift = self.deployment.clock.tick_log2
        wrap = WRAP >> shift
        ticks = [(node.c.timesync_epoch(), node.network() >> shift) for node in part if node.in_sync]
        for (epoch, a), (other, b) in combinations(ticks, 2):
            apart = abs((a - b + wrap // 2) % wrap - wrap // 2) if epoch == other else 0
            self.outcome.farthest = max(self.outcome.farthest, apart)
            if apart > self.deployment.clock.epsilon:
                self.violation(f"clocks in sync {apart} ticks apart")

    def parts(self) -> list[list[Node]]:
        """Nodes that are up and hear of one another."""
        left = {node.id: node for node in self.nodes if node.up}
        links = self.world.links or set()
        found = []
        while left:
            part, new = [], [left.pop(next(iter(left)))]
            while new:
                node = new.pop()
                part.append(node)
                new += [left.pop(b) for a, b in links if a == node.id and b in left]
            found.append(part)
        return found

    def in_sync(self, part: list[Node]) -> bool:
        """Whether all nodes of a part are in sync, in one epoch; a single node, or a part without time, need not be."""
        root = self.root in part
        if not root and (len(part) == 1 or not any(node.in_sync for node in part)):
            return True
        return all(node.in_sync for node in part) and len({node.c.timesync_epoch() for node in part}) == 1

    def agrees(self, part: list[Node]) -> bool:
        """All follow one who is among them: the root, if it is there."""
        if not any(node.in_sync for node in part) or len(part) == 1:
            return True
        (driver, *others) = {int(node.c.timesync_driver()) for node in part}
        among = [self.root] if self.root in part else part
        return not others and driver in {node.id for node in among}

    def violation(self, text: str) -> None:
        if len(self.outcome.violations) < 20:
            self.outcome.violations.append(f"{self.world.now:.1f} {text}")

    def _end_event(self) -> None:
        """Another event comes: what had not happened yet after the last one gets no time."""
        if self.unsynced:
            self.outcome.synced.append((self.last, None))
        if self.unagreed:
            self.outcome.agreed.append((self.last, None))
        self.unsynced = self.unagreed = False


def run(deployment: Deployment, seed: int, events: int = 6, longest: float = 1800) -> Outcome:
    return Timeline(deployment, seed, longest).run(events)
