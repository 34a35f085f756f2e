"""Message integrity codes (MICs): only holders of the network's key can make and check them.

A MIC is the first four bytes of AES-128-CMAC (RFC 4493) over a header of 16 bytes and the payload, without its MIC and
with its hops cleared, since relays count them down. The header holds what the message need not carry: the layout's
hash, the root epoch and the whole network time, of which the stamp has only the low bits. So a message replayed
after its window is refused, at no cost in bytes.

Here cycles have 37 bits or more: the network's 32, and above them the round, how often those have come round in this
epoch. Who has more bits than that may leave them: they are cut off.

`Seal` works on one message, `mics` on arrays: block after block, one call of AES for that block of all messages.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_AT = {(record, m.name): m.offset for record in (Health, Downlink) for m in members(record)}
HEALTH_FLAGS_AT, DOWNLINK_HOPS_AT = _AT[Health, "flags"], _AT[Downlink, "hops"]


def _encryptor(key: Key) -> Any:
    """AES-128 of any number of whole blocks, each by itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # the extra `security`

    return Cipher(algorithms.AES(key.secret), modes.ECB()).encryptor()


class Seal:
    """Makes and checks the MICs of a network. Not for two threads at once."""

    def __init__(self, key: Key, layout: DataLayout) -> None:
        self._encrypt = _encryptor(key).update
        self.layout, self._hash = layout, layout.hash
        subkey = int.from_bytes(self._encrypt(bytes(BLOCK)), "big")
        self._whole, self._padded = _doubled(subkey), _doubled(_doubled(subkey))
        names = [field.name for field in layout.stamp.fields_of(layout.stamp.least)]
        self._clock_field = names.index("clock") if "clock" in names else None
        self._data_bits = data_bits(layout)

    def __repr__(self) -> str:
        return f"Seal(layout {self._hash:#010x})"

    # ---- CMAC ----

    def cmac(self, message: bytes) -> bytes:
        """AES-128-CMAC of a message: 16 bytes."""
        rest = len(message) % BLOCK
        last_key = self._padded if rest or not message else self._whole
        if rest or not message:
            message += b"\x80" + bytes(BLOCK - 1 - rest)
        state, end = 0, len(message) - BLOCK
        for at in range(0, end, BLOCK):
            block = state ^ int.from_bytes(message[at : at + BLOCK], "big")
            state = int.from_bytes(self._encrypt(block.to_bytes(BLOCK, "big")), "big")
        block = state ^ last_key ^ int.from_bytes(message[end:], "big")
        return bytes(self._encrypt(block.to_bytes(BLOCK, "big")))

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
        """What the MIC of a data payload covers; the payload's last bytes, its own MIC, are left out."""
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
        """What a beacon's proof covers: all of its payload as it was sent."""
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
        """What follows a beacon."""
        payload = encode_message(beacon, self.layout).data
        return Proof(beacon.sender, beacon.sequence, self.beacon(payload, beacon))


def command_time(cycles: int) -> int:
    """The whole number of a command that is made at this network time; its `sequence` is the low 16 bits."""
    return cycles >> COMMAND_SHIFT


def data_bits(layout: DataLayout) -> int:
    """How many bits of the time a data message's MIC covers, without its round."""
    return TIME_BITS - (layout.tick_log2 if layout.stamp.clock_bits else UNCLOCKED_SHIFT)


def round_at(time: int, cycles: int) -> int:
    """The round in which the network's 32 bits of time read `time`, less than half a round from `cycles`."""
    half = 1 << TIME_BITS - 1
    return (cycles + (time - cycles + half) % (2 * half) - half >> TIME_BITS) % ROUNDS


