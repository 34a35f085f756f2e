"""A simulation from options to measurements: one stream, stamped by each scheme, delivered by each policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from basestation.causality.order import Message, Ties
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import Scheme, Setting, TimedScheme, make_scheme
from basestation.causality.stream import Int32, Int64, Stream
from basestation.causality.violations import Violations
from basestation.deployed import scheme_of_layout, setting_of_layout
from packet_formats.layout import StampLayout, stamp_layout
from packet_formats.schemes import LEDGER, MAX_FIELD_BITS, SEQUENCE, LayoutError, descriptor, names

from . import engine, windows
from .corruption import Corruption, corrupt_stream, draw_corruption
from .options import OptionError, WorldOptions
from .results import DeliveryOrder, Observed, Stamped
from .scheme_run import play, stamp_messages


@dataclass(frozen=True, slots=True)
class MemoryFault:
    """Motes whose stamp state is overwritten after message `after`."""

    motes: tuple[int, ...]
    after: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one scheme and policy on one stream. The hold is from arrival to delivery, in ticks."""

    scheme: Scheme
    stamp_bits: float  # the mean where stamps have a variable length
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
    max_c: int = 0
    max_kn: int = 0
    saturated: int = 0
    bounded: int = 0
    wrong_unwraps: int = 0
    recovery_ticks: int | None = None
    messages_after_recovery: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object that `basestation simulate --json` prints."""
        row: dict[str, Any] = {
            "scheme": self.scheme.name,
            "entries": self.scheme.setting.entries,
            "policy": self.delivery.policy,
            "phi": self.delivery.phi,
            "tolerate": self.delivery.tolerate,
            "seed": self.seed,
            "messages": self.messages,
            "delivered": self.delivered,
            "stamp_bits": self.stamp_bits,
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
            "modulus": self.scheme.setting.modulus,
            "count": self.scheme.setting.count,
            "carry": self.scheme.setting.carry,
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
) -> TimedScheme:
    """The timed scheme, in the widths that a deployment of this network would compute.

    Unlike a deployment, a simulation may take a modulus that is too small, to show its effect.
    """
    if modulus is not None and not 2 <= modulus <= 1 << 32:
        raise OptionError("modulus", modulus, "is from 2 to 2^32")
    layout = _layout_for(
        options, name, {"entries": entries, "count": count, "counter_bits": counter_bits, "carry": carry}
    )
    return scheme_of_layout(layout, options.epsilon, options.delta, modulus)


def build_named(
    options: WorldOptions, name: str, entries: int | str = "all", give_up: int | None = None
) -> Scheme:
    """The same for a scheme that has a rule of its own."""
    layout = _layout_for(options, name, {"entries": entries})
    network = Setting(options.motes, options.epsilon, options.delta, give_up)
    return make_scheme(name, setting_of_layout(layout, network))


def _layout_for(options: WorldOptions, name: str, asked: dict[str, Any]) -> StampLayout:
    arguments: dict[str, Any] = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "motes": options.motes,
        "events_per_tick": options.events_bound,
        **{key: value for key, value in asked.items() if key in descriptor(name).settings},
    }
    try:
        return stamp_layout(name, **arguments)
    except LayoutError as error:
        if error.key != "counter_bits" or asked.get("counter_bits") is not None:
            raise OptionError(error.key, error.value, error.reason) from None
        return stamp_layout(name, **arguments | {"counter_bits": MAX_FIELD_BITS})


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A generated stream with its truth, ready to be stamped."""

    options: WorldOptions
    stream: Stream
    vectors: Int32
    fault: Corruption | None = None
    fault_clock: int | None = None


def world_for(options: WorldOptions, scheme: str) -> WorldOptions:
    """The world in which a scheme's motes send: they delay a second send in a tick, if the scheme needs that."""
    needs = scheme in names() and descriptor(scheme).one_send_a_tick
    if needs and options.sends_again and options.second_send == "scheme":
        return replace(options, second_send="waits")
    return options


def generate(options: WorldOptions, fault: MemoryFault | None = None) -> SimulatedRun:
    """Simulate the network; no scheme is involved yet."""
    stream = windows.generate(options) if options.period else engine.generate(options)
    vectors = engine.vector_clocks(stream)
    if fault is None:
        return SimulatedRun(options, stream, vectors)
    corruption = draw_corruption(options.motes, options.epsilon, fault.after, options.seed)
    corrupted, clock = corrupt_stream(stream, corruption, list(fault.motes))
    return SimulatedRun(options, corrupted, vectors, corruption, clock)


