"""Who is there, for an observer that comes upon a network at work: motes join with the first message heard of them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from basestation.causality.order import Message
from basestation.causality.policies import Delivery, Policy


@runtime_checkable
class Attending(Protocol):
    """A policy that must know who is there, because it waits for particular messages."""

    def join(self, mote: int, sequence: int) -> None:
        """`mote` is here from its message number `sequence` on."""

    def leave(self, mote: int) -> None:
        """Expect nothing more of `mote`."""


@runtime_checkable
class Counting(Protocol):
    """A policy that expects one number after the other, whoever sends them."""

    def begin(self, message: Message) -> None:
        """Nothing before `message` is waited for."""


class FromFirstHeard:
    """Waits for nothing that was sent before the first message heard of its mote, nor of motes never heard of."""

    def __init__(self, policy: Policy, motes: int) -> None:
        self._policy = policy
        self._here: set[int] = set()
        self._began = False
        if isinstance(policy, Attending):
            for mote in range(motes):
                policy.leave(mote)

    @property
    def late(self) -> int:
        return self._policy.late

    def join(self, mote: int, sequence: int) -> None:
        """A mote that starts to number anew, or one that was known before this policy was."""
        self._here.add(mote)
        if isinstance(self._policy, Attending):
            self._policy.join(mote, sequence)

    def receive(self, message: Message, now: int) -> None:
        if message.source not in self._here:
            self.join(message.source, message.sequence)
        if not self._began and isinstance(self._policy, Counting):
            self._policy.begin(message)
        self._began = True
        self._policy.receive(message, now)

    def due(self, now: int) -> list[Delivery]:
        return self._policy.due(now)

    def next_due(self) -> int | None:
        return self._policy.next_due()
