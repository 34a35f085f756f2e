"""Framings: from bytes on a line to packets, and back."""

from __future__ import annotations

from typing import Protocol

from packet_formats.framing import FrameCounters, FrameDecoder, encode_frame


class Framing(Protocol):
    """The framing of one connection: how packets become bytes."""

    acknowledges: bool  # the other end may want acknowledgements

    def feed(self, data: bytes) -> list[bytes]:
        """The packets that these bytes complete, each from its type byte on."""

    def encode(self, packet: bytes) -> bytes: ...

    def end(self) -> None:
        """Count the bytes of an unfinished frame, at the end of the connection."""


class FrameWire:
    """TinyOS serial frames. Each connection starts out of sync; the counters go on across connections."""

    acknowledges = True

    def __init__(self, counters: FrameCounters) -> None:
        self._decoder = FrameDecoder()
        self._decoder.counters = counters

    def feed(self, data: bytes) -> list[bytes]:
        return self._decoder.feed(data)

    def encode(self, packet: bytes) -> bytes:
        return encode_frame(packet)

    def end(self) -> None:
        self._decoder.close()
