"""Capture files for Wireshark and tshark: pcap with times in nanoseconds. Standard library only."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import IO

NANOSECONDS = 0xA1B23C4D
VERSION = (2, 4)
LONGEST = 65535


def write_packets(file: IO[bytes], link_type: int, packets: Iterable[tuple[int, bytes]]) -> int:
    """Write a whole file of packets with their times in nanoseconds; return how many there were."""
    file.write(struct.pack("<IHHiIII", NANOSECONDS, *VERSION, 0, 0, LONGEST, link_type))
    count = 0
    for at_ns, packet in packets:
        seconds, rest = divmod(at_ns, 1_000_000_000)
        file.write(struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, len(packet), len(packet)) + packet)
        count += 1
    return count
