"""A simulation from options to figures: one stream, every scheme on it, every policy and phi on every scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from basestation.causality.order import Ties
from basestation.causality.stamps import Scheme
from basestation.causality.violations import Violations
from basestation.deployed import scheme_of_layout
from packet_formats.layout import MAX_FIELD_BITS, LayoutError, stamp_layout

from .corruption import Corruption, corrupt_stream, draw_corruption
from .options import OptionError, WorldOptions
from .results import DeliveryOrder, Observed, Stamped
from .stream import Int32, Stream

engine: Any
try:
    from . import engine_numba as engine
except ImportError:  # without the extra `analysis` the same answers take longer
    from . import engine_objects as engine


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy and its phi; arrival order and causal delivery have only one."""

    policy: str
    phi: int


@dataclass(frozen=True, slots=True)
class MemoryFault:
    """Motes whose stamp state is overwritten after message `after`."""

    motes: tuple[int, ...]
    after: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one scheme under one policy did on one stream. Hold is from arrival to delivery, in ticks."""

    scheme: Scheme
    delivery: PolicyChoice
    seed: int
    messages: int
    delivered: int
    violations: Violations
    hold_mean: float
    hold_p50: float
    hold_p95: float
    hold_p99: float
    late: int
    max_c: int
    max_kn: int
    saturated: int
    bounded: int
    wrong_unwraps: int
    recovery_ticks: int | None = None
    messages_after_recovery: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As `basestation simulate --json` prints it."""
        row: dict[str, Any] = {
            "scheme": self.scheme.name,
            "entries": self.scheme.entries,
            "policy": self.delivery.policy,
            "phi": self.delivery.phi,
            "seed": self.seed,
            "messages": self.messages,
            "delivered": self.delivered,
            "stamp_bits": self.scheme.bits,
            "violations": self.violations.percent(),
            "violated_pairs": self.violations.pairs,
            "delay": {
                "mean": self.hold_mean,
                "p50": self.hold_p50,
                "p95": self.hold_p95,
                "p99": self.hold_p99,
            },
            "late": self.late,
            "max_c": self.max_c,
            "max_kn": self.max_kn,
            "saturated": self.saturated,
            "bounded": self.bounded,
            "wrong_unwraps": self.wrong_unwraps,
            "modulus": self.scheme.modulus,
            "count": self.scheme.count,
            "carry": self.scheme.carry,
        }
        if self.recovery_ticks is not None:
            row["recovery_ticks"] = self.recovery_ticks
            row["messages_after_recovery"] = self.messages_after_recovery
        return row


def build_scheme(
    options: WorldOptions,
    name: str,
    *,
    entries: int | str = "all",
    count: str = "events",
    counter_bits: int | None = None,
    carry: str | None = None,
    modulus: int | None = None,
) -> Scheme:
    """A scheme in the widths that the deployment of such a network would compute.

    Unlike a deployment, a simulation may take a modulus that is too small, to see what comes of it.
    """
    of_kn = name == "kn"
    arguments: dict[str, Any] = {
        "scheme": name,
        "epsilon": options.epsilon,
        "delta": options.delta,
        "motes": options.motes,
        "entries": entries if of_kn else "all",
        "count": count if of_kn else "events",
        "events_per_tick": options.events_bound,
        "counter_bits": None if name.startswith("dpc") else counter_bits,
        "carry": carry if name.endswith("hlc") else None,
    }
    if modulus is not None and not 2 <= modulus <= 1 << 32:
        raise OptionError("modulus", modulus, "is from 2 to 2^32")
    try:
        layout = stamp_layout(**arguments)
    except LayoutError as error:
        if error.key != "counter_bits" or counter_bits is not None:
            raise OptionError(error.key, error.value, error.reason) from None
        layout = stamp_layout(**arguments | {"counter_bits": MAX_FIELD_BITS})
    return scheme_of_layout(layout, options.epsilon, options.delta, modulus)


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A generated stream with its truth, ready to be stamped."""

    options: WorldOptions
    stream: Stream
    vectors: Int32
    fault: Corruption | None = None
    fault_clock: int | None = None


def generate(options: WorldOptions, fault: MemoryFault | None = None) -> SimulatedRun:
    """Simulate the network; no scheme is involved yet."""
    stream = engine.generate(options)
    vectors = engine.vector_clocks(stream)
    if fault is None:
        return SimulatedRun(options, stream, vectors)
    corruption = draw_corruption(options.motes, options.epsilon, fault.after, options.seed)
    corrupted, clock = corrupt_stream(stream, corruption, list(fault.motes))
    return SimulatedRun(options, corrupted, vectors, corruption, clock)


def measure(
    run: SimulatedRun, scheme: Scheme, deliveries: Sequence[PolicyChoice], ties: Ties = "sequence"
) -> Iterator[Measurement]:
    """Stamp the run by one scheme and deliver it by each policy."""
    stamped = engine.stamp(run.stream, scheme, run.fault)
    observed = engine.observe(run.stream, stamped, scheme)
    shared = _shared_order(run.stream, observed, ties)
    for delivery in deliveries:
        delivered = engine.deliver(run.stream, observed, scheme, delivery.policy, delivery.phi, ties, *shared)
        yield _measurement(run, scheme, delivery, stamped, observed, delivered)


def _shared_order(stream: Stream, observed: Observed, ties: Ties) -> tuple[Any, ...]:
    """The kernels order a scheme's arrivals once for all policies; the objects order as they go."""
    return (engine.rank(stream, observed, ties),) if hasattr(engine, "rank") else ()


def _measurement(
    run: SimulatedRun,
    scheme: Scheme,
    delivery: PolicyChoice,
    stamped: Stamped,
    observed: Observed,
    delivered: DeliveryOrder,
) -> Measurement:
    stream = run.stream
    order = stream.arrival_message[delivered.order]
    hold = delivered.left - stream.arrival_clock[delivered.order]
    p50, p95, p99 = np.percentile(hold, [50, 95, 99]) if len(hold) else (0.0, 0.0, 0.0)
    recovery, after = _recovery(run, order, delivered)
    return Measurement(
        scheme=scheme,
        delivery=delivery,
        seed=run.options.seed,
        messages=stream.messages,
        delivered=len(order),
        violations=engine.violations(stream, run.vectors, order),
        hold_mean=float(hold.mean()) if len(hold) else 0.0,
        hold_p50=float(p50),
        hold_p95=float(p95),
        hold_p99=float(p99),
        late=delivered.late,
        max_c=int(stamped.c.max(initial=0)),
        max_kn=int(stamped.kn.max(initial=0)),
        saturated=int((stamped.kn == scheme.entry_max).any(axis=1).sum()),
        bounded=stamped.bounded + observed.bounded,
        wrong_unwraps=stamped.wrong_unwraps + observed.wrong_unwraps,
        recovery_ticks=recovery,
        messages_after_recovery=after,
    )


def _recovery(run: SimulatedRun, order: Any, delivered: DeliveryOrder) -> tuple[int | None, int | None]:
    """Ticks from the fault to the last delivery that was in a violation, and how many messages were sent after it."""
    if run.fault is None or run.fault_clock is None:
        return None, None
    violated = engine.in_violation(run.stream, run.vectors, order)
    last = int(delivered.left[violated[order]].max(initial=run.fault_clock))
    return last - run.fault_clock, int((run.stream.sent_at > last).sum())
