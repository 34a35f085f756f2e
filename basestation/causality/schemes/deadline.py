"""The rule of BMR and AS: wait for earlier messages to the observer, but only while they are of use.

Both stamps say when each mote last sent to the observer. A message waits while it names another one that has neither
arrived nor expired. A message expires Delta after its sending: it is discarded, and no message waits for it.
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
        """When each mote last sent to the observer, as far as the sender knew."""

    def _too_late(self, message: Message, now: int) -> bool:
        return message.in_sync and message.stamp.r + self._lifetime < now

    def _earliest(self, message: Message, now: int) -> int:
        """The earliest tick for the message: a stamp leaves out messages that have expired by then."""
        return max(now, message.stamp.r - self._epsilon) if message.in_sync else now

    def _name(self, message: Message) -> Name:
        return message.source, message.stamp.r

    def _names(self, message: Message, now: int) -> Iterator[Name]:
        """The names that the message waits for; none if its mote has lost the time."""
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
