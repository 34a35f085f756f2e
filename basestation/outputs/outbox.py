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
    """Gives each item to `deliver`, which may take its time and raise `OutputError`, in order.

    `say` hears of the first failure, and then of the next success with how many were lost in between; no more.
    """

    def __init__(self, name: str, deliver: Callable[[Item], None], say: Say, size: int = 1000) -> None:
        self.name, self.lost, self.done = name, 0, 0
        self.ending = threading.Event()  # waits of `deliver` should end with it
        self._deliver, self._say = deliver, say
        self._items: queue.Queue[Item | None] = queue.Queue(size)
        self._failing = 0  # lost since the last success
        self._thread = threading.Thread(target=self._run, name=f"output {name}", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Take an item, at once; a full queue loses it."""
        try:
            self._items.put_nowait(item)
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
        left = self._items.qsize() if self._thread.is_alive() else 0
        if left + self._failing:
            self._say(f"{self.name}: {many(left + self._failing, 'item')} could not be told")

    def _run(self) -> None:
        while (item := self._items.get()) is not None and not self.ending.is_set():
            try:
                self._deliver(item)
            except OutputError as error:
                self._note_lost(str(error))
            except Exception as error:  # a fault of ours, or of a library's: the rest may still be told
                self._note_lost(repr(error))
            else:
                self._note_done()

    def _note_lost(self, why: str) -> None:
        self.lost += 1
        self._failing += 1
        if self._failing == 1:
            self._say(f"{self.name}: not told: {why}")

    def _note_done(self) -> None:
        self.done += 1
        failed, self._failing = self._failing, 0
        if failed:
            self._say(f"{self.name}: works again; {many(failed, 'item was', 'items were')} not told")
