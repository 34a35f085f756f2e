"""How `basestation plan` shows life against hold against violations."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.cli import common
from basestation.planning.budget import PlannedNetwork
from basestation.planning.life import LifePlan
from basestation.planning.stamp_choice import CandidateRow
from basestation.planning.trade import CLOCKED, NAMED, Trade, TradeRow
from packet_formats.power import shown_days
from packet_formats.schedule import ms

MODEL = (
    "Days are a model's, not measured: most emulated motes lasted longer, the worst of some networks up to a quarter "
    "less (docs/reference/power.md)."
)


def show(trade: Trade, chosen: TradeRow | None, network: PlannedNetwork, days: float, as_json: bool) -> None:
    if as_json:
        for row in trade.rows:
            common.emit_json(_row_as_plain(row, chosen, days))
        for period, reason in trade.refused.items():
            common.emit_json({"kind": "life", "period_ms": period, "possible": False, "reason": reason})
        return
    common.out.print(_table(trade, chosen, network))
    notes = [
        f"Days: of the mean mote, and of the one that lasts least. Loss {network.loss:.0%} on each link.",
        MODEL,
        f"{CLOCKED}: mean hold in ms at the whole wait, which is exact, and at the shortest that met the tolerance.",
        f"{NAMED}: mean hold in ms of the stamp that names causes. Arrival: violations without any hold, in %.",
        "A message also waits for its window, before it is stamped: half a period on average.",
    ]
    notes += [f"{period / 1000:g} s: {reason}." for period, reason in trade.refused.items()]
    if chosen is not None:
        notes.append(f"* the shortest period in which every mote lasts {days:g} days.")
    common.out.print("\n".join(notes))
    common.out.print()


def _table(trade: Trade, chosen: TradeRow | None, network: PlannedNetwork) -> Table:
    title = (
        f"Life against wait: {network.motes} {network.board}, a message in {1 / network.rate:.3g} s of each"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("period", no_wrap=True)
    headings = (
        "window ms", "delta ms", "duty %", "days", "worst", "arrival %", f"{CLOCKED} ms", "shortest",
        f"{NAMED} ms",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in trade.rows:
        mark, style = ("*", "bold green") if row is chosen else (" ", None)
        table.add_row(mark + row.name, *_cells(row), style=style)
    return table


def _cells(row: TradeRow) -> list[str]:
    clock, comparison = row.budget.clock, row.comparison
    window = row.budget.network.window_ms
    return [
        str(window) if window else "",
        f"{clock.delta * clock.tick_ms:.0f}",
        f"{100 * row.life.duty:.3g}",
        shown_days(row.life.days),
        shown_days(row.life.worst_days),
        f"{comparison.of(comparison.arrival):.2g}",
        *(_hold(one, clock.tick_ms) for one in (row.whole, row.short, row.named)),
    ]


def _hold(row: CandidateRow | None, tick_ms: float) -> str:
    return "-" if row is None else f"{row.hold_mean * tick_ms:.0f}"


def _row_as_plain(row: TradeRow, chosen: TradeRow | None, days: float) -> dict[str, Any]:
    budget, comparison = row.budget, row.comparison
    clock, stamps = budget.clock, {"whole": row.whole, "shortest": row.short, NAMED: row.named}
    return {
        "kind": "life",
        "period_ms": row.period_ms,
        "possible": True,
        "chosen": row is chosen,
        "window_ms": budget.network.window_ms,
        "tick_log2": clock.tick_log2,
        "epsilon": clock.epsilon,
        "delta": clock.delta,
        "delta_ms": clock.delta * clock.tick_ms,
        **life_as_plain(row.life),
        "meets": row.lasts(days),
        "wait_ms": row.period_ms / 2,
        "arrival": {"violations": comparison.arrival.violations, "hold_ms": 0.0},
        **{name: _stamp_as_plain(one, clock.tick_ms) for name, one in stamps.items()},
    }


def life_as_plain(life: LifePlan) -> dict[str, Any]:
    return {
        "model": True,
        "mah": life.mah,
        "ma": life.ma,
        "duty": life.duty,
        "days": life.days,
        "worst_days": life.worst_days,
        "worst_hop": life.worst.level,
        "parts": life.ma_of,
    }


def _stamp_as_plain(row: CandidateRow | None, tick_ms: float) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "stamp": row.candidate.name,
        "bytes": row.mean_bits / 8,
        "policy": row.policy,
        "phi": row.phi,
        "hold_ms": row.hold_mean * tick_ms,
        "violations": row.violations,
        "delivered": row.delivered,
    }


def show_chosen(life: LifePlan, without_urgent: LifePlan, urgent: bool, as_json: bool) -> None:
    """The life with the stamp that was chosen, and what takes it; urgent windows beside a life without them.

    `urgent`: they were asked for.
    """
    schedule = life.schedule
    assert schedule is not None
    if as_json:
        told = (
            {
                "urgent_ms": round(ms(schedule.urgent)),
                "urgent_wait_ms": schedule.urgent_wait_ms,
                "urgent_costs_days": without_urgent.days - life.days,
                "urgent_costs_worst_days": without_urgent.worst_days - life.worst_days,
            }
            if schedule.urgent_log2
            else {}
        )
        common.emit_json(
            {"kind": "chosen_life", "period_ms": schedule.period_ms} | life_as_plain(life) | told
        )
        return
    takes = ", ".join(
        f"{part} {1000 * ma:.0f}" for part, ma in sorted(life.ma_of.items(), key=lambda one: -one[1])
    )
    lines = [
        "",
        f"Life with this stamp: {shown_days(life.days)} days of the mean mote, {shown_days(life.worst_days)} of one at "
        f"hop {life.worst.level}, on {life.mah:g} mAh. Radio on {life.duty:.2%} of the time.",
        f"  Of {1000 * life.ma:.0f} uA: {takes}.",
        f"  {MODEL}",
    ]
    if schedule.urgent_log2:
        lines.append(
            f"  Urgent messages: {schedule.urgent_wait_ms / 1000:.1f} s at most to the gateway, if nothing is lost. To "
            f"look for them every {ms(schedule.urgent) / 1000:g} s takes {without_urgent.days - life.days:.0f} days of "
            f"the mean mote and {without_urgent.worst_days - life.worst_days:.0f} of the worst."
        )
    elif urgent:
        lines.append(
            "  Urgent messages have no windows of their own: all windows come as often as --urgent says."
        )
    common.out.print("\n".join(lines))


def too_short(trade: Trade, days: float, urgent: bool) -> str:
    """Why no period is good enough, and what would be."""
    if not trade.rows:
        return "; ".join(dict.fromkeys(trade.refused.values()))
    best = max(trade.rows, key=lambda row: row.life.worst_days)
    worst = best.life.worst.level
    lasts = f"{f'the motes at hop {worst}' if worst else 'all motes'} last {best.life.worst_days:.0f}"
    return (
        f"no period lasts {days:g} days: with the best, {best.name}, {lasts}; "
        f"plan fewer messages, fewer motes, {'less often --urgent or none, ' if urgent else ''}or larger cells "
        "(--capacity)"
    )
