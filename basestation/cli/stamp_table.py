"""Shows the stamps that `basestation plan` measured, and the choice."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from basestation.causality.policy_choice import policy_label
from basestation.cli import common
from basestation.planning.budget import Budget, PlannedNetwork
from basestation.planning.carry_room import short_of_room
from basestation.planning.chosen_stamp import simulate_command
from basestation.planning.stamp_choice import FIGURE, CandidateRow, Comparison, upper_bound_percent
from basestation.planning.stamp_trials import POLICY
from basestation.simulator.options import WorldOptions
from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.phrases import many

NEAREST = 5


def show(comparison: Comparison, choice: CandidateRow | None, budget: Budget, as_json: bool) -> None:
    if as_json:
        for row in (comparison.arrival, *_shown(comparison, choice)):
            common.emit_json({"kind": "row"} | _row_as_plain(row, comparison, budget, choice))
        common.emit_json(_choice_as_plain(comparison, choice, budget))
        return
    common.out.print()
    _print_tables(comparison, choice, budget)
    if comparison.named:
        lossless = "" if comparison.options.loss else " The simulation loses nothing."
        common.out.print(
            "Stamps that name their causes, each by its own rule. A rule waits for a lost cause until the\n"
            f"cause can no longer come.{lossless}"
        )
    for row in comparison.named:
        common.out.print(f"{'*' if row is choice else ' '} {_described(row, comparison, budget)}")
    common.out.print(_summary(comparison, choice, budget))


def _shown(comparison: Comparison, choice: CandidateRow | None) -> list[CandidateRow]:
    """The rows worth showing, and the choice, which with --guaranteed or --quickest may be another row."""
    worth = {id(row) for row in (*comparison.rows, choice)}
    return [*(row for row in comparison.measured if id(row) in worth), *comparison.named]


def _row_as_plain(
    row: CandidateRow, comparison: Comparison, budget: Budget, choice: CandidateRow | None
) -> dict[str, Any]:
    layout, tick_ms, arrival = row.candidate.layout, budget.clock.tick_ms, row.policy == "none"
    stamp: dict[str, Any] = {
        "scheme": layout.scheme,
        "entries": layout.entries,
        "count": layout.count,
        "packing": layout.packing,
        "counter_bits": layout.entry_bits,
        "stamp_bits": layout.bits,
        "stamp_bytes": layout.size,
        "payload_left": row.candidate.left,
        "fits": row.candidate.left >= 0,
    }
    return (dict.fromkeys(stamp) if arrival else stamp) | {
        "policy": row.policy,
        "phi": row.phi,
        "tolerate": row.tolerate,
        "violations": row.violations,
        "hold": {"mean": row.hold_mean, "p95": row.hold_p95},
        "hold_ms": {"mean": row.hold_mean * tick_ms, "p95": row.hold_p95 * tick_ms},
        "messages": row.sent,
        "delivered": row.delivered,
        "rate_per_tick": comparison.options.rate * comparison.options.events_per_tick,
        "saturated": row.saturated,
        "bounded": row.bounded,
        "wrong_unwraps": row.wrong_unwraps,
        "meets": comparison.of(row) <= comparison.tolerance,
        "guaranteed": row.guaranteed and not arrival,
        "chosen": row is choice,
    }


def _choice_as_plain(comparison: Comparison, choice: CandidateRow | None, budget: Budget) -> dict[str, Any]:
    basis = {"kind": "choice", "figure": FIGURE, "tolerance": comparison.tolerance}
    if choice is None:
        nearest = [_row_as_plain(row, comparison, budget, None) for row in comparison.nearest[:NEAREST]]
        return basis | {"found": False, "nearest": nearest}
    seen = {"upper_bound_percent": upper_bound_percent(choice)} if comparison.of(choice) == 0 else {}
    sure = comparison.guaranteed_choice
    more = {
        "simulate": simulate_command(comparison, choice, budget.network.hops),
        "guaranteed_choice": _row_as_plain(sure, comparison, budget, choice) if sure else None,
    }
    return basis | {"found": True} | _row_as_plain(choice, comparison, budget, choice) | seen | more


def _print_tables(comparison: Comparison, choice: CandidateRow | None, budget: Budget) -> None:
    """Print as many columns side by side as the terminal has room for, and the others below."""
    shown = [row for row in _shown(comparison, choice) if row not in comparison.named]
    columns = list(
        dict.fromkeys(_column(row) for row in sorted(shown, key=lambda row: (row.policy, row.phi)))
    )
    heading = f"Policy {POLICY}: violations (mean, % of messages) and mean hold (ms)"
    boundless = common.out.options.update(max_width=10_000)
    while columns:
        for count, gap in ((count, gap) for count in range(len(columns), 0, -1) for gap in (1, 0)):
            table = _table(heading, columns[:count], gap, shown, comparison, choice, budget)
            if common.out.measure(table, options=boundless).maximum <= common.out.width:
                break
        common.out.print(table)
        heading, columns = f"Policy {POLICY}, continued", columns[count:]


def _column(row: CandidateRow) -> str:
    return f"phi {row.phi}" if row.tolerate is None else f"tolerate {row.tolerate:g}"


def _table(
    heading: str,
    columns: list[str],
    gap: int,
    rows: list[CandidateRow],
    comparison: Comparison,
    choice: CandidateRow | None,
    budget: Budget,
) -> Table:
    """A table with a line for each stamp; its cells are violations and hold."""
    table = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, padding=(0, gap, 0, 0))
    table.add_column("stamp", no_wrap=True)
    table.add_column("pack", no_wrap=True)
    for name in ("bytes", "left", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    for candidate in dict.fromkeys(row.candidate for row in rows):
        own = {_column(row): row for row in rows if row.candidate is candidate}
        if not own.keys() & set(columns):
            continue
        left = str(candidate.left) if candidate.left >= 0 else f"{candidate.left}!"
        cells = [_cell(own.get(name), comparison, choice, budget.clock.tick_ms) for name in columns]
        style = None if candidate.left >= 0 else "dim"
        table.add_row(
            candidate.name, candidate.layout.packing, str(candidate.layout.size), left, *cells, style=style
        )
    return table


def _cell(
    row: CandidateRow | None, comparison: Comparison, choice: CandidateRow | None, tick_ms: float
) -> Text:
    if row is None:
        return Text("")
    mark = "*" if row is choice else ""
    style = "bold green" if row is choice else ("" if comparison.of(row) <= comparison.tolerance else "dim")
    violations = comparison.of(row)
    digits = 2 if violations >= 0.1 else 1
    return Text(f"{mark}{violations:.{digits}g} {row.hold_mean * tick_ms:3.0f}", style)


def _summary(comparison: Comparison, choice: CandidateRow | None, budget: Budget) -> str:
    options, arrival = comparison.options, comparison.arrival
    lines = [
        f"Left: of {PAYLOAD_LIMIT[budget.network.tinyos]} bytes of payload; with a ! the stamp does not fit. "
        "Empty: another phi does better.",
        f"Arrival order (policy none): {comparison.of(arrival):.2g}% violations, no hold.",
        f"Simulated: {arrival.sent} messages, {_rate_simulated(options, budget)}.",
        f"Assumed: {_layout_assumed(budget.network)}",
        *_carry_lines(comparison, budget),
    ]
    if choice is not None:
        lines += ["", *_choice_lines(comparison, choice, budget)]
    return "\n".join(lines)


def _carry_lines(comparison: Comparison, budget: Budget) -> Iterator[str]:
    """A line for each scheme whose full counters have less room to carry than a wider clock would give them."""
    clock, rows = budget.clock, comparison.measured
    stamps = dict.fromkeys(row.candidate for row in rows if row.candidate.layout.carry == "sum")
    for scheme, group in groupby(stamps, lambda one: one.layout.scheme):
        found = [(one.name, short_of_room(one.layout, clock.epsilon, clock.delta)) for one in group]
        short = [(name, room) for name, room in found if room]
        if short:
            longer = ", ".join(name for name, room in short if room.grows)
            cost = f", and {longer} would take a byte more" if longer else ""
            yield f"{scheme}: {short[0][1].text}; {short[0][1].cure}{cost}."


def _rate_simulated(options: WorldOptions, budget: Budget) -> str:
    simulated = options.rate * options.events_per_tick
    asked = budget.network.rate * budget.clock.tick_ms / 1000
    more = (
        f", more than the {asked:.2g} asked for, so that messages meet" if simulated > 1.001 * asked else ""
    )
    return f"{simulated:.3g} a tick from each mote{more}"


def _layout_assumed(network: PlannedNetwork) -> str:
    if network.hops == 1:
        return "every mote hears every other, and the gateway hears all."
    return f"{network.hops} equal groups in a line; a mote hears its own and those beside it, the gateway the first."


def _choice_lines(comparison: Comparison, choice: CandidateRow, budget: Budget) -> list[str]:
    lines = [f"* {_described(choice, comparison, budget)}"]
    if comparison.of(choice) == 0:
        bound = upper_bound_percent(choice)
        lines.append(f"  0 seen in {choice.delivered} messages: at 95% confidence below {bound:.2g}% (3/N).")
    narrower = comparison.narrower(choice)
    if narrower and not choice.candidate.layout.is_variable:
        names, do = ", ".join(one.name for one in narrower), "does" if len(narrower) == 1 else "do"
        lines.append(
            f"  {names} {do} as well, but a wider counter in the same bytes is free, and full later."
        )
    sure = comparison.guaranteed_choice
    if choice.guaranteed:
        lines.append(f"  {_how_sure(choice)}")
    elif sure is not None:
        lines += [
            "  --guaranteed chooses:",
            f"  {_described(sure, comparison, budget)}",
            f"  {_how_sure(sure)}",
        ]
    quick = comparison.quickest
    if quick is not None and quick is not choice:
        lines += ["  --quickest chooses:", f"  {_described(quick, comparison, budget)}"]
    if comparison.of(comparison.arrival) <= comparison.tolerance:
        lines.append("  Arrival order alone meets the tolerance in this simulation.")
    return [*lines, "", "The first of these networks again:", *_typed(comparison, choice, budget)]


def _typed(comparison: Comparison, choice: CandidateRow, budget: Budget) -> list[str]:
    """The command in lines for a terminal, joined by backslashes."""
    words = simulate_command(comparison, choice, budget.network.hops).replace(" --", "\n--").split("\n")
    lines = textwrap.wrap(" ".join(word.replace(" ", "\0") for word in words), 74, break_on_hyphens=False)
    return ["  " + line.replace("\0", " ") + " \\" * (line is not lines[-1]) for line in lines]


def _how_sure(row: CandidateRow) -> str:
    """A sentence on how sure a guaranteed row is."""
    if row.candidate.proven:
        return "Exact by proof, while epsilon and delta hold and no entry is full: none was in these runs."
    return "Exact as long as epsilon and delta hold and no counter is full: none was in these runs."


def _described(row: CandidateRow, comparison: Comparison, budget: Budget) -> str:
    layout, candidate = row.candidate.layout, row.candidate
    size = f"{layout.bits} bits in {many(layout.size, 'byte')}"
    if layout.is_variable:
        size = f"{layout.least_size} to {many(layout.size, 'byte')}, {row.mean_bits / 8:.1f} on average"
    left = f"{candidate.left} left" if candidate.left >= 0 else f"{-candidate.left} too many"
    label = policy_label(row.policy, row.tolerate)
    policy = f"{label} phi {row.phi}" if row.policy == POLICY else label
    return (
        f"{candidate.name} ({layout.packing}), {size}, {left}; {policy}: "
        f"{comparison.of(row):.2g}% violations, hold {row.hold_mean:.1f} ticks = "
        f"{row.hold_mean * budget.clock.tick_ms:.0f} ms"
    )


def nothing_good(comparison: Comparison, budget: Budget) -> str:
    near = [f"  {_described(row, comparison, budget)}" for row in comparison.nearest[:NEAREST]]
    return "\n".join(
        [f"no stamp that fits has at most {comparison.tolerance:g}% violations; nearest:", *near]
    )
