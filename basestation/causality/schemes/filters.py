"""A send filter and a receive filter between the application and the link (DEW's architecture).

The application hands over bytes and gets bytes; the link carries messages. Neither knows what orders them, so it can
be replaced while they run. A mote's send filter shares its state with what the mote hears; the observer's receive
filter buffers and reorders. Every step can be watched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from basestation.causality.order import Message
from basestation.causality.policies import Delivery, Policy

from .attendance import Attending
from .notices import Buffered, Delivered, DiscardNotice, Notice, Received, Stamped, Step, ignore
from .scheme import Program, Scheme


class SendFilter:
    """A mote's side: stamps what the application sends, and learns from what the mote hears."""

    def __init__(
        self, scheme: Scheme, mote: int, link: Callable[[Message], None], notice: Notice = ignore
    ) -> None:
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

    def __init__(
        self, scheme: Scheme, application: Callable[[Delivery], None], notice: Notice = ignore
    ) -> None:
        self._application, self._notice = application, notice
        self._policy: Policy = scheme.rule(self._watch)
        self._held: dict[tuple[int, int], Message] = {}
        self._newest: dict[int, int] = {}
        self._absent: set[int] = set()

    def receive(self, messages: Sequence[Message], now: int) -> None:
        """Take a batch that arrived while the observer's clock read `now`; deliver what may leave."""
        for message in messages:
            self._held[message.source, message.sequence] = message
            self._notice(Received(message, now))
            self._policy.receive(message, now)
        self.tick(now)
        for message in messages:
            if (message.source, message.sequence) in self._held:
                self._notice(Buffered(message, now))

    def tick(self, now: int) -> None:
        """Deliver what leaves up to and in tick `now`."""
        for delivery in self._policy.due(now):
            message = delivery.message
            self._forget(message)
            self._newest[message.source] = max(self._newest.get(message.source, 0), message.sequence)
            self._notice(Delivered(message, delivery.left))
            self._application(delivery)

    def next_due(self) -> int | None:
        return self._policy.next_due()

    def replace(self, scheme: Scheme, now: int) -> None:
        """Order by another scheme from now on. It is given what is held, in order of arrival.

        A rule reads the stamps of its own scheme, and "none" any: where the stamp changes too, change over to "none"
        until the last of the old ones has come.
        """
        self.tick(now)
        held, self._held = list(self._held.values()), {}
        self._policy = scheme.rule(self._watch)
        if isinstance(self._policy, Attending):
            for mote, newest in self._newest.items():
                self._policy.join(mote, newest + 1)
            for mote in self._absent:
                self._policy.leave(mote)
        for message in held:
            self._held[message.source, message.sequence] = message
            self._policy.receive(message, now)
        self.tick(now)

    def join(self, mote: int, sequence: int = 1) -> None:
        """A mote is here from its message number `sequence` on."""
        self._absent.discard(mote)
        if isinstance(self._policy, Attending):
            self._policy.join(mote, sequence)

    def leave(self, mote: int) -> None:
        """A mote has gone. What is held leaves without waiting for it."""
        self._absent.add(mote)
        if isinstance(self._policy, Attending):
            self._policy.leave(mote)

    def _watch(self, step: Step) -> None:
        if isinstance(step, DiscardNotice):
            self._forget(step.message)
        self._notice(step)

    def _forget(self, message: Message) -> None:
        self._held.pop((message.source, message.sequence), None)
