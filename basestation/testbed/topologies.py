"""Who hears whom, and how well: from a grid, a line, coordinates, TOSSIM gains or measured links to gains in dB.

Motes are places 0 to n - 1, gateways the places after them. Several networks in one field stand at the same places.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from basestation.simulator import topology as files
from basestation.simulator.topology import TopologyError

NOISE_DBM = -98.0  # the engine's, where nothing else is said
MARGIN_DB = 10.0  # over noise, at 0 dBm: with less, frames begin to suffer
FADING = 4.0  # received power falls with this power of the distance: near the ground, antennas a hand's breadth high
SILENT_DB = -115.0  # a weaker link neither carries nor disturbs anything
BESIDE_DB = -40.0  # two motes at one place
LINK_DB = -65.0  # links known by their delivery alone: chance decides, not noise

Link = tuple[int, int]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Topology:
    """Links are (from, to). `noise` holds the places that differ from the engine's default."""

    motes: int
    gateways: int
    gains: Mapping[Link, float]
    deliveries: Mapping[Link, float] = field(default_factory=dict)
    noise: Mapping[int, float] = field(default_factory=dict)

    @property
    def places(self) -> int:
        return self.motes + self.gateways

    def carries(self, link: Link) -> bool:
        """More than now and then."""
        needed = self.noise.get(link[1], NOISE_DBM) + MARGIN_DB
        return self.gains.get(link, SILENT_DB) >= needed and self.deliveries.get(link, 1.0) >= 0.5

    def hops(self) -> list[int | None]:
        """Each mote's hops to the nearest gateway over links that carry; None where there is no way."""
        found = _ways(range(self.motes, self.places), self.places, self.carries)
        return [found.get(mote) for mote in range(self.motes)]


