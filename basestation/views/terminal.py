"""The full screen: motes and their health, what arrives beside what is delivered, the queue, rates and alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import ClassVar, Protocol, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.events import Resize
from textual.widgets import Footer, Static

from basestation.live.counters import GatewayView, HeldView, MoteView, OrderView, Snapshot
from basestation.live.happenings import Arrived, Delivered, Happening, Tentative
from basestation.views.lines import row_of, shown_ledger, shown_move, shown_noticed, shown_policy, shown_time
from packet_formats.layout import DataLayout
from packet_formats.messages import Data
from packet_formats.values import data_text

KEPT = 500  # lines of each stream
REDRAW_SECONDS = 0.2
PHI_STEP = 5
TOLERATE_STEP = 0.1
COLOURS = ("cyan", "green", "yellow", "magenta", "bright_blue", "bright_red", "bright_green", "orange3")

NARROW = 130  # below: the streams go under the motes
LOW, LOWEST = 32, 20  # below: only the newest of the news, and none
LEAST = (60, 16)
STEADY = 25  # pictures for which the queue keeps its height, lest all else jump with each message
PHI_POLICIES = ("dapw", "cbd")

Item = TypeVar("Item", Arrived, Delivered, HeldView)

HELP = """\
p      pause the picture; nothing is lost meanwhile
f      show one mote only; press again for the next one, and then for all
+  -   raise or lower phi by five per cent, or what the ledger tolerates by a tenth
o      switch to the next policy that the stamp allows
?      open or close this help
q      quit
Arrow keys, page up and page down scroll the motes.

Motes: messages per second, received, lost, dup(licates), late, held now;
p95: 95% of the messages were held at most so many ms; boot: restarts seen;
nosync: messages sent or heard without network time; sat: saturated stamps;
mV: battery; hop: distance from the root.

