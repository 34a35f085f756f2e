"""The topology of a network: its links, and each mote's distance to the observer.

Peers hear a broadcast directly. The observer's copy is relayed along the path with the fewest expected transmissions.
These relays put arrivals out of causal order in a real network.
"""

from __future__ import annotations

import gzip
import heapq
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.causality.stream import Int64


class TopologyError(ValueError):
    """A file of positions or links that can't be read, or that leaves a mote without a path to the observer."""


class FlatTopology(NamedTuple):
    """A topology for the kernel: mote i's peers and their hearing are at offsets[i] to offsets[i + 1]."""

    offsets: Int64
    peers: Int64
    hearing: NDArray[np.float64]
    hops: Int64
    path: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HopTopology:
    """For each mote: its peers, the chance that each hears it, its hops to the observer, and the chance to get
    there."""

    peers: tuple[tuple[int, ...], ...]
    hearing: tuple[tuple[float, ...], ...]
    hops: tuple[int, ...]
    path: tuple[float, ...]

    @property
    def motes(self) -> int:
        return len(self.peers)

    def arrays(self) -> FlatTopology:
        return FlatTopology(
            offsets=np.cumsum([0, *(len(row) for row in self.peers)], dtype=np.int64),
            peers=np.array([peer for row in self.peers for peer in row], dtype=np.int64),
            hearing=np.array([chance for row in self.hearing for chance in row], dtype=np.float64),
            hops=np.array(self.hops, dtype=np.int64),
            path=np.array(self.path, dtype=np.float64),
        )


@lru_cache(maxsize=64)
def everyone_hears_everyone(motes: int) -> HopTopology:
    """The paper's network: one hop, and all links are perfect."""
    peers = tuple(tuple(j for j in range(motes) if j != i) for i in range(motes))
    return HopTopology(peers, ((1.0,) * (motes - 1),) * motes, (1,) * motes, (1.0,) * motes)


def from_positions(
    positions: Iterable[tuple[float, float]], observer: tuple[float, float], reach: float
) -> HopTopology:
    """A network in which motes within `reach` hear each other. The observer's position is given separately."""
    places = [observer, *positions]
    links = {
        (a, b): 1.0
        for a, here in enumerate(places)
        for b, there in enumerate(places)
        if a != b and math.dist(here, there) <= reach
    }
    return _with_gateway_first(links, len(places))


def in_groups(motes: int, hops: int) -> HopTopology:
    """A network of equal groups in a line. A mote hears its own group and those beside it, the gateway the first
    one."""
    if hops > motes:
        raise TopologyError(f"{motes} motes can't reach {hops} hops: each hop needs at least one")
    places = [(float(1 + mote * hops // motes), 0.0) for mote in range(motes)]
    return from_positions(places, (0.0, 0.0), 1.5)


def from_links(links: dict[tuple[int, int], float], motes: Iterable[int], gateway: int) -> HopTopology:
    """A network from (sender, receiver) -> delivery probability. The gateway's links lead to the observer."""
    names = [gateway, *(mote for mote in sorted(motes) if mote != gateway)]
    number = {name: i for i, name in enumerate(names)}
    known = {
        (number[a], number[b]): p
        for (a, b), p in links.items()
        if a != b and p > 0 and a in number and b in number
    }
    return _with_gateway_first(known, len(names))


def _with_gateway_first(links: dict[tuple[int, int], float], places: int) -> HopTopology:
    """Reorder the nodes: index 0 is the gateway, index i + 1 becomes mote i."""
    hops, path = _ways_to_gateway(links, places)
    peers: list[list[int]] = [[] for _ in range(places)]
    hearing: list[list[float]] = [[] for _ in range(places)]
    for (a, b), chance in sorted(links.items()):
        if a and b:
            peers[a].append(b - 1)
            hearing[a].append(chance)
    return HopTopology(
        tuple(map(tuple, peers[1:])), tuple(map(tuple, hearing[1:])), tuple(hops[1:]), tuple(path[1:])
    )


def _ways_to_gateway(links: dict[tuple[int, int], float], places: int) -> tuple[list[int], list[float]]:
    """For each node the path with the fewest expected transmissions (1/p a hop): its hops, and the chance to get
    through.

    The fewest hops would use the longest and so the worst links.
    """
    heard_by: dict[int, list[tuple[int, float]]] = {}
    for (sender, receiver), chance in links.items():
        heard_by.setdefault(receiver, []).append((sender, chance))
    hops, path = [-1] * places, [0.0] * places
    open_ways = [(0.0, 0, 1.0, 0)]
    while open_ways:
        cost, distance, chance, place = heapq.heappop(open_ways)
        if hops[place] >= 0:
            continue
        hops[place], path[place] = distance, chance
        for sender, p in heard_by.get(place, []):
            heapq.heappush(open_ways, (cost + 1 / p, distance + 1, chance * p, sender))
    lost = [place - 1 for place in range(1, places) if hops[place] < 0]
    if lost:
        raise TopologyError(
            f"motes {', '.join(map(str, lost))} have no path to the observer: they need a longer range"
        )
    return hops, path


def finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word} is not a position")
    return value


def read_positions(path: Path) -> list[tuple[int, float, float]]:
    """Read rows of `id,x,y` or `id x y`, such as the Line-in-the-Sand coordinates, gzipped or not."""
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            rows.append((int(words[0]), finite(words[1]), finite(words[2])))
        except (ValueError, IndexError):
            raise TopologyError(
                f"{path}, line {number}: expected id, x and y, found {line.strip()!r}"
            ) from None
    if len(rows) < 3:
        raise TopologyError(
            f"{path}: a network needs a gateway and at least two motes, found {len(rows)} positions"
        )
    return rows


def read_links(path: Path) -> dict[tuple[int, int], float]:
    """Read rows of `sender receiver p`, such as the Intel lab's connectivity. A row without p was never measured."""
    links: dict[tuple[int, int], float] = {}
    for number, line in enumerate(read_lines(path), start=1):
        words = line.partition("#")[0].split()
        if not words or len(words) == 2:
            continue
        try:
            sender, receiver, chance = int(words[0]), int(words[1]), float(words[2])
        except (ValueError, IndexError):
            raise TopologyError(
                f"{path}, line {number}: expected sender receiver p, found {line.strip()!r}"
            ) from None
        if not 0 <= chance <= 1:
            raise TopologyError(f"{path}, line {number}: {chance} is not a probability")
        links[sender, receiver] = chance
    if not links:
        raise TopologyError(f"{path}: no links in it")
    return links


def field(path: Path, reach: float) -> HopTopology:
    """A network from a file of positions, the gateway's first.

    Every other row is a mote, even if it repeats an id, as real files do.
    """
    (_, *observer), *rows = read_positions(path)
    return from_positions([(x, y) for _, x, y in sorted(rows)], (observer[0], observer[1]), reach)


def linked(path: Path) -> HopTopology:
    """A network from a file of links, of all ids that hear and are heard. The first sender is the gateway."""
    links = read_links(path)
    senders = {a for (a, b), chance in links.items() if a != b and chance > 0}
    receivers = {b for (a, b), chance in links.items() if a != b and chance > 0}
    known = senders & receivers
    gateway = next(iter(links))[0]
    if gateway not in known:
        raise TopologyError(f"{path}: no links to and from the gateway {gateway}")
    return from_links(links, known, gateway)


def read_lines(path: Path) -> list[str]:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode().splitlines()
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise TopologyError(f"{path}: neither text nor gzip of text: {error}") from None
