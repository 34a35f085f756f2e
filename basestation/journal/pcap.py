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

from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.records import Heard, Status
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, decode_packet

from .message_table import LQI_KNOWN, RSSI_UNKNOWN, read_all
from .reader import Journal, Report

NANOSECONDS = 0xA1B23C4D
LINK_TYPE = 283  # LINKTYPE_IEEE802_15_4_TAP
LONGEST = 65535
FCS, STRENGTH, CHANNEL, START, QUALITY = 0, 1, 3, 5, 10  # tagged values
I_FRAME = 0x3F  # 6LoWPAN's number for TinyOS 2


def write_pcap(journal: Journal, deployment: Deployment, file: IO[bytes], report: Report) -> int:
    """How many frames were written."""
    file.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, LONGEST, LINK_TYPE))
    count = 0
    for wall_ns, frame in _frames(journal, deployment, report):
        seconds, rest = divmod(wall_ns, 1_000_000_000)
        file.write(struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, len(frame), len(frame)) + frame)
        count += 1
    return count


def _frames(journal: Journal, deployment: Deployment, report: Report) -> Iterator[tuple[int, bytes]]:
    layout, channel = layout_of(deployment), deployment.network.channel
    segments = (segment.records for segment in journal.segments(report))
    for reading in read_all(segments, deployment):
        heards = zip(reading.heard.known.tolist(), reading.heard.rows.tolist(), strict=True)
        for record, (known, row) in zip(reading.frames, heards, strict=True):
            packet = _on_air(record.payload)
            if packet is not None and not isinstance(decode_message(packet, layout), Heard | Status):
                heard = Heard(*row) if known else None
                yield record.wall_ns, tap_header(heard, channel) + radio_frame(packet)


def _on_air(raw: bytes) -> ActiveMessage | None:
    try:
        packet = decode_packet(raw)
    except PacketError:
        return None
    return None if isinstance(packet, Ack) else packet


def radio_frame(packet: ActiveMessage) -> bytes:
    """A message as the CC2420 of a MICAz sends it, from the frame control field to the check sum."""
    if packet.tinyos == 1:
        head = struct.pack("<HBHHBB", 0x0801, 0, 0xFFFF, packet.dest, packet.type, packet.group)
    else:
        addresses = (packet.group, packet.dest, packet.source or 0)
        head = struct.pack("<HBHHHBB", 0x8841, 0, *addresses, I_FRAME, packet.type)
    frame = head + packet.data
    return frame + struct.pack("<H", frame_check(frame))


def frame_check(frame: bytes) -> int:
    """The check sum of 802.15.4: polynomial 0x1021, least significant bit first, from 0."""
    crc = 0
    for byte in frame:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x8408 if crc & 1 else 0)
    return crc


def tap_header(heard: Heard | None, channel: int) -> bytes:
    values = [_value(FCS, struct.pack("<B", 1))]
    if channel:
        values.append(_value(CHANNEL, struct.pack("<HB", channel, 0)))
    if heard is not None:
        values.append(_value(START, struct.pack("<Q", -(-heard.time * 10**9 // CRYSTAL_HZ))))
        if heard.rssi != RSSI_UNKNOWN:
            values.append(_value(STRENGTH, struct.pack("<f", heard.rssi)))
        if heard.flags & LQI_KNOWN:
            values.append(_value(QUALITY, struct.pack("<B", heard.lqi)))
    body = b"".join(values)
    return struct.pack("<BBH", 0, 0, 4 + len(body)) + body


def _value(tag: int, value: bytes) -> bytes:
    return struct.pack("<HH", tag, len(value)) + value + bytes(-len(value) % 4)
