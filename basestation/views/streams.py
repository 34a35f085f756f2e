"""Arrivals and deliveries side by side, in a part of the terminal."""

from __future__ import annotations

from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from basestation.live.happenings import Arrived, Delivered, Discarded, Happening, Name, Tentative
from packet_formats.messages import Data

ROWS = 16
KEPT = 1024  # messages whose colour is kept: far more than are on the screen
PER_SECOND = 8  # pictures; each takes time from the deliveries


class StreamsView:
    """A sink that shows both streams. A message that changed its place has the same colour on both sides.

    Tentative messages stand below the delivered ones.
    """

    def __init__(self, console: Console, rows: int = ROWS) -> None:
        self._rows = rows
        self._arrived: deque[Arrived] = deque(maxlen=rows)
        self._delivered: deque[Delivered] = deque(maxlen=rows)
        self._tentative: list[Tentative] = []  # as they would leave if nothing more came
        self._moved: dict[int, str] = {}  # by the number of the arrival
        self._received = self._left = self._discarded = self._brought_forward = 0
        self._live = Live(self.picture(), console=console, refresh_per_second=PER_SECOND)
        self._live.start()

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Arrived) and isinstance(happening.message, Data) and not happening.copy:
            self._received += 1
            self._arrived.append(happening)
        elif isinstance(happening, Delivered):
            self._forget(happening.name)
            self._left += 1
            self._delivered.append(happening)
            if happening.moved > 0:
                self._brought_forward += 1
                self._moved[happening.number] = "green"
            elif happening.moved < 0:
                self._moved[happening.number] = "yellow"
        elif isinstance(happening, Tentative):
            ahead = happening.place - self._left - 1 if happening.place else len(self._tentative)
            self._tentative.insert(ahead, happening)
        elif isinstance(happening, Discarded):
            self._discarded += 1
            self._forget(happening.message)
        else:
            return
        while len(self._moved) > KEPT:
            del self._moved[next(iter(self._moved))]
        self._live.update(self.picture())

    def _forget(self, name: Name) -> None:
        self._tentative = [row for row in self._tentative if row.name != name]

    def close(self) -> None:
        self._live.update(self.picture(), refresh=True)
        self._live.stop()

    def picture(self) -> Group:
        table = Table(expand=False)
        table.add_column("as they arrived", width=24)
        table.add_column("as delivered, in causal order", width=44)
        tentative = self._tentative[: self._rows // 2]
        final = list(self._delivered)[-(self._rows - len(tentative)) :]
        right = [*map(self._delivery, final), *map(_tentative_row, tentative)]
        left = [self._arrival(arrived) for arrived in self._arrived]
        for row in range(self._rows):
            table.add_row(*(side[row] if row < len(side) else Text("") for side in (left, right)))
        held = self._received - self._left - self._discarded
        state = f"{self._received} arrived, {held} held, {self._brought_forward} brought forward"
        return Group(table, Text(state))

    def _arrival(self, arrived: Arrived) -> Text:
        return Text(f"mote {arrived.name}", style=self._moved.get(arrived.number, ""))

    def _delivery(self, left: Delivered) -> Text:
        moved = f"  {abs(left.moved)} {'forward' if left.moved > 0 else 'back'}" if left.moved else ""
        text = f"mote {left.name}  held {left.held_ms:.0f} ms{moved}"
        return Text(text, style=self._moved.get(left.number, ""))


def _tentative_row(row: Tentative) -> Text:
    return Text(f"mote {row.name}  tentative, {row.text}", style="dim", no_wrap=True, overflow="ellipsis")
