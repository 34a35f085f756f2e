"""Finds the frame and the message in the bytes of a signal."""

from __future__ import annotations

from packet_formats.air import air_format
from packet_formats.boards import BOARDS
from packet_formats.tinyos import ActiveMessage

from .truth_log import Signal


def frame_of(signal: Signal, board: str) -> bytes | None:
    """The frame with its check sum, without what the radio puts around it; None when it is not whole."""
    return None if signal.broken else air_format(BOARDS[board].radio).find(signal.bytes)


def message_of(signal: Signal, board: str, tinyos: int) -> ActiveMessage | None:
    """The message in a whole frame of this TinyOS version; None for anything else."""
    frame = frame_of(signal, board)
    return None if frame is None else air_format(BOARDS[board].radio).read(frame, tinyos)


def delimiter_ns(signal: Signal, board: str) -> int:
    """When the start-of-frame delimiter ended: the moment that time sync uses."""
    radio = BOARDS[board].radio
    return signal.data + round(air_format(radio).delimiter_end(signal.bytes) * radio.byte_ms * 1e6)
