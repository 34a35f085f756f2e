"""What happens at the base station, as plain values: the station gives them, sinks take them.

They are never changed, but not frozen: making a frozen one takes seven times as long, and every frame makes some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from basestation.causality.boots import BOOTS
from packet_formats.messages import Data, Message
from packet_formats.records import Beacon, Heard
from packet_formats.tinyos import ActiveMessage


class Name(NamedTuple):
    """A message's name: its mote, that mote's boot count modulo 8, its sequence number unwrapped."""

    source: int
    boot: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.source}#{self.sequence}"


@dataclass(slots=True)
class Happening:
    """`mono_ns` and `wall_ns` are the host's clocks."""

    mono_ns: int
    wall_ns: int


@dataclass(slots=True)
class Arrived(Happening):
    """A frame that was read. `cycles` is when it was heard; only data has a `name` and a `number`.

    `copy`: the same data or health message had come over another way.
    """

    gateway: int
    frame: ActiveMessage
    message: Message
    heard: Heard | None = None
    cycles: int | None = None
    clock: int | None = None  # cycles up to which deliveries had been made when it came; the log keeps it
    name: Name | None = None
    number: int = 0  # which arrival of the run, from 1; copies have none
    copy: bool = False
    differs: bool = False  # from one that came before under its name: another sender sent one of the two
    proves: Beacon | None = None  # of a proof: the beacon that it shows to be genuine


@dataclass(slots=True)
class Delivered(Happening):
    """A message on its way out: its final row. `arrived` and `left` are ticks of the observer's clock."""

    name: Name
    data: Data
    number: int  # as it arrived
    place: int  # as it is delivered, from 1
    arrived: int
    left: int
    held_ms: float
    overdue_ms: float  # how much later than its deadline it left, on the host's clock
    late: bool
    in_sync: bool
    concurrent: bool = False  # a concurrent message was delivered first
    tentative: bool = False  # a `Tentative` showed it before
    differs: bool = False  # as in `Arrived`

    @property
    def moved(self) -> int:
        """By how many places it was brought forward against the order of arrival; negative: put back."""
        return self.number - self.place


@dataclass(slots=True)
class Tentative(Happening):
    """A message that has come and waits for others by name. Its one `Delivered` or `Discarded` follows."""

    name: Name
    data: Data
    number: int  # as it arrived
    place: int  # where it would be delivered if nothing more came; 0 where too many are held to find it
    missing: tuple[str, ...]
    text: str


@dataclass(slots=True)
class Violation(Happening):
    """`message` came out before its own cause, in arrival order or in the order delivered."""

    order: str  # "arrival" or "delivery"
    message: Name
    cause: Name
    ticks: int
    ms: float
    text: str


@dataclass(slots=True)
class GaveUp(Happening):
    """`message` is delivered without what it waited for, which did not come in time."""

    message: Name
    missing: tuple[str, ...]
    text: str


@dataclass(slots=True)
class Discarded(Happening):
    """`message` came when it was of no use any more, and is never delivered."""

    message: Name
    text: str


@dataclass(slots=True)
class Strange(Happening):
    """A packet that was not read, and why."""

    gateway: int
    reason: str
    packet: bytes


@dataclass(slots=True)
class Reboot(Happening):
    """A mote's messages show that it has started. One that counts from 0 again has started anew: its memory was erased,
    or another mote is in its place."""

    mote: int
    boot: int  # modulo 8
    before: int

    @property
    def is_anew(self) -> bool:
        return self.boot == 0 and self.before != BOOTS - 1


@dataclass(slots=True)
class Restarted(Happening):
    """A node has started again, and why, by its health report."""

    node: int
    boots: int
    cause: str


@dataclass(slots=True)
class Alarm(Happening):
    """`what` is one of `alarms.KINDS`, `subject` a mote or a gateway; `raised` is False when it is over."""

    what: str
    subject: int
    raised: bool
    text: str


@dataclass(slots=True)
class LineChanged(Happening):
    """The line of a gateway was lost, or is back."""

    gateway: int
    back: bool
    reason: str


@dataclass(slots=True)
class ClockChanged(Happening):
    """`what` is epoch, restart, lag or sleep, which is of this machine and of no gateway."""

    gateway: int | None
    what: str
    text: str


@dataclass(slots=True)
class PolicyChanged(Happening):
    policy: str
    phi: int
    held: int  # messages that moved over
    tolerate: float | None = None  # per cent of messages in a violation, of the ledger alone


@dataclass(slots=True)
class Acknowledged(Happening):
    """A gateway had a packet of ours with a good check sum."""

    gateway: int
    token: int


@dataclass(slots=True)
class Note(Happening):
    """A remark for the person at the terminal."""

    text: str


class Sink(Protocol):
    """Takes what happens. It must return at once, whatever becomes of it on its way."""

    def take(self, happening: Happening) -> None: ...

    def close(self) -> None: ...
