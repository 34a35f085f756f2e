"""`basestation plan`: a network's delay budget, and the smallest stamp that is good enough for it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from basestation import how_to_install
from basestation.causality.policy_choice import policy_label
from basestation.cli import common, life_table
from basestation.cli.progress import progress
from basestation.planning.budget import (
    GUESS_MS,
    LINK_LOSS,
    PLANNED_BEACON_SECONDS,
    Budget,
    BudgetError,
    PlannedNetwork,
    make_budget,
)
from basestation.planning.candidates import (
    FIGURES,
    PHIS,
    POLICIES,
    CandidateRow,
    Comparison,
    Effort,
    compare,
    deployment_of,
    simulate_command,
    steps_of,
    upper_bound_percent,
)
from basestation.planning.carry_room import short_of_room
from basestation.planning.trade import Trade, life_with, make_trade, periods, with_period
from basestation.simulator.options import OptionError, WorldOptions
from packet_formats import deployment as deployments
from packet_formats import power
from packet_formats.boards import BOARDS, DEFAULT_BOARD
from packet_formats.layout import PAYLOAD_LIMIT
from packet_formats.phrases import many
from packet_formats.schedule import MOST_LEVELS, PERIODS_LOG2
from packet_formats.schemes import LEDGER

MOST_MOTES = 1000  # the truth is n counters a message
PICTURES = (".png", ".svg", ".pdf")
NEAREST = 5


OPTIONS = [
    common.field_option(
        PlannedNetwork,
        "motes",
        "How many motes the network has, without the gateway.",
        click.IntRange(2, MOST_MOTES),
    ),
    common.field_option(
        PlannedNetwork,
        "rate",
        "Messages that each mote sends in a second.",
        common.FiniteFloat(0, 1000, min_open=True),
    ),
    common.field_option(
        PlannedNetwork,
        "hops",
        "Transmissions that a message of the farthest mote needs to reach the gateway.",
        click.IntRange(1, 15),
    ),
    common.field_option(
        PlannedNetwork,
        "board",
        "The kind of mote, and so its radio: "
        + ", ".join(f"{board.title} has a {board.radio.chip}" for board in BOARDS.values())
        + ".",
        click.Choice(list(BOARDS)),
        required=False,
        default=DEFAULT_BOARD.name,
        show_default=True,
    ),
    click.option(
        "--tolerate",
        type=common.FiniteFloat(0, 100),
        default=0.0,
        show_default=True,
        metavar="PERCENT",
        help="How many violations of causal order are good enough, by the figure that --figure names.",
    ),
    click.option(
        "--days",
        type=common.FiniteFloat(0, 100_000, min_open=True),
        help="How long the cells of every mote shall last. Chooses the shortest period in which motes may listen once, "
        "and shows what each period costs.",
    ),
    click.option(
        "--toml",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the chosen deployment into this file, for `describe` and for the firmware.",
    ),
    click.option(
        "--name",
        default="plan",
        show_default=True,
        help="Name of the network in the file of --toml; one word.",
    ),
    click.option(
        "--plot",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Draw the comparison into this file: .png, .svg or .pdf. Needs matplotlib.",
    ),
    common.json_option,
    common.field_option(
        PlannedNetwork,
        "tinyos",
        "The version of TinyOS whose message format is used: 1 has 29 bytes of payload, 2 has 28.",
        click.IntRange(1, 2),
    ),
    common.field_option(
        PlannedNetwork, "data_bytes", "Bytes of the application in each message.", click.IntRange(0, 29)
    ),
    common.field_option(
        PlannedNetwork,
        "receipts",
        "Slots in each message that name the messages last received. They serve measurements, not the order.",
        click.IntRange(0, 13),
    ),
    common.field_option(
        PlannedNetwork,
        "mic",
        "Bytes of a MIC in each message: 4 for a network with a key, whose messages strangers cannot forge.",
        click.IntRange(0, 4),
    ),
    click.option(
        "--beacon",
        type=common.FiniteFloat(0.1, 86_400),
        default=PLANNED_BEACON_SECONDS,
        show_default=True,
        help="Seconds between two time beacons. The longer, the farther clocks drift apart.",
    ),
    click.option(
        "--margin",
        type=common.FiniteFloat(0, 1000),
        metavar="PERCENT",
        help="Add this to the delay budget, for interference and other traffic.  [default: "
        + ", ".join(f"{name} {100 * board.radio.delay_margin:.0f}" for name, board in BOARDS.items())
        + "]",
    ),
    common.field_option(
        PlannedNetwork,
        "foreign_gateway",
        "The gateway is not Causeway's and stamps no time of reception. The serial line then counts into "
        f"delta, and the clock in a stamp gets room for beacons and frames that are {GUESS_MS // 2} ms late.",
        is_flag=True,
        show_default=False,
    ),
    click.option(
        "--period-ms",
        type=click.Choice(tuple(map(str, PERIODS_LOG2))),
        help="Milliseconds from one window in which motes listen to the next.  [default: always, or from --days]",
    ),
    click.option(
        "--window-ms",
        type=common.Whole(1),
        help="How long data may be on its way in a window.  [default: room for what a period brings]",
    ),
    click.option(
        "--urgent",
        type=click.Choice([f"{period // 1000}" for period in PERIODS_LOG2][:-1]),
        metavar="SECONDS",
        help="Motes also look this often whether somebody has something urgent: 2, 4, 8, 16 or 32. Shows what that "
        "costs. With --days or --period-ms.",
    ),
    click.option(
        "--capacity",
        type=common.FiniteFloat(0, 1e6, min_open=True),
        default=power.CELLS_MAH,
        show_default=True,
        metavar="MAH",
        help="Charge of a mote's cells down to 2.7 V.",
    ),
    click.option(
        "--loss",
        type=common.FiniteFloat(0, 50),
        default=100 * LINK_LOSS,
        show_default=True,
        metavar="PERCENT",
        help="Share of frames that a link loses, where motes listen by a schedule.",
    ),
    click.option(
        "--tick-log2",
        type=click.IntRange(0, 16),
        help="Length of a clock tick: 2^N cycles of the 32768 Hz crystal.  [default: from the budget]",
    ),
    click.option(
        "--epsilon",
        type=click.IntRange(1, 32767),
        help="Largest difference of two motes' clocks, in ticks.  [default: from the budget]",
    ),
    click.option(
        "--delta",
        type=click.IntRange(1, 65535),
        help="Longest delay of a message, in ticks.  [default: from the budget]",
    ),
    click.option(
        "--figure",
        type=click.Choice(FIGURES),
        default="mean",
        show_default=True,
        help="How to count violations: see Violations in docs/evidence/algorithms.md. mean is the paper's.",
    ),
    click.option(
        "--guaranteed",
        is_flag=True,
        help="Choose only a stamp that is exact at phi 100 (kn all, hlc, shlc) and that was never full, cut or misread "
        "in these runs.",
    ),
    click.option(
        "--quickest",
        is_flag=True,
        help="Choose the shortest hold instead of the smallest stamp; of holds within a tick the smaller stamp.",
    ),
    click.option(
        "--policy",
        "policies",
        type=click.Choice(POLICIES),
        multiple=True,
        default=POLICIES,
        show_default=True,
        help="Delivery policy to measure, explained above; may be repeated.",
    ),
    common.field_option(
        Effort,
        "messages",
        "Messages to simulate for each seed. If given, a very low rate is simulated as it is and not raised to "
        "the least at which messages meet.  [default: a few seconds' worth]",
        common.Whole(1),
    ),
    common.field_option(
        Effort,
        "seed",
        "Seed of the first simulated network; the others have the numbers after it.",
        common.Whole(0),
    ),
    common.field_option(
        Effort,
        "seeds",
        "How many networks to simulate, each with a seed of its own.",
        click.IntRange(1, 1000),
    ),
]
PANELS = {
    "Message": ("tinyos", "data_bytes", "receipts", "mic"),
    "Life of the cells": ("days", "period_ms", "window_ms", "urgent", "capacity", "loss"),
    "Clock and delay budget": (
        "beacon", "margin", "foreign_gateway", "tick_log2", "epsilon", "delta",
    ),
    "Choice": ("figure", "guaranteed", "quickest", "policies"),
    "Simulation": ("messages", "seed", "seeds"),
}  # fmt: skip


@click.command(
    cls=common.PanelCommand,
    panels=PANELS,
    epilog=common.example(
        """
        basestation plan --motes 20 --hops 3 --rate 0.5
        basestation plan --motes 8 --board mica2 --rate 0.1 --hops 2 --data-bytes 6 --tolerate 0.5
        basestation plan --motes 20 --hops 3 --rate 0.5 --quickest
        basestation plan --motes 20 --hops 3 --rate 0.5 --toml field.toml --plot field.png
        basestation plan --motes 10 --hops 3 --rate 0.1 --days 180 --toml field.toml --plot field.png
        basestation plan --motes 10 --hops 3 --rate 0.1 --days 180 --urgent 2 --toml field.toml
        basestation plan --motes 10 --rate 10 --tick-log2 8 --epsilon 10 --delta 10 --json
        """
    ),
)
@common.add_options(OPTIONS)
def command(
    *,
    tolerate: float,
    figure: str,
    guaranteed: bool,
    quickest: bool,
    policies: tuple[str, ...],
    plot: Path | None,
    toml: Path | None,
    name: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Find the smallest stamp that is good enough for a network.

    First the delay budget: it derives the tick, epsilon and delta from airtime, backoff, relays and crystals. Then
    every stamp is measured on a simulation of this network. The smallest stamp that meets the tolerance is marked; of
    several, the one with the shortest hold; with --quickest the shortest hold comes first. The exit code is 1 if none
    meets it.

    The observer holds a message for phi per cent of the time after which nothing that belongs before it can still
    arrive. With dapw, messages that are due at the same time leave in order. causal is dapw at phi 100: the whole wait.
    With cbd, a message that is due also waits while a held message that belongs before it is not due. The ledger finds
    its wait by itself, so that at most --tolerate per cent of the messages are in a violation.
    """
    if guaranteed and quickest:
        raise click.UsageError(
            "--guaranteed chooses the smallest stamp and --quickest the shortest hold: give one"
        )
    effort, capacity = Effort(**_fields_of(Effort, given)), given["capacity"]
    budget, trade = _budget(given), None
    _check_targets(budget, plot, toml, name)
    if given["days"] is not None:
        budget, trade = _traded(budget, given, (tolerate, figure), effort, as_json)
    _show_budget(budget, as_json)
    if budget.refusals:
        common.fail("; ".join(budget.refusals))
    try:
        line = f"Measuring every stamp on {many(effort.seeds, 'simulated network')}; this may take a minute."
        with progress(steps_of(budget, effort), "simulating", line) as advance:
            comparison = compare(budget, tolerate, figure, policies, effort, advance)
    except (OptionError, BudgetError) as error:
        raise click.UsageError(str(error)) from None
    choice = comparison.guaranteed_choice if guaranteed else comparison.choice
    if quickest:
        choice = comparison.quickest
    _show_comparison(comparison, choice, budget, as_json)
    if plot is not None:
        _draw(comparison, choice, budget, trade, plot)
    if choice is None:
        common.fail(_nothing_good(comparison, budget))
    if budget.network.period_ms:
        network = budget.network
        lives = [
            life_with(one, choice.candidate.layout, capacity)
            for one in (network, replace(network, urgent_ms=0))
        ]
        life_table.show_chosen(lives[0], lives[1], bool(given["urgent"]), as_json)
    if toml is not None:
        _write_toml(budget, choice, name, toml)


