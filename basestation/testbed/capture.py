"""Writes the frames of a run as a capture for Wireshark and tshark, with nanoseconds since the run's start.

MICAz frames are IEEE 802.15.4 with their check sum (link type 195). MICA2 has no registered link type: its frames have
the first of those kept for private use (147), from the TinyOS header to the CRC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from packet_formats.boards import BOARDS
from packet_formats.pcap import write_packets

from .signals import frame_of
from .truth_log import Event, Signal


class PcapError(ValueError):
    """One capture file cannot hold these frames."""


def check(boards: Iterable[str]) -> str:
    """The one board of a run; a capture file has one link type."""
    found = sorted(set(boards))
    if len(found) != 1:
        raise PcapError(f"a pcap file holds one kind of radio, but this run has {' and '.join(found)}")
    return found[0]


def write(path: Path, events: Iterable[Event], boards: Mapping[int, str]) -> int:
    """Write all whole frames, injected ones too, and return their number. `boards` gives each node's board."""
    board = check(boards.values())
    packets = [(signal.data, frame) for signal in _signals(events) if (frame := frame_of(signal, board))]
    with path.open("wb") as file:
        return write_packets(file, BOARDS[board].radio.link_type, sorted(packets))


def _signals(events: Iterable[Event]) -> Iterable[Signal]:
    return (event for event in events if isinstance(event, Signal))
