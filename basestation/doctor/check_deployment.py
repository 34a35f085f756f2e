"""Checks of a deployment: whether it is possible, and whether its delta and epsilon cover the budget."""

from __future__ import annotations

from collections.abc import Iterator

from basestation.doctor.findings import GOOD, WARNING, Finding, failure, good, warning
from basestation.planning.budget import (
    LINK_LOSS,
    PLANNED_BEACON_SECONDS,
    STAMP_ALLOWANCE,
    Budget,
    BudgetError,
    PlannedNetwork,
    make_budget,
)
from basestation.planning.carry_room import short_of_room
from basestation.planning.life import life_with, with_period
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of
from packet_formats.phrases import many
from packet_formats.schedule import Schedule, ms

SHORT = 0.8  # of the window that plan would choose
SCHEDULE_CURE = (
    "basestation plan --days shows which period and window fit (docs/reference/power.md); set --rate to how often "
    "motes really send"
)


def examine(deployment: Deployment, rate: float | None = None) -> Iterator[Finding]:
    yield layout(deployment)
    yield protection(deployment)
    yield from carry(deployment)
    if deployment.network.board not in BOARDS:
        text = "the radio of a generic board is not known: whether delta and epsilon suffice is not checked"
        yield warning("deployment", "budget", text)
        return
    rate, schedule = rate or 1 / deployment.send_seconds, deployment.schedule
    if schedule is None:
        yield from budget(deployment, rate)
    else:
        yield from scheduled(deployment, schedule, rate)


def layout(deployment: Deployment) -> Finding:
    found = layout_of(deployment)
    return good(
        "deployment",
        "layout",
        f"{deployment.network.name}: {many(deployment.network.motes, 'mote')}, {found.stamp.scheme} in "
        f"{many(found.stamp.size, 'byte')}, payload {found.length} of {found.limit}, AM type {found.am_type:#04x}, "
        f"group {found.group:#04x}, layout {found.hash:08x}",
    )


def gateways(deployment: Deployment, sources: int) -> Iterator[Finding]:
    """Checks the settings of a network with several gateways."""
    known = deployment.network.gateways
    if sources > known:
        text = (
            f"{sources} sources, but `gateways` in [network] is {known}: messages wait for the slowest line"
        )
        cure = f"set gateways = {sources} and flash the gateways anew; the motes need no new image"
        yield warning("deployment", "gateways", text, cure)
    if max(sources, known) > 1 and deployment.schedule is not None:
        text = "beacons go `hops` hops from the time root: motes near another gateway may lose the time"
        cure = "let hops count from the root, and set repair = false in [radio]: only the root's list counts"
        yield warning("deployment", "gateways", text, cure)


def protection(deployment: Deployment) -> Finding:
    """Checks the protection against forged messages."""
    if not deployment.security.mic:
        text = "none: messages have no MIC, so any radio can send in this network's name"
        cure = "if that matters, give the network a key and flash all nodes anew (docs/reference/security.md)"
        return warning("deployment", "protection", text, cure)
    text = f"messages have a MIC of {many(deployment.security.mic, 'byte')}"
    if deployment.key is None:
        return warning("deployment", "protection", f"{text}, and the key is not at hand")
    return good("deployment", "protection", f"{text}; only its owner can read the key's file")


def carry(deployment: Deployment) -> Iterator[Finding]:
    """Whether a full counter has less room to carry than it could have. One more bit of clock is worth a warning."""
    stamp, clock = layout_of(deployment).stamp, deployment.clock
    short = short_of_room(stamp, clock.epsilon, clock.delta)
    if short is None:
        return
    wider = f": {short.wider.bits} bits in {many(short.wider.size, 'byte')}" if short.wider else ""
    cure = f"{short.cure}{wider}; now {stamp.bits} bits in {many(stamp.size, 'byte')} (docs/evidence/algorithms.md)"
    verdict = WARNING if stamp.carry == "sum" else GOOD
    yield Finding("deployment", "stamp", verdict, f"{stamp.scheme}: {short.text}", cure)


def planned(deployment: Deployment, rate: float) -> Budget:
    """The budget of a deployment, or `BudgetError`."""
    network, clock = deployment.network, deployment.clock
    return make_budget(
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
            period_ms=deployment.radio.period_ms,
            window_ms=deployment.radio.window_ms,
            loss=LINK_LOSS if deployment.radio.period_ms else 0.0,
            urgent_ms=deployment.radio.urgent_ms,
            repair=deployment.radio.repair,
        ),
        clock.tick_log2,
        clock.epsilon,
        clock.delta,
    )


