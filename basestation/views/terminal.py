"""The full screen: motes and their health, what arrives beside what is delivered, the queue, rates and alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Footer, Static

from basestation.live.counters import GatewayView, HeldView, MoteView, OrderView, Snapshot
from basestation.live.happenings import Alarm, Arrived, Delivered, Happening, Tentative
from basestation.live.runner import Stage
from basestation.views.dialogs import Help, PolicyQuestion, Proposal, Question
from basestation.views.lines import (
    row_of,
    shown_guard,
    shown_ledger,
    shown_move,
    shown_noticed,
    shown_policy,
    shown_time,
)
from basestation.views.mote_table import by_trouble, colour, mote_table, sides
from basestation.views.visible_text import Visible
from packet_formats.layout import DataLayout
from packet_formats.messages import Data
from packet_formats.phrases import visible
from packet_formats.records import Health
from packet_formats.values import data_text

KEPT = 500  # lines of each stream
LOOK_SECONDS = 0.2
QUIET_LOOKS = 5  # without an event: then a new picture shows ages and rates only, to spare a laptop's battery

NARROW = 130  # below: the streams go under the motes
HIGH, LOW, LOWEST = 45, 32, 20  # rows; below: fewer lines of news, one line, no line
LEAST = (60, 16)
STREAMS_LEAST, STREAMS_LOWEST = 70, 3  # columns beside the motes, lines below the motes
MOTES_MOST = 88  # columns: a mote with all its figures
STEADY = 25  # pictures for which the queue keeps its height, so that the screen does not jump

Item = TypeVar("Item", Arrived, Delivered, HeldView)


# Sends a setting, in words such as "blink all", to a mote. The answer is for the user.
Order = Callable[[str, int], Coroutine[None, None, str]]


class TerminalView(App[None]):
    """The full screen, and a sink: it keeps the newest events and draws a few times a second."""

    TITLE = "Causeway"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #status { height: auto; padding: 0 1; background: $panel; }
    #alarms { height: auto; padding: 0 1; background: $error; color: $text; display: none; }
    #middle { height: 1fr; layout: horizontal; }
    #motes { width: 78; height: 1fr; border: round $primary; scrollbar-size-vertical: 1; }
    #streams { width: 1fr; height: 1fr; }
    .stream { width: 1fr; height: 100%; border: round $primary; }
    #arrivals { width: 20; }
    #queue { height: 3; border: round $primary; }
    #news { height: 7; border: round $primary; }
    #small { display: none; padding: 0 1; }
    .lower #news { height: 5; }
    .narrow #middle { layout: vertical; }
    .narrow #streams { width: 100%; }
    .low #motes, .low .stream, .low #queue { border: none; border-top: solid $primary; padding: 0 1; }
    .low #news { height: 1; border: none; padding: 0 1; }
    .lowest #news { display: none; }
    .small #picture { display: none; }
    .small #small { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause"),
        Binding("f", "filter", "Filter"),
        Binding("plus,equals_sign", "phi(1)", "Wait", key_display="+ -"),
        Binding("minus", "phi(-1)", show=False),
        Binding("o", "policy", "Policy"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
        Binding("b", "order('blink all')", "Blink"),
        Binding("r", "order('report')", "Report"),
        Binding("R", "reboot", "Reboot", key_display="R"),
        Binding("up", "choose(-1)", show=False),
        Binding("down", "choose(1)", show=False),
        Binding("pageup", "choose(-10)", show=False),
        Binding("pagedown", "choose(10)", show=False),
        Binding("escape", "choose(0)", show=False),
    ]

    def __init__(
        self,
        stage: Stage | None = None,
        final: bool = False,
        layout: DataLayout | None = None,
        order: Order | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """`final`: show a message only when it is delivered. `layout` decodes values that have names.

        `order` sends settings to motes; None in a recording. `names`: of motes that have one.
        """
        super().__init__()
        self.stage = stage
        self.final = final
        self.layout = layout if layout and layout.values else None
        self.paused = False
        self.mote: int | None = None  # the only mote that is shown
        self.chosen: int | None = None
        self.ended = False
        self._order = order
        self._names = names or {}
        self._arrived: deque[Arrived] = deque(maxlen=KEPT)
        self._delivered: deque[Delivered] = deque(maxlen=KEPT)
        self._news: deque[Happening] = deque(maxlen=KEPT)
        self._alarms: deque[Happening] = deque(
            maxlen=KEPT
        )  # separate, so that other news cannot push them out
        self._snapshot: Snapshot | None = None
        self._queue_heights: deque[int] = deque(maxlen=STEADY)
        self._looks = 0  # since the last picture

    # ---- A sink ----

    def take(self, happening: Happening) -> None:
        self._looks = QUIET_LOOKS
        if isinstance(happening, Delivered):
            self._delivered.append(happening)
        elif isinstance(happening, Arrived):
            if isinstance(happening.message, Data) and not happening.copy:
                self._arrived.append(happening)
            elif isinstance(happening.message, Health) and happening.message.source == self.chosen:
                self._news.append(happening)
        elif isinstance(happening, Alarm):
            self._alarms.append(happening)
        elif not isinstance(happening, Tentative) and row_of(happening) is not None:
            self._news.append(happening)

    def close(self) -> None:
        self.ended = True
        self._looks = QUIET_LOOKS

    # ---- Keys ----

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The footer shows the keys for a chosen mote only when a mote is chosen."""
        return self.chosen is not None if action in ("order", "reboot") else True

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_choose(self, step: int) -> None:
        """Choose a mote `step` rows down the table; 0: choose none, and show all motes."""
        order = [mote.mote for mote in self._motes()]
        if not step or not order:
            self.chosen = self.mote = None
        elif self.chosen in order:
            at = order.index(self.chosen) + step
            self.chosen = order[min(len(order) - 1, max(0, at))]
        else:
            self.chosen = order[0]
        self.refresh_bindings()
        self._draw(anew=True)

    def action_filter(self) -> None:
        """Show only the chosen mote, or all motes again."""
        if self.chosen is None and self.mote is None:
            self.action_choose(1)
        self.mote = self.chosen if self.mote is None else None
        self._draw(anew=True)

    def action_phi(self, step: int) -> None:
        if self._snapshot is not None:
            proposal = Proposal.of(self._snapshot)
            stepped = proposal.stepped(step)
            if not proposal.has_steps:
                self.notify(f"phi does nothing under the policy {proposal.policy}")
            elif stepped == proposal:
                self.notify(f"{proposal}: this is the limit")
            else:
                self._propose(stepped)

    def action_policy(self) -> None:
        if self._snapshot is not None:
            self._propose(Proposal.of(self._snapshot).turned(self._snapshot.policies))

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_order(self, words: str) -> None:
        if self.chosen is not None:
            self._send(words, self.chosen)

    def action_reboot(self) -> None:
        mote = self.chosen

        def answered(yes: bool | None) -> None:
            if yes and mote is not None:
                self._send("reboot", mote)

        if mote is not None:
            self.push_screen(Question(f"Reboot mote {mote}?"), answered)

    def _send(self, words: str, mote: int) -> None:
        if self._order is None or self.ended:
            self.notify("not sent: this is a recording, or the run is over")
        else:
            self.notify(f"sending {words} to mote {mote} ...", timeout=2)
            self.run_worker(self._sent(self._order(words, mote)), group="orders")

    async def _sent(self, sending: Coroutine[None, None, str]) -> None:
        self.notify(visible(await sending), markup=False)

    def _propose(self, proposal: Proposal) -> None:
        """Ask first: the change affects the log, the summary and all other viewers."""
        if self.stage is None or self.ended or self._snapshot is None:
            return
        question = PolicyQuestion(self._snapshot, proposal)

        def answered(yes: bool | None) -> None:
            if yes and self.stage is not None and not self.ended:
                self.stage.set_policy(*question.proposal)
                self._draw(anew=True)

        self.push_screen(question, answered)

    # ---- The picture ----

    def compose(self) -> ComposeResult:
        with Container(id="picture"):
            yield Static(id="status")
            yield Static(id="alarms")
            with Container(id="middle"):
                with VerticalScroll(id="motes", can_focus=False):
                    yield Static(id="mote-table")
                with Horizontal(id="streams"):
                    yield Static(id="arrivals", classes="stream")
                    yield Static(id="deliveries", classes="stream")
            yield Static(id="queue")
            yield Static(id="news")
            yield Footer(compact=True)
        yield Static(f"the window is too small: {LEAST[0]} by {LEAST[1]} at least", id="small")

    def on_mount(self) -> None:
        for name in ("arrivals", "deliveries", "news"):
            self._panel(name).border_title = name
        self._panel("queue").border_title = "held"
        self.set_interval(LOOK_SECONDS, self._look)
        self._draw()

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        screen = self.screen_stack[0]
        screen.set_class(width < NARROW, "narrow")
        screen.set_class(height < HIGH, "lower")
        screen.set_class(height < LOW, "low")
        screen.set_class(height < LOWEST, "lowest")
        screen.set_class(width < LEAST[0] or height < LEAST[1], "small")
        self._panel("motes").styles.width = (
            "100%" if width < NARROW else min(MOTES_MOST, width - STREAMS_LEAST)
        )
        self._queue_heights.clear()
        self.call_after_refresh(self._draw)

    def _panel(self, name: str) -> Widget:
        """A part of the picture, even behind a question or the help."""
        return self.screen_stack[0].query_one(f"#{name}")

    def _motes(self) -> list[MoteView]:
        return by_trouble(self._snapshot.motes) if self._snapshot else []

    def _look(self) -> None:
        self._looks += 1
        if self._looks >= QUIET_LOOKS:
            self._draw()

    def _draw(self, anew: bool = False) -> None:
        if self.stage is None or not self.is_running:  # on closing, the panels end before the timer
            return
        self._looks = 0
        if self.paused and not anew and self._snapshot is not None:
            self._put_status(self._snapshot)
            return
        shot = self._snapshot = self.stage.snapshot()
        self._put_status(shot)
        alarms = self._panel("alarms")
        alarms.display = bool(shot.alarms)
        lines = some_lines([Text(alarm) for alarm in shot.alarms], max(1, self.size.height // 12))
        self._put("alarms", Group(*lines))
        self._put_motes()
        self._put("arrivals", self._stream("arrivals", self._of_mote(self._arrived), arrival_line))
        self._put_deliveries(shot)
        self._put_queue(shot)
        news = chosen_news(self._news, self._alarms, max(1, self._panel("news").size.height))
        self._put("news", self._stream("news", news, news_line))

    def _put_status(self, shot: Snapshot) -> None:
        width, height = self.size
        lines = packed(status(shot, self.paused, self.mote, self.ended), width - 2, 2 if height < LOW else 3)
        gateways = some_lines(gateway_lines(shot.gateways), max(1, height // 12))
        self._put("status", Group(*lines, *gateways))

    def _put_motes(self) -> None:
        """Show the motes. On a narrow screen the streams below get the rest, and at least a few lines."""
        motes, panel = self._motes(), self._panel("motes")
        room, border = panel.scrollable_content_region.width, panel.gutter.height
        whole = self._panel("middle").size.height
        if self.size.width < NARROW:
            most = whole - STREAMS_LOWEST
            beside = sides(len(motes), room, most - border)
            panel.styles.height = max(3, min(most, border + 1 + -(-len(motes) // beside)))
        else:
            panel.styles.height = "1fr"
        height = panel.size.height
        beside = sides(len(motes), room, height)
        fits = beside * (height - 1)
        panel.border_title = f"{len(motes)} motes" if len(motes) <= fits else f"{fits} of {len(motes)} motes"
        self._put("mote-table", mote_table(motes, self.chosen, room, height, self._names))
        order = [mote.mote for mote in motes]
        if self.chosen in order:
            row = 1 + order.index(self.chosen) % -(-len(motes) // beside)
            top, bottom = int(panel.scroll_offset.y), int(panel.scroll_offset.y) + height - 1
            if not top + (row > 1) <= row <= bottom:
                panel.scroll_to(y=0 if row == 1 else row - height // 2, animate=False)

    def _put_deliveries(self, shot: Snapshot) -> None:
        """Show delivered messages above tentative ones. Final rows never move; a row that becomes final stays."""
        height = max(1, self._panel("deliveries").size.height)
        tentative = [] if self.final else [row for row in shot.queue if row.tentative]
        below = self._of_mote(tentative)[: height // 2]
        final = list(islice(reversed(self._of_mote(self._delivered)), height - len(below)))
        rows = [delivery_line(item, self.layout) for item in reversed(final)]
        lines = [*rows, *map(tentative_line, below)]
        self._put("deliveries", Group(*map(cut, lines)))

    def _put_queue(self, shot: Snapshot) -> None:
        """Make the queue as high as its rows need, now or a moment ago, but at most a part of the screen."""
        queue, height = self._panel("queue"), self.size.height
        most = max(2, height // 8) if height < LOW else height // 4 - queue.gutter.height
        table = queue_table(shot, self.mote, most)
        self._queue_heights.append(table.row_count + table.show_header)
        queue.styles.height = queue.gutter.height + max(self._queue_heights)
        self._put("queue", table)

    def _of_mote(self, stream: Iterable[Item]) -> list[Item]:
        return [item for item in stream if self.mote is None or source_of(item) == self.mote]

    def _stream(
        self, name: str, items: Sequence[Happening] | deque[Happening], line: Callable[..., Text]
    ) -> Group:
        """The newest lines, as many as fit."""
        height = max(1, self._panel(name).size.height)
        newest = list(islice(reversed(items), height))
        return Group(*[cut(line(item)) for item in reversed(newest)])

    def _put(self, name: str, content: RenderableType) -> None:
        panel = self._panel(name)
        assert isinstance(panel, Static)
        panel.update(Visible(content))


def source_of(item: Arrived | Delivered | HeldView) -> int:
    if isinstance(item, HeldView):
        return item.source
    if isinstance(item, Delivered):
        return item.name.source
    assert isinstance(item.message, Data)
    return item.message.source


def cut(line: Text) -> Text:
    """Cut a line that is too long: a wrapped line would push the newest line off the panel."""
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def some_lines(lines: Sequence[Text], most: int) -> list[Text]:
    """The first `most` lines; the last one says how many are missing."""
    if len(lines) <= most:
        return [cut(line) for line in lines]
    kept = [cut(line) for line in lines[:most]]
    return [*kept[:-1], cut(Text.assemble((f"{len(lines) - most} more, and ", "dim"), kept[-1]))]


def status(shot: Snapshot, paused: bool, mote: int | None, ended: bool) -> list[Text]:
    """The pieces of the head line, the most important first: the last ones may not fit."""
    proposal = Proposal.of(shot)
    policy = shown_policy(*proposal, between="  ") if proposal.has_steps else shot.policy
    said = [
        Text.assemble(
            ("the end  " if ended else "paused  " if paused else "", "bold reverse"),
            ("policy ", "dim"),
            (policy, "bold"),
            ("" if mote is None else f"  only mote {mote}", "bold yellow"),
        ),
        Text.assemble(
            ("out of order: arrived ", "dim"),
            _overtaken(shot.arrival, "yellow"),
            ("  delivered ", "dim"),
            _overtaken(shot.delivery, "bold red"),
        ),
        Text(f"{shot.rate:.1f} messages/s"),
        Text(f"{shot.received} arrived, {shot.delivered} delivered, {shot.held} held"),
        Text(f"held {shot.hold.mean:.0f} ms, 95% {shot.hold.p95:.0f}, max {shot.hold.max:.0f}"),
    ]
    if shot.refused is not None:
        strangers = shot.refused.get("forged", 0) + shot.refused.get("replayed", 0)
        said.append(Text(shown_guard(shot.refused), "bold red" if strangers else ""))
    if shot.ledger:
        said.append(Text(f"the ledger {shown_ledger(shot.ledger)}"))
    less = ["no network time yet" if shot.tick is None else ""]
    if shot.final_on_arrival is not None:
        less.append(f"{100 * shot.final_on_arrival:.0f}% final on arrival")
    if shot.known is not None:
        less.append(f"{100 * shot.known:.0f}% checked fully")
    less += [shown_noticed(shot.noticed), "" if shot.tick is None else f"tick {shot.tick}"]
    return said + [Text(text, "dim") for text in less if text]


def packed(pieces: Sequence[Text], width: int, most: int) -> list[Text]:
    """The pieces in at most `most` lines of this width. Pieces that do not fit are left out."""
    lines: list[Text] = []
    for piece in pieces:
        fits = next((at for at, line in enumerate(lines) if len(line) + 2 + len(piece) <= width), None)
        if fits is not None:
            lines[fits] = Text.assemble(lines[fits], "  ", piece)
        elif len(lines) < most:
            lines.append(piece)
    return [cut(line) for line in lines]


def _overtaken(order: OrderView, style: str) -> tuple[str, str]:
    if not order.most:
        return "0", "green"
    return f"≥ {order.overtaken} ≤ {order.most}", style if order.overtaken else "yellow"


def gateway_lines(gateways: Sequence[GatewayView]) -> list[Text]:
    """A line for each gateway, those in trouble first: the last ones may not fit."""
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


def chosen_news(news: Sequence[Happening], alarms: Sequence[Happening], height: int) -> list[Happening]:
    """The newest news and alarms, by time. Alarms get half of the lines, if there are enough alarms."""
    kept = list(alarms)[-(height // 2) :] if height > 1 else []
    others = sorted([*news, *list(alarms)[: len(alarms) - len(kept)]], key=lambda item: item.mono_ns)
    return sorted([*kept, *others[len(kept) - height :]], key=lambda item: item.mono_ns)


def news_line(item: Happening) -> Text:
    row = row_of(item)
    assert row is not None
    return cut(Text(row.line(item.wall_ns), row.style or ""))
