"""A bounded queue with a thread of its own, between the station and a receiver that may be slow or away."""

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
CLOSING_S = 5.0  # for the items still in the queue at the end


class Outbox(Generic[Item]):
    """Gives items to `deliver` one by one, in order; it may be slow and raise `OutputError`.

    `say` reports the first failure, and then the next success with the number of items lost in between.
    """

    def __init__(self, name: str, deliver: Callable[[Item], None], say: Say, size: int = 1000) -> None:
        self.name, self.lost, self.done = name, 0, 0
        self.ending = threading.Event()  # ends the waits of `deliver`
        self._deliver, self._say = deliver, say
        self._items: queue.Queue[Item | None] = queue.Queue(size)
        self._failing = 0  # lost since the last success
        self._taken = self._ended = 0  # items put into the queue, and those of them delivered or lost
        self._thread = threading.Thread(target=self._run, name=f"output {name}", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Take an item, at once; a full queue loses it."""
        try:
            self._items.put_nowait(item)
            self._taken += 1
        except queue.Full:
            self._note_lost("the receiver is too slow, or away")

    def close(self) -> None:
        """Wait a little for the queue to empty, and report the number of items left."""
        end = time.monotonic() + CLOSING_S
        try:
            self._items.put(None, timeout=CLOSING_S)
        except queue.Full:
            self.ending.set()
        self._thread.join(max(0.0, end - time.monotonic()))
        self.ending.set()
        left = self._taken - self._ended
        if left + self._failing:
            self._say(f"{self.name}: {many(left + self._failing, 'item')} could not be sent")

    def _run(self) -> None:
        while not self.ending.is_set() and (item := self._items.get()) is not None:
            try:
                self._deliver(item)
            except OutputError as error:
                self._note_lost(str(error))
            except Exception as error:  # a bug, ours or a library's: later items may still get through
                self._note_lost(repr(error))
            else:
                self._note_done()
            self._ended += 1

    def _note_lost(self, why: str) -> None:
        self.lost += 1
        self._failing += 1
        if self._failing == 1 and not self.ending.is_set():  # `close` reports the number lost at the end
            # The text comes from another machine: no control characters on our terminal.
            seen = "".join(sign if sign.isprintable() else " " for sign in why)
            self._say(f"{self.name}: not sent: {seen}")

    def _note_done(self) -> None:
        self.done += 1
        failed, self._failing = self._failing, 0
        if failed:
            self._say(f"{self.name}: works again; {many(failed, 'item was', 'items were')} not sent")