def _budget(given: dict[str, Any]) -> Budget:
    margin = None if given["margin"] is None else given["margin"] / 100
    known = _fields_of(PlannedNetwork, given) | {"beacon_seconds": given["beacon"], "margin": margin}
    period, window = int(given["period_ms"] or 0), given["window_ms"] or 0
    if period and given["days"] is not None:
        raise click.UsageError("--days chooses the period: leave --period-ms away")
    if window and not period:
        raise click.UsageError("--window-ms needs --period-ms")
    if given["urgent"] and not period and given["days"] is None:
        raise click.UsageError("--urgent needs --days or --period-ms")
    if given["urgent"] and given["hops"] > MOST_LEVELS:
        raise click.UsageError(f"--urgent is for networks of {MOST_LEVELS} hops at most")
    known |= {"period_ms": 0, "window_ms": 0, "loss": given["loss"] / 100}
    known |= {"urgent_ms": 1000 * int(given["urgent"] or 0)}
    try:
        network = with_period(PlannedNetwork(**known), period, window)
        return make_budget(network, given["tick_log2"], given["epsilon"], given["delta"])
    except BudgetError as error:
        raise _bad(error) from None


def _traded(
    budget: Budget, given: dict[str, Any], wanted: tuple[float, str], effort: Effort, as_json: bool
) -> tuple[Budget, Trade]:
    """The budget with the shortest period that lasts long enough, and what all periods lead to."""
    days, network = given["days"], budget.network
    try:
        line = f"Planning and simulating {len(periods())} periods; this may take a minute."
        with progress(len(periods()), "trading", line) as advance:
            trade = make_trade(network, *wanted, effort, given["capacity"], advance)
    except (OptionError, BudgetError) as error:
        raise click.UsageError(str(error)) from None
    chosen = trade.shortest(days)
    life_table.show(trade, chosen, network, days, as_json)
    if chosen is None:
        common.fail(life_table.too_short(trade, days, bool(given["urgent"])))
    if not chosen.period_ms:
        return budget, trade
    clock = given["tick_log2"], given["epsilon"], given["delta"]
    try:
        return make_budget(chosen.budget.network, *clock), trade
    except BudgetError as error:
        raise _bad(error) from None


