"""The outcome of each configuration on a trace: a row with its violations by every figure, its hold and its bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from basestation.analysis.choices import Candidate, is_exact, own_layout, stamp_name
from basestation.analysis.deliveries import Delivery, StampReading
from basestation.analysis.survey import Counts
from basestation.analysis.tally import Measured, Tally
from basestation.analysis.uncertainty import FIGURES, HOLD, Uncertain, clumping
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.violations import Violations
from packet_formats.deployment import Deployment
from packet_formats.schemes import TIMED_POLICIES, descriptor


@dataclass(frozen=True, slots=True)
class ContinuumRow:
    """One configuration on one trace. Unknown values are None; `reason` says why a configuration has no answer.

    Violations are in per cent of the messages delivered (`related`: of the related pairs), holds in ticks. They
    lie between the figure and its `_most`, which differ where not all causes are known. `complete` is the
    share of messages whose causes are, in per cent. `low` and `high` are the 95% interval of `mean`. `front`: no other
    configuration is better in bytes, hold and `mean`. `exact`: its order is causal by proof at phi 100;
    a ledger's never is, since it spends a tolerance. `air_bytes` is a mean where the length of the stamp varies.
    """

    run: str
    scheme: str
    entries: int
    count: str
    carry: str
    packing: str
    counter_bits: int
    own: bool
    stamp_bits: int
    stamp_bytes: int
    payload_bytes: int
    air_bytes: float
    fits: bool
    policy: str
    phi: int
    answered: str
    reason: str | None
    tolerate: float | None = None  # of the ledger, in per cent
    sent: int | None = None
    arrived: int | None = None
    out_of_sync: int | None = None
    unknown: int | None = None
    delivered: int | None = None
    pairs: float | None = None
    backward: float | None = None
    forward: float | None = None
    mean: float | None = None
    any: float | None = None
    related: float | None = None
    pairs_most: float | None = None
    backward_most: float | None = None
    forward_most: float | None = None
    mean_most: float | None = None
    any_most: float | None = None
    related_most: float | None = None
    complete: float | None = None
    violated_pairs: int | None = None
    backward_messages: int | None = None
    forward_messages: int | None = None
    any_messages: int | None = None
    related_pairs: int | None = None
    related_pairs_most: int | None = None
    hold_mean: float | None = None
    hold_p50: float | None = None
    hold_p95: float | None = None
    hold_p99: float | None = None
    hold_mean_ms: float | None = None
    hold_p99_ms: float | None = None
    late: int | None = None
    network_late: int | None = None
    host_late: int | None = None
    saturated: int | None = None
    max_c: int | None = None
    max_kn: int | None = None
    bounded: int | None = None
    wrong_unwraps: int | None = None
    wire_bytes: int | None = None
    bytes_mean: float | None = None  # of a stamp whose length varies
    exact: bool = False
    front: bool = False
    low: float | None = None
    high: float | None = None
    pairs_high: float | None = None
    backward_high: float | None = None
    forward_high: float | None = None
    any_high: float | None = None
    related_high: float | None = None
    hold_low_ms: float | None = None
    hold_high_ms: float | None = None
    uncertain: Uncertain | None = field(default=None, repr=False, compare=False, metadata={"inside": True})

    def interval(self, figure: str) -> tuple[float | None, float | None]:
        """The 95% interval of a figure. A row from a table has the lower end of `mean` only."""
        if self.uncertain is not None:
            return self.uncertain.interval(figure) or (None, None)
        return (self.low, self.high) if figure == "mean" else (None, getattr(self, f"{figure}_high"))

    @property
    def mean_bytes(self) -> float:
        return float(self.stamp_bytes) if self.bytes_mean is None else self.bytes_mean

    @property
    def has_own_rule(self) -> bool:
        return not descriptor(self.scheme).is_ordered

    @property
    def guaranteed(self) -> bool:
        """Whether it is exact while G1 and G2 hold: no stamp was full, cut or misread on this trace."""
        strained = self.saturated or self.bounded or self.wrong_unwraps
        waits = self.policy == self.scheme or (self.policy in TIMED_POLICIES and self.phi == 100)
        return self.is_answered and self.exact and waits and not strained

    @property
    def is_answered(self) -> bool:
        return self.answered != "no"

    @property
    def stamp(self) -> str:
        return stamp_name(self)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a configuration is answered, and from which data; or the reason why it is not. `figures` are known before the
    parts are counted; `longest` is the longest hold, in ticks, of a rule that is not a timed one."""

    how: str = "no"
    reason: str | None = None
    reading: StampReading | None = None
    delivery: Delivery | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    longest: int = 0


