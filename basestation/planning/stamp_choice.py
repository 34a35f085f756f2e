"""The measured stamps of a plan, and which of them to choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from basestation.causality.policy_choice import SAME_MS, levelled
from basestation.simulator.options import WorldOptions
from packet_formats.schemes import LEDGER

from .candidates import StampCandidate

FIGURE = "mean"  # the figure of violations that a tolerance is about: the paper's


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate under one policy and phi, over all seeds. Violations are in per cent, hold in ticks.

    The ledger has `tolerate`, a share in per cent, in place of phi.
    """

    candidate: StampCandidate
    policy: str
    phi: int
    sent: int
    delivered: int
    violations: dict[str, float]
    hold_mean: float
    hold_p95: float
    saturated: int
    bounded: int
    wrong_unwraps: int
    tolerate: float | None = None
    mean_bits: float = 0.0

    @property
    def guaranteed(self) -> bool:
        """Whether it is exact as long as G1 and G2 hold: no stamp was full, cut or misread in these runs."""
        strained = self.saturated or self.bounded or self.wrong_unwraps
        return self.candidate.exact and self.phi == 100 and not self.tolerate and not strained


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that was measured, with arrival order as the baseline."""

    measured: tuple[CandidateRow, ...]
    arrival: CandidateRow
    options: WorldOptions
    tolerance: float
    named: tuple[CandidateRow, ...] = ()  # stamps that name causes, by their own rules
    tick_ms: float = 1.0

    @property
    def quickest(self) -> CandidateRow | None:
        """The smallest stamp among those within a tick of the shortest hold that fits and meets the tolerance."""
        good = [row for row in (*self.measured, *self.named) if self._good(row)]
        shortest = min((row.hold_mean for row in good), default=0.0)
        quick = (row for row in good if row.hold_mean <= shortest + 1)
        return min(quick, key=lambda row: (row.mean_bits, row.hold_mean), default=None)

    @property
    def rows(self) -> list[CandidateRow]:
        """The rows worth showing: for each stamp the phis that no other phi beats."""
        groups = groupby(self.measured, lambda row: (row.candidate, row.tolerate))
        return [row for _, same in groups for row in worth_it(list(same))]

    @property
    def choice(self) -> CandidateRow | None:
        """The smallest stamp, then the shortest hold, that fits and meets the tolerance."""
        return self._cheapest(row for row in self.rows if self._good(row))

    @property
    def guaranteed_choice(self) -> CandidateRow | None:
        """The same among the exact rows that did not reach their limits in these runs."""
        sure = (row for row in self.measured if row.guaranteed and self._good(row))
        return self._cheapest(sure)

    @property
    def nearest(self) -> list[CandidateRow]:
        """Each stamp's best row, for when nothing is good enough: those that fit and the fewest violations first."""
        ranked = sorted(
            self.rows, key=lambda row: (row.candidate.left < 0, self.of(row), self._cost(row, row.hold_mean))
        )
        first: dict[StampCandidate, CandidateRow] = {}
        for row in ranked:
            first.setdefault(row.candidate, row)
        return list(first.values())

    def narrower(self, choice: CandidateRow) -> list[StampCandidate]:
        """The stamps with fewer bits that are as good as the choice in the same bytes."""
        same = (row.candidate for row in self.measured if self._good(row) and self._is_equal(row, choice))
        return list(dict.fromkeys(one for one in same if one.layout.bits < choice.candidate.layout.bits))

    def of(self, row: CandidateRow) -> float:
        """The violations of a row, in per cent."""
        return row.violations[FIGURE]

    def _is_equal(self, row: CandidateRow, choice: CandidateRow) -> bool:
        one, other = row.candidate, choice.candidate
        apart_ms = abs(row.hold_mean - choice.hold_mean) * self.tick_ms
        return (one.layout.size, one.exact) == (other.layout.size, other.exact) and apart_ms <= SAME_MS

    def _cheapest(self, rows: Iterable[CandidateRow]) -> CandidateRow | None:
        found = list(rows)
        holds = levelled((row.candidate.layout.size, row.hold_mean * self.tick_ms) for row in found)
        return min(zip(found, holds, strict=True), key=lambda pair: self._cost(*pair), default=(None,))[0]

    def _cost(self, row: CandidateRow, hold: float) -> tuple[float, ...]:
        """The sort key: the smallest stamp, then the shortest hold; among equals what is provable, then the fewest
        violations, then the widest stamp: bits that fill up the last byte cost nothing, and a wider counter is full
        later."""
        layout, unproven = row.candidate.layout, (not row.guaranteed, not row.candidate.exact)
        return layout.size, hold, *unproven, self.of(row), -layout.bits, row.policy == LEDGER

    def _good(self, row: CandidateRow) -> bool:
        return row.candidate.left >= 0 and self.of(row) <= self.tolerance


def upper_bound_percent(row: CandidateRow) -> float:
    """The upper bound at 95% confidence when N messages had no violation: 3/N (the rule of three)."""
    return 300 / row.delivered if row.delivered else 100.0


def worth_it(rows: Sequence[CandidateRow]) -> list[CandidateRow]:
    """The rows that no other row equals or beats in both violations and hold; the first of equal rows stays."""

    def beats(other: CandidateRow, row: CandidateRow) -> bool:
        violations, hold = other.violations[FIGURE], other.hold_mean
        if violations > row.violations[FIGURE] or hold > row.hold_mean:
            return False
        return violations < row.violations[FIGURE] or hold < row.hold_mean or other.phi < row.phi

    return [row for row in rows if not any(beats(other, row) for other in rows)]
