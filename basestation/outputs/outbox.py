"""A bounded queue with a thread of its own, between the station and somebody who may be slow, or gone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from basestation.outputs import OutputError
from packet_formats.phrases import many

Item = TypeVar("Item")
Say = Callable[[str], None]
CLOSING_S = 5.0  # for what is still in the queue at the end


class Outbox(Generic[Item]):
    """Gives items to `deliver`, in order, at most `most` at once; it may take its time and raise `OutputError`.

    The first waits `linger_s` for others. `say` hears of the first failure, and then of the next success with how many
    were lost in between; no more.
    """

    def __init__(
        self,
        name: str,
        deliver: Callable[[list[Item]], None],
        say: Say,
        size: int = 1000,
        *,
        most: int = 1,
        linger_s: float = 0.0,
    ) -> None:
        self.name, self.lost, self.done = name, 0, 0
        self.ending = threading.Event()  # waits of `deliver` should end with it
        self._deliver, self._say = deliver, say
        self._items: queue.Queue[Item | None] = queue.Queue(size)
        self._most, self._linger_s, self._over = most, linger_s, False
        self._failing = 0  # lost since the last success
        self._taken = self._ended = 0  # items that were put, and those of them that were told or lost
        self._thread = threading.Thread(target=self._run, name=f"output {name}", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Take an item, at once; a full queue loses it."""
        try:
            self._items.put_nowait(item)
            self._taken += 1
        except queue.Full:
            self._note_lost("it is too slow, or away")

    def close(self) -> None:
        """Wait a little for what is queued, and say what is left."""
        end = time.monotonic() + CLOSING_S
        try:
            self._items.put(None, timeout=CLOSING_S)
        except queue.Full:
            self.ending.set()
        self._thread.join(max(0.0, end - time.monotonic()))
        self.ending.set()
        left = self._taken - self._ended
        if left + self._failing:
            self._say(f"{self.name}: {many(left + self._failing, 'item')} could not be told")

    def _run(self) -> None:
        while not self._over and not self.ending.is_set():
            items = self._next()
            if not items:
                return
            try:
                self._deliver(items)
            except OutputError as error:
                self._note_lost(str(error), len(items))
            except Exception as error:  # a fault of ours, or of a library's: the rest may still be told
                self._note_lost(repr(error), len(items))
            else:
                self._note_done(len(items))
            self._ended += len(items)

    def _next(self) -> list[Item]:
        """The next items; none at the end."""
        items: list[Item] = []
        end = None
        while len(items) < self._most:
            try:
                item = self._items.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                self._over = True
                break
            items.append(item)
            end = time.monotonic() + self._linger_s if end is None else end
        return items

    def _note_lost(self, why: str, count: int = 1) -> None:
        before = self._failing
        self.lost += count
        self._failing += count
        if not before and not self.ending.is_set():  # at the end `close` says how many
            # Others' words, on a terminal
            seen = "".join(sign if sign.isprintable() else " " for sign in why)
            self._say(f"{self.name}: not told: {seen}")

    def _note_done(self, count: int) -> None:
        self.done += count
        failed, self._failing = self._failing, 0
        if failed:
            self._say(f"{self.name}: works again; {many(failed, 'item was', 'items were')} not told")