def _bad(error: BudgetError) -> click.BadParameter:
    option = {"urgent-ms": "urgent"}.get(error.setting, error.setting)
    return click.BadParameter(str(error), param_hint=f"--{option}")


def _fields_of(owner: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The options that are fields of this dataclass."""
    return {field.name: given[field.name] for field in fields(owner) if field.name in given}


# The budget


def _show_budget(budget: Budget, as_json: bool) -> None:
    for warning in budget.warnings:
        common.note(f"Warning: {warning}", style="yellow")
    if as_json:
        common.emit_json(budget_as_plain(budget))
        return
    network, clock = budget.network, budget.clock
    title = f"Delay budget: {network.motes} {network.board}, {many(network.hops, 'hop')}"
    table = Table(title=title, title_justify="left")
    table.add_column("share")
    table.add_column("ms", justify="right")
    table.add_column("why")
    for row in budget.delay:
        table.add_row(row.name, f"{row.ms:.1f}" if row.counts else f"({row.ms:.1f})", row.why)
    ticks = f"{many(clock.delta, 'tick')} of {clock.tick_ms:.4g} ms (2^{clock.tick_log2} cycles)"
    table.add_row(
        "delta", f"{clock.delta * clock.tick_ms:.1f}", f"{ticks} for {budget.delay_ms:.1f} ms", style="bold"
    )
    table.add_section()
    for row in budget.sync:
        table.add_row(row.name, f"{row.ms:.1f}" if row.counts else f"({row.ms:.1f})", row.why)
    ticks = f"{many(clock.epsilon, 'tick')} for {budget.sync_ms:.1f} ms and a tick of rounding"
    table.add_row("epsilon", f"{clock.epsilon * clock.tick_ms:.1f}", ticks, style="bold")
    common.out.print(table)
    common.out.print(
        f"Load: channel {network.channel_load:.1%}, busiest relay {network.relay_load:.1%}, "
        f"serial line {network.line_load:.1%}. Frames of {network.payload} bytes of payload."
    )


def budget_as_plain(budget: Budget) -> dict[str, Any]:
    network, clock = budget.network, budget.clock
    return {
        "kind": "budget",
        "network": network,
        "delay": budget.delay,
        "delay_ms": budget.delay_ms,
        "sync": budget.sync,
        "sync_ms": budget.sync_ms,
        "tick_log2": clock.tick_log2,
        "tick_ms": clock.tick_ms,
        "delta": clock.delta,
        "epsilon": clock.epsilon,
        "channel_load": network.channel_load,
        "relay_load": network.relay_load,
        "line_load": network.line_load,
        "warnings": budget.warnings,
        "refusals": budget.refusals,
    }


# The comparison


def _show_comparison(
    comparison: Comparison, choice: CandidateRow | None, budget: Budget, as_json: bool
) -> None:
    if as_json:
        for row in (comparison.arrival, *_shown(comparison, choice)):
            common.emit_json({"kind": "row"} | row_as_plain(row, comparison, budget, choice))
        common.emit_json(choice_as_plain(comparison, choice, budget))
        return
    common.out.print()
    shown = [row for row in _shown(comparison, choice) if row not in comparison.named]
    for policies in (("cbd",), ("dapw", "causal"), (LEDGER,)):
        rows = [row for row in shown if row.policy in policies]
        if rows:
            _print_tables(" and ".join(policies), rows, comparison, choice, budget)
    if comparison.named:
        nothing = "" if comparison.options.loss else "Nothing is lost in this simulation: "
        common.out.print(
            f"Stamps that name their causes, each by its own rule. {nothing}A lost cause is waited for until it can\n"
            "no longer come."
        )
    for row in comparison.named:
        common.out.print(f"{'*' if row is choice else ' '} {_described(row, comparison, budget)}")
    common.out.print(_summary(comparison, choice, budget))


def _shown(comparison: Comparison, choice: CandidateRow | None) -> list[CandidateRow]:
    """The rows worth showing, and the choice, which may be another row with --guaranteed or --quickest."""
    worth = {id(row) for row in (*comparison.rows, choice)}
    return [*(row for row in comparison.measured if id(row) in worth), *comparison.named]


def row_as_plain(
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


def choice_as_plain(comparison: Comparison, choice: CandidateRow | None, budget: Budget) -> dict[str, Any]:
    basis = {"kind": "choice", "figure": comparison.figure, "tolerance": comparison.tolerance}
    if choice is None:
        nearest = [row_as_plain(row, comparison, budget, None) for row in comparison.nearest[:NEAREST]]
        return basis | {"found": False, "nearest": nearest}
    seen = {"upper_bound_percent": upper_bound_percent(choice)} if comparison.of(choice) == 0 else {}
    sure = comparison.guaranteed_choice
    more = {
        "simulate": simulate_command(comparison, choice, budget.network.hops),
        "guaranteed_choice": row_as_plain(sure, comparison, budget, choice) if sure else None,
    }
    return basis | {"found": True} | row_as_plain(choice, comparison, budget, choice) | seen | more


def _print_tables(
    title: str, rows: list[CandidateRow], comparison: Comparison, choice: CandidateRow | None, budget: Budget
) -> None:
    """Print as many phis side by side as the terminal has room for, and the others below."""
    phis = [phi for phi in PHIS if any(row.phi == phi for row in rows)]
    heading = f"Policy {title}: violations ({comparison.figure}, % of messages) and mean hold (ms)"
    boundless = common.out.options.update(max_width=10_000)
    while phis:
        for count, gap in ((count, gap) for count in range(len(phis), 0, -1) for gap in (1, 0)):
            table = _table(heading, phis[:count], gap, rows, comparison, choice, budget)
            if common.out.measure(table, options=boundless).maximum <= common.out.width:
                break
        common.out.print(table)
        heading, phis = f"Policy {title}, continued", phis[count:]


def _table(
    heading: str,
    phis: list[int],
    gap: int,
    rows: list[CandidateRow],
    comparison: Comparison,
    choice: CandidateRow | None,
    budget: Budget,
) -> Table:
    """A table with a line for each stamp and a column for each phi; its cells are violations and hold."""
    table = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, padding=(0, gap, 0, 0))
    table.add_column("stamp", no_wrap=True)
    table.add_column("pack", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("left", justify="right", no_wrap=True)
    for phi in phis:
        table.add_column(_phi_heading(phi, heading, comparison), justify="right", no_wrap=True)
    for candidate in dict.fromkeys(row.candidate for row in rows):
        own = {row.phi: row for row in rows if row.candidate is candidate and row.phi in phis}
        if not own:
            continue
        left = str(candidate.left) if candidate.left >= 0 else f"{candidate.left}!"
        cells = [_cell(own.get(phi), comparison, choice, budget.clock.tick_ms) for phi in phis]
        style = None if candidate.left >= 0 else "dim"
        table.add_row(
            candidate.name, candidate.layout.packing, str(candidate.layout.size), left, *cells, style=style
        )
    return table


def _phi_heading(phi: int, heading: str, comparison: Comparison) -> str:
    if LEDGER in heading:
        return f"tolerate {comparison.tolerance:g}"
    return "causal" if phi == 100 and "causal" in heading else f"phi {phi}"


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
    policy = f"{label} phi {row.phi}" if row.policy in ("cbd", "dapw") else label
    return (
        f"{candidate.name} ({layout.packing}), {size}, {left}; {policy}: "
        f"{comparison.of(row):.2g}% violations, hold {row.hold_mean:.1f} ticks = "
        f"{row.hold_mean * budget.clock.tick_ms:.0f} ms"
    )


def _nothing_good(comparison: Comparison, budget: Budget) -> str:
    near = [f"  {_described(row, comparison, budget)}" for row in comparison.nearest[:NEAREST]]
    return "\n".join(
        [
            f"no stamp that fits has at most {comparison.tolerance:g}% violations ({comparison.figure}); nearest:",
            *near,
        ]
    )


# Files


def _check_targets(budget: Budget, plot: Path | None, toml: Path | None, name: str) -> None:
    """Refuse, before anything is simulated, files that could not be written at the end."""
    if plot is not None:
        if plot.suffix not in PICTURES:
            raise click.BadParameter(f"the name must end in {', '.join(PICTURES)}", param_hint="--plot")
        try:
            import basestation.planning.plan_plot  # noqa: F401
        except ImportError as error:
            common.fail(f"--plot needs matplotlib ({error}): {how_to_install('analysis')}")
    for option, path in (("--plot", plot), ("--toml", toml)):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise click.BadParameter(f"{path}: there is no folder {path.parent}", param_hint=option)
        if path == toml and path.exists():
            raise click.BadParameter(f"{path} exists and is not overwritten", param_hint=option)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.BadParameter(f"{path}: no permission to write", param_hint=option)
    _check_names(budget, name, toml)


def _key_name(toml: Path) -> str:
    """The file of the key: site.key for site.toml."""
    return toml.with_suffix(".key").name


def _check_names(budget: Budget, name: str, toml: Path | None) -> None:
    network, clock = budget.network, budget.clock
    tables = {
        "network": {"name": name, "board": network.board, "motes": network.motes},
        "clock": {"tick_log2": clock.tick_log2, "epsilon": clock.epsilon, "delta": clock.delta},
        "stamp": {"scheme": "dpc1"},
        **({"security": {"mic": network.mic, "key": _key_name(toml)}} if network.mic and toml else {}),
    }
    try:
        deployments.from_dict(tables)
    except deployments.DeploymentError as error:
        if error.key == "network.name":
            raise click.BadParameter(error.reason, param_hint="--name") from None
        if error.key == "security.key" and toml is not None:
            reason = (
                f"the key's file would be {_key_name(toml)}: take letters, digits, '.', '_' and '-' alone"
            )
            raise click.BadParameter(reason, param_hint="--toml") from None


def _draw(
    comparison: Comparison, choice: CandidateRow | None, budget: Budget, trade: Trade | None, path: Path
) -> None:
    from basestation.planning.plan_plot import draw

    draw(comparison, choice, budget, path, trade.rows if trade else ())
    common.note(f"Drawn: {path}")


def _write_toml(budget: Budget, choice: CandidateRow, name: str, path: Path) -> None:
    try:
        text = deployment_of(budget, choice, name, _key_name(path)).to_toml()
        deployment = deployments.parse(text)
    except deployments.DeploymentError as error:
        common.fail(f"{path}: {error}")
    notes = [f"# {row.name}: {row.ms:.1f} ms. {row.why}" for row in (*budget.delay, *budget.sync)]
    path.write_text("\n".join(["# Made by `basestation plan`. The delay budget:", *notes, "", text]))
    common.note(f"Written: {path}")
    seconds = 1 / budget.network.rate
    if abs(seconds - deployment.send_seconds) > 0.1 * seconds:
        common.note(
            f"The stock app sends every {deployment.send_seconds} s. To build it for this rate: PLATFORMIO_BUILD_FLAGS="
            f'"-D MOTE_PERIOD={round(deployments.CRYSTAL_HZ * seconds)}" pio run (docs/reference/firmware.md, Settings)'
        )
    if budget.network.mic:
        key = path.parent / deployment.security.key
        common.note(f"It names a key: `basestation key new {key}` makes it, for a network that has none yet")
