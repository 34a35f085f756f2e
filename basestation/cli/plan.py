"""`basestation plan`: a network's delay budget, and the smallest stamp that will do for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from basestation.cli import common
from basestation.planning.budget import RADIOS, Budget, BudgetError, Network, make_budget
from basestation.planning.choose import (
    FIGURES,
    PHIS,
    POLICIES,
    Comparison,
    Effort,
    Row,
    compare,
    deployment_of,
    steps_of,
    upper_bound_percent,
)
from basestation.simulator.options import WorldOptions
from packet_formats import deployment as deployments
from packet_formats.layout import PAYLOAD_LIMIT

MOST_MOTES = 1000  # the truth is n counters a message
PICTURES = (".png", ".svg", ".pdf")
NEAREST = 5


@click.command(
    epilog=common.example(
        """
        basestation plan --motes 20 --hops 3 --rate 0.5
        basestation plan --motes 8 --board mica2 --rate 0.1 --hops 2 --data-bytes 6 --tolerate 0.5
        basestation plan --motes 20 --hops 3 --rate 0.5 --toml field.toml --plot field.png
        basestation plan --motes 10 --rate 10 --tick-log2 8 --epsilon 10 --delta 10 --json
        """
    )
)
@click.option("--motes", type=click.IntRange(2, MOST_MOTES), required=True, help="How many motes.")
@click.option("--rate", type=float, required=True, help="Messages per second of each mote.")
@click.option(
    "--hops", type=click.IntRange(1, 15), default=1, show_default=True, help="Of the farthest mote."
)
@click.option("--board", type=click.Choice(list(RADIOS)), default="micaz", show_default=True)
@click.option("--tinyos", type=click.IntRange(1, 2), default=1, show_default=True, help="Message format.")
@click.option(
    "--data-bytes", type=click.IntRange(0, 29), default=4, show_default=True, help="Application data."
)
@click.option("--receipts", type=click.IntRange(0, 13), default=0, show_default=True, help="Receipt slots.")
@click.option(
    "--tolerate",
    type=click.FloatRange(0, 100),
    default=0.0,
    show_default=True,
    metavar="PERCENT",
    help="Violations that are good enough, of the figure that --figure names.",
)
@click.option("--figure", type=click.Choice(FIGURES), default="mean", show_default=True)
@click.option(
    "--guaranteed", is_flag=True, help="Choose only what cannot err by design, whatever the simulation saw."
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(POLICIES),
    multiple=True,
    default=POLICIES,
    show_default=True,
    help="Delivery policies to measure; may be repeated.",
)
@click.option("--beacon", type=float, default=30.0, show_default=True, help="Seconds between time beacons.")
@click.option(
    "--margin", type=click.FloatRange(0, 1000), metavar="PERCENT", help="Instead of the board's own."
)
@click.option(
    "--foreign-gateway", is_flag=True, help="The gateway stamps no time: the line counts into delta."
)
@click.option("--tick-log2", type=click.IntRange(0, 16), help="A tick is 2^N cycles of 32768 Hz.")
@click.option("--epsilon", type=click.IntRange(1, 32767), help="In ticks, instead of the budget's.")
@click.option("--delta", type=click.IntRange(1, 65535), help="In ticks, instead of the budget's.")
@click.option(
    "--messages", type=click.IntRange(1), help="Simulated, of each seed.  [default: some seconds' worth]"
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The first.")
@click.option(
    "--seeds", type=click.IntRange(1), default=3, show_default=True, help="How many networks to simulate."
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the table: .png, .svg or .pdf."
)
@click.option(
    "--toml", type=click.Path(dir_okay=False, path_type=Path), help="Write the chosen deployment.toml."
)
@click.option("--name", default="plan", show_default=True, help="Of the network, for --toml.")
@common.json_option
def command(
    motes: int,
    rate: float,
    hops: int,
    board: str,
    tinyos: int,
    data_bytes: int,
    receipts: int,
    tolerate: float,
    figure: str,
    guaranteed: bool,
    policies: tuple[str, ...],
    beacon: float,
    margin: float | None,
    foreign_gateway: bool,
    tick_log2: int | None,
    epsilon: int | None,
    delta: int | None,
    messages: int | None,
    seed: int,
    seeds: int,
    plot: Path | None,
    toml: Path | None,
    name: str,
    as_json: bool,
) -> None:
    """Find the smallest stamp that will do for a network.

    First the delay budget: what airtime, backoff, relays and crystals make of the tick, epsilon and delta. Then every
    stamp is measured on a simulation of this network, and the smallest that meets the tolerance is marked, of these
    the one with the shortest hold. Exit code 1 if none does.
    """
    if plot is not None and plot.suffix not in PICTURES:
        raise click.BadParameter(f"the name must end in {', '.join(PICTURES)}", param_hint="--plot")
    try:
        network = Network(
            motes=motes,
            board=board,
            rate=rate,
            hops=hops,
            tinyos=tinyos,
            data_bytes=data_bytes,
            receipts=receipts,
            beacon_seconds=beacon,
            foreign_gateway=foreign_gateway,
            margin=None if margin is None else margin / 100,
        )
        budget = make_budget(network, tick_log2, epsilon, delta)
    except BudgetError as error:
        raise click.BadParameter(str(error), param_hint=f"--{error.setting}") from None
    _show_budget(budget, as_json)
    if budget.refusals:
        common.fail("; ".join(budget.refusals))
    effort = Effort(messages, seed, seeds)
    with common.progress(steps_of(budget, effort), "simulating") as advance:
        comparison = compare(budget, tolerate, figure, policies, effort, advance)
    choice = comparison.guaranteed_choice if guaranteed else comparison.choice
    _show_comparison(comparison, choice, budget, as_json)
    if plot is not None:
        _draw(comparison, choice, budget, plot)
    if choice is None:
        common.fail(_nothing_good(comparison, budget))
    if toml is not None:
        _write_toml(budget, choice, name, toml)


# The budget


def _show_budget(budget: Budget, as_json: bool) -> None:
    for warning in budget.warnings:
        common.note(f"Warning: {warning}", style="yellow")
    if as_json:
        common.emit_json(budget_as_plain(budget))
        return
    network, clock = budget.network, budget.clock
    hops = f"{network.hops} hop{'s' if network.hops > 1 else ''}"
    table = Table(title=f"Delay budget: {network.motes} {network.board}, {hops}", title_justify="left")
    table.add_column("share")
    table.add_column("ms", justify="right")
    table.add_column("why")
    for row in budget.delay:
        table.add_row(row.name, f"{row.ms:.1f}" if row.counts else f"({row.ms:.1f})", row.why)
    ticks = f"{clock.delta} ticks of {clock.tick_ms:.4g} ms (2^{clock.tick_log2} cycles)"
    table.add_row(
        "delta", f"{clock.delta * clock.tick_ms:.1f}", f"{ticks} for {budget.delay_ms:.1f} ms", style="bold"
    )
    table.add_section()
    for row in budget.sync:
        table.add_row(row.name, f"{row.ms:.1f}", row.why)
    ticks = f"{clock.epsilon} ticks for {budget.sync_ms:.1f} ms and a tick of rounding"
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


def _show_comparison(comparison: Comparison, choice: Row | None, budget: Budget, as_json: bool) -> None:
    if as_json:
        for row in (comparison.arrival, *_shown(comparison, choice)):
            common.emit_json({"kind": "row"} | row_as_plain(row, comparison, budget, choice))
        common.emit_json(choice_as_plain(comparison, choice, budget))
        return
    common.out.print()
    for policies in (("cbd",), ("dapw", "causal")):
        rows = [row for row in _shown(comparison, choice) if row.policy in policies]
        if rows:
            common.out.print(_table(" and ".join(policies), rows, comparison, choice, budget))
    common.out.print(_summary(comparison, choice, budget))


def _shown(comparison: Comparison, choice: Row | None) -> list[Row]:
    """What is worth it, and the choice, which --guaranteed may take from the rest."""
    worth = {id(row) for row in (*comparison.rows, choice)}
    return [row for row in comparison.measured if id(row) in worth]


def row_as_plain(row: Row, comparison: Comparison, budget: Budget, choice: Row | None) -> dict[str, Any]:
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
        "violations": row.violations,
        "hold": {"mean": row.hold_mean, "p95": row.hold_p95},
        "hold_ms": {"mean": row.hold_mean * tick_ms, "p95": row.hold_p95 * tick_ms},
        "messages": row.sent,
        "delivered": row.delivered,
        "rate_per_tick": comparison.options.rate * comparison.options.events_per_tick,
        "saturated": row.saturated,
        "meets": comparison.of(row) <= comparison.tolerance,
        "guaranteed": row.guaranteed and not arrival,
        "chosen": row is choice,
    }


def choice_as_plain(comparison: Comparison, choice: Row | None, budget: Budget) -> dict[str, Any]:
    basis = {"kind": "choice", "figure": comparison.figure, "tolerance": comparison.tolerance}
    if choice is None:
        nearest = [row_as_plain(row, comparison, budget, None) for row in comparison.nearest[:NEAREST]]
        return basis | {"found": False, "nearest": nearest}
    seen = {"upper_bound_percent": upper_bound_percent(choice)} if comparison.of(choice) == 0 else {}
    sure = comparison.guaranteed_choice
    by_design = {"by_design": row_as_plain(sure, comparison, budget, choice) if sure else None}
    return basis | {"found": True} | row_as_plain(choice, comparison, budget, choice) | seen | by_design


def _table(title: str, rows: list[Row], comparison: Comparison, choice: Row | None, budget: Budget) -> Table:
    """A line for each stamp, a column for each phi worth it; its cells are violations and hold."""
    phis = [phi for phi in PHIS if any(row.phi == phi for row in rows)]
    table = Table(
        title=f"Policy {title}: violations ({comparison.figure}, % of messages) and mean hold (ms)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("stamp", no_wrap=True)
    table.add_column("pack", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("left", justify="right", no_wrap=True)
    for phi in phis:
        table.add_column(
            "causal" if phi == 100 and "causal" in title else f"phi {phi}", justify="right", no_wrap=True
        )
    for candidate in dict.fromkeys(row.candidate for row in rows):
        own = {row.phi: row for row in rows if row.candidate is candidate}
        left = str(candidate.left) if candidate.left >= 0 else f"{candidate.left}!"
        cells = [_cell(own.get(phi), comparison, choice, budget.clock.tick_ms) for phi in phis]
        style = None if candidate.left >= 0 else "dim"
        table.add_row(
            candidate.name, candidate.layout.packing, str(candidate.layout.size), left, *cells, style=style
        )
    return table


def _cell(row: Row | None, comparison: Comparison, choice: Row | None, tick_ms: float) -> Text:
    if row is None:
        return Text("")
    mark = "*" if row is choice else ""
    style = "bold green" if row is choice else ("" if comparison.of(row) <= comparison.tolerance else "dim")
    violations = comparison.of(row)
    digits = 2 if violations >= 0.1 else 1
    return Text(f"{mark}{violations:.{digits}g} {row.hold_mean * tick_ms:3.0f}", style)


def _summary(comparison: Comparison, choice: Row | None, budget: Budget) -> str:
    options, arrival = comparison.options, comparison.arrival
    lines = [
        f"Left: of {PAYLOAD_LIMIT[budget.network.tinyos]} bytes of payload; with a ! the stamp does not fit. "
        "No cell: another phi is no worse in both.",
        f"Arrival order (policy none): {comparison.of(arrival):.2g}% violations, no hold.",
        f"Simulated: {arrival.sent} messages, {_rate_simulated(options, budget)}.",
        f"Assumed: {_layout_assumed(budget.network)}",
    ]
    if choice is not None:
        lines += ["", *_choice_lines(comparison, choice, budget)]
    return "\n".join(lines)


def _rate_simulated(options: WorldOptions, budget: Budget) -> str:
    simulated = options.rate * options.events_per_tick
    asked = budget.network.rate * budget.clock.tick_ms / 1000
    more = (
        f", more than the {asked:.2g} asked for, so that messages meet" if simulated > 1.001 * asked else ""
    )
    return f"{simulated:.3g} a tick from each mote{more}"


def _layout_assumed(network: Network) -> str:
    if network.hops == 1:
        return "every mote hears every other, and the gateway hears all."
    return f"{network.hops} equal groups in a line; a mote hears its own and those beside it, the gateway the first."


def _choice_lines(comparison: Comparison, choice: Row, budget: Budget) -> list[str]:
    lines = [f"* {_described(choice, comparison, budget)}"]
    if comparison.of(choice) == 0:
        bound = upper_bound_percent(choice)
        lines.append(f"  0 seen in {choice.delivered} messages: at 95% confidence below {bound:.2g}% (3/N).")
    sure = comparison.guaranteed_choice
    if choice.guaranteed:
        lines.append("  It errs never by design, as long as epsilon and delta hold and no counter is full.")
    elif sure is not None:
        lines += ["  What errs never by design (--guaranteed):", f"  {_described(sure, comparison, budget)}"]
    if comparison.of(comparison.arrival) <= comparison.tolerance:
        lines.append("  Arrival order alone meets the tolerance in this simulation.")
    return lines


def _described(row: Row, comparison: Comparison, budget: Budget) -> str:
    layout, candidate = row.candidate.layout, row.candidate
    size = f"{layout.bits} bits in {layout.size} byte{'s' if layout.size > 1 else ''}"
    left = f"{candidate.left} left" if candidate.left >= 0 else f"{-candidate.left} too many"
    policy = row.policy if row.policy == "causal" else f"{row.policy} phi {row.phi}"
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


def _draw(comparison: Comparison, choice: Row | None, budget: Budget, path: Path) -> None:
    from basestation.planning.plot import draw

    draw(comparison, choice, budget, path)
    common.note(f"Drawn: {path}")


def _write_toml(budget: Budget, choice: Row, name: str, path: Path) -> None:
    try:
        text = deployment_of(budget, choice, name).to_toml()
        deployments.parse(text)
    except deployments.DeploymentError as error:
        if error.key == "network.name":
            raise click.BadParameter(error.reason, param_hint="--name") from None
        common.fail(f"{path}: {error}")
    notes = [f"# {row.name}: {row.ms:.1f} ms. {row.why}" for row in (*budget.delay, *budget.sync)]
    path.write_text("\n".join(["# Made by `basestation plan`. The delay budget:", *notes, "", text]))
    common.note(f"Written: {path}")