def scheduled(deployment: Deployment, schedule: Schedule, rate: float) -> Iterator[Finding]:
    """Whether window, delta, tick and stamp of a schedule suit each other, and how long cells last."""
    clock = deployment.clock
    tick_ms, every = clock.tick_seconds * 1000, f"at {rate:g} messages a second"
    try:
        made = planned(deployment, rate)
        room = with_period(made.network, schedule.period_ms).window_ms
    except BudgetError as error:
        text = f"{every}: a period of {schedule.period_ms / 1000:g} s brings more than a window holds: {error.told}"
        yield failure("deployment", "schedule", text, SCHEDULE_CURE)
        return
    for text in made.refusals:
        yield failure("deployment", "schedule", f"{every}: {text}", SCHEDULE_CURE)
    for text in made.warnings:
        yield warning("deployment", "schedule", f"{every}: {text}", SCHEDULE_CURE)
    if schedule.delta_ms < SHORT * room:
        text = (
            f"the window of {schedule.delta_ms:.0f} ms is short: {room} ms have room for what a period brings"
        )
        yield warning("deployment", "schedule", f"{every}: {text}", SCHEDULE_CURE)
    if ms(schedule.phase) < tick_ms:
        text = f"a tick of {tick_ms:.4g} ms is longer than a phase of {ms(schedule.phase):.4g} ms: stamps order little"
        yield warning("deployment", "schedule", text, SCHEDULE_CURE)
    if clock.delta * tick_ms > 2 * schedule.delta_ms:
        text = (
            f"delta, {clock.delta * tick_ms:.0f} ms, is more than twice the window: messages are held in vain"
        )
        yield warning("deployment", "schedule", text, SCHEDULE_CURE)
    stamp = layout_of(deployment).stamp
    life = life_with(made.network, stamp)
    lasts = f"{life.days:.0f} days, {life.worst_days:.0f} at hop {life.worst.level}"
    clocked = f"{stamp.clock_bits} bits of clock" if stamp.clock_bits else "no clock in the stamp"
    urgent = (
        f"; urgent messages are looked for every {deployment.radio.urgent_ms / 1000:g} s, and take "
        f"{schedule.urgent_wait_ms / 1000:.1f} s at most"
        if schedule.urgent_log2
        else ""
    )
    yield good(
        "deployment",
        "schedule",
        f"a window of {schedule.delta_ms:.0f} ms every {schedule.period_ms / 1000:g} s; delta, "
        f"{clock.delta * tick_ms:,.5g} ms, covers it; {clocked}{urgent}. {every.capitalize()} and "
        f"{LINK_LOSS:.0%} of frames lost on a link two AA cells last about {lasts}, by a model "
        "(docs/reference/power.md)",
    )


def budget(deployment: Deployment, rate: float) -> Iterator[Finding]:
    clock = deployment.clock
    try:
        made = planned(deployment, rate)
    except BudgetError as error:
        yield warning("deployment", "budget", str(error))
        return
    cure = "basestation plan shows the whole budget (docs/guide/planning.md); set --rate to how often motes really send"
    for text in made.refusals:
        yield failure("deployment", "budget", f"at {rate:g} messages a second: {text}", cure)
    for text in made.warnings:
        yield warning("deployment", "budget", f"at {rate:g} messages a second: {text}", cure)
    if not made.refusals and not made.warnings:
        tick_ms = made.clock.tick_ms
        yield good(
            "deployment",
            "budget",
            f"at {rate:g} messages a second: delta, {clock.delta * tick_ms:,.5g} ms, covers {made.delay_ms:.4g} ms; "
            f"epsilon, {clock.epsilon * tick_ms:.4g} ms, covers {made.sync_ms:.4g} ms and a tick; "
            f"channel busy {made.network.channel_load:.0%}, line {made.network.line_load:.0%}; "
            f"{_assumed(made.network)}",
        )


def _assumed(network: PlannedNetwork) -> str:
    """How this budget differs from that of `plan`: the firmware's beacons, and the stamp."""
    stamp = many(network.stamp_bytes, "byte")
    own = f"with the firmware's beacons every {network.beacon_seconds:g} s and this stamp of {stamp}"
    return f"{own}, where plan by itself allows for {PLANNED_BEACON_SECONDS:g} s and {STAMP_ALLOWANCE} bytes"
