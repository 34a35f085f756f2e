"""The ether as a capture for Wireshark and tshark: one packet a frame, its time in nanoseconds since the run's start.

MICAz frames are IEEE 802.15.4 with their check sum (link type 195). For MICA2 there is no registered link type: its
frames go out as the first of those kept for private use (147), from the TinyOS header to the CRC.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from .air import frame_of
from .truth_log import Event, Signal

NANOSECONDS = 0xA1B23C4D
LINK_TYPE = {"micaz": 195, "mica2": 147}
LONGEST = 65535


class PcapError(ValueError):
    """An ether that one capture file cannot hold."""


def check(boards: Iterable[str]) -> str:
    """The one board of an ether; a capture file has one link type."""
    found = sorted(set(boards))
    if len(found) != 1:
        raise PcapError(f"a pcap holds one kind of radio, and here are {' and '.join(found)}")
    return found[0]


def write(path: Path, events: Iterable[Event], boards: Mapping[int, str]) -> int:
    """Write all whole frames, those from outside too; gives their number. `boards` is by node."""
    board = check(boards.values())
    packets = [(signal.data, frame) for signal in _signals(events) if (frame := frame_of(signal, board))]
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, LONGEST, LINK_TYPE[board]))
        for at, frame in sorted(packets):
            seconds, rest = divmod(at, 1_000_000_000)
            file.write(struct.pack("<IIII", seconds, rest, len(frame), len(frame)) + frame)
    return len(packets)


def _signals(events: Iterable[Event]) -> Iterable[Signal]:
    return (event for event in events if isinstance(event, Signal))
