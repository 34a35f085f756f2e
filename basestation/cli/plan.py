"""`basestation plan`: a network's delay budget, and the smallest stamp that is good enough for it."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from basestation import how_to_install
from basestation.cli import common, life_table, stamp_table
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
from basestation.planning.chosen_stamp import deployment_of
from basestation.planning.life import life_with, with_period
from basestation.planning.stamp_choice import CandidateRow, Comparison
from basestation.planning.stamp_trials import Effort, compare, steps_of
from basestation.planning.trade import Trade, make_trade, periods
from basestation.simulator.options import OptionError
from packet_formats import deployment as deployments
from packet_formats import power
from packet_formats.boards import BOARDS, DEFAULT_BOARD
from packet_formats.phrases import many
from packet_formats.schedule import MOST_LEVELS, PERIODS_LOG2

MOST_MOTES = 1000  # the truth is n counters a message
PICTURES = (".png", ".svg", ".pdf")


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
        help="Share of messages that may be in a violation of causal order (docs/evidence/algorithms.md, "
        "Violations: mean).",
    ),
    click.option(
        "--days",
        type=common.FiniteFloat(0, 100_000, min_open=True),
        help="How long the cells of every mote shall last. Chooses the shortest period from one window in which motes "
        "listen to the next, and shows the cost of each period.",
    ),
    click.option(
        "--toml",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the chosen deployment into this file, for `describe` and for the firmware. The network is named "
        "after the file.",
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
        "Bytes of a MIC in each message: 4 for a network with a key, whose messages cannot be forged.",
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
        "--urgent",
        type=click.Choice([f"{period // 1000}" for period in PERIODS_LOG2][:-1]),
        metavar="SECONDS",
        help="Motes also listen this often for urgent messages: 2, 4, 8, 16 or 32. Shows the cost. With --days or "
        "--period-ms.",
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
    common.field_option(
        Effort,
        "messages",
        "Messages to simulate for each seed. If given, a very low rate is simulated as it is and not raised to "
        "the least at which messages meet.  [default: a few seconds' worth]",
        common.Whole(1),
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
    "Life of the cells": ("days", "period_ms", "urgent", "capacity", "loss"),
    "Clock and delay budget": (
        "beacon", "margin", "foreign_gateway", "tick_log2", "epsilon", "delta",
    ),
    "Choice": ("guaranteed", "quickest"),
    "Simulation": ("messages", "seeds"),
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
    guaranteed: bool,
    quickest: bool,
    plot: Path | None,
    toml: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Find the smallest stamp that is good enough for a network.

    First the delay budget: it derives the tick, epsilon and delta from airtime, backoff, relays and crystals. Then
    every stamp is measured on a simulation of this network. The smallest stamp that meets the tolerance is marked; of
    several, the one with the shortest hold; with --quickest the shortest hold comes first. The exit code is 1 if none
    meets it.

    The observer holds a message for phi per cent of the time after which no cause of it can still arrive; a message
    that is due also waits while a cause is held (policy cbd). With --tolerate the ledger is measured too: it adapts its
    wait so that at most this share of the messages is in a violation.
    """
    if guaranteed and quickest:
        raise click.UsageError(
            "--guaranteed chooses the smallest stamp and --quickest the shortest hold: give one"
        )
    effort, capacity = Effort(**_fields_of(Effort, given)), given["capacity"]
    budget, trade = _budget(given), None
    _check_targets(budget, plot, toml)
    if given["days"] is not None:
        budget, trade = _traded(budget, given, tolerate, effort, as_json)
    _show_budget(budget, as_json)
    if budget.refusals:
        common.fail("; ".join(budget.refusals))
    try:
        line = f"Measuring every stamp on {many(effort.seeds, 'simulated network')}; this may take a minute."
        with progress(steps_of(budget, effort), "simulating", line) as advance:
            comparison = compare(budget, tolerate, effort, advance)
    except (OptionError, BudgetError) as error:
        raise click.UsageError(str(error)) from None
    choice = comparison.guaranteed_choice if guaranteed else comparison.choice
    if quickest:
        choice = comparison.quickest
    stamp_table.show(comparison, choice, budget, as_json)
    if plot is not None:
        _draw(comparison, choice, budget, trade, plot)
    if choice is None:
        common.fail(stamp_table.nothing_good(comparison, budget))
    if budget.network.period_ms:
        network = budget.network
        lives = [
            life_with(one, choice.candidate.layout, capacity)
            for one in (network, replace(network, urgent_ms=0))
        ]
        life_table.show_chosen(lives[0], lives[1], bool(given["urgent"]), as_json)
    if toml is not None:
        _write_toml(budget, choice, toml)


def _budget(given: dict[str, Any]) -> Budget:
    margin = None if given["margin"] is None else given["margin"] / 100
    known = _fields_of(PlannedNetwork, given) | {"beacon_seconds": given["beacon"], "margin": margin}
    period = int(given["period_ms"] or 0)
    if period and given["days"] is not None:
        raise click.UsageError("--days chooses the period: leave --period-ms away")
    if given["urgent"] and not period and given["days"] is None:
        raise click.UsageError("--urgent needs --days or --period-ms")
    if given["urgent"] and given["hops"] > MOST_LEVELS:
        raise click.UsageError(f"--urgent is for networks of {MOST_LEVELS} hops at most")
    known |= {"period_ms": 0, "loss": given["loss"] / 100, "urgent_ms": 1000 * int(given["urgent"] or 0)}
    try:
        network = with_period(PlannedNetwork(**known), period)
        return make_budget(network, given["tick_log2"], given["epsilon"], given["delta"])
    except BudgetError as error:
        raise _bad(error) from None


def _traded(
    budget: Budget, given: dict[str, Any], tolerate: float, effort: Effort, as_json: bool
) -> tuple[Budget, Trade]:
    """The budget with the shortest period that lasts long enough, and what all periods lead to."""
    days, network = given["days"], budget.network
    try:
        line = f"Planning and simulating {len(periods())} periods; this may take a minute."
        with progress(len(periods()), "trading", line) as advance:
            trade = make_trade(network, tolerate, effort, given["capacity"], advance)
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


# Files


def _check_targets(budget: Budget, plot: Path | None, toml: Path | None) -> None:
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
    if toml is not None:
        _check_names(budget, toml)


def _key_name(toml: Path) -> str:
    """The file of the key: site.key for site.toml."""
    return toml.with_suffix(".key").name


def _check_names(budget: Budget, toml: Path) -> None:
    network, clock = budget.network, budget.clock
    tables = {
        "network": {"name": toml.stem, "board": network.board, "motes": network.motes},
        "clock": {"tick_log2": clock.tick_log2, "epsilon": clock.epsilon, "delta": clock.delta},
        "stamp": {"scheme": "dpc1"},
        **({"security": {"mic": network.mic, "key": _key_name(toml)}} if network.mic else {}),
    }
    try:
        deployments.from_dict(tables)
    except deployments.DeploymentError as error:
        if error.key == "network.name":
            reason = f"the network is named after the file, {toml.stem}: {error.reason}"
            raise click.BadParameter(reason, param_hint="--toml") from None
        if error.key == "security.key":
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


def _write_toml(budget: Budget, choice: CandidateRow, path: Path) -> None:
    try:
        text = deployment_of(budget, choice, path.stem, _key_name(path)).to_toml()
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
