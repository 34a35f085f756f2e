"""Makes the tables of what a schedule costs and gains. `make power-table` runs it: two minutes on two cores.

    python -m tools.power_table [--write] [--period-ms 16000] [--seeds 5] [--messages 2000] [--loss 5]

Ten motes of each board over three hops, a message in ten seconds of each: always on and by a schedule, ordered by the
clock in the stamp (shlc) and by the causes that it names (barrier). Simulated messages, every one judged by the true
happened-before; days by the model of `basestation plan`. A second table has all periods. Prints them in Markdown; with
--write they also go into docs/evidence/power.md, between their marks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from basestation.planning.budget import PlannedNetwork, make_budget
from basestation.planning.candidates import CandidateRow, Effort, compare
from basestation.planning.trade import (
    ALWAYS_ON,
    CLOCKED,
    NAMED,
    Trade,
    life_with,
    make_trade,
    periods,
    with_period,
)
from packet_formats import power
from packet_formats.boards import BOARDS
from packet_formats.schedule import PERIODS_LOG2
from tools.pages import MarkedPlace, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "power.md"
PLACE = MarkedPlace(PAGE, "<!-- power: made by `make power-table` -->", "<!-- end of the power table -->")
PERIODS = MarkedPlace(PAGE, "<!-- trade: made by `make power-table` -->", "<!-- end of the trade -->")
MOTES, HOPS, RATE, DATA_BYTES = 10, 3, 0.1, 6
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


PERIOD_HEADS = (
    "period",
    *(
        f"{board.title}: {what}"
        for board in BOARDS.values()
        for what in ("window", "duty", "days", CLOCKED, NAMED)
    ),
)


def network_of(board: str, loss: float) -> PlannedNetwork:
    return PlannedNetwork(MOTES, board, RATE, HOPS, data_bytes=DATA_BYTES, loss=loss)


def period_rows(effort: Effort, loss: float) -> Iterator[Sequence[str]]:
    """A row for each period, with all boards beside each other."""
    trades = [make_trade(network_of(board, loss), effort=effort) for board in BOARDS]
    for period in periods():
        cells = [_period_cells(trade, period) for trade in trades]
        yield (_listens(period), *(cell for board in cells for cell in board))


def _period_cells(trade: Trade, period_ms: int) -> list[str]:
    row = next((row for row in trade.rows if row.period_ms == period_ms), None)
    if row is None:
        return ["none fits", "", "", "", ""]
    tick_ms, life = row.budget.clock.tick_ms, row.life
    return [
        _ms(row.budget.network.window_ms) if period_ms else "",
        f"{100 * life.duty:.2g}%" if period_ms else "100%",
        f"{power.shown_days(life.days)} / {power.shown_days(life.worst_days)}",
        *("-" if one is None else _ms(one.hold_mean * tick_ms) for one in (row.whole, row.named)),
    ]


def _listens(period_ms: int) -> str:
    return "always" if period_ms == ALWAYS_ON else f"every {period_ms / 1000:g} s"


def rows(board: str, period_ms: int, effort: Effort, loss: float) -> Iterator[Sequence[str]]:
    """A row for each stamp, of one board and period."""
    budget = make_budget(with_period(network_of(board, loss), period_ms))
    found = compare(budget, policies=("cbd",), effort=effort, schemes=(CLOCKED, NAMED))
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence/power.md")
    parser.add_argument("--period-ms", type=int, choices=tuple(PERIODS_LOG2), default=16000)
    parser.add_argument("--seeds", type=int, default=5, help="simulated networks (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=2000, help="of each (default: %(default)s)")
    parser.add_argument(
        "--loss", type=float, default=5.0, help="%% of frames lost on a link (default: %(default)s)"
    )
    asked = parser.parse_args(arguments)
    effort = Effort(asked.messages, seeds=asked.seeds, busier=True)
    found = [
        row
        for board in BOARDS
        for period in (ALWAYS_ON, asked.period_ms)
        for row in rows(board, period, effort, asked.loss / 100)
    ]
    for place, heads, lines in (
        (PLACE, HEADS, found),
        (PERIODS, PERIOD_HEADS, period_rows(effort, asked.loss / 100)),
    ):
        text = "\n".join(table(heads, lines))
        print(text)
        if asked.write:
            place.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
