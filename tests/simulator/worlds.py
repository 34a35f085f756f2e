"""What the simulator's tests share: networks, schemes, and a whole run in one call."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from basestation.causality import kernels
from basestation.causality.order import Ties
from basestation.causality.schemes import TimedScheme
from basestation.causality.stream import Stream
from basestation.causality.violations import Violations
from basestation.simulator import engine
from basestation.simulator.corruption import Corruption
from basestation.simulator.options import WorldOptions
from basestation.simulator.results import DeliveryOrder, Observed, Stamped
from basestation.simulator.topology import HopTopology, from_links
from tests.causality.oracles import least_modulus
from tests.causality.timed import timed

WIDE = (1 << 20) - 1

DELAY_CLOCKS = ["fastest", "sender", "global"]
RECEPTIONS = ["tick", "message", "immediate"]


def relayed_network() -> HopTopology:
    """Four motes in a row and two aside, each link with its own chance; up to four hops to the gateway 100."""
    row = [100, 0, 1, 2, 3]
    links: dict[tuple[int, int], float] = {}
    for (a, b), chance in zip(pairwise(row), (0.95, 0.8, 1.0, 0.7), strict=True):
        links[a, b], links[b, a] = chance, chance * 0.9
    links |= {(4, 100): 0.6, (4, 0): 0.5, (0, 4): 1.0, (1, 4): 0.3, (5, 2): 0.9, (2, 5): 0.4, (5, 1): 0.2}
    return from_links(links, range(6), gateway=100)


def every_option(messages: int, g2: list[str], **fixed: Any) -> list[WorldOptions]:
    """All combinations of what the simulation leaves open, each with a seed of its own."""
    axes = {
        "g2": g2,
        "delay_law": ["half", "quarter"],
        "recipients": ["all", "one"],
        "delay": ["shared", "each"],
        "loss": [0.0, 0.2],
        "events_per_tick": [1, 3],
        "topology": [None, relayed_network()],
    }
    return [
        WorldOptions(
            **(dict(zip(axes, values, strict=True)) | fixed),
            motes=6,
            epsilon=1 + seed % 5,
            delta=2 + seed % 7,
            rate=(0.1, 0.5, 1.0)[seed % 3],
            messages=messages,
            seed=seed,
        )
        for seed, values in enumerate(product(*axes.values()))
    ]


def kn(options: WorldOptions, entries: int | None = None, **changes: Any) -> TimedScheme:
    return _scheme("kn", options, options.epsilon + 1 if entries is None else entries, changes)


def dpc(options: WorldOptions, number: int) -> TimedScheme:
    return _scheme(f"dpc{number}", options, 0, {"entry_max": 0})


def hlc(options: WorldOptions, name: str = "hlc", **changes: Any) -> TimedScheme:
    return _scheme(name, options, 1, changes)


def one_byte(options: WorldOptions) -> TimedScheme:
    return hlc(options, "shlc", modulus=32, entry_max=7, carry="sum")


def _scheme(name: str, options: WorldOptions, entries: int, changes: dict[str, Any]) -> TimedScheme:
    settings = {"modulus": least_modulus(options.epsilon, options.delta), "entry_max": WIDE} | changes
    return timed(name, options.epsilon, options.delta, entries=entries, **settings)  # type: ignore[arg-type]


def exact_schemes(options: WorldOptions) -> dict[str, TimedScheme]:
    """Those that promise happened-before implies less."""
    return {
        "kn": kn(options),
        "kn-sends": kn(options, count="sends"),
        "hlc": hlc(options),
        "hlc-sum": hlc(options, carry="sum"),
        "shlc": hlc(options, "shlc"),
        "shlc-sum": hlc(options, "shlc", carry="sum"),
    }


@dataclass(frozen=True)
class Outcome:
    stamped: Stamped
    observed: Observed
    delivered: DeliveryOrder
    violations: Violations
    in_violation: np.ndarray  # a flag for each message sent

    @property
    def wrong_unwraps(self) -> int:
        return self.stamped.wrong_unwraps + self.observed.wrong_unwraps


def outcome(
    stream: Stream,
    scheme: TimedScheme,
    policy: str = "cbd",
    phi: int = 100,
    ties: Ties = "sequence",
    corruption: Corruption | None = None,
    vectors: np.ndarray | None = None,
) -> Outcome:
    """Everything that the kernels make of one stream."""
    stamped = engine.stamp(stream, scheme, corruption)
    observed = engine.observe(stream, stamped, scheme)
    delivered = engine.deliver(stream, observed, scheme, policy, phi, ties)
    order = stream.arrival_message[delivered.order]
    if vectors is None:
        vectors = engine.vector_clocks(stream)
    counts = kernels.count_pairs(
        order, stream.sent_by, stream.sent_index, vectors, kernels.first_sends(stream.sends_per_mote)
    )
    return Outcome(
        stamped,
        observed,
        delivered,
        engine.violations(stream, vectors, order),
        counts.overtaken | counts.hasty,
    )
