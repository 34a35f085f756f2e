"""Computes the gain of each link, in dB, from a grid, a line, coordinates, TOSSIM gains or measured links.

Motes are places 0 to n - 1, gateways the places after them. Several networks in one run stand at the same places.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from basestation.simulator import topology as files
from basestation.simulator.topology import TopologyError
from packet_formats.boards import DEFAULT_BOARD

NOISE_DBM = -98.0  # the engine's default
MARGIN_DB = DEFAULT_BOARD.radio.signal_margin_db  # over noise
SPACING = 10.0  # between neighbours in a grid or line
FADING = 4.0  # received power falls with this power of the distance: near the ground, antennas a hand's breadth high
SILENT_DB = -115.0  # a weaker link neither carries nor disturbs a frame
BESIDE_DB = -40.0  # two motes at one place
LINK_DB = -65.0  # links of which only the delivery is known: chance decides, not noise

Link = tuple[int, int]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RadioTopology:
    """The gains of all links, each (from, to). `noise` holds the places that differ from the engine's default."""

    motes: int
    gateways: int
    gains: Mapping[Link, float]
    deliveries: Mapping[Link, float] = field(default_factory=dict)
    noise: Mapping[int, float] = field(default_factory=dict)
    margin: float = MARGIN_DB

    @property
    def places(self) -> int:
        return self.motes + self.gateways

    def carries(self, link: Link) -> bool:
        """Whether the link carries at least half of the frames."""
        needed = self.noise.get(link[1], NOISE_DBM) + self.margin
        return self.gains.get(link, SILENT_DB) >= needed and self.deliveries.get(link, 1.0) >= 0.5

    def hops(self) -> list[int | None]:
        """Each mote's hops to the nearest gateway over links that carry; None without a path."""
        found = _hops_to(range(self.motes, self.places), range(self.places), self.carries)
        return [found.get(mote) for mote in range(self.motes)]


