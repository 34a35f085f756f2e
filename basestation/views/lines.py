"""Events as aligned lines of text, and the summary at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from basestation.live.counters import GatewayView, LedgerView, OrderView, RuleCounts, Snapshot
from basestation.live.happenings import (
    Acknowledged,
    Alarm,
    Arrived,
    ClockChanged,
    Delivered,
    Discarded,
    GaveUp,
    Happening,
    LineChanged,
    Note,
    PolicyChanged,
    Reboot,
    Restarted,
    Sink,
    Strange,
    Tentative,
    Violation,
)
from packet_formats.ages import is_again, is_or_more
from packet_formats.layout import DataLayout
from packet_formats.messages import Data
from packet_formats.phrases import many
from packet_formats.records import Health
from packet_formats.schemes import TIMED_POLICIES
from packet_formats.values import data_text

MOST_STRANGE = 5  # lines about packets that were not read; a wrong deployment must not fill the screen


class TextRow(NamedTuple):
    """The parts of a line: the kind of event, its subject, a text, and a style for terminals."""

    kind: str
    subject: str
    text: str
    style: str | None = None

    def line(self, wall_ns: int) -> str:
        return f"{shown_time(wall_ns)}  {self.kind:<9}  {self.subject:>8}  {self.text}"


def row_of(happening: Happening, layout: DataLayout | None = None) -> TextRow | None:
    """The line for an event; None for an event that the views do not show. `layout` decodes a message's data."""
    if isinstance(happening, Delivered):
        return _delivered(happening, _data(happening.data, layout), shown_age(happening.data, layout))
    if isinstance(happening, Tentative):
        text = f"{_data(happening.data, layout)}  {happening.text}".lstrip()
        return TextRow("tentative", str(happening.name), text, "dim")
    return _row(happening)


def _data(message: Data, layout: DataLayout | None) -> str:
    return message.data.hex() if layout is None else data_text(layout, message.data)


def shown_age(message: Data, layout: DataLayout | None) -> list[str]:
    """The age of the event at its message's stamp, where messages carry it, and whether the message is a repeat."""
    if layout is None or (age_ms := layout.age_ms(message.age)) is None:
        return []
    more = " or more" if is_or_more(message.age) else ""
    return [f"{age_ms / 1000:.1f} s old{more}", *(["again"] if is_again(message.age) else [])]


def _delivered(happening: Delivered, data: str, age: list[str]) -> TextRow:
    marks = [*age, *([shown_move(happening.moved)] if happening.moved else [])]
    marks += ["late"] if happening.late else []
    marks += ["out of sync"] if not happening.in_sync else []
    marks += ["concurrent"] if happening.concurrent else []
    marks += ["differs"] if happening.differs else []
    text = f"held {happening.held_ms:7.1f} ms  {data}  {', '.join(marks)}"
    style = "yellow" if happening.late or not happening.in_sync else "cyan" if happening.moved else None
    return TextRow("deliver", str(happening.name), text.rstrip(), style)


def _row(happening: Happening) -> TextRow | None:
    match happening:
        case Arrived(message=Health() as health, copy=False):
            return TextRow("health", str(health.source), _health(health), "dim")
        case Violation(order="arrival", message=name, text=text):
            return TextRow("overtook", str(name), text, "dim")
        case Violation(message=name, text=text):
            return TextRow("violation", str(name), text, "bold red")
        case GaveUp(message=name, text=text):
            return TextRow("gave up", str(name), text, "yellow")
        case Discarded(message=name, text=text):
            return TextRow("discard", str(name), text, "red")
        case Strange(gateway=gateway, reason=reason, packet=packet):
            return TextRow("strange", f"gw{gateway}", f"{reason}: {packet.hex()}", "magenta")
        case Reboot(mote=mote, is_anew=True):
            text = f"mote {mote} started anew: it counts boots and messages from 0 again"
            return TextRow("reboot", str(mote), text, "yellow")
        case Reboot(mote=mote, boot=boot, before=before):
            return TextRow(
                "reboot", str(mote), f"has booted: boot {boot} (modulo 8) follows {before}", "yellow"
            )
        case Restarted(node=node, cause=cause):
            return TextRow("restart", str(node), f"restarted: {cause}", "yellow")
        case Alarm(raised=raised, text=text):
            return TextRow("ALARM" if raised else "alarm", "", text, "bold red" if raised else "green")
        case LineChanged(gateway=gateway, back=True):
            return TextRow("line", f"gw{gateway}", "the line is back", "green")
        case LineChanged(gateway=gateway, reason=reason):
            return TextRow("line", f"gw{gateway}", f"the line is lost: {reason}", "red")
        case ClockChanged(gateway=changed, text=text):
            return TextRow("clock", "" if changed is None else f"gw{changed}", text, "yellow")
        case PolicyChanged(policy=policy, phi=phi, tolerate=tolerate, held=held):
            by = shown_policy(policy, phi, tolerate)
            return TextRow("policy", "", f"{by}; {many(held, 'message')} moved over", "blue")
        case Acknowledged(gateway=gateway, token=token):
            return TextRow("ack", f"gw{gateway}", f"token {token}", "dim")
        case Note(text=text):
            return TextRow("note", "", text, "yellow")
    return None


