"""What the tests of the station share: a network, when it starts, and what was found."""

from __future__ import annotations

from basestation.arrivals import Line
from basestation.live.happenings import Arrived, Happening
from basestation.live.station import Station
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.messages import Data
from tests.live.world import TICK, Gateway, Motes, deployment

SECOND = 10**9
START = 100 * CRYSTAL_HZ
SETUP = deployment()


def of(kind: type, found: list[Happening]) -> list:
    """Those of a kind; of the arrivals only those of data."""
    items = [item for item in found if isinstance(item, kind)]
    return [item for item in items if not isinstance(item, Arrived) or isinstance(item.message, Data)]


def drain(station: Station, until_ns: int = 10**15) -> list[Happening]:
    found: list[Happening] = []
    while (due := station.next_due()) is not None and due <= until_ns and station.snapshot(0).held:
        found += station.advance(due)
    return found


BEFORE = ["0#0", "1#0", "2#0"]  # what two_causes begins with


def two_causes() -> tuple[list[Line], Gateway]:
    """Mote 1 answers mote 0, mote 2 answers mote 1; they arrive the other way round. All had sent before."""
    motes, gateway = Motes(SETUP, START), Gateway(SETUP)
    for mote in range(3):
        at = START - (300 - mote) * TICK
        gateway.hear(motes.send(mote, at), at + TICK)
    first = motes.send(0, START, (1,))
    second = motes.send(1, START + TICK, (2,))
    third = motes.send(2, START + 2 * TICK)
    for place, data in enumerate((third, first, second)):
        gateway.hear(data, START + (5 + 2 * place) * TICK)
    return gateway.out, gateway
