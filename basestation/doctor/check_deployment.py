"""Checks of a deployment: whether it is possible, and whether its delta and epsilon cover the budget."""

from __future__ import annotations

from collections.abc import Iterator

from basestation.doctor.findings import Finding, failure, good, warning
from basestation.planning.budget import (
    PLANNED_BEACON_SECONDS,
    STAMP_ALLOWANCE,
    BudgetError,
    PlannedNetwork,
    make_budget,
)
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.phrases import many


def examine(deployment: Deployment, rate: float | None = None) -> Iterator[Finding]:
    yield layout(deployment)
    yield protection(deployment)
    board = BOARDS.get(deployment.network.board)
    if board is None:
        text = "the radio of a generic board is not known: whether delta and epsilon suffice is not checked"
        yield warning("deployment", "budget", text)
        return
    yield from budget(deployment, 1 / board.send_seconds if rate is None else rate)


def layout(deployment: Deployment) -> Finding:
    found = layout_of(deployment)
    return good(
        "deployment",
        "layout",
        f"{deployment.network.name}: {many(deployment.network.motes, 'mote')}, {found.stamp.scheme} in "
        f"{many(found.stamp.size, 'byte')}, payload {found.length} of {found.limit}, AM type {found.am_type:#04x}, "
        f"group {found.group:#04x}, layout {found.hash:08x}",
    )


def protection(deployment: Deployment) -> Finding:
    """What is protected against strangers, and by what."""
    if not deployment.security.mic:
        text = "messages have no MIC: anybody with a radio can speak as any mote"
        return good("deployment", "protection", f"{text} (docs/security.md)")
    text = f"messages have a MIC of {many(deployment.security.mic, 'byte')}"
    if deployment.key is None:
        return warning("deployment", "protection", f"{text}, and the key is not at hand")
    return good("deployment", "protection", f"{text}; the key's file is its owner's alone")


def budget(deployment: Deployment, rate: float) -> Iterator[Finding]:
    network, clock = deployment.network, deployment.clock
    try:
        made = make_budget(
            PlannedNetwork(
                motes=network.motes,
                board=network.board,
                rate=rate,
                hops=network.hops,
                tinyos=network.tinyos,
                data_bytes=network.data_bytes,
                receipts=deployment.stamp.receipts,
                beacon_seconds=BOARDS[network.board].beacon_seconds,
                stamp_bytes=layout_of(deployment).stamp.size,
                mic=deployment.security.mic,
            ),
            clock.tick_log2,
            clock.epsilon,
            clock.delta,
        )
    except BudgetError as error:
        yield warning("deployment", "budget", str(error))
        return
    cure = "basestation plan shows the whole budget (docs/planning.md); set --rate to how often motes really send"
    for text in made.refusals:
        yield failure("deployment", "budget", f"at {rate:g} messages a second: {text}", cure)
    for text in made.warnings:
        yield warning("deployment", "budget", f"at {rate:g} messages a second: {text}", cure)
    if not made.refusals and not made.warnings:
        tick_ms = made.clock.tick_ms
        yield good(
            "deployment",
            "budget",
            f"at {rate:g} messages a second: delta, {clock.delta * tick_ms:.4g} ms, covers {made.delay_ms:.4g} ms; "
            f"epsilon, {clock.epsilon * tick_ms:.4g} ms, covers {made.sync_ms:.4g} ms and a tick; "
            f"channel busy {made.network.channel_load:.0%}, line {made.network.line_load:.0%}; "
            f"{_assumed(made.network)}",
        )


def _assumed(network: PlannedNetwork) -> str:
    """What this budget knows and `plan` does not yet: the firmware's beacons, and the stamp."""
    stamp = many(network.stamp_bytes, "byte")
    own = f"with the firmware's beacons every {network.beacon_seconds:g} s and this stamp of {stamp}"
    return f"{own}, where plan by itself allows for {PLANNED_BEACON_SECONDS:g} s and {STAMP_ALLOWANCE} bytes"