Arrivals: messages as they come. Deliveries: messages as they leave, and how
long each was held. ↑3 left three places earlier than it arrived, ↓3 three
later; late: it came after its deadline; no time: it left on arrival because
it had no network time; ∥ concurrent: a message had left before it that is
neither its cause nor its effect; ? tentative: it waits for messages by name,
and stands where it would leave if nothing more came.
Out of order: ≥ 2 means that stamps or receipts prove at least two."""


class Shown(Protocol):
    """What the view needs from whoever runs the station."""

    def snapshot(self) -> Snapshot: ...

    def set_policy(self, name: str, phi: int, tolerate: float | None = None) -> None: ...


class TerminalView(App[None]):
    """The full screen. It is a sink, too: it keeps what it is told and draws a few times a second."""

    TITLE = "Causeway"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: picture over; }
    #status { height: auto; padding: 0 1; background: $panel; }
    #alarms { height: auto; padding: 0 1; background: $error; color: $text; display: none; }
    #middle { height: 1fr; layout: horizontal; }
    #motes { width: 78; height: 1fr; border: round $primary; scrollbar-size-vertical: 1; }
    #streams { width: 1fr; height: 1fr; }
    .stream { width: 1fr; height: 100%; border: round $primary; }
    #queue { height: 3; border: round $primary; }
    #news { height: 7; border: round $primary; }
    #help { display: none; layer: over; height: auto; max-height: 100%; border: round $accent; padding: 0 1; }
    #help Static { height: auto; }
    #small { display: none; padding: 0 1; }
    .narrow #middle { layout: vertical; }
    .narrow #motes { width: 100%; }
    .narrow #streams { width: 100%; }
    .low #motes, .low .stream, .low #queue { border: none; border-top: solid $primary; padding: 0 1; }
    .low #news { height: 1; border: none; padding: 0 1; }
    .lowest #news { display: none; }
    .small #picture, .small #help { display: none; }
    .small #small { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause"),
        Binding("f", "filter", "Filter"),
        Binding("plus,equals_sign", "phi(1)", "phi", key_display="+"),
        Binding("minus", "phi(-1)", "phi", key_display="-"),
        Binding("o", "policy", "Policy"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
    ]

    def __init__(
        self, stage: Shown | None = None, final: bool = False, layout: DataLayout | None = None
    ) -> None:
        """`final`: show no row of a message that has not left. A layout whose data has names shows the values."""
        super().__init__()
        self.stage = stage
        self.final = final
        self.layout = layout if layout and layout.values else None
        self.paused = False
        self.mote: int | None = None
        self.ended = False
        self._arrived: deque[Arrived] = deque(maxlen=KEPT)
        self._delivered: deque[Delivered] = deque(maxlen=KEPT)
        self._news: deque[Happening] = deque(maxlen=KEPT)
        self._snapshot: Snapshot | None = None
        self._queue_heights: deque[int] = deque(maxlen=STEADY)

    # ---- A sink ----

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered):
            self._delivered.append(happening)
        elif isinstance(happening, Arrived):
            if isinstance(happening.message, Data) and not happening.copy:
                self._arrived.append(happening)
        elif not isinstance(happening, Tentative) and row_of(happening) is not None:
            self._news.append(happening)

    def close(self) -> None:
        self.ended = True

    # ---- Keys ----

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_filter(self) -> None:
        """Show all motes, then each alone, then all again."""
        known = [mote.mote for mote in self._snapshot.motes] if self._snapshot else []
        later = [mote for mote in known if self.mote is None or mote > self.mote]
        self.mote = later[0] if later else None
        self._draw()

    def action_phi(self, step: int) -> None:
        shot = self._snapshot
        if shot is None:
            return
        if shot.tolerate is not None:
            tolerate = round(min(100.0, max(0.0, shot.tolerate + TOLERATE_STEP * step)), 3)
            self._set_policy(shot.policy, shot.phi, tolerate)
        elif shot.policy not in PHI_POLICIES:
            self.notify(f"phi does nothing under the policy {shot.policy}")
        else:
            self._set_policy(shot.policy, min(100, max(0, shot.phi + PHI_STEP * step)))

    def action_policy(self) -> None:
        if self._snapshot is not None:
            names = self._snapshot.policies
            after = names[(names.index(self._snapshot.policy) + 1) % len(names)]
            self._set_policy(after, self._snapshot.phi)

    def action_help(self) -> None:
        shown = self.query_one("#help")
        shown.display = not shown.display
        self.query_one("#help" if shown.display else "#motes").focus()  # the arrow keys scroll it

    def _set_policy(self, name: str, phi: int, tolerate: float | None = None) -> None:
        if self.stage is not None and not self.ended:
            self.stage.set_policy(name, phi, tolerate)
            self._draw(anew=True)

    # ---- The picture ----

    def compose(self) -> ComposeResult:
        with Container(id="picture"):
            yield Static(id="status")
            yield Static(id="alarms")
            with Container(id="middle"):
                with VerticalScroll(id="motes"):
                    yield Static(id="mote-table")
                with Horizontal(id="streams"):
                    yield Static(id="arrivals", classes="stream")
                    yield Static(id="deliveries", classes="stream")
            yield Static(id="queue")
            yield Static(id="news")
            yield Footer()
        with VerticalScroll(id="help"):
            yield Static(HELP, markup=False)
        yield Static(f"the window is too small: {LEAST[0]} by {LEAST[1]} at least", id="small")

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

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        self.screen.set_class(width < NARROW, "narrow")
        self.screen.set_class(height < LOW, "low")
        self.screen.set_class(height < LOWEST, "lowest")
        self.screen.set_class(width < LEAST[0] or height < LEAST[1], "small")
        self._queue_heights.clear()
        self.call_after_refresh(self._draw)

    def _draw(self, anew: bool = False) -> None:
        if self.stage is None or not self.is_running:  # while it closes, the panels go before the timer
            return
        if self.paused and not anew and self._snapshot is not None:
            self._put_status(self._snapshot)
            return
        shot = self._snapshot = self.stage.snapshot()
        self._put_status(shot)
        alarms = self.query_one("#alarms", Static)
        alarms.display = bool(shot.alarms)
        alarms.update(Group(*some_lines([Text(alarm) for alarm in shot.alarms], self.size.height // 12)))
        room = self.query_one("#motes").scrollable_content_region.width
        self._put("mote-table", mote_table(shot.motes, self.mote, room))
        self._put("arrivals", self._stream("arrivals", self._of_mote(self._arrived), arrival_line))
        self._put_deliveries(shot)
        self._put_queue(shot)
        self._put("news", self._stream("news", self._news, news_line))

    def _put_status(self, shot: Snapshot) -> None:
        lines = status(shot, self.paused, self.mote, self.ended)
        gateways = gateway_lines(shot.gateways)
        self._put("status", Group(*map(cut, lines), *some_lines(gateways, self.size.height // 12)))

    def _put_deliveries(self, shot: Snapshot) -> None:
        """Put what has left above what has not. A row that becomes final stays where it is, and no final row moves."""
        height = max(1, self.query_one("#deliveries").size.height)
        tentative = [] if self.final else [row for row in shot.queue if row.tentative]
        below = self._of_mote(tentative)[: height // 2]
        final = list(islice(reversed(self._of_mote(self._delivered)), height - len(below)))
        rows = [delivery_line(item, self.layout) for item in reversed(final)]
        lines = [*rows, *map(tentative_line, below)]
        self._put("deliveries", Group(*map(cut, lines)))

    def _put_queue(self, shot: Snapshot) -> None:
        """Make the queue as high as it needs or needed a moment ago, and at most a quarter of the screen."""
        queue = self.query_one("#queue", Static)
        border = queue.gutter.height
        table = queue_table(shot, self.mote, self.size.height // 4 - border)
        self._queue_heights.append(table.row_count + table.show_header)
        queue.styles.height = border + max(self._queue_heights)
        queue.update(table)

    def _of_mote(self, stream: Iterable[Item]) -> list[Item]:
        return [item for item in stream if self.mote is None or source_of(item) == self.mote]

    def _stream(
        self, name: str, items: Sequence[Happening] | deque[Happening], line: Callable[..., Text]
    ) -> Group:
        """The newest lines, as many as fit."""
        height = max(1, self.query_one(f"#{name}").size.height)
        newest = list(islice(reversed(items), height))
        return Group(*[cut(line(item)) for item in reversed(newest)])

    def _put(self, name: str, content: RenderableType) -> None:
        self.query_one(f"#{name}", Static).update(content)


def source_of(item: Arrived | Delivered | HeldView) -> int:
    if isinstance(item, HeldView):
        return item.source
    if isinstance(item, Delivered):
        return item.name.source
    assert isinstance(item.message, Data)
    return item.message.source


def colour(mote: int) -> str:
    return COLOURS[mote % len(COLOURS)]


def cut(line: Text) -> Text:
    """Cut a line that is too long: if it became two, the newest line would not fit any more."""
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def some_lines(lines: Sequence[Text], most: int) -> list[Text]:
    """The first ones, and how many more there are."""
    if len(lines) <= most:
        return [cut(line) for line in lines]
    kept = [cut(line) for line in lines[:most]]
    return [*kept[:-1], Text.assemble((f"{len(lines) - most} more, and ", "dim"), kept[-1])]


def status(shot: Snapshot, paused: bool, mote: int | None, ended: bool) -> tuple[Text, ...]:
    knobs = shot.policy in PHI_POLICIES or shot.tolerate is not None
    policy = shown_policy(shot.policy, shot.phi, shot.tolerate, "  ") if knobs else shot.policy
    first = Text.assemble(
        ("the end  " if ended else "paused  " if paused else "", "bold reverse"),
        ("policy ", "dim"),
        (policy, "bold"),
        ("" if mote is None else f"  only mote {mote}", "bold yellow"),
        (f"   {shot.rate:.1f} messages/s", ""),
        (f"   {shot.received} arrived, {shot.delivered} delivered, {shot.held} held", ""),
        (f"   held {shot.hold.mean:.0f} ms, 95% {shot.hold.p95:.0f}, max {shot.hold.max:.0f}", ""),
    )
    second = Text.assemble(
        ("out of order: arrived ", "dim"),
        _overtaken(shot.arrival, "yellow"),
        ("  delivered ", "dim"),
        _overtaken(shot.delivery, "bold red"),
        ("" if shot.known is None else f"  {100 * shot.known:.0f}% checked fully", "dim"),
        (
            ""
            if shot.final_on_arrival is None
            else f"   {100 * shot.final_on_arrival:.0f}% final on arrival",
            "dim",
        ),
        (f"   {noticed}" if (noticed := shown_noticed(shot.noticed)) else "", "dim"),
        ("   no network time yet" if shot.tick is None else f"   tick {shot.tick}", "dim"),
    )
    third = [Text(f"the ledger {shown_ledger(shot.ledger)}")] if shot.ledger else []
    return first, second, *third


def _overtaken(order: OrderView, style: str) -> tuple[str, str]:
    return (f"≥ {order.overtaken}", style) if order.overtaken else ("0", "green")


def gateway_lines(gateways: Sequence[GatewayView]) -> list[Text]:
    """A line for each gateway, those in trouble first: there may be no room for all."""
    return [_gateway_line(one) for one in sorted(gateways, key=lambda one: one.live and not one.silent)]


def _gateway_line(gateway: GatewayView) -> Text:
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


MOTE_COLUMNS = (
    *("mote", "/s", "recv", "lost", "dup", "late", "held", "p95"),
    *("boot", "nosync", "sat", "mV", "hop", "state"),
)
DISPENSABLE = ("dup", "hop", "mV", "sat", "boot", "p95", "nosync", "late")  # the first to go first


def mote_table(motes: Sequence[MoteView], chosen: int | None, room: int) -> Table:
    rows = [_mote_cells(mote) for mote in motes]
    shown = _columns_for(rows, room)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for name in shown:
        table.add_column(name, justify="left" if name in ("mote", "state") else "right", no_wrap=True)
    for mote, cells in zip(motes, rows, strict=True):
        style = "red" if mote.silent or mote.wrong_layout else "reverse" if mote.mote == chosen else ""
        table.add_row(*[cells[name] for name in shown], style=style)
    return table


def _columns_for(rows: Sequence[dict[str, Text]], room: int) -> list[str]:
    """As many columns as there is room for; those that say the most stay the longest."""
    widths = {name: 1 + max(len(name), *(len(cells[name]) for cells in rows), 0) for name in MOTE_COLUMNS}
    for name in DISPENSABLE:
        if sum(widths.values()) <= room:
            break
        del widths[name]
    return list(widths)


def _mote_cells(mote: MoteView) -> dict[str, Text]:
    health = mote.health
    cells = (
        Text(str(mote.mote), colour(mote.mote)),
        Text(f"{mote.rate:.1f}"),
        Text(str(mote.received)),
        _warn(mote.lost),
        Text(str(mote.duplicates)),
        _warn(mote.late),
        Text(str(mote.held)),
        Text(f"{mote.hold.p95:.0f}"),
        _warn(mote.reboots),
        _warn(mote.out_of_sync + mote.untimed),
        _warn(mote.saturated),
        Text(str(health.battery * 20) if health and health.battery else "-"),
        Text(str(health.hops) if health else "-"),
        Text("silent" if mote.silent else "layout?" if mote.wrong_layout else "ok"),
    )
    return dict(zip(MOTE_COLUMNS, cells, strict=True))


def _warn(count: int) -> Text:
    return Text(str(count), "yellow" if count else "")


def queue_table(shot: Snapshot, chosen: int | None, most: int) -> Table:
    """The held messages in at most `most` lines, with a heading if there is room for one."""
    rows = [row for row in shot.queue if chosen is None or row.source == chosen]
    headed = bool(rows) and most > 3
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim", show_header=headed)
    table.add_column("message", no_wrap=True)
    table.add_column("held ms", justify="right", no_wrap=True)
    table.add_column("leaves in", justify="right", no_wrap=True)
    table.add_column("why it waits", ratio=1, no_wrap=True, overflow="ellipsis")
    if not rows:
        table.add_row(Text("nothing", "dim"))
    room = most - headed
    shown = rows if len(rows) <= room else rows[: room - 1]
    for row in shown:
        left = "-" if row.due_ms is None else f"{max(0, row.due_ms):.0f} ms"
        table.add_row(Text(row.name, colour(row.source)), f"{row.held_ms:.0f}", left, row.why)
    if len(shown) < len(rows):
        table.add_row("...", "", "", f"and {shot.held - len(shown)} more" if chosen is None else "")
    return table


def arrival_line(item: Arrived) -> Text:
    assert isinstance(item.message, Data)
    when = (shown_time(item.wall_ns)[6:], "dim")
    return Text.assemble(when, "  ", (str(item.name), colour(item.message.source)))


def delivery_line(item: Delivered, layout: DataLayout | None) -> Text:
    marks = [shown_move(item.moved), "late" if item.late else "", "" if item.in_sync else "no time"]
    marks += ["∥"] if item.concurrent else []
    return Text.assemble(
        (shown_time(item.wall_ns)[6:], "dim"),
        "  ",
        (f"{item.name!s:<8}", colour(item.name.source)),
        (f"{item.held_ms:5.0f} ms ", "dim"),
        (" ".join(filter(None, marks)), "bold"),
        ("" if layout is None else f"  {data_text(layout, item.data.data)}", ""),
    )


def tentative_line(item: HeldView) -> Text:
    return Text(f"     ?  {item.name:<8}{item.held_ms:5.0f} ms {item.why}", "dim")


def news_line(item: Happening) -> Text:
    row = row_of(item)
    assert row is not None
    text = f"{shown_time(item.wall_ns)}  {row.kind:<9}  {row.subject:>8}  {row.text}"
    return Text(text, row.style or "", overflow="ellipsis", no_wrap=True)