def grid(
    motes: int, gateways: int = 1, hops: int = 3, spacing: float = 10.0, reach: float | None = None
) -> Topology:
    """Twice as long as wide, a gateway at the middle of a short side.

    Unless told how far a mote is heard, just so far that none is more than `hops` away. With three of them the gateway
    hears about a third of the motes; the others are relayed, which puts arrivals out of order.
    """
    columns = max(1, round(math.sqrt(motes / 2)))
    places = [(spacing * (i % columns), spacing * (i // columns)) for i in range(motes)]
    right, far = (max(place[axis] for place in places) for axis in (0, 1))
    sides = [
        (right / 2, -spacing),
        (right / 2, far + spacing),
        (-spacing, far / 2),
        (right + spacing, far / 2),
    ]
    return _laid_out(places, _first(sides, gateways, "a grid has four sides"), hops, reach)


def line(
    motes: int, gateways: int = 1, hops: int = 3, spacing: float = 10.0, reach: float | None = None
) -> Topology:
    """One after another, a gateway at an end or both; `reach` as in a grid."""
    ends = [(-spacing, 0.0), (spacing * motes, 0.0)]
    places = [(spacing * i, 0.0) for i in range(motes)]
    return _laid_out(places, _first(ends, gateways, "a line has two ends"), hops, reach)


def _first(places: list[Place], count: int, why: str) -> list[Place]:
    if count > len(places):
        raise TopologyError(f"{count} gateways: {why}")
    return places[:count]


def _laid_out(motes: list[Place], gateways: list[Place], hops: int, reach: float | None) -> Topology:
    places = [*motes, *gateways]
    if reach is not None:
        return from_places(places, len(gateways), reach)
    distances = sorted({math.dist(a, b) for a in motes for b in places if a != b})

    def laid_out(distance: float) -> Topology:
        return from_places(places, len(gateways), 1.01 * distance)

    def near_enough(distance: float) -> bool:
        return all(found is not None and found <= hops for found in laid_out(distance).hops())

    return laid_out(distances[bisect_left(distances, True, key=near_enough)])


def from_places(places: Sequence[Place], gateways: int, reach: float) -> Topology:
    """Gains by distance, the gateways' places last."""
    gains = {
        (a, b): gain
        for a, here in enumerate(places)
        for b, there in enumerate(places)
        if a != b and (gain := _gain(math.dist(here, there), reach)) > SILENT_DB
    }
    return Topology(len(places) - gateways, gateways, gains)


def _gain(distance: float, reach: float) -> float:
    if distance <= 0:
        return BESIDE_DB
    return round(min(BESIDE_DB, NOISE_DBM + MARGIN_DB - 10 * FADING * math.log10(distance / reach)), 2)


def from_coordinates(
    path: Path, reach: float, motes: int | None, gateways: int, named: Sequence[int] = ()
) -> Topology:
    """Rows of id, x, y such as the Line-in-the-Sand coordinates. A row that repeats an id is one more mote."""
    rows = files.read_positions(path)
    names: list[int] = []
    for name, _, _ in rows:
        names.append(name if name not in names else 1 + max(*names, *(row[0] for row in rows)))
    place = {name: (x, y) for name, (_, x, y) in zip(names, rows, strict=True)}
    gains = {
        (a, b): gain
        for a in names
        for b in names
        if a != b and (gain := _gain(math.dist(place[a], place[b]), reach)) > SILENT_DB
    }
    return _chosen(path, names, Topology(0, 0, gains), motes, gateways, named)


def from_gains(path: Path, motes: int | None, gateways: int, named: Sequence[int] = ()) -> Topology:
    """TOSSIM's files: `gain FROM TO DB` and `noise NODE DBM DEVIATION`."""
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
        raise TopologyError(f"{path}: no gains in it")
    gains = {link: db for link, db in gains.items() if db > SILENT_DB and link[0] != link[1]}
    names = sorted({name for link in gains for name in link})
    return _chosen(path, names, Topology(0, 0, gains, noise=noise), motes, gateways, named)


def from_links(path: Path, motes: int | None, gateways: int, named: Sequence[int] = ()) -> Topology:
    """`sender receiver p` such as the Intel lab's: a signal gets through with probability p or not at all."""
    chances = {link: p for link, p in files.read_links(path).items() if p > 0 and link[0] != link[1]}
    names = sorted({a for a, _ in chances} & {b for _, b in chances})
    known = set(names)
    chances = {link: p for link, p in chances.items() if known.issuperset(link)}
    gains = dict.fromkeys(chances, LINK_DB)
    return _chosen(path, names, Topology(0, 0, gains, chances), motes, gateways, named)


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(word)
    return number


def _chosen(
    path: Path, names: list[int], whole: Topology, motes: int | None, gateways: int, named: Sequence[int]
) -> Topology:
    """Of a file's places the gateways, named or else the first ones, and the motes fewest hops away from them."""
    for name in named:
        if name not in names:
            raise TopologyError(f"{path}: no place {name} for a gateway")
    chosen = list(named) or names[:gateways]
    ways = _ways(chosen, 1 + max(names), whole.carries)
    others = sorted((ways[name], name) for name in names if name in ways and name not in chosen)
    wanted = len(others) if motes is None else motes
    if len(others) < max(wanted, 1):
        raise TopologyError(
            f"{path}: {wanted} motes are wanted, and {len(others)} of its {len(names)} places have a way to a gateway"
        )
    members = [*sorted(name for _, name in others[:wanted]), *chosen]
    number = {name: i for i, name in enumerate(members)}
    return Topology(
        wanted,
        len(chosen),
        _renumbered(whole.gains, number),
        _renumbered(whole.deliveries, number),
        {number[name]: dbm for name, dbm in whole.noise.items() if name in number},
    )


def _renumbered(links: Mapping[Link, float], number: Mapping[int, int]) -> dict[Link, float]:
    return {(number[a], number[b]): value for (a, b), value in links.items() if a in number and b in number}


def _ways(start: Iterable[int], places: int, carries: Callable[[Link], bool]) -> dict[int, int]:
    """Hops from the nearest of `start`, along links that carry towards it."""
    found = dict.fromkeys(start, 0)
    waiting = deque(found)
    while waiting:
        receiver = waiting.popleft()
        for sender in range(places):
            if sender not in found and carries((sender, receiver)):
                found[sender] = found[receiver] + 1
                waiting.append(sender)
    return found


def shared(topology: Topology, networks: int) -> Topology:
    """One ether for several networks whose nodes stand side by side: network k's are numbered from k * places on."""
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
