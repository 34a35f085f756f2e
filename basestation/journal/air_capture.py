"""A journal for Wireshark: the frames that were on the air, as IEEE 802.15.4 with what the gateway heard of them.

The serial line brings TinyOS messages; the radio's own header is put before them again as a CC2420 sends it. Its
sequence number is not known, and is 0; the check sum is computed. A MICA2's radio has another framing, so its frames
are dressed as a MICAz would send them. Link type 283: tagged values hold the channel, the strength, the link quality,
and as start of frame the network's own time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

import numpy as np

from packet_formats.air import air_format
from packet_formats.boards import CC2420
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.pcap import write_packets
from packet_formats.records import RSSI_UNKNOWN, Heard, Status
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_packet

from .projection import LQI_KNOWN, project_segment
from .reader import Journal, Report

LINK_TYPE = 283  # LINKTYPE_IEEE802_15_4_TAP
AIR = air_format(CC2420)
FCS, STRENGTH, CHANNEL, START, QUALITY = 0, 1, 3, 5, 10  # tagged values


def write_pcap(journal: Journal, deployment: Deployment, file: IO[bytes], report: Report) -> int:
    """How many frames were written."""
    return write_packets(file, LINK_TYPE, _frames(journal, deployment, report))


def _frames(journal: Journal, deployment: Deployment, report: Report) -> Iterator[tuple[int, bytes]]:
    layout, channel = layout_of(deployment), deployment.network.channel
    for segment in journal.segments(report):
        found = project_segment(segment, deployment)
        for record, known, said in zip(found.frames, found.paired.tolist(), found.decided, strict=True):
            packet = _on_air(record.payload)
            if packet is not None and not isinstance(decode_message(packet, layout), Heard | Status):
                heard = said if known else None
                yield record.wall_ns, tap_header(heard, channel) + AIR.frame(packet)


def _on_air(raw: bytes) -> ActiveMessage | None:
    try:
        packet = decode_packet(raw)
    except PacketError:
        return None
    return None if isinstance(packet, Ack) else packet


def tap_header(heard: np.void | None, channel: int) -> bytes:
    """`heard`: the decision on the frame, if it has a heard record."""
    values = [_value(FCS, struct.pack("<B", 1))]
    if channel:
        values.append(_value(CHANNEL, struct.pack("<HB", channel, 0)))
    if heard is not None:
        values.append(_value(START, struct.pack("<Q", -(-int(heard["time"]) * 10**9 // CRYSTAL_HZ))))
        if heard["rssi"] != RSSI_UNKNOWN:
            values.append(_value(STRENGTH, struct.pack("<f", heard["rssi"])))
        if heard["flags"] & LQI_KNOWN:
            values.append(_value(QUALITY, struct.pack("<B", heard["lqi"])))
    body = b"".join(values)
    return struct.pack("<BBH", 0, 0, 4 + len(body)) + body


def _value(tag: int, value: bytes) -> bytes:
    return struct.pack("<HH", tag, len(value)) + value + bytes(-len(value) % 4)
