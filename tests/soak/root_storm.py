"""The real images on the testbed, in random timelines in which the gateway, which is the root, is off and on again.

    python -m tests.soak.root_storm --pieces 10 --json

A piece is one timeline: six MICAz motes, the root off one to four times at any moment, for half a second and more; the
later pieces are the longer ones, up to an hour. In the last six, three hours long, it is gone once, for one to two
hours. Each mote sends a message a second, in timelines of ten minutes and more one in ten seconds: emulation takes most
of its time for messages, and what is at stake in a long timeline is the time. Faults are pairs of stamps that
contradict happened-before, pairs delivered in the wrong order at phi = 100, clocks in sync further apart than epsilon,
and motes that say they are out of sync later than two beacon periods after the start.
"""

from __future__ import annotations

import math
import random
import sys

from basestation.testbed.images import PROJECT
from basestation.testbed.judge import judge
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish
from basestation.testbed.signals import message_of
from basestation.testbed.truth_log import Event, Signal
from packet_formats.deployment import load
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from tests.soak.running import Piece, Search
from tools.grid_run import run_on_grid

AIM = 100
MOTES = 6
NS = 1e9
SETTLED = 24.0  # seconds: two beacon periods after the last mote was switched on
SHORT, LONG = (
    120.0,
    3600.0,
)  # seconds of the first timelines, and of the last ones in which it is gone several times
HOURS, LONGEST = 6, 10_800.0  # how many timelines there are behind those, and their seconds
MINUTES = 600.0  # from this on a timeline is long


def seconds_of(number: int) -> float:
    """The longer ones come later: half of them take less than 11 minutes."""
    if number >= AIM - HOURS:
        return LONGEST
    return SHORT * math.exp(number / (AIM - 1) * math.log(LONG / SHORT))


def timeline(number: int, root: int, seconds: float) -> tuple[str, ...]:
    """When the root goes off and on, once the motes had a few beacons."""
    chance = random.Random(f"root storm {number}")
    if seconds >= LONGEST:
        off = chance.uniform(12.0, seconds / 4)
        return (
            f"at {off:.3f} off {root}",
            f"at {off + chance.uniform(seconds / 3, 2 * seconds / 3):.3f} on {root}",
        )
    times = sorted(chance.uniform(12.0, seconds - 10) for _ in range(2 * chance.randint(1, 4)))
    lines = []
    for off, on in zip(times[::2], times[1::2], strict=True):
        short = chance.random() < 0.3  # within a beacon period
        back = min(on, off + chance.uniform(0.5, 9.0)) if short else on
        lines += [f"at {off:.3f} off {root}", f"at {max(back, off + 0.5):.3f} on {root}"]
    return tuple(lines)


def rate_of(seconds: float) -> float:
    """Messages a second of each mote."""
    return 1.0 if seconds < MINUTES else 0.1


def row_of(seconds: float) -> str:
    if seconds < MINUTES:
        return "minutes"
    return f"{'up to an hour' if seconds < LONGEST else 'three hours'}, rate {rate_of(seconds)}"


def storm(number: int, seconds: float | None = None) -> Piece:
    length = seconds_of(number) if seconds is None else seconds
    wish = Wish(seed=number + 1, seconds=length, script=timeline(number, MOTES, length))
    deployment = load(PROJECT / "examples" / "micaz.toml")
    with run_on_grid(deployment, MOTES, wish, rate_of(length)) as (read, network):
        events = list(read)
    report = judge(events, [network])
    (found,) = report.networks
    unsynced = _unsynced(events, network)
    faults = {
        "pairs of stamps contradict happened-before": found.order.broken,
        "pairs delivered in the wrong order": found.delivered.inverted,
        "moments with clocks further apart than epsilon": found.skew.beyond,
        "messages out of sync": unsynced,
        "events missed in the truth": report.missed + report.gaps + found.order.unmatched,
    }
    counts = {
        "timelines": 1,
        "seconds": round(length),
        "messages": found.fates.stamped,
        "delivered": found.delivered.messages,
        "related_pairs": found.order.pairs,
        "broken": found.order.broken,
        "inverted": found.delivered.inverted,
        "clocks_apart": found.skew.beyond,
        "unsynced": unsynced,
    }
    told = [f"timeline {number}: {count} {what}" for what, count in faults.items() if count]
    return Piece(row_of(length), counts, told)


def _unsynced(events: list[Event], network: ScenarioNetwork) -> int:
    """Messages whose own sender said, long after the start, that it is out of sync."""
    deployment = network.deployment
    layout = layout_of(deployment)
    count = 0
    for event in events:
        if not isinstance(event, Signal) or event.begin < SETTLED * NS:
            continue
        raw = message_of(event, deployment.network.board, layout.tinyos)
        message = decode_message(raw, layout) if raw else None
        own = isinstance(message, Data) and event.node == network.node_of(message.source)
        count += own and isinstance(message, Data) and not message.in_sync
    return count


SEARCH = Search("root_storm", "timelines", AIM, storm)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