@dataclass(frozen=True)
class Outcomes:
    """The counts of one trace: with the sure causes, and with all possible causes.

    `has_truth`: the causes of some messages that arrived are known. `unknown` messages are in no figure.
    """

    run: str
    deployment: Deployment
    is_field: bool
    arrived: int
    counts: Counts
    has_truth: bool
    least: Measured
    most: Measured

    def row(self, stamp: Candidate, rule: PolicyChoice, answer: Answer) -> ContinuumRow:
        layout, figures = stamp.layout, {}
        if answer.delivery is not None:
            figures = self._figures(answer.delivery)
            figures |= asdict(self.least.fields[answer.reading]) if answer.reading else {}
        air_bytes = stamp.sizes.air_bytes - layout.size + float(answer.figures.get("bytes_mean", layout.size))
        if figures:
            figures["wire_bytes"] = round(self.arrived * air_bytes)
        return ContinuumRow(
            run=self.run,
            scheme=layout.scheme,
            entries=layout.entries,
            count=layout.count,
            carry=layout.carry,
            packing=layout.packing,
            counter_bits=layout.entry_bits,
            own=layout == own_layout(self.deployment),
            stamp_bits=layout.bits,
            stamp_bytes=layout.size,
            payload_bytes=stamp.sizes.payload_bytes,
            air_bytes=air_bytes,
            fits=stamp.sizes.fits,
            exact=rule.tolerate is None and is_exact(self.deployment, layout),
            policy=rule.policy,
            phi=rule.phi,
            tolerate=rule.tolerate,
            answered=answer.how,
            reason=answer.reason,
            **figures | answer.figures,
        )

    def _figures(self, delivery: Delivery) -> dict[str, Any]:
        least, most, counts = self.least.tallies[delivery], self.most.tallies[delivery], self.counts
        return {
            "arrived": self.arrived,
            "out_of_sync": self.arrived - counts.counted - counts.unknown,
            "unknown": counts.unknown,
            "network_late": counts.network_late,
            "host_late": counts.host_late,
            **self._holds(least),
            **_violations(least.violations, most.violations, self.is_field),
            **self._intervals(least, most),
            "complete": self._complete,
        }

    @property
    def _complete(self) -> float | None:
        """The share of counted messages whose causes are all known, in per cent; None if no causes are known."""
        if not self.has_truth or not self.counts.counted:
            return None
        return 100 * (1 - self.counts.unsure / self.counts.counted)

    @cached_property
    def _tick_ms(self) -> float:
        return 1000 * self.deployment.clock.tick_seconds

    def _holds(self, tally: Tally) -> dict[str, Any]:
        p50, p95, p99 = (tally.hold_percentile(percent) for percent in (50, 95, 99))
        return {
            "delivered": tally.delivered,
            "hold_mean": tally.hold_mean,
            "hold_p50": p50,
            "hold_p95": p95,
            "hold_p99": p99,
            "hold_mean_ms": tally.hold_mean * self._tick_ms,
            "hold_p99_ms": p99 * self._tick_ms,
            "late": tally.late,
        }

    def _intervals(self, least: Tally, most: Tally) -> dict[str, Any]:
        found = Uncertain(least.blocks, most.blocks, self._clumps)
        holds = (self._tick_ms * one for one in found.interval(HOLD) or ())
        shares = {figure: found.interval(figure) for figure in FIGURES if least.told}
        mean = shares.pop("mean", None) or ()
        return {
            "uncertain": found,
            **dict(zip(("hold_low_ms", "hold_high_ms"), holds, strict=False)),
            **dict(zip(("low", "high"), mean, strict=False)),
            **{f"{figure}_high": share[1] for figure, share in shares.items() if share},
        }

    @cached_property
    def _clumps(self) -> dict[str, float]:
        blocks = [one.blocks for one in self.most.tallies.values()]
        return {figure: clumping(blocks, figure) for figure in FIGURES}


def _violations(least: Violations | None, most: Violations | None, is_field: bool) -> dict[str, Any]:
    """The least and the most that each figure can be.

    A field log does not show how many pairs are related, since a stamp need not name what was sent long ago: at least
    those that are known to be, at most all.
    """
    if least is None or most is None:
        return {}
    found = least.percent() | {f"{name}_most": value for name, value in most.percent().items()}
    known = every = least.related_pairs
    if is_field:
        every = least.delivered * (least.delivered - 1) // 2
        found["related"] = 100.0 * least.pairs / every if every else 0.0
        found["related_most"] = min(100.0, 100.0 * most.pairs / known) if known else 0.0
    counts = {f"{name}_messages": getattr(least, name) for name in ("backward", "forward", "any")}
    counts |= {"violated_pairs": least.pairs, "related_pairs": known, "related_pairs_most": every}
    return found | counts
