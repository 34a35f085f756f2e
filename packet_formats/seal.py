"""Message integrity codes (MICs): only holders of the network's key can make and check them.

A MIC is the first four bytes of AES-128-CMAC (RFC 4493) over a header of 16 bytes and the payload, without its MIC and
with its hops cleared, since relays count them down. The header holds what the message need not carry: the layout's
hash, the root epoch and the whole network time, of which the stamp has only the low bits. So a message replayed
after its window is refused, at no cost in bytes.

Here cycles have 37 bits or more: the network's 32, and above them the round, how often those have wrapped in this
epoch. Higher bits are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Any

from packet_formats.keys import Key
from packet_formats.layout import DataLayout
from packet_formats.messages import Data, encode_message, with_mic
from packet_formats.records import (
    COMMAND_SHIFT,
    MIC_BYTES,
    ROUND_BITS,
    UNCLOCKED_SHIFT,
    Arrived,
    Beacon,
    Downlink,
    Health,
    Proof,
    Taken,
    members,
    mic_at,
)
from packet_formats.tinyos import ActiveMessage

BLOCK = 16
HEADER = Struct("<BBIIH4s")  # AM type, epoch, layout hash, time, node, extra
HEADER_EXTRA = Struct("<I")  # the round, but for Arrived
HOPS_CLEARED = 0x3F  # of a flags byte
NO_EXTRA = bytes(MIC_BYTES)
TIME_BITS = 32
ROUNDS = 1 << ROUND_BITS
NUMBERS = 1 << 16  # of commands

_AT = {(record, m.name): m.offset for record in (Health, Downlink) for m in members(record)}
HEALTH_FLAGS_AT, DOWNLINK_HOPS_AT = _AT[Health, "flags"], _AT[Downlink, "hops"]


class Seal:
    """Makes and checks the MICs of a network."""

    def __init__(self, key: Key, layout: DataLayout) -> None:
        from cryptography.hazmat.primitives.ciphers.algorithms import AES  # the extra `security`
        from cryptography.hazmat.primitives.cmac import CMAC

        self._keyed = CMAC(AES(key.secret))
        self.layout, self._hash = layout, layout.hash
        names = [field.name for field in layout.stamp.fields_of(layout.stamp.least)]
        self._clock_field = names.index("clock") if "clock" in names else None
        # How many bits of the time a data message's MIC covers, without its round.
        self._data_bits = TIME_BITS - (layout.tick_log2 if layout.stamp.clock_bits else UNCLOCKED_SHIFT)

    def __repr__(self) -> str:
        return f"Seal(layout {self._hash:#010x})"

    def cmac(self, message: bytes) -> bytes:
        """AES-128-CMAC of a message: 16 bytes."""
        one = self._keyed.copy()
        one.update(message)
        return one.finalize()

    def header(self, type_: int, epoch: int, time: int, node: int, extra: bytes = NO_EXTRA) -> bytes:
        return HEADER.pack(type_, epoch, self._hash, time, node, extra)

    def _timed_header(self, type_: int, epoch: int, time: int, bits: int, node: int) -> bytes:
        """`time`: with the round above its lower bits."""
        extra = HEADER_EXTRA.pack((time >> bits) % ROUNDS)
        return self.header(type_, epoch, time % (1 << bits), node, extra)

    def _mic(self, covered: bytes) -> bytes:
        return self.cmac(covered)[:MIC_BYTES]

    # ---- What is covered, and the MIC of it ----

    def covered_data(self, payload: bytes, source: int, in_sync: bool, epoch: int, time: int) -> bytes:
        """The bytes that the MIC of a data payload covers: all but its own MIC, the last bytes."""
        at = self.layout.flags_at
        cleared = payload[:at] + bytes([payload[at] & HOPS_CLEARED]) + payload[at + 1 : -MIC_BYTES]
        if not in_sync:
            epoch, time = 0, 0
        return self._timed_header(self.layout.am_type, epoch, time, self._data_bits, source) + cleared

    def data(self, payload: bytes, source: int, in_sync: bool, epoch: int, time: int) -> bytes:
        return self._mic(self.covered_data(payload, source, in_sync, epoch, time))

    def covered_health(self, payload: bytes, health: Health, round_: int) -> bytes:
        """`round_`: of its time; a health that is not in sync has none."""
        at, flags = mic_at(Health), HEALTH_FLAGS_AT
        cleared = payload[:flags] + bytes([payload[flags] & HOPS_CLEARED]) + payload[flags + 1 : at]
        extra = HEADER_EXTRA.pack(round_ % ROUNDS if health.in_sync else 0)
        head = self.header(Health.AM_TYPE, health.epoch, 0, health.source, extra)
        return head + cleared + payload[at + MIC_BYTES :]

    def health(self, payload: bytes, health: Health, round_: int) -> bytes:
        return self._mic(self.covered_health(payload, health, round_))

    def covered_downlink(self, payload: bytes, target: int, epoch: int, time: int) -> bytes:
        """`time`: the whole number of the command, see `command_time`."""
        at = DOWNLINK_HOPS_AT
        cleared = payload[:at] + b"\0" + payload[at + 1 : mic_at(Downlink)]
        return self._timed_header(Downlink.AM_TYPE, epoch, time, TIME_BITS - COMMAND_SHIFT, target) + cleared

    def downlink(self, payload: bytes, target: int, epoch: int, time: int) -> bytes:
        return self._mic(self.covered_downlink(payload, target, epoch, time))

    def covered_arrived(self, arrived: Arrived, data_mic: bytes) -> bytes:
        return self.header(Arrived.AM_TYPE, 0, arrived.number, arrived.source, data_mic)

    def arrived(self, arrived: Arrived, data_mic: bytes) -> bytes:
        return self._mic(self.covered_arrived(arrived, data_mic))

    def covered_taken(self, payload: bytes, epoch: int, cycles: int) -> bytes:
        """`cycles`: of the network time in its window."""
        assert self.layout.schedule is not None
        shift = self.layout.schedule.period_log2
        head = self._timed_header(Taken.AM_TYPE, epoch, cycles >> shift, TIME_BITS - shift, 0)
        return head + payload[: mic_at(Taken)]

    def taken(self, payload: bytes, epoch: int, cycles: int) -> bytes:
        return self._mic(self.covered_taken(payload, epoch, cycles))

    def covered_beacon(self, payload: bytes, beacon: Beacon) -> bytes:
        """The bytes that a beacon's proof covers: all of its payload as it was sent."""
        return self.header(Beacon.AM_TYPE, beacon.epoch, 0, beacon.sender) + payload

    def beacon(self, payload: bytes, beacon: Beacon) -> bytes:
        return self._mic(self.covered_beacon(payload, beacon))

    # ---- Times ----

    def data_time(self, data: Data, cycles: int) -> int:
        """The bits of the time that a message's MIC covers, if it is sent or heard at `cycles` of the network time."""
        return self.data_times(data, cycles, 1)[0]

    def data_times(self, data: Data, cycles: int, tries: int = 3) -> list[int]:
        """The same, the likeliest first: with a stamp's clock the neighbouring windows follow, without one the
        periods before and after."""
        if self._clock_field is None:
            likeliest, step = cycles >> UNCLOCKED_SHIFT, 1
        else:
            step = self.layout.stamp.modulus
            latest = (cycles >> self.layout.tick_log2) + self.layout.lead
            likeliest = latest - (latest - data.stamp[self._clock_field]) % step
        wrap = 1 << self._data_bits + ROUND_BITS
        return [(likeliest + offset) % wrap for offset in (0, -step, step)[:tries]]

    @property
    def has_clock(self) -> bool:
        """Whether a message's stamp has a clock; else three periods of 16 s are tried for each."""
        return self._clock_field is not None

    # ---- Whole messages ----

    def sealed_data(self, data: Data, epoch: int, cycles: int, dest: int = 0xFFFF) -> ActiveMessage:
        """A data message as a mote sends it at `cycles` of the network time."""
        frame = encode_message(data, self.layout, dest)
        time = self.data_time(data, cycles)
        mic = self.data(frame.data, data.source, data.in_sync, epoch, time)
        return with_mic(frame, self.layout, mic)

    def sealed_health(self, health: Health, round_: int = 0) -> ActiveMessage:
        frame = encode_message(health, self.layout)
        return with_mic(frame, self.layout, self.health(frame.data, health, round_))

    def sealed_downlink(self, downlink: Downlink, epoch: int, cycles: int) -> ActiveMessage:
        """A command as it is made at `cycles` of the network time, which number it."""
        time = command_time(cycles)
        downlink = replace(downlink, sequence=time % NUMBERS)
        frame = encode_message(downlink, self.layout)
        return with_mic(frame, self.layout, self.downlink(frame.data, downlink.target, epoch, time))

    def proof(self, beacon: Beacon) -> Proof:
        """The proof that follows a beacon."""
        payload = encode_message(beacon, self.layout).data
        return Proof(beacon.sender, beacon.sequence, self.beacon(payload, beacon))


def command_time(cycles: int) -> int:
    """The whole number of a command that is made at this network time; its `sequence` is the low 16 bits."""
    return cycles >> COMMAND_SHIFT


def round_at(time: int, cycles: int) -> int:
    """The round in which the network's 32 bits of time read `time`, less than half a round from `cycles`."""
    half = 1 << TIME_BITS - 1
    return (cycles + (time - cycles + half) % (2 * half) - half >> TIME_BITS) % ROUNDS


def rounds_later(round_: int, than: int) -> int:
    """The rounds from `than` to `round_`; negative if `round_` is earlier."""
    return (round_ - than + ROUNDS // 2) % ROUNDS - ROUNDS // 2


def reading_window(layout: DataLayout, sent: Any, tick: Any, late: int) -> tuple[Any, Any]:
    """The first and the last tick at which a receiver reads a stamp's clock as `sent`; numbers or arrays.

    `tick`: about when the message was heard. `sent` and `tick` are unwrapped. `late`: the ticks that readers add to the
    time of reception.
    """
    wrap = 1 << TIME_BITS - layout.tick_log2
    whole = tick + (sent - tick + wrap // 2) % wrap - wrap // 2
    first = whole - layout.lead - late
    return first, first + layout.stamp.modulus - 1
