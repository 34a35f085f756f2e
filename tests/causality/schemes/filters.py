"""A send filter and a receive filter between the application and the link (DEW's architecture).

The application hands over bytes and gets bytes; the link carries messages. Neither knows what orders them, so it can
be replaced while they run. A mote's send filter shares its state with what the mote hears; the observer's receive
filter buffers and reorders. Every step can be watched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from basestation.causality.order import Message
from basestation.causality.rules import Delivery, Name, Rule
from basestation.causality.schemes.scheme import Program, Scheme


@dataclass(frozen=True, slots=True)
class Step:
    """Something happened to `message` while the clock of the process that did it read `at`."""

    message: Message
    at: int


@dataclass(frozen=True, slots=True)
class Stamped(Step):
    """It has its stamp and goes to the link."""


@dataclass(frozen=True, slots=True)
class Received(Step):
    """The link has handed it to the observer."""


@dataclass(frozen=True, slots=True)
class Buffered(Step):
    """Its rule does not let it go yet."""


@dataclass(frozen=True, slots=True)
class Concurrent(Step):
    """Something was delivered before it that neither led to it nor came of it."""


@dataclass(frozen=True, slots=True)
class GivenUp(Step):
    """It leaves without having seen what it waited for."""

    missing: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Discarded(Step):
    """It came after its deadline and is never delivered."""


@dataclass(frozen=True, slots=True)
class Delivered(Step):
    """It has left to the application."""


Notice = Callable[[Step], None]


class SendFilter:
    """A mote's side: stamps what the application sends, and learns from what the mote hears."""

    def __init__(self, scheme: Scheme, mote: int, link: Callable[[Message], None], notice: Notice) -> None:
        self._mote, self._link, self._notice = mote, link, notice
        self._program: Program = scheme.start(mote)
        self._sequence = 0

    def send(self, data: bytes, now: int) -> None:
        """Stamp it and pass it on to the link."""
        self._sequence += 1
        stamp = self._program.on_send(now, self._sequence)
        message = Message(self._mote, self._sequence, stamp, data=data)
        self._notice(Stamped(message, now))
        self._link(message)

    def hear(self, messages: Sequence[Message], now: int) -> None:
        """Learn from messages that the mote received in one event."""
        self._program.on_receive(now, messages)

    def replace(self, scheme: Scheme) -> None:
        """Stamp by another scheme from now on. Numbers go on; what the old stamp knew is forgotten."""
        self._program = scheme.start(self._mote)


class ReceiveFilter:
    """The observer's side: takes what the link brings, and lets it go in the order of a policy."""

    def __init__(self, scheme: Scheme, application: Callable[[Delivery], None], notice: Notice) -> None:
        self._application, self._notice = application, notice
        self._rule: Rule = scheme.rule()
        self._held: dict[tuple[int, int], Message] = {}
        self._newest: dict[int, int] = {}
        self._absent: set[int] = set()

    def receive(self, messages: Sequence[Message], now: int) -> None:
        """Take a batch that arrived while the observer's clock read `now`; deliver what may leave."""
        for message in messages:
            self._held[message.source, message.sequence] = message
            self._notice(Received(message, now))
            if not self._rule.receive(message, now):
                self._forget(message)
                self._notice(Discarded(message, now))
        self.tick(now)
        for message in messages:
            if (message.source, message.sequence) in self._held:
                self._notice(Buffered(message, now))

    def tick(self, now: int) -> None:
        """Deliver what leaves up to and in tick `now`."""
        for delivery in self._rule.due(now):
            message = delivery.message
            self._forget(message)
            self._newest[message.source] = max(self._newest.get(message.source, 0), message.sequence)
            if delivery.missing:
                self._notice(GivenUp(message, delivery.left, delivery.missing))
            if delivery.concurrent:
                self._notice(Concurrent(message, delivery.left))
            self._notice(Delivered(message, delivery.left))
            self._application(delivery)

    def next_due(self) -> int | None:
        return self._rule.next_due()

    def replace(self, scheme: Scheme, now: int) -> None:
        """Order by another scheme from now on. It is given what is held, in order of arrival.

        A rule reads the stamps of its own scheme, and "none" any: where the stamp changes too, change over to "none"
        until the last of the old ones has come.
        """
        self.tick(now)
        held, self._held = list(self._held.values()), {}
        self._rule = scheme.rule()
        for mote, newest in self._newest.items():
            self._rule.join(mote, newest + 1)
        for mote in self._absent:
            self._rule.leave(mote)
        for message in held:
            self._held[message.source, message.sequence] = message
            self._rule.receive(message, now)
        self.tick(now)

    def join(self, mote: int, sequence: int = 1) -> None:
        """A mote is here from its message number `sequence` on."""
        self._absent.discard(mote)
        self._rule.join(mote, sequence)

    def leave(self, mote: int) -> None:
        """A mote has gone. What is held leaves without waiting for it."""
        self._absent.add(mote)
        self._rule.leave(mote)

    def _forget(self, message: Message) -> None:
        self._held.pop((message.source, message.sequence), None)
