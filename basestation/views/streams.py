"""Arrivals and deliveries side by side, in a part of the terminal."""

from __future__ import annotations

from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from basestation.live.happenings import Arrived, Delivered, Happening
from packet_formats.messages import Data

ROWS = 16
KEPT = 1024  # moved messages whose colour is kept; far more than are on the screen
PER_SECOND = 8  # pictures; each takes time from the deliveries


class StreamsView:
    """A sink that shows both streams. A message that was moved has the same colour on both sides."""

    def __init__(self, console: Console, rows: int = ROWS) -> None:
        self._rows = rows
        self._arrived: deque[Arrived] = deque(maxlen=rows)
        self._delivered: deque[Delivered] = deque(maxlen=rows)
        self._moved: dict[int, str] = {}  # by the number of the arrival
        self._received = self._left = self._brought_forward = 0
        self._live = Live(self.picture(), console=console, refresh_per_second=PER_SECOND)
        self._live.start()

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Arrived) and isinstance(happening.message, Data) and not happening.copy:
            self._received += 1
            self._arrived.append(happening)
        elif isinstance(happening, Delivered):
            self._left += 1
            self._delivered.append(happening)
            if happening.moved > 0:
                self._brought_forward += 1
                self._moved[happening.number] = "green"
            elif happening.moved < 0:
                self._moved[happening.number] = "yellow"
        else:
            return
        while len(self._moved) > KEPT:
            del self._moved[next(iter(self._moved))]
        self._live.update(self.picture())

    def close(self) -> None:
        self._live.update(self.picture(), refresh=True)
        self._live.stop()

    def picture(self) -> Group:
        table = Table(expand=False)
        table.add_column("as they arrived", width=24)
        table.add_column("as delivered, in causal order", width=44)
        for row in range(self._rows):
            table.add_row(self._arrival(row), self._delivery(row))
        held = self._received - self._left
        state = f"{self._received} arrived, {held} held, {self._brought_forward} brought forward"
        return Group(table, Text(state))

    def _arrival(self, row: int) -> Text:
        if row >= len(self._arrived):
            return Text("")
        arrived = self._arrived[row]
        return Text(f"mote {arrived.name}", style=self._moved.get(arrived.number, ""))

    def _delivery(self, row: int) -> Text:
        if row >= len(self._delivered):
            return Text("")
        left = self._delivered[row]
        moved = f"  {abs(left.moved)} {'forward' if left.moved > 0 else 'back'}" if left.moved else ""
        text = f"mote {left.name}  held {left.held_ms:.0f} ms{moved}"
        return Text(text, style=self._moved.get(left.number, ""))
