"""The full screen: motes and their health, what arrives beside what is delivered, the queue, rates and alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import ClassVar, Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Footer, Static

from basestation.live.counters import MoteView, OrderView, Snapshot
from basestation.live.happenings import Arrived, Delivered, Happening
from basestation.views.lines import row_of, shown_move, shown_noticed, shown_policy, shown_time
from packet_formats.messages import Data

KEPT = 500  # of each stream
REDRAW_SECONDS = 0.2
PHI_STEP = 5
COLOURS = ("cyan", "green", "yellow", "magenta", "bright_blue", "bright_red", "bright_green", "orange3")

HELP = """\
p      pause the picture; nothing is lost meanwhile
f      show one mote alone: press again for the next, and for all
+  -   raise or lower phi, by five per cent
o      the next policy that the stamp allows
?      this help
q      quit

Left stream: messages as they arrive. Right stream: as they are delivered, with ↑ for each place a message was
brought forward against its arrival, ↓ for each it was put back. What receipts prove is counted: so many at least."""


class Shown(Protocol):
    """What the view asks of whoever runs the station."""

    def snapshot(self) -> Snapshot: ...

    def set_policy(self, name: str, phi: int) -> None: ...


class TerminalView(App[None]):
    """A sink, too: it keeps what it is told and draws a few times a second."""

    TITLE = "Causeway"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #status { height: auto; padding: 0 1; background: $panel; }
    #alarms { height: auto; padding: 0 1; background: $error; color: $text; display: none; }
    #middle { height: 1fr; }
    #motes { width: 2fr; min-width: 76; border: round $primary; }
    .stream { width: 1fr; height: 100%; border: round $primary; }
    #queue { height: 12; border: round $primary; }
    #news { height: 7; border: round $primary; }
    #help { display: none; height: auto; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause"),
        Binding("f", "filter", "Filter a mote"),
        Binding("plus,equals_sign", "phi(1)", "phi up", key_display="+"),
        Binding("minus", "phi(-1)", "phi down", key_display="-"),
        Binding("o", "policy", "Policy"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
    ]

    def __init__(self, stage: Shown | None = None) -> None:
        super().__init__()
        self.stage = stage
        self.paused = False
        self.mote: int | None = None
        self.ended = False
        self._arrived: deque[Arrived] = deque(maxlen=KEPT)
        self._delivered: deque[Delivered] = deque(maxlen=KEPT)
        self._news: deque[Happening] = deque(maxlen=KEPT)
        self._snapshot: Snapshot | None = None

    # ---- A sink ----

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered):
            self._delivered.append(happening)
        elif isinstance(happening, Arrived):
            if isinstance(happening.message, Data) and not happening.copy:
                self._arrived.append(happening)
        elif row_of(happening) is not None:
            self._news.append(happening)

    def close(self) -> None:
        self.ended = True

    # ---- Keys ----

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_filter(self) -> None:
        """All motes, then each alone, then all again."""
        known = [mote.mote for mote in self._snapshot.motes] if self._snapshot else []
        later = [mote for mote in known if self.mote is None or mote > self.mote]
        self.mote = later[0] if later else None
        self._draw()

    def action_phi(self, step: int) -> None:
        if self.stage is not None and self._snapshot is not None:
            phi = min(100, max(0, self._snapshot.phi + PHI_STEP * step))
            self._set_policy(self._snapshot.policy, phi)

    def action_policy(self) -> None:
        if self._snapshot is not None:
            names = self._snapshot.policies
            after = names[(names.index(self._snapshot.policy) + 1) % len(names)]
            self._set_policy(after, self._snapshot.phi)

    def action_help(self) -> None:
        shown = self.query_one("#help")
        shown.display = not shown.display

    def _set_policy(self, name: str, phi: int) -> None:
        if self.stage is not None and not self.ended:
            self.stage.set_policy(name, phi)
            self._draw(anew=True)

    # ---- The picture ----

    def compose(self) -> ComposeResult:
        yield Static(id="status")
        yield Static(id="alarms")
        with Horizontal(id="middle"):
            with VerticalScroll(id="motes"):
                yield Static(id="mote-table")
            yield Static(id="arrivals", classes="stream")
            yield Static(id="deliveries", classes="stream")
        yield Static(id="queue")
        yield Static(id="news")
        yield Static(HELP, id="help", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        for name, title in (
            ("motes", "motes"),
            ("arrivals", "arrivals"),
            ("deliveries", "deliveries"),
            ("queue", "held"),
            ("news", "news"),
        ):
            self.query_one(f"#{name}").border_title = title
        self.set_interval(REDRAW_SECONDS, self._draw)
        self._draw()

    def _draw(self, anew: bool = False) -> None:
        if self.stage is None:
            return
        if self.paused and not anew and self._snapshot is not None:
            self._put("status", status(self._snapshot, self.paused, self.mote, self.ended))
            return
        shot = self._snapshot = self.stage.snapshot()
        self._put("status", status(shot, self.paused, self.mote, self.ended))
        alarms = self.query_one("#alarms", Static)
        alarms.display = bool(shot.alarms)
        alarms.update(Text("\n".join(shot.alarms[:4])))
        self._put("mote-table", mote_table(shot.motes, self.mote))
        self._put("arrivals", self._stream("arrivals", self._of_mote(self._arrived), arrival_line))
        self._put("deliveries", self._stream("deliveries", self._of_mote(self._delivered), delivery_line))
        self._put("queue", queue_table(shot, self.mote))
        self._put("news", self._stream("news", self._news, news_line))

    def _of_mote(self, stream: Iterable[Arrived] | Iterable[Delivered]) -> list[Arrived | Delivered]:
        return [item for item in stream if self.mote is None or source_of(item) == self.mote]

    def _stream(
        self, name: str, items: Sequence[Happening] | deque[Happening], line: Callable[..., Text]
    ) -> Text:
        """The newest lines, as many as fit."""
        height = max(1, self.query_one(f"#{name}").size.height)
        newest = list(islice(reversed(items), height))
        return Text("\n").join(line(item) for item in reversed(newest))

    def _put(self, name: str, content: RenderableType) -> None:
        self.query_one(f"#{name}", Static).update(content)


def source_of(item: Arrived | Delivered) -> int:
    if isinstance(item, Delivered):
        return item.name.source
    assert isinstance(item.message, Data)
    return item.message.source


def colour(mote: int) -> str:
    return COLOURS[mote % len(COLOURS)]


def status(shot: Snapshot, paused: bool, mote: int | None, ended: bool) -> RenderableType:
    first = Text.assemble(
        ("the end  " if ended else "paused  " if paused else "", "bold reverse"),
        ("policy ", "dim"),
        (shown_policy(shot.policy, shot.phi, "  "), "bold"),
        ("" if mote is None else f"  only mote {mote}", "bold yellow"),
        (f"   {shot.rate:.1f} messages/s", ""),
        (f"   {shot.received} arrived, {shot.delivered} delivered, {shot.held} held", ""),
        (f"   held {shot.hold.mean:.0f} ms, 95% {shot.hold.p95:.0f}, max {shot.hold.max:.0f}", ""),
    )
    second = Text.assemble(
        ("overtaken by an effect: arrival ", "dim"),
        _overtaken(shot.arrival, "yellow"),
        ("  delivery ", "dim"),
        _overtaken(shot.delivery, "bold red"),
        ("" if shot.known is None else f"  causes known of {100 * shot.known:.0f}%", "dim"),
        (f"   {noticed}" if (noticed := shown_noticed(shot.noticed)) else "", "dim"),
        ("   no network time yet" if shot.tick is None else f"   tick {shot.tick}", "dim"),
    )
    return Group(first, second, *[_gateway_line(shot, number) for number in range(len(shot.gateways))])


def _overtaken(order: OrderView, style: str) -> tuple[str, str]:
    return (f"≥ {order.overtaken}", style) if order.overtaken else ("0", "green")


def _gateway_line(shot: Snapshot, number: int) -> Text:
    gateway = shot.gateways[number]
    state = (
        "lost" if not gateway.live else "silent" if gateway.silent else "foreign" if gateway.foreign else "ok"
    )
    errors = {what: count for what, count in gateway.line_errors.items() if count}
    counted = {
        "unpaired": 0 if gateway.foreign else gateway.unpaired,
        "orphans": gateway.orphans,
        "records lost": gateway.records_lost,
        "dropped": gateway.dropped,
        "not read": gateway.strange,
        "gaps": gateway.gaps,
        "lags": gateway.lags,
    }
    errors |= {what: count for what, count in counted.items() if count}
    said = ", ".join(f"{count} {what}" for what, count in errors.items()) or "no errors"
    return Text.assemble(
        (gateway.name, "bold"),
        (f"  {state}", "green" if state == "ok" else "bold red" if state in ("lost", "silent") else "yellow"),
        f"  {gateway.rate:.1f} packets/s  {said}",
    )


MOTE_COLUMNS = ("/s", "recv", "lost", "dup", "late", "held", "p95", "boot", "sync", "sat", "mV", "hop")


def mote_table(motes: Sequence[MoteView], chosen: int | None) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("mote", no_wrap=True)
    for name in MOTE_COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for mote in motes:
        health = mote.health
        style = "red" if mote.silent or mote.wrong_layout else "reverse" if mote.mote == chosen else ""
        table.add_row(
            Text(str(mote.mote), colour(mote.mote)),
            f"{mote.rate:.1f}",
            str(mote.received),
            _warn(mote.lost),
            str(mote.duplicates),
            _warn(mote.late),
            str(mote.held),
            f"{mote.hold.p95:.0f}",
            _warn(mote.reboots),
            _warn(mote.out_of_sync + mote.untimed),
            _warn(mote.saturated),
            str(health.battery * 20) if health and health.battery else "-",
            str(health.hops) if health else "-",
            "silent" if mote.silent else "layout?" if mote.wrong_layout else "ok",
            style=style,
        )
    return table


def _warn(count: int) -> Text:
    return Text(str(count), "yellow" if count else "")


def queue_table(shot: Snapshot, chosen: int | None) -> RenderableType:
    rows = [row for row in shot.queue if chosen is None or row.source == chosen]
    if not rows:
        return Text("nothing", "dim")
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("message")
    table.add_column("held ms", justify="right")
    table.add_column("leaves in ms", justify="right")
    table.add_column("why it waits", ratio=1)
    for row in rows[:8]:
        left = "-" if row.due_ms is None else f"{max(0, row.due_ms):.0f}"
        table.add_row(Text(row.name, colour(row.source)), f"{row.held_ms:.0f}", left, row.why)
    if len(rows) > 8:
        table.add_row("...", "", "", f"and {shot.held - 8} more" if chosen is None else "")
    return table


def arrival_line(item: Arrived) -> Text:
    assert isinstance(item.message, Data)
    when = (shown_time(item.wall_ns)[6:], "dim")
    return Text.assemble(when, "  ", (str(item.name), colour(item.message.source)))


def delivery_line(item: Delivered) -> Text:
    marks = [shown_move(item.moved), "late" if item.late else "", "" if item.in_sync else "no time"]
    marks += ["∥"] if item.concurrent else []
    return Text.assemble(
        (shown_time(item.wall_ns)[6:], "dim"),
        "  ",
        (f"{item.name!s:<8}", colour(item.name.source)),
        (f"{item.held_ms:5.0f} ms ", "dim"),
        (" ".join(filter(None, marks)), "bold"),
    )


def news_line(item: Happening) -> Text:
    row = row_of(item)
    assert row is not None
    text = f"{shown_time(item.wall_ns)}  {row.kind:<9}  {row.subject:>8}  {row.text}"
    return Text(text, row.style or "", overflow="ellipsis", no_wrap=True)
