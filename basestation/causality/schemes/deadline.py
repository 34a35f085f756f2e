"""The rule that BMR and AS share: wait for what was sent here before, but no longer than it is of use.

Both stamps say when each mote last sent something here. A message waits while it knows of one that has neither come
nor expired; Delta after its sending a message has expired, is discarded, and nobody waits for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from basestation.causality.order import Message
from basestation.causality.rules import Name

from .holding import Held, Holding
from .scheme import LONG_AGO, Setting


class WithinLifetime(Holding):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._lifetime, self._epsilon = setting.lifetime, setting.epsilon
        self._last = [LONG_AGO] * setting.motes  # when the last message delivered of each mote was sent

    @abstractmethod
    def _sent_here(self, message: Message) -> tuple[int, ...]:
        """When each mote last sent something here, as far as the sender knew."""

    def _too_late(self, message: Message, now: int) -> bool:
        return message.in_sync and message.stamp.r + self._lifetime < now

    def _earliest(self, message: Message, now: int) -> int:
        """A stamp leaves out what was sent so long before that it has expired by then."""
        return max(now, message.stamp.r - self._epsilon) if message.in_sync else now

    def _name(self, message: Message) -> Name:
        return message.source, message.stamp.r

    def _names(self, message: Message, now: int) -> Iterator[Name]:
        """Nobody can tell what a message whose mote has lost the time should wait for."""
        if message.in_sync:
            for name in enumerate(self._sent_here(message)):
                if not self._settled(name):
                    yield name

    def _settled(self, name: Name) -> bool:
        source, sent = name
        return sent <= self._last[source]

    def _expires(self, name: Name, here: bool) -> int:
        return name[1] + self._lifetime + 1

    def _leaves(self, held: Held, at: int) -> bool:
        message = held.message
        if message.in_sync:
            self._last[message.source] = max(self._last[message.source], message.stamp.r)
        return False
