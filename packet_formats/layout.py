"""Which bits of a payload mean what. Standard library only.

A layout is computed, never written down: the widths of a stamp's fields follow from epsilon, delta and the
number of motes. `StampLayout.pack` and `unpack` are the reference that every faster reader is tested against.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment

ORDERED = ("kn", "dpc1", "dpc2", "hlc", "shlc")  # any two stamps compare: ours, for the timed policies
NAMED = ("sequence", "scalar", "last-sender", "history", "vector", "matrix")  # of messages; no clock
AGED = ("delta-causal", "delta-vector", "two-hop")  # a clock, and other messages' ages
SCHEMES = (*ORDERED, *NAMED, *AGED)
PACKINGS = ("bits", "bytes")
COUNTS = ("events", "sends")
CARRIES = ("pair", "sum")

PAYLOAD_LIMIT = {1: 29, 2: 28}  # TinyOS version -> data bytes in one message
HEADER_AFTER_SOURCE = 2  # sequence, flags
WIDE_SOURCE_FROM = 240  # motes; below that, one byte leaves 16 ids for gateways
COUNTER_BITS = 8  # of a numbered or named message, as the sequence in each header
NAMES = 4  # that a history carries, unless told otherwise
MAX_FIELD_BITS = 16  # a field spans at most three bytes, and fits an AVR register pair


class LayoutError(ValueError):
    """A layout that cannot be: the setting at fault, its value, and why."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key} = {value!r}: {reason}")
        self.key, self.value, self.reason = key, value, reason


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a stamp: `bits` wide, `offset` bits from the stamp's first bit, holding 0..`top`."""

    name: str
    bits: int
    offset: int
    top: int


@dataclass(frozen=True)
class StampLayout:
    """The stamp on the wire: `clock` and `c`, each if carried (0 bits: not), then `entries` entries."""

    scheme: str
    packing: str
    carry: str
    count: str
    clock_bits: int
    c_bits: int
    entries: int
    entry_bits: int

    @property
    def modulus(self) -> int:
        """B: the clock on the wire is taken modulo this."""
        return 1 << self.clock_bits

    @property
    def entry_max(self) -> int:
        """The top code of an entry: "this many or more"; 0 when there are no entries."""
        return (1 << self.entry_bits) - 1

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        widths = [(name, bits) for name, bits in (("clock", self.clock_bits), ("c", self.c_bits)) if bits]
        widths += [(name, self.entry_bits) for name in _entry_names(self.scheme, self.entries)]
        fields, offset = [], 0
        for name, width in widths:
            wire_width = 8 if self.packing == "bytes" else width
            fields.append(Field(name, wire_width, offset, (1 << width) - 1))
            offset += wire_width
        return tuple(fields)

    @property
    def bits(self) -> int:
        return sum(field.bits for field in self.fields)

    @property
    def size(self) -> int:
        """Whole bytes that the stamp takes."""
        return (self.bits + 7) // 8

    def values(self, r: int, c: int = 0, kn: Sequence[int] = ()) -> tuple[int, ...]:
        """A stamp's wire values, in field order; an entry beyond the top code becomes the top code."""
        head = [(r + c if self.carry == "sum" else r) % self.modulus] if self.clock_bits else []
        if self.c_bits:
            head.append(c)
        entries = [min(entry, self.entry_max) for entry in kn[: self.entries]]
        return (*head, *entries, *[0] * (self.entries - len(entries)))

    def pack(self, values: Sequence[int]) -> bytes:
        """Field values to bytes, most significant bit first, zero bits at the end."""
        if len(values) != len(self.fields):
            raise ValueError(f"a {self.scheme} stamp has {len(self.fields)} fields, not {len(values)}")
        word = 0
        for field, value in zip(self.fields, values, strict=True):
            if not 0 <= value <= field.top:
                raise ValueError(f"stamp field {field.name} = {value} is outside 0..{field.top}")
            word = word << field.bits | value
        return (word << self.size * 8 - self.bits).to_bytes(self.size, "big")

    def unpack(self, raw: bytes) -> tuple[int, ...]:
        """Bytes to field values; refuses set padding bits and values too large for their field."""
        if len(raw) != self.size:
            raise ValueError(f"this stamp has {self.size} bytes, not {len(raw)}")
        word, spare = int.from_bytes(raw, "big"), self.size * 8 - self.bits
        if word & ((1 << spare) - 1):
            raise ValueError("padding bits after the stamp are not zero")
        word >>= spare
        values = []
        for field in self.fields:
            value = word >> self.bits - field.offset - field.bits & (1 << field.bits) - 1
            if value > field.top:
                raise ValueError(f"stamp field {field.name} = {value} is outside 0..{field.top}")
            values.append(value)
        return tuple(values)


