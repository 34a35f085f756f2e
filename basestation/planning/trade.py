"""Compares periods: the days that cells last, hold and violations of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from packet_formats import power
from packet_formats.schedule import PERIODS_LOG2

from .budget import Budget, BudgetError, PlannedNetwork, make_budget
from .life import LifePlan, life_with, with_period
from .stamp_choice import CandidateRow, Comparison
from .stamp_trials import Effort, compare

CLOCKED, NAMED = "shlc", "barrier"  # the stamps that the table compares: by the clock, and by name
MESSAGES = 2000  # of one seed, for each row
ALWAYS_ON = 0


@dataclass(frozen=True, slots=True)
class TradeRow:
    """A period with its life, hold and violations."""

    period_ms: int  # 0: motes listen always
    budget: Budget
    life: LifePlan
    comparison: Comparison

    @property
    def whole(self) -> CandidateRow | None:
        """The clock's stamp at the whole wait: exact, whatever happens."""
        return self.comparison.guaranteed_choice

    @property
    def short(self) -> CandidateRow | None:
        """The clock's stamp with the shortest hold that met the tolerance."""
        return self.comparison.choice

    @property
    def named(self) -> CandidateRow | None:
        return self.comparison.named[0] if self.comparison.named else None

    @property
    def name(self) -> str:
        return f"{self.period_ms / 1000:g} s" if self.period_ms else "always on"

    def lasts(self, days: float) -> bool:
        """Whether every mote lasts for `days`."""
        return self.life.worst_days >= days


@dataclass(frozen=True, slots=True)
class Trade:
    """The possible periods, the shortest first, and the reasons against the others."""

    rows: tuple[TradeRow, ...]
    refused: dict[int, str]  # by period

    def shortest(self, days: float) -> TradeRow | None:
        """The shortest period with which every mote lasts for `days`."""
        return next((row for row in self.rows if row.lasts(days)), None)


def periods() -> tuple[int, ...]:
    return (ALWAYS_ON, *PERIODS_LOG2)


def make_trade(
    network: PlannedNetwork,
    tolerance: float = 0.0,
    effort: Effort | None = None,
    mah: float = power.CELLS_MAH,
    advance: Callable[[], object] = lambda: None,
) -> Trade:
    """Plan the network with each period; `advance` is called after each."""
    effort = effort or Effort()
    effort = Effort(effort.messages or MESSAGES, 1, busier=True)
    rows, refused = [], {}
    for period in periods():
        try:
            rows.append(_row(network, period, tolerance, effort, mah))
        except BudgetError as error:
            refused[period] = error.told
        advance()
    return Trade(tuple(rows), refused)


def _row(network: PlannedNetwork, period_ms: int, tolerance: float, effort: Effort, mah: float) -> TradeRow:
    planned = with_period(network, period_ms)
    budget = make_budget(planned)
    if reasons := [*budget.refusals, *filter(None, [planned.backlog])]:
        raise BudgetError("rate", "; ".join(reasons))
    comparison = compare(budget, tolerance, effort, schemes=(CLOCKED, NAMED))
    stamp = comparison.choice or comparison.measured[0]
    return TradeRow(period_ms, budget, life_with(planned, stamp.candidate.layout, mah), comparison)