def grid(
    motes: int, gateways: int = 1, hops: int = 3, reach: float | None = None, margin: float = MARGIN_DB
) -> RadioTopology:
    """A grid twice as long as wide, with a gateway at the middle of a short side.

    Without a `reach`, a mote is heard just far enough that none is more than `hops` away. At three hops the gateway
    hears about a third of the motes; the others are relayed, which puts arrivals out of order.
    """
    columns = max(1, round(math.sqrt(motes / 2)))
    places = [(SPACING * (i % columns), SPACING * (i // columns)) for i in range(motes)]
    right, far = (max(place[axis] for place in places) for axis in (0, 1))
    sides = [
        (right / 2, -SPACING),
        (right / 2, far + SPACING),
        (-SPACING, far / 2),
        (right + SPACING, far / 2),
    ]
    return _laid_out(places, _first(sides, gateways, "a grid has four sides"), hops, reach, margin)


def line(
    motes: int, gateways: int = 1, hops: int = 3, reach: float | None = None, margin: float = MARGIN_DB
) -> RadioTopology:
    """Motes in a line, with a gateway at one end or both; `reach` as in a grid."""
    ends = [(-SPACING, 0.0), (SPACING * motes, 0.0)]
    places = [(SPACING * i, 0.0) for i in range(motes)]
    return _laid_out(places, _first(ends, gateways, "a line has two ends"), hops, reach, margin)


def _first(places: list[Place], count: int, why: str) -> list[Place]:
    if count > len(places):
        raise TopologyError(f"{count} gateways: {why}")
    return places[:count]


def _laid_out(
    motes: list[Place], gateways: list[Place], hops: int, reach: float | None, margin: float
) -> RadioTopology:
    places = [*motes, *gateways]
    if reach is not None:
        return from_places(places, len(gateways), reach, margin)
    distances = sorted({math.dist(a, b) for a in motes for b in places if a != b})

    def laid_out(distance: float) -> RadioTopology:
        return from_places(places, len(gateways), 1.01 * distance, margin)

    def near_enough(distance: float) -> bool:
        return all(found is not None and found <= hops for found in laid_out(distance).hops())

    return laid_out(distances[bisect_left(distances, True, key=near_enough)])


def from_places(
    places: Sequence[Place], gateways: int, reach: float, margin: float = MARGIN_DB
) -> RadioTopology:
    """A topology with gains by distance; the gateways' places come last."""
    gains = _fading(dict(enumerate(places)), reach, margin)
    return RadioTopology(len(places) - gateways, gateways, gains, margin=margin)


def _fading(places: Mapping[int, Place], reach: float, margin: float) -> dict[Link, float]:
    """The gains by distance: a link as long as `reach` has just the margin that it needs."""

    def gain(distance: float) -> float:
        if distance <= 0:
            return BESIDE_DB
        return round(min(BESIDE_DB, NOISE_DBM + margin - 10 * FADING * math.log10(distance / reach)), 2)

    return {
        (a, b): db
        for a, here in places.items()
        for b, there in places.items()
        if a != b and (db := gain(math.dist(here, there))) > SILENT_DB
    }


@dataclass(frozen=True, slots=True)
class Wanted:
    """The choice from a file: the number of motes (None: all) and of gateways."""

    motes: int | None = None
    gateways: int = 1
    margin: float = MARGIN_DB


def from_coordinates(path: Path, reach: float, wanted: Wanted) -> RadioTopology:
    """Read rows of id, x, y such as the Line-in-the-Sand coordinates. A row that repeats an id is one more mote."""
    rows = files.read_positions(path)
    fresh = count(1 + max(name for name, _, _ in rows))
    places: dict[int, Place] = {}
    for name, x, y in rows:
        places[next(fresh) if name in places else name] = (x, y)
    return _chosen(path, RadioTopology(0, 0, _fading(places, reach, wanted.margin)), list(places), wanted)


def from_gains(path: Path, wanted: Wanted) -> RadioTopology:
    """Read a TOSSIM file: `gain FROM TO DB` and `noise NODE DBM DEVIATION`."""
    gains: dict[Link, float] = {}
    noise: dict[int, float] = {}
    for number, text in enumerate(files.read_lines(path), start=1):
        words = text.partition("#")[0].split()
        try:
            match words:
                case []:
                    continue
                case ["gain", sender, receiver, db]:
                    gains[int(sender), int(receiver)] = _finite(db)
                case ["noise", node, dbm, *_]:
                    noise[int(node)] = _finite(dbm)
                case _:
                    raise ValueError
        except ValueError:
            expected = "gain FROM TO DB or noise NODE DBM"
            raise TopologyError(
                f"{path}, line {number}: expected {expected}, found {text.strip()!r}"
            ) from None
    if not gains:
        raise TopologyError(f"{path} holds no gains")
    gains = {link: db for link, db in gains.items() if db > SILENT_DB and link[0] != link[1]}
    names = sorted({name for link in gains for name in link})
    return _chosen(path, RadioTopology(0, 0, gains, noise=noise), names, wanted)


def from_links(path: Path, wanted: Wanted) -> RadioTopology:
    """Read rows of `sender receiver p` such as the Intel lab's: a signal gets through with probability p."""
    chances = {link: p for link, p in files.read_links(path).items() if p > 0 and link[0] != link[1]}
    names = sorted({a for a, _ in chances} & {b for _, b in chances})
    known = set(names)
    chances = {link: p for link, p in chances.items() if known.issuperset(link)}
    gains = dict.fromkeys(chances, LINK_DB)
    return _chosen(path, RadioTopology(0, 0, gains, chances), names, wanted)


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(word)
    return number


def _chosen(path: Path, whole: RadioTopology, names: list[int], wanted: Wanted) -> RadioTopology:
    """The first places of a file as gateways, and the motes fewest hops away from them."""
    if not names:
        raise TopologyError(f"{path}: none of its links is good enough to carry frames")
    whole = replace(whole, margin=wanted.margin)
    gateways = names[: wanted.gateways]
    hops = _hops_to(gateways, names, whole.carries)
    others = sorted((hops[name], name) for name in names if name in hops and name not in gateways)
    motes = len(others) if wanted.motes is None else wanted.motes
    if len(others) < max(motes, 1):
        found = f"{len(others)} of its {len(names)} places have a path to a gateway"
        raise TopologyError(f"{path}: {motes} motes are asked for, but {found}")
    members = [*sorted(name for _, name in others[:motes]), *gateways]
    number = {name: i for i, name in enumerate(members)}
    return RadioTopology(
        motes,
        len(gateways),
        _renumbered(whole.gains, number),
        _renumbered(whole.deliveries, number),
        {number[name]: dbm for name, dbm in whole.noise.items() if name in number},
        wanted.margin,
    )


def _renumbered(links: Mapping[Link, float], number: Mapping[int, int]) -> dict[Link, float]:
    return {(number[a], number[b]): value for (a, b), value in links.items() if a in number and b in number}


def _hops_to(start: Iterable[int], places: Sequence[int], carries: Callable[[Link], bool]) -> dict[int, int]:
    """The hops of each place to the nearest of `start`, along links that carry towards it."""
    found = dict.fromkeys(start, 0)
    waiting = deque(found)
    while waiting:
        receiver = waiting.popleft()
        for sender in places:
            if sender not in found and carries((sender, receiver)):
                found[sender] = found[receiver] + 1
                waiting.append(sender)
    return found


def lossy(topology: RadioTopology, loss: float) -> RadioTopology:
    """The same, with a share of all frames lost on each link by chance, in addition to noise and collisions."""
    if not loss:
        return topology
    kept = {link: (1 - loss) * topology.deliveries.get(link, 1.0) for link in topology.gains}
    return replace(topology, deliveries=kept)


def shared(topology: RadioTopology, networks: int) -> RadioTopology:
    """One topology for several networks whose nodes stand side by side: network k's begin at k * places."""
    step = topology.places
    everyone = range(networks)

    def spread(links: Mapping[Link, float]) -> dict[Link, float]:
        return {
            (a + i * step, b + j * step): value
            for i in everyone
            for j in everyone
            for (a, b), value in links.items()
        }

    beside = {
        (place + i * step, place + j * step): BESIDE_DB
        for place in range(step)
        for i in everyone
        for j in everyone
        if i != j
    }
    noise = {place + i * step: dbm for i in everyone for place, dbm in topology.noise.items()}
    return replace(
        topology,
        gains={**spread(topology.gains), **beside},
        deliveries=spread(topology.deliveries),
        noise=noise,
    )
