"""The traceable steps of a filter: plain values for a view, a log or a test to show and count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from basestation.causality.order import Message

Name = tuple[
    int, int
]  # a message that another one waits for: its source and its number (or its time of sending)


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
class Delivered(Step):
    """It has left to the application."""


@dataclass(frozen=True, slots=True)
class ConcurrentNotice(Step):
    """Something was delivered before it that neither led to it nor came of it."""


@dataclass(frozen=True, slots=True)
class GiveUpNotice(Step):
    """It leaves without having seen what it waited for."""

    missing: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class DiscardNotice(Step):
    """It came after its deadline and is never delivered."""


Notice = Callable[[Step], None]


def ignore(step: Step) -> None:
    """For whoever does not watch."""
