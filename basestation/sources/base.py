"""What every source is, and how its string is read."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_plus

from basestation.arrivals import Line
from packet_formats.framing import FrameCounters
from packet_formats.phrases import did_you_mean
from packet_formats.tinyos import PacketError, decode_packet

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment


class SourceError(Exception):
    """A source that cannot be had, or cannot do what was asked: the message names cause and cure."""


class Source(Protocol):
    """A line of packets, with the gaps between them.

    `live`: times are the host's own, taken as the packets come. Otherwise (a recording played flat out) they are
    those of the recording, and whoever needs a clock takes it from them.
    """

    text: str  # as the user knows it
    live: bool
    acknowledges: bool  # the gateway's acknowledgements of sent packets come back on this line
    counters: FrameCounters  # every byte is accounted for, as far as the source sees bytes

    async def open(self) -> None:
        """Open it for the first time; `SourceError` if that cannot be. `lines` does it where nobody has."""

    def lines(self) -> AsyncIterator[Line]:
        """What comes, until the source ends, if it has an end; a line that went away is a `Gap`, not an error."""

    async def send(self, packet: bytes) -> None:
        """A packet, from its type byte on, down the line; `SourceError` when it can't."""

    async def close(self) -> None:
        """Give everything back; `lines` ends."""


def _silent(message: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What holds for all sources of a run."""

    deployment: Deployment | None = None
    patient: bool = False  # wait for a source that cannot be opened yet, too
    first_retry: float = 0.5  # seconds; doubles
    longest_retry: float = 10.0
    say: Callable[[str], None] = field(default=_silent)  # chatter for the person at the terminal


@dataclass(frozen=True, slots=True)
class Spec:
    """`kind@where?name=value&...`, taken apart."""

    text: str
    kind: str
    where: str
    settings: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Spec:
        kind, at, rest = text.partition("@")
        if not at:
            raise SourceError(
                f"{text!r} is no source: it should look like serial@/dev/ttyUSB1 or sf@localhost"
            )
        where, _, query = rest.partition("?")
        settings = {}
        for item in filter(None, query.split("&")):
            name, equals, value = item.partition("=")
            if not equals or not name or not value or name in settings:
                raise SourceError(
                    f"{text}: {item!r}: settings are name=value, each once, with & between them"
                )
            settings[unquote_plus(name)] = unquote_plus(value)
        return cls(text, kind, where, settings)

    def wrong(self, reason: str) -> SourceError:
        return SourceError(f"{self.text}: {reason}")

    def known(self, *names: str) -> None:
        """Refuse settings that this kind of source does not have."""
        for name in self.settings:
            if name not in names:
                known = f"; it has {', '.join(names)}" if names else "; it has none"
                raise self.wrong(f"{self.kind}@ has no setting {name}{did_you_mean(name, names) or known}")

    def number(self, name: str, default: float, least: float, most: float) -> float:
        text = self.settings.get(name)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise self.wrong(f"{name}={text} is no number from {least:g} to {most:g}")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.number(name, default, least, most)
        if value != int(value):
            raise self.wrong(f"{name}={self.settings[name]} is not whole")
        return int(value)

    def host_and_port(self, port: int | None = None) -> tuple[str, int]:
        """HOST:PORT, with the brackets of an IPv6 address; no host is this machine."""
        host, digits = split_host(self.where)
        said = port if digits is None else port_number(digits)
        if not said:
            raise self.wrong(f"should be {self.kind}@HOST:PORT with a port from 1 to 65535")
        return host or "localhost", said


def split_host(where: str) -> tuple[str, str | None]:
    """HOST[:PORT]; an IPv6 address stands in brackets where a port follows it."""
    host, colon, digits = where.rpartition(":")
    if not colon or where.endswith("]") or (":" in host and not host.endswith("]")):
        return where.strip("[]"), None
    return host.strip("[]"), digits


def port_number(digits: str) -> int | None:
    """A TCP port, 0 being any; None for what is none, be it ever so long."""
    return int(digits) if digits.isdecimal() and len(digits) <= 5 and int(digits) < 65536 else None


def check_sendable(packet: bytes) -> None:
    """Refuse what is no packet, or what a gateway would put on the air corrupt."""
    try:
        decode_packet(packet)
    except PacketError as error:
        raise SourceError(f"not sent: {error}") from None
