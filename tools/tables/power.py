"""Costs and gains of a schedule, simulated: two minutes.

Ten motes of each board over three hops, a message in ten seconds of each: always on and by a schedule, ordered by the
clock in the stamp (shlc) and by the causes that it names (barrier). Every message is judged by the true
happened-before; days are those of the model of `basestation plan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from basestation.planning.budget import PlannedNetwork, make_budget
from basestation.planning.life import life_with, with_period
from basestation.planning.stamp_choice import CandidateRow
from basestation.planning.stamp_trials import Effort, compare
from basestation.planning.trade import ALWAYS_ON, CLOCKED, NAMED
from packet_formats import power
from packet_formats.boards import BOARDS
from tools.pages import table

from . import Workload

MOTES, HOPS, RATE, DATA_BYTES, LOSS = 10, 3, 0.1, 6, 0.05
PERIOD_MS, MESSAGES = 16_000, 2000
HEADS = (
    "mote",
    "listens",
    "stamp",
    "bytes",
    "delta",
    "mean hold",
    "in arrival order",
    "violations",
    "days",
    "worst",
)


def network_of(board: str) -> PlannedNetwork:
    return PlannedNetwork(MOTES, board, RATE, HOPS, data_bytes=DATA_BYTES, loss=LOSS)


def lines(wanted: Workload) -> Iterator[str]:
    """A row for each board, period and stamp."""
    yield from table(
        HEADS,
        (
            row
            for board in BOARDS
            for period in (ALWAYS_ON, PERIOD_MS)
            for row in rows(board, period, Effort(MESSAGES, seeds=wanted.seeds or 5, busier=True))
        ),
    )


def _listens(period_ms: int) -> str:
    return "always" if period_ms == ALWAYS_ON else f"every {period_ms / 1000:g} s"


def rows(board: str, period_ms: int, effort: Effort) -> Iterator[Sequence[str]]:
    """A row for each stamp, of one board and period."""
    budget = make_budget(with_period(network_of(board), period_ms))
    found = compare(budget, effort=effort, schemes=(CLOCKED, NAMED))
    for row in (found.guaranteed_choice, *found.named):
        if row is not None:
            life = life_with(budget.network, row.candidate.layout)
            yield (
                BOARDS[board].title,
                _listens(period_ms),
                row.candidate.layout.scheme,
                f"{_bytes(row):.1f}",
                _ms(budget.clock.delta * budget.clock.tick_ms),
                _ms(row.hold_mean * budget.clock.tick_ms),
                f"{found.arrival.violations['mean']:.2g}%",
                f"{row.violations['mean']:.2g} of {row.delivered}",
                power.shown_days(life.days),
                power.shown_days(life.worst_days),
            )


def _bytes(row: CandidateRow) -> float:
    """On average; a stamp of fixed length takes whole bytes."""
    return row.mean_bits / 8 if row.candidate.layout.is_variable else row.candidate.layout.size


def _ms(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"