def _health(health: Health) -> str:
    battery = f", battery {health.battery_mv} mV" if health.battery_mv else ""
    sync = "in sync" if health.in_sync else "out of sync"
    root = "no root known" if health.distance is None else many(health.distance, "hop")
    duty = "" if health.duty is None else f", radio on {100 * health.duty:.2g}%"
    return f"{sync}, {root}, boot {health.boots}, {health.sent} sent{battery}{duty}"


def shown_policy(policy: str, phi: int, tolerate: float | None = None, between: str = ", ") -> str:
    """The policy's name, with its phi or its tolerance if it has one."""
    if tolerate is not None:
        return f"{policy}{between}tolerate {tolerate:g}%"
    return f"{policy}{between}phi {phi}%" if policy in TIMED_POLICIES else policy


def shown_ledger(ledger: LedgerView) -> str:
    """The wait in use, and the violations seen against those allowed."""
    waits = f"waits {ledger.wait_ms:.0f} of {ledger.most_ms:.0f} ms"
    return f"{waits}, saw {many(ledger.spent, 'message')} in a violation, {ledger.allowed:.1f} allowed"


def shown_move(moved: int) -> str:
    """An arrow, and by how many places a message left earlier or later than it arrived."""
    return f"↑{moved}" if moved > 0 else f"↓{-moved}" if moved else ""