def rounds_later(round_: int, than: int) -> int:
    """By how many rounds one is later than another; negative: earlier."""
    return (round_ - than + ROUNDS // 2) % ROUNDS - ROUNDS // 2


def reading_window(layout: DataLayout, sent: Any, tick: Any, late: int) -> tuple[Any, Any]:
    """Between which ticks a message must have been heard for its stamp's clock to be read as `sent`; numbers or arrays.

    `tick`: when it was heard about, not modulo anything, as `sent` is. `late`: by how many ticks readers add to the
    time of reception of such a message.
    """
    wrap = 1 << TIME_BITS - layout.tick_log2
    whole = tick + (sent - tick + wrap // 2) % wrap - wrap // 2
    first = whole - layout.lead - late
    return first, first + layout.stamp.modulus - 1


def _doubled(value: int) -> int:
    """RFC 4493's step from one subkey to the next."""
    return (value << 1 & (1 << 128) - 1) ^ (0x87 if value >> 127 else 0)


# ---- Many messages ----


def mics(key: Key, covered: Bytes, lengths: Ints) -> Bytes:
    """The MICs, one a row, of many covered texts: rows of bytes, zero beyond their lengths, none of which is 0."""
    encrypt = _encryptor(key).update
    subkey = int.from_bytes(encrypt(bytes(BLOCK)), "big")
    whole, padded = (
        np.frombuffer(value.to_bytes(BLOCK, "big"), np.uint8)
        for value in (_doubled(subkey), _doubled(_doubled(subkey)))
    )
    count, rows = len(covered), np.arange(len(covered))
    blocks = -(-lengths // BLOCK)
    text = np.zeros((count, int(blocks.max(initial=1)) * BLOCK), np.uint8)
    text[:, : covered.shape[1]] = covered[:, : text.shape[1]]
    partial = lengths % BLOCK != 0
    text[rows[partial], lengths[partial]] = 0x80
    last = (blocks - 1)[:, None] * BLOCK + np.arange(BLOCK)
    text[rows[:, None], last] ^= np.where(partial[:, None], padded, whole)
    state = np.zeros((count, BLOCK), np.uint8)
    for block in range(text.shape[1] // BLOCK):
        mixed = state ^ text[:, block * BLOCK : (block + 1) * BLOCK]
        done = np.frombuffer(encrypt(mixed.tobytes()), np.uint8).reshape(count, BLOCK)
        state = np.where((block < blocks)[:, None], done, state)
    return state[:, :MIC_BYTES]


def headers(layout: DataLayout, type_: int, epochs: Ints, times: Ints, nodes: Ints, rounds: Ints) -> Bytes:
    """The headers that MICs cover, one a row."""
    wire = np.zeros(
        len(epochs), np.dtype([(n, f"<u{s}") for n, s in zip("tehmnx", (1, 1, 4, 4, 2, 4), strict=True)])
    )
    wire["t"], wire["h"] = type_, layout.hash
    wire["e"], wire["m"], wire["n"], wire["x"] = epochs, times, nodes, rounds
    return wire.view(np.uint8).reshape(len(wire), BLOCK)


def data_mics(
    key: Key,
    layout: DataLayout,
    rows: NDArray[np.void],
    payload: Bytes,
    lengths: Ints,
    epochs: Ints,
    times: Ints,
) -> Bytes:
    """The MICs that data messages should have: `rows` as decoded from `payload`, and `times` as `bulk_times` gives."""
    synced, bits = rows["in_sync"].astype(np.int64), data_bits(layout)
    times, nodes = times * synced, rows["source"].astype(np.int64)
    rounds = (times >> bits) % ROUNDS
    head = headers(layout, layout.am_type, epochs * synced, times % (1 << bits), nodes, rounds)
    body = payload[:, : layout.length].copy()
    body[:, layout.flags_at] &= HOPS_CLEARED
    body[np.arange(body.shape[1]) >= (lengths - layout.mic)[:, None]] = 0
    return mics(key, np.concatenate((head, body), axis=1), lengths - layout.mic + BLOCK)


def bulk_times(layout: DataLayout, rows: NDArray[np.void], cycles: Ints, offset: int = 0) -> Ints:
    """`Seal.data_times` of many messages; `offset` names a neighbouring window: -1, 0 or 1."""
    if not layout.stamp.clock_bits:
        return ((cycles >> UNCLOCKED_SHIFT) + offset) % (1 << data_bits(layout) + ROUND_BITS)
    latest, modulus = (cycles >> layout.tick_log2) + layout.lead, layout.stamp.modulus
    likeliest = latest - (latest - rows["clock"].astype(np.int64)) % modulus
    return np.asarray((likeliest + offset * modulus) % (1 << data_bits(layout) + ROUND_BITS))


def health_mics(key: Key, layout: DataLayout, rows: NDArray[np.void], payload: Bytes, rounds: Ints) -> Bytes:
    """The MICs that health records should have, if their times are of these rounds."""
    at, nothing = mic_at(Health), np.zeros(len(rows), np.int64)
    head = headers(
        *(layout, Health.AM_TYPE, rows["epoch"].astype(np.int64), nothing, rows["source"].astype(np.int64)),
        np.where(rows["flags"] & 1, rounds, 0),
    )
    body = np.delete(payload, np.s_[at : at + layout.mic], axis=1)
    body[:, HEALTH_FLAGS_AT] &= HOPS_CLEARED
    covered = np.concatenate((head, body), axis=1)
    return mics(key, covered, np.full(len(rows), covered.shape[1], np.int64))
