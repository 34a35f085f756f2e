"""The interface of a source, and the reading of the string that names it."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import unquote_plus

from basestation.arrivals import Line
from packet_formats.framing import FrameCounters
from packet_formats.phrases import did_you_mean
from packet_formats.tinyos import PacketError, decode_packet

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment


class SourceError(Exception):
    """A source that cannot be opened or used. The message names cause and cure."""


class SourceUsageError(SourceError):
    """A text that names no source: wrong usage, whatever is plugged in."""


class Source(Protocol):
    """A line of packets, with the gaps between them.

    If `live`, times are the host's own, taken when packets arrive. Otherwise (a recording played as fast as possible)
    they are those of the recording, and are also the clock of the run.
    """

    text: str  # the string that named it
    live: bool
    acknowledges: bool  # the gateway's acknowledgements of sent packets come back on this line
    counters: FrameCounters  # every byte that the source saw

    async def open(self) -> None:
        """Open it for the first time; `SourceError` if that fails. `lines` opens it if it is not open."""

    def lines(self) -> AsyncIterator[Line]:
        """The packets and gaps, until the source ends, if it does. A lost line is a `Gap`, not an error."""

    async def send(self, packet: bytes) -> None:
        """Send a packet, from its type byte on, down the line; `SourceError` if that fails."""

    async def close(self) -> None:
        """Release everything; `lines` ends."""


@runtime_checkable
class Finishing(Protocol):
    """A source that can say whether the other end has read all that was sent."""

    async def finish(self) -> bool: ...


def _silent(message: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of all sources of a run."""

    deployment: Deployment | None = None
    patient: bool = False  # also wait for a source that cannot be opened yet
    first_retry: float = 0.5  # seconds; doubles
    longest_retry: float = 10.0
    say: Callable[[str], None] = field(default=_silent)  # notes for the user


_PORT = re.compile(r"(/dev/[^@?]+|COM\d+)(:\w+)?")


def names_source(word: str) -> bool:
    """Whether a word of a command line is a source: `kind@...`, or the bare name of a serial port."""
    return "@" in word or _PORT.fullmatch(word) is not None


@dataclass(frozen=True, slots=True)
class Spec:
    """The parts of a source's string, `kind@where?name=value&...`. A bare `/dev/ttyUSB1` is `serial@/dev/ttyUSB1`."""

    text: str
    kind: str
    where: str
    settings: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Spec:
        kind, at, rest = text.partition("@")
        if _PORT.fullmatch(text):
            kind, rest = "serial", text
        elif not at:
            raise SourceUsageError(
                f"{text!r} is not a source: it should look like serial@/dev/ttyUSB1 or sf@localhost"
            )
        where, _, query = rest.partition("?")
        settings = {}
        for item in filter(None, query.split("&")):
            name, equals, value = item.partition("=")
            if not equals or not name or not value or name in settings:
                raise SourceUsageError(
                    f"{text}: {item!r}: settings are name=value, each once, with & between them"
                )
            settings[unquote_plus(name)] = unquote_plus(value)
        return cls(text, kind, where, settings)

    def wrong(self, reason: str) -> SourceError:
        return SourceError(f"{self.text}: {reason}")

    def misused(self, reason: str) -> SourceUsageError:
        return SourceUsageError(f"{self.text}: {reason}")

    def known(self, *names: str) -> None:
        """Refuse settings that this kind of source does not have."""
        for name in self.settings:
            if name not in names:
                known = f"; it has {', '.join(names)}" if names else "; it has none"
                raise self.misused(f"{self.kind}@ has no setting {name}{did_you_mean(name, names) or known}")

    def number(self, name: str, default: float, least: float, most: float) -> float:
        text = self.settings.get(name)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise self.misused(f"{name}={text} is not a number from {least:.12g} to {most:.12g}")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.number(name, default, least, most)
        if value != int(value):
            raise self.misused(f"{name}={self.settings[name]} is not a whole number")
        return int(value)

    def host_and_port(self, port: int | None = None) -> tuple[str, int]:
        """The host and port of HOST:PORT. An IPv6 address has brackets; an empty host is this machine."""
        host, digits = split_host(self.where)
        said = port if digits is None else port_number(digits)
        if not said:
            raise self.misused(f"should be {self.kind}@HOST:PORT with a port from 1 to 65535")
        return host or "localhost", said


def split_host(where: str) -> tuple[str, str | None]:
    """Split HOST[:PORT]. An IPv6 address has brackets if a port follows."""
    host, colon, digits = where.rpartition(":")
    if not colon or where.endswith("]") or (":" in host and not host.endswith("]")):
        return where.strip("[]"), None
    return host.strip("[]"), digits


def port_number(digits: str) -> int | None:
    """The TCP port in a text, where 0 is any free one; None if it is not a port."""
    return int(digits) if digits.isdecimal() and len(digits) <= 5 and int(digits) < 65536 else None


def check_sendable(packet: bytes) -> None:
    """Refuse bytes that are not a packet, or that a gateway would corrupt on the air."""
    try:
        decode_packet(packet)
    except PacketError as error:
        raise SourceError(f"not sent: {error}") from None
