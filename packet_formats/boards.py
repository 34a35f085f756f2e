"""The boards and their radios: the one place for facts about them. Standard library only.

A new board is a row here. docs/guide/planning.md and docs/evidence/firmware.md give the source of every number. Their
currents are in `packet_formats/power.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from packet_formats import cc1000

CRYSTAL_HZ = 32768  # of the clock crystal; local time counts its cycles
CHANNEL_KHZ = {channel: 2_405_000 + 5000 * (channel - 11) for channel in range(11, 27)}  # IEEE 802.15.4

_CYCLE_MS = 1000 / CRYSTAL_HZ
_CC1000_BYTE_MS = 8 / 19.2


@dataclass(frozen=True, slots=True)
class Slots:
    """The times of a radio for a network with a schedule (packet_formats/schedule.py), in cycles."""

    wake: int  # from power-down to a receiver that is on, at most
    turn: int  # from listening to sending, at most
    detect: int  # from a carrier's start until others see it, at most
    clocks: int  # how far two clocks of motes in sync may be apart, at most
    mini_slot: int  # more than turn + detect + clocks, or two senders collide
    beacon_slot: int  # for the beacons of one hop, at least
    beacon_every: int  # windows
    burst_gap: int  # between two frames of one sender
    guard: int
    guard_margin: int


@dataclass(frozen=True, slots=True)
class Radio:
    """A radio chip under TinyOS's CSMA layer. The byte counts are those of a frame on the air, in its order."""

    chip: str
    framing: Literal["ieee802154", "cc1000"]  # packet_formats/air.py, firmware/core/air.c
    link_type: int  # of a capture file
    has_lqi: bool  # it measures a link quality
    byte_ms: float
    before_header: int  # with TinyOS's preamble
    firmware_before_header: int  # with our driver's
    header: Mapping[int, int]  # by TinyOS version
    after_data: int
    initial_backoff_ms: float  # the longest draw
    congestion_backoff_ms: float  # the longest draw
    processing_ms: float  # from the radio to the queue and back
    hop_backoff_cycles: int  # what a relay reserves for channel access at each hop still to go
    timing_noise_cycles: int  # how far off the time of a frame's delimiter may be
    sync_error_ms: float  # what a hop adds to a clock's error
    delay_margin: float  # share added to a delay budget for interference
    signal_margin_db: float  # over noise, at 0 dBm: below it, frames begin to be lost
    slots: Slots

    @property
    def driver(self) -> str:
        """The driver's folder in firmware/chips."""
        return self.chip.lower()

    def air_bytes(self, payload: int, tinyos: int) -> int:
        """All bytes on the air for one payload, with TinyOS's preamble."""
        return self.before_header + self.header[tinyos] + payload + self.after_data

    def firmware_air_bytes(self, payload: int, tinyos: int) -> int:
        """The same with our driver's preamble."""
        return self.firmware_before_header + self.header[tinyos] + payload + self.after_data


CC2420 = Radio(
    chip="CC2420",
    framing="ieee802154",
    link_type=195,  # IEEE 802.15.4 with its check sum
    has_lqi=True,
    byte_ms=0.032,
    before_header=6,  # preamble 4, delimiter, length
    firmware_before_header=6,
    header={1: 9, 2: 11},
    after_data=2,  # check sum
    initial_backoff_ms=320 * _CYCLE_MS,
    congestion_backoff_ms=80 * _CYCLE_MS,
    processing_ms=2.0,
    hop_backoff_cycles=164,  # 5 ms
    timing_noise_cycles=2,
    sync_error_ms=0.2,
    delay_margin=1 / 3,
    signal_margin_db=4.0,
    slots=Slots(
        wake=72,  # 2.2 ms: regulator 0.6, oscillator 0.9, registers 0.2, tuning 0.32
        turn=7,
        detect=4,
        clocks=8,
        mini_slot=24,
        beacon_slot=524,  # 16 ms
        beacon_every=1,
        burst_gap=19,
        guard=16,
        guard_margin=8,
    ),
)

CC1000 = Radio(
    chip="CC1000",
    framing="cc1000",
    link_type=147,  # none is registered: the first of those for private use
    has_lqi=False,
    byte_ms=_CC1000_BYTE_MS,
    before_header=20,  # preamble 18, sync 2
    firmware_before_header=11,  # under way at power-on 1, preamble 8, sync 2
    header={1: 5, 2: 7},
    after_data=4,  # check sum 2, flush 2
    initial_backoff_ms=32 * _CC1000_BYTE_MS,
    congestion_backoff_ms=16 * _CC1000_BYTE_MS,
    processing_ms=1.0,
    hop_backoff_cycles=230,  # 7 ms
    timing_noise_cycles=16,  # it signals byte boundaries only
    sync_error_ms=0.4,
    delay_margin=1 / 2,
    signal_margin_db=10.0,
    slots=Slots(
        wake=112,  # 3.4 ms: crystal 2.0, bias 0.2, two bytes to settle 0.83
        turn=16,
        detect=16,
        clocks=24,
        mini_slot=64,
        beacon_slot=2097,  # 64 ms
        beacon_every=2,
        burst_gap=20,
        guard=64,
        guard_margin=32,
    ),
)


@dataclass(frozen=True, slots=True)
class Board:
    """A kind of mote. The two periods are the firmware's defaults."""

    name: str  # in a deployment, and of firmware/boards/NAME
    title: str  # in prose
    radio: Radio
    baud: int  # of its UART
    platform: int  # its number in the serial forwarder protocol
    send_seconds: int  # between two messages of a mote
    beacon_seconds: int  # between two beacons of the time root
    default_channel: Mapping[int, int]  # by TinyOS version
    carrier_khz: Mapping[int, Mapping[int, int]]  # by TinyOS version and channel; of the usual band
    bands: Mapping[int, cc1000.Band] = field(default_factory=dict)  # by MHz, where there are several models
    default_band: int = 0  # 0: it has one band


MICAZ = Board(
    name="micaz",
    title="MICAz",
    radio=CC2420,
    baud=57600,
    platform=3,
    send_seconds=2,
    beacon_seconds=10,
    default_channel={1: 11, 2: 26},
    carrier_khz={1: CHANNEL_KHZ, 2: CHANNEL_KHZ},
)

MICA2 = Board(
    name="mica2",
    title="MICA2",
    radio=CC1000,
    baud=57600,
    platform=1,
    send_seconds=10,
    beacon_seconds=20,
    default_channel={1: 0, 2: 0},
    carrier_khz={
        tinyos: {0: tuning.carrier_khz} for tinyos, tuning in cc1000.BANDS[cc1000.DEFAULT_BAND].tuning.items()
    },
    bands=cc1000.BANDS,
    default_band=cc1000.DEFAULT_BAND,
)

BOARDS = {board.name: board for board in (MICAZ, MICA2)}
RADIOS = {board.radio.chip: board.radio for board in BOARDS.values()}
DEFAULT_BOARD = MICAZ  # where none is named
GENERIC = "generic"  # in a deployment: a board that is not ours, of which nothing is known (docs/reference/library.md)