def shown_time(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns // 10**9)
    return f"{moment:%H:%M:%S}.{wall_ns // 10**6 % 1000:03d}"


class FinalRows:
    """A sink before another sink: it passes on all but tentative rows."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def take(self, happening: Happening) -> None:
        if not isinstance(happening, Tentative):
            self._sink.take(happening)

    def close(self) -> None:
        self._sink.close()


class LinesView:
    """A sink that writes lines. `write` takes a line and its style; notes for the user go to `note`."""

    def __init__(
        self,
        write: Callable[[str, str | None], None],
        note: Callable[[str], None],
        layout: DataLayout | None = None,
    ) -> None:
        self._write, self._note, self._layout = write, note, layout
        self._strange: set[tuple[int, str]] = set()

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Note):
            self._note(happening.text)
            return
        if isinstance(happening, Violation) and happening.order == "arrival":
            return  # the policy corrects it, and the summary counts it
        if isinstance(happening, LineChanged) and not happening.back:
            return  # an alarm reports it, with the reason
        if isinstance(happening, Strange) and not self._is_news(happening):
            return
        row = row_of(happening, self._layout)
        if row is not None:
            self._write(row.line(happening.wall_ns), row.style)

    def _is_news(self, strange: Strange) -> bool:
        """Whether no packet of this gateway was shown with this reason. The summary counts all packets."""
        key = strange.gateway, strange.reason
        if key in self._strange or len(self._strange) > MOST_STRANGE:
            return False
        self._strange.add(key)
        if len(self._strange) > MOST_STRANGE:
            self._note("more packets can't be read: they are counted and not shown")
            return False
        return True

    def close(self) -> None:
        pass


def verdict(snapshot: Snapshot) -> str | None:
    """Why a run read no message though packets came; None if it read one, or no packet came."""
    if snapshot.received or not snapshot.strange:
        return None
    if snapshot.refused and snapshot.strange == sum(
        snapshot.refused.get(what, 0) for what in ("forged", "replayed", "unchecked")
    ):
        return (
            f"no message had a right MIC, and {snapshot.strange} were refused: do motes and base station have the "
            "same key?"
        )
    return (
        f"no message of this deployment came, but {many(snapshot.strange, 'packet')} of another layout or application "
        "did: is it the right deployment?"
    )


def shown_refused(refused: Mapping[str, int]) -> str:
    """How many messages a network with a key refused; without the key, how many were not checked."""
    if "forged" not in refused:
        return f"the key was missing: {many(refused['unchecked'], 'message')} taken unchecked"
    return (
        f"refused: {refused['forged']} forged, {refused['replayed']} replayed, {refused['unchecked']} that could not "
        f"be checked, {refused['late']} late; "
        f"{many(refused['unprotected'], 'message')} out of sync accepted, which may be replayed"
    )


def shown_guard(refused: Mapping[str, int]) -> str:
    """The same, short, for a head line."""
    verdicts = ("forged", "replayed", "unprotected") if "forged" in refused else ("unchecked",)
    return ", ".join(f"{refused[verdict]} {verdict}" for verdict in verdicts)


def summary(snapshot: Snapshot) -> Iterator[str]:
    """The run in a few lines."""
    motes, hold = snapshot.motes, snapshot.hold
    lost, copies, late = (
        sum(getattr(mote, name) for mote in motes) for name in ("lost", "duplicates", "late")
    )
    senders = f"{many(snapshot.received, 'message')} from {many(len(motes), 'mote')}"
    yield (
        f"{senders if snapshot.received else 'no message'}, {snapshot.delivered} delivered; "
        f"{lost} lost, {many(copies, 'copy', 'copies')} dropped, {late} late, {snapshot.strange} not read"
    )
    if snapshot.refused is not None:
        yield shown_refused(snapshot.refused)
    if hold.count:
        yield (
            f"held {hold.mean:.0f} ms on average, half of them at most {hold.p50:.0f} ms, "
            f"95% at most {hold.p95:.0f} ms, the longest {hold.max:.0f} ms"
        )
    if not snapshot.received:
        yield "nothing was ordered: no message came"
    elif snapshot.unordered:
        yield f"nothing was ordered: {snapshot.unordered}"
    else:
        yield from _ordered(snapshot)
    if snapshot.ledger is not None:
        yield f"the ledger {shown_ledger(snapshot.ledger)}"
    if noticed := shown_noticed(snapshot.noticed):
        yield noticed
    if snapshot.known is not None:
        share = f"{100 * snapshot.known:.0f}% of messages were checked fully"
        yield f"{share}: it is known whether one of their effects left before them"
    yield from map(_summed_up, snapshot.gateways)


def _summed_up(gateway: GatewayView) -> str:
    """A gateway's packets and errors."""
    unpaired = 0 if gateway.foreign else gateway.unpaired
    counted = (
        *((count, f"{count} {what}") for what, count in gateway.line_errors.items()),
        (unpaired, f"{many(unpaired, 'frame')} without a heard record"),
        (gateway.orphans, f"{many(gateway.orphans, 'heard record')} without a frame"),
        (gateway.posed, f"{many(gateway.posed, 'record')} of a gateway by radio"),
        (gateway.records_lost, f"{many(gateway.records_lost, 'heard record')} lost"),
        (gateway.dropped, f"{gateway.dropped} dropped by the gateway"),
        (gateway.gaps, many(gateway.gaps, "gap")),
        (gateway.lags, f"slower than allowed for {many(gateway.lags, 'time')}"),
    )
    wrong = ", ".join(text for count, text in counted if count)
    kind = ", not Causeway's: times from beacons and health messages" if gateway.foreign else ""
    return f"{gateway.name}: {many(gateway.frames, 'packet')}{kind}; {wrong or 'no errors'}"


def _ordered(snapshot: Snapshot) -> Iterator[str]:
    """The share of messages final on arrival, and the bounds of both orders."""
    if snapshot.final_on_arrival is not None:
        yield f"{100 * snapshot.final_on_arrival:.0f}% of messages were final on arrival"
    yield f"arrival order: {shown_order(snapshot.arrival)}"
    by = shown_policy(snapshot.policy, snapshot.phi, snapshot.tolerate)
    earlier = "; ".join(shown_policy(*one) for one in snapshot.earlier)
    before = f" (before that by {earlier})" if earlier else ""
    yield f"delivered by {by}{before}: {shown_order(snapshot.delivery)}"
    if guessed := [gateway.name for gateway in snapshot.gateways if not gateway.promised]:
        yield f"no order is promised: the times of reception at {', '.join(guessed)} are guesses"


def shown_noticed(noticed: RuleCounts) -> str:
    """What the delivery rule counted; empty if nothing."""
    said = (
        (noticed.concurrent, "delivered after a concurrent message"),
        (noticed.gave_up, "delivered without a cause that did not come in time"),
        (noticed.discarded, "discarded because they came too late"),
    )
    return ", ".join(f"{count} {what}" for count, what in said if count)


def shown_order(order: OrderView) -> str:
    if not order.most:
        return "no message is known to be out of causal order"
    least, most = (100 * count / max(1, order.messages) for count in (order.overtaken, order.most))
    return (
        f"at least {order.overtaken}, at most {order.most} of {order.messages} messages ({least:.1f}% to {most:.1f}%) "
        "came after one of their effects"
    )