def measure(
    run: SimulatedRun, scheme: TimedScheme, deliveries: Sequence[PolicyChoice], ties: Ties = "sequence"
) -> Iterator[Measurement]:
    """Stamp the run by one scheme and deliver it by each policy."""
    stamped = engine.stamp(run.stream, scheme, run.fault)
    observed = engine.observe(run.stream, stamped, scheme)
    ranked = engine.rank(run.stream, observed, ties)
    use = _stamp_use(scheme, stamped, observed)
    for delivery in deliveries:
        if delivery.policy == SEQUENCE:  # it does not look at the stamp
            delivered = _by_rule(
                run.stream, make_scheme(SEQUENCE, replace(scheme.setting, motes=run.stream.motes))
            )
        else:
            asked = delivery.policy, delivery.phi, ties, ranked, delivery.tolerate
            delivered = engine.deliver(run.stream, observed, scheme, *asked)
        yield _measurement(run, scheme, scheme.bits, delivery, delivered, use)


def measure_rule(
    run: SimulatedRun, scheme: Scheme, deliveries: Sequence[PolicyChoice]
) -> Iterator[Measurement]:
    """The same for a scheme with a rule of its own, which is the policy of its name."""
    stream, asked = run.stream, {"entries": scheme.setting.entries or "all"}
    layout, codec = _layout_for(run.options, scheme.name, asked), scheme.codec()
    messages = stamp_messages(stream, scheme)
    sizes = [scheme.stamp_bits(message.stamp) for message in messages]
    bits = round(float(np.mean(sizes)), 1) if layout.is_variable else layout.bits
    use = {"saturated": sum(codec.saturated(message.stamp) for message in messages)}
    for delivery in deliveries:
        if delivery.policy == LEDGER:
            delivered = _by_rule(stream, scheme.tolerating(delivery.tolerate or 0.0), messages)
        elif delivery.policy == scheme.name:
            delivered = _by_rule(stream, scheme, messages)
        else:
            delivered = _by_rule(stream, make_scheme(delivery.policy, scheme.setting))
        yield _measurement(run, scheme, bits, delivery, delivered, use)


def _by_rule(stream: Stream, scheme: Scheme, messages: Sequence[Message] | None = None) -> DeliveryOrder:
    """The deliveries of a scheme's own rule; without `messages` it stamps them itself."""
    played = play(stream, scheme, messages)
    arrival_of = np.zeros(stream.messages, np.int64)
    arrival_of[stream.arrival_message] = np.arange(stream.arrivals)
    return DeliveryOrder(arrival_of[played.order], played.left, played.late)


def _stamp_use(scheme: TimedScheme, stamped: Stamped, observed: Observed) -> dict[str, int]:
    """The use of the stamps' fields, and the counts of cut and misread stamps."""
    return {
        "max_c": int(stamped.c.max(initial=0)),
        "max_kn": int(stamped.kn.max(initial=0)),
        "saturated": int((stamped.kn == scheme.entry_max).any(axis=1).sum()),
        "bounded": stamped.bounded + observed.bounded,
        "wrong_unwraps": stamped.wrong_unwraps + observed.wrong_unwraps,
    }


def _measurement(
    run: SimulatedRun,
    scheme: Scheme,
    bits: float,
    delivery: PolicyChoice,
    delivered: DeliveryOrder,
    use: dict[str, int],
) -> Measurement:
    stream = run.stream
    order = stream.arrival_message[delivered.order]
    hold = delivered.left - stream.arrival_clock[delivered.order]
    p50, p95, p99 = np.percentile(hold, [50, 95, 99]) if len(hold) else (0.0, 0.0, 0.0)
    recovery, after = _recovery(run, order, delivered)
    return Measurement(
        scheme=scheme,
        stamp_bits=bits,
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
        recovery_ticks=recovery,
        messages_after_recovery=after,
        **use,
    )


def _recovery(run: SimulatedRun, order: Int64, delivered: DeliveryOrder) -> tuple[int | None, int | None]:
    """The ticks from the fault to the last delivery in a violation, and how many messages were sent after that."""
    if run.fault is None or run.fault_clock is None:
        return None, None
    violated = engine.in_violation(run.stream, run.vectors, order)
    last = int(delivered.left[violated[order]].max(initial=run.fault_clock))
    return last - run.fault_clock, int((run.stream.sent_at > last).sum())