def _entry_names(scheme: str, entries: int) -> list[str]:
    if scheme in ("hlc", "shlc", "scalar"):
        return ["number" if scheme == "scalar" else "counter"]
    if scheme in ("last-sender", "history"):
        return [f"{part}{index}" for index in range(entries // 2) for part in ("source", "sequence")]
    name = {"kn": "kn", "vector": "known", "matrix": "sent"}.get(scheme, "age")
    return [f"{name}{index}" for index in range(entries)]


def least_clock_bits(epsilon: int, delta: int) -> int:
    """The fewest bits for which B >= delta + 2*epsilon + 1, so that every legal stamp unwraps."""
    return (delta + 2 * epsilon).bit_length()


def age_bits(epsilon: int, delta: int) -> int:
    """For an age of -epsilon..delta + 2*epsilon, whatever the clocks, below the code for "too old to matter"."""
    return (delta + 3 * epsilon + 1).bit_length()


def stamp_layout(
    *,
    scheme: str,
    epsilon: int,
    delta: int,
    motes: int,
    entries: int | str = "all",
    packing: str = "bits",
    count: str = "events",
    events_per_tick: int = 1,
    counter_bits: int | None = None,
    carry: str | None = None,
    clock_bits: int | None = None,
) -> StampLayout:
    """The stamp that these settings imply; `LayoutError` says which of them cannot be, and why."""
    _one_of("scheme", scheme, SCHEMES)
    _at_least("epsilon", epsilon, 1, "with 0 no clock could ever tick")
    _at_least("delta", delta, 1, "a message takes at least a tick's allowance")
    _at_least("motes", motes, 1, "a network has a mote")
    _at_least("events_per_tick", events_per_tick, 1, "a mote must be able to have an event")
    _only_for_scheme(scheme, packing, count, carry, counter_bits, entries)
    if scheme not in ORDERED:
        return _papers_layout(scheme, epsilon, delta, motes, entries, clock_bits)
    carry = carry or ("sum" if scheme == "shlc" else "pair")
    clock_width = _clock_bits(epsilon, delta, packing, clock_bits)
    c_bits = 0 if carry == "sum" or scheme == "dpc1" else epsilon.bit_length()
    if packing == "bytes" and c_bits > 8:
        raise LayoutError("packing", packing, f"c up to epsilon = {epsilon} does not fit a byte; use bits")
    return StampLayout(
        scheme=scheme,
        packing=packing,
        carry=carry,
        count="sends" if scheme == "shlc" else count,
        clock_bits=clock_width,
        c_bits=c_bits,
        entries=_entries(scheme, entries, epsilon),
        entry_bits=_entry_bits(scheme, packing, clock_width + c_bits, events_per_tick * motes, counter_bits),
    )


def _papers_layout(
    scheme: str, epsilon: int, delta: int, motes: int, entries: int | str, clock_bits: int | None
) -> StampLayout:
    """A stamp of the papers' other schemes: one width for all entries, a clock before ages alone."""
    clock_width = _clock_bits(epsilon, delta, "bits", clock_bits)  # ticks must be sound in any case
    layout = StampLayout(
        scheme=scheme,
        packing="bits",
        carry="pair",
        count="events",
        clock_bits=clock_width if scheme in AGED else 0,
        c_bits=0,
        entries=_papers_entries(scheme, motes, entries),
        entry_bits=_papers_entry_bits(scheme, epsilon, delta, motes),
    )
    # Known before any field is made: a matrix of all the motes there may be has thousands of millions.
    size, limit = (layout.clock_bits + layout.entries * layout.entry_bits + 7) // 8, PAYLOAD_LIMIT[1]
    if size > limit:
        reason = f"this stamp takes {size} bytes in a network of {motes}, a payload has {limit}"
        raise LayoutError("scheme", scheme, f"{reason}; shlc takes one or two, whatever the network")
    return layout


def _papers_entries(scheme: str, motes: int, names: int | str) -> int:
    if scheme == "history":
        return 2 * (NAMES if isinstance(names, str) else names)
    return {
        "sequence": 0,
        "scalar": 1,
        "last-sender": 2,
        "vector": motes - 1,  # the sender's own counter is its sequence number
        "matrix": motes * motes,  # sender by receiver, the observer too, but none to itself
        "delta-causal": motes * motes,
        "delta-vector": motes,
        "two-hop": 2 * motes,
    }[scheme]


def _papers_entry_bits(scheme: str, epsilon: int, delta: int, motes: int) -> int:
    if scheme == "sequence":
        return 0
    if scheme in ("last-sender", "history"):
        return 8 * source_bytes(motes)
    if scheme in NAMED:
        return COUNTER_BITS
    bits = age_bits(epsilon, delta)
    if bits > MAX_FIELD_BITS:
        reason = f"an age up to delta + 2*epsilon = {delta + 2 * epsilon} needs {bits} bits"
        raise LayoutError("delta", delta, f"{reason}, a field has {MAX_FIELD_BITS}: use a longer tick")
    return bits


def _one_of(key: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise LayoutError(key, value, f"must be one of {', '.join(choices)}")


def _at_least(key: str, value: int, least: int, why: str) -> None:
    if value < least:
        raise LayoutError(key, value, f"must be at least {least}: {why}")


def _only_for_scheme(
    scheme: str, packing: str, count: str, carry: str | None, counter_bits: int | None, entries: int | str
) -> None:
    _one_of("packing", packing, PACKINGS)
    _one_of("count", count, COUNTS)
    _one_of("carry", carry or "pair", CARRIES)
    if packing == "bytes" and scheme not in ("kn", "dpc1", "dpc2"):
        raise LayoutError("packing", packing, f"{scheme} is packed in bits; bytes is for kn, dpc1 and dpc2")
    if carry == "sum" and scheme not in ("hlc", "shlc"):
        raise LayoutError("carry", carry, f"{scheme} needs r itself; only hlc and shlc can carry the sum")
    if count != "events" and scheme != "kn":
        raise LayoutError("count", count, f"only kn has a choice of what it counts, {scheme} has none")
    if counter_bits is not None and scheme not in ("kn", "hlc", "shlc"):
        raise LayoutError("counter_bits", counter_bits, f"{scheme} has no counter whose width is a choice")
    if entries != "all" and scheme not in ("kn", "history"):
        raise LayoutError("entries", entries, f"kn and history have a choice of entries, {scheme} has none")
    if scheme == "history" and isinstance(entries, int):
        _at_least("entries", entries, 1, "a history of nothing says nothing")


def _clock_bits(epsilon: int, delta: int, packing: str, asked: int | None) -> int:
    need, least = delta + 2 * epsilon + 1, least_clock_bits(epsilon, delta)
    most = 8 if packing == "bytes" else MAX_FIELD_BITS
    bits = least if asked is None else asked
    if bits < least:
        raise LayoutError(
            "clock_bits",
            bits,
            f"B = 2^{bits} = {2 ** max(bits, 0)} is below delta + 2*epsilon + 1 = {need}, so a receiver "
            f"could take one time for another; the least clock_bits is {least}",
        )
    if least > most:
        advice = "bits packing or a longer tick" if packing == "bytes" else "a longer tick"
        raise LayoutError(
            "clock_bits",
            bits,
            f"delta + 2*epsilon + 1 = {need} needs {least} bits, a field has {most}: use {advice}",
        )
    if bits > most:
        raise LayoutError("clock_bits", bits, f"a clock field has at most {most} bits in {packing} packing")
    return bits


def _entries(scheme: str, entries: int | str, epsilon: int) -> int:
    if scheme != "kn":
        return 1 if scheme in ("hlc", "shlc") else 0
    if entries == "all":
        return epsilon + 1
    if isinstance(entries, str) or not 1 <= entries <= epsilon + 1:
        raise LayoutError("entries", entries, f'must be "all" or 1..epsilon + 1 = {epsilon + 1}')
    return entries


def _entry_bits(scheme: str, packing: str, head_bits: int, most_events: int, asked: int | None) -> int:
    """Width of a kn entry or a counter; the top code must stay free of legal values, so that it can flag."""
    if scheme in ("dpc1", "dpc2"):
        return 0
    most = 8 if packing == "bytes" else MAX_FIELD_BITS
    if asked is not None:
        if not 2 <= asked <= most:
            raise LayoutError("counter_bits", asked, f"must be 2..{most} in {packing} packing")
        return asked
    if scheme == "shlc":
        return _fill_byte(head_bits)
    needed = (most_events + 2).bit_length()  # the least w with events + 1 < 2^w - 1
    if needed > most:
        raise LayoutError(
            "counter_bits",
            None,
            f"events_per_tick * motes + 1 = {most_events + 1} needs {needed} bits below the top code, "
            f"a field has {most}; set counter_bits = {most} to accept saturated stamps",
        )
    return 8 if packing == "bytes" else needed


def _fill_byte(head_bits: int) -> int:
    free = -head_bits % 8
    return min(free if free >= 3 else free + 8, 7)


@dataclass(frozen=True)
class DataLayout:
    """The whole data payload of one deployment, and all that decides whether a frame may be read as one."""

    tinyos: int
    group: int
    source_bytes: int
    stamp: StampLayout
    receipts: int
    data_bytes: int
    epsilon: int
    delta: int
    tick_log2: int

    @property
    def byteorder(self) -> str:
        """Of every multi-byte integer in a payload: 1.x little-endian, 2.x big-endian."""
        return "little" if self.tinyos == 1 else "big"

    @property
    def limit(self) -> int:
        return PAYLOAD_LIMIT[self.tinyos]

    @property
    def sequence_at(self) -> int:
        return self.source_bytes

    @property
    def flags_at(self) -> int:
        return self.source_bytes + 1

    @property
    def stamp_at(self) -> int:
        return self.source_bytes + HEADER_AFTER_SOURCE

    @property
    def receipts_at(self) -> int:
        return self.stamp_at + self.stamp.size

    @property
    def receipt_bytes(self) -> int:
        """One slot: a source and a sequence."""
        return self.source_bytes + 1

    @property
    def data_at(self) -> int:
        return self.receipts_at + self.receipts * self.receipt_bytes

    @property
    def length(self) -> int:
        """Bytes of the payload; a frame of any other length is not ours."""
        return self.data_at + self.data_bytes

    @property
    def left(self) -> int:
        """Payload bytes still free."""
        return self.limit - self.length

    @property
    def canonical(self) -> str:
        """Everything that decides the reading of a data frame, in one line: what `hash` is taken of."""
        stamp = self.stamp
        parts: dict[str, Any] = {
            "tinyos": self.tinyos,
            "source": self.source_bytes,
            "scheme": stamp.scheme,
            "packing": stamp.packing,
            "carry": stamp.carry,
            "count": stamp.count,
            "clock": stamp.clock_bits,
            "c": stamp.c_bits,
            "entries": stamp.entries,
            "entry": stamp.entry_bits,
            "receipts": self.receipts,
            "data": self.data_bytes,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "tick": self.tick_log2,
        }
        return "causeway-1 " + " ".join(f"{key}={value}" for key, value in parts.items())

    @cached_property
    def hash(self) -> int:
        return zlib.crc32(self.canonical.encode("ascii"))

    @property
    def am_type(self) -> int:
        return 0x80 | self.hash & 0x7F


def source_bytes(motes: int) -> int:
    return 1 if motes < WIDE_SOURCE_FROM else 2


def layout_of(deployment: Deployment) -> DataLayout:
    """The data layout of a deployment; `LayoutError` if it does not fit the payload."""
    network, clock, stamp = deployment.network, deployment.clock, deployment.stamp
    layout = DataLayout(
        tinyos=network.tinyos,
        group=network.group,
        source_bytes=source_bytes(network.motes),
        stamp=stamp_layout(
            scheme=stamp.scheme,
            epsilon=clock.epsilon,
            delta=clock.delta,
            motes=network.motes,
            entries=stamp.entries if stamp.scheme in ("kn", "history") else "all",
            packing=stamp.packing,
            count=stamp.count if stamp.scheme == "kn" else "events",
            events_per_tick=stamp.events_per_tick,
            counter_bits=stamp.counter_bits or None if stamp.scheme in ORDERED else None,
            carry=stamp.carry,
            clock_bits=clock.clock_bits,
        ),
        receipts=stamp.receipts,
        data_bytes=network.data_bytes,
        epsilon=clock.epsilon,
        delta=clock.delta,
        tick_log2=clock.tick_log2,
    )
    if layout.left < 0:
        raise LayoutError("data_bytes", layout.data_bytes, _too_long(layout))
    return layout


def _too_long(layout: DataLayout) -> str:
    over, limit, stamp = -layout.left, layout.limit, layout.stamp
    cuts = []
    if layout.data_bytes >= over:
        cuts.append(f"data_bytes = {layout.data_bytes - over}")
    slots = -(-over // layout.receipt_bytes)
    if slots <= layout.receipts:
        cuts.append(f"receipts = {layout.receipts - slots}")
    if stamp.scheme in ("kn", "history"):
        each = stamp.fields[-1].bits * (2 if stamp.scheme == "history" else 1)
        entries = (stamp.entries * stamp.fields[-1].bits - over * 8) // each
        if entries >= 1:
            cuts.append(f"entries = {entries}")
    if stamp.packing == "bytes":
        cuts.append('packing = "bits"')
    if not cuts:
        cuts.append('scheme = "shlc", the smallest')
    receipts = layout.data_at - layout.receipts_at
    return (
        f"the payload would be {layout.length} bytes, {over} over the {limit} of TinyOS {layout.tinyos} "
        f"(header {layout.stamp_at}, stamp {stamp.size}, receipts {receipts}, data {layout.data_bytes}); "
        f"what could be cut: {', or '.join(cuts)}"
    )
