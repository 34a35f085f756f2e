"""The picture that views take of a station: its counters, frozen, and the queue with what each message waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from basestation.causality.rules import NEVER, Pending
from basestation.live.alarms import GATEWAY, MOTE
from basestation.live.counters import (
    HeldView,
    LedgerView,
    OrderView,
    RuleCounts,
    Snapshot,
    gateway_view,
    mote_view,
)
from basestation.live.guard import Verdict
from basestation.live.overtakings import OrderCount
from packet_formats.schemes import SEQUENCE

if TYPE_CHECKING:
    from basestation.live.station import Station

SHOWN = 200  # messages of the queue
MS = 1_000_000


def take_picture(station: Station, mono_ns: int) -> Snapshot:
    """All that views show, as it is at `mono_ns`."""
    timeline, alarms, leaving = station.timeline, station.alarms, station.leaving
    reached = timeline.clock.at(mono_ns)
    return Snapshot(
        mono_ns=mono_ns,
        wall_ns=mono_ns + timeline.wall_ahead,
        policy=station.policy,
        phi=station.phi,
        earlier=tuple(station.earlier),
        tick=None if reached is None else timeline.tick(reached),
        epoch=timeline.epoch,
        receipts=station.layout.receipts > 0,
        known=station.violations.known,
        arrival=_order_view(station.violations.arrival),
        delivery=_order_view(station.violations.delivery),
        received=station.received,
        delivered=leaving.delivered,
        held=leaving.held,
        forced=leaving.forced,
        strange=station.reasons.total(),
        rate=station.rate.at(mono_ns),
        hold=leaving.holds.view(),
        motes=tuple(
            mote_view(mote, counts, mono_ns, alarms.of(mote, MOTE), station.deployment.network)
            for mote, counts in sorted(station.motes.items())
        ),
        gateways=tuple(
            gateway_view(gateway, counts, mono_ns, alarms.of(gateway, GATEWAY))
            for gateway, counts in sorted(timeline.gateways.items())
        ),
        queue=tuple(_held_view(station, one, mono_ns) for one in station.observer.pending()[:SHOWN]),
        alarms=alarms.texts(),
        policies=station.deployment.scheme.policies,
        noticed=RuleCounts(**leaving.noticed),
        tolerate=station.tolerate,
        ledger=_ledger_view(station) if station.tolerate is not None else None,
        final_on_arrival=1 - leaving.tentative / leaving.named if leaving.named else None,
        refused=_refused(station),
        unordered=_why_unordered(station, reached is not None),
    )


def _order_view(order: OrderCount) -> OrderView:
    return OrderView(order.messages, order.overtaken, order.possible)


def _refused(station: Station) -> dict[str, int] | None:
    """What the guard refused or could not vouch for, by verdict; all unchecked where the key is not at hand."""
    guard = station.timeline.guard
    if guard is not None:
        return {verdict.value: guard.verdicts[verdict] for verdict in Verdict if verdict is not Verdict.GOOD}
    return {Verdict.UNCHECKED.value: station.received} if station.layout.mic else None


def _why_unordered(station: Station, time_known: bool) -> str:
    """Why no message has the time that its stamp needs; empty if one has. Policies by number need no time."""
    counts, received = station.motes.values(), station.received
    needed = station.deployment.scheme.has_clock and station.policy != SEQUENCE
    untimed, early = sum(one.untimed for one in counts), sum(one.out_of_sync for one in counts)
    if not needed or not received or received not in (untimed, early):
        return ""
    all_messages = "the only message was" if received == 1 else f"all {received} messages were"
    if not time_known:
        return "no time is known, neither from heard records nor from beacons or health messages"
    if early == received:
        return f"{all_messages} sent before {'its mote' if received == 1 else 'their motes'} had the network's time"
    return f"{all_messages} heard before the network's time was known"


def _ledger_view(station: Station) -> LedgerView | None:
    ledger, tick_ms = station.observer.ledger, 1000 * station.deployment.clock.tick_seconds
    if ledger is None:
        return None
    return LedgerView(ledger.ticks * tick_ms, ledger.most * tick_ms, ledger.spent, ledger.allowed)


def _held_view(station: Station, pending: Pending, mono_ns: int) -> HeldView:
    held = pending.message.token
    over = pending.leaves + 1 if station.observer.timed else pending.leaves
    at = None if over >= NEVER else station.timeline.when(over)
    if station.observer.timed:
        why = _why_timed(station, pending)
    else:
        why = station.leaving.why_waits(pending, station.leaving.names(pending.missing))
    return HeldView(
        name=str(held.name),
        source=held.name.source,
        held_ms=max(0, mono_ns - held.mono_ns) / MS,
        due_ms=None if at is None else (at - mono_ns) / MS,
        why=why,
        tentative=held.tentative,
    )


def _why_timed(station: Station, pending: Pending) -> str:
    why = f"until tick {pending.due} is over"
    if pending.behind is None:
        return why
    first, reached = pending.behind.token.name, station.timeline.reached
    if reached is not None and station.timeline.tick(reached) > pending.due:
        return f"due, but {first} comes before it"
    return f"{why}, and for {first}, which comes before it"
