"""Computes which bits of a payload mean what. Standard library only.

The fields of a stamp follow from the scheme's descriptor and the network. `StampLayout.pack` and `unpack` are the
reference that every faster reader is tested against.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from packet_formats.records import ROUND_BITS, Beacon, Health, Record, size
from packet_formats.schemes import (
    CARRIES,
    COUNTS,
    PACKINGS,
    SMALLEST,
    Fields,
    LayoutError,
    SchemeDescriptor,
    StampChoice,
    clock_bits,
    descriptor,
    source_bytes,
    takers,
)

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment
    from packet_formats.schedule import Schedule
    from packet_formats.values import Value

PAYLOAD_LIMIT = {1: 29, 2: 28}  # TinyOS version -> data bytes in one message
HEADER_AFTER_SOURCE = 2  # sequence, flags


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a stamp: `bits` wide, `offset` bits from the stamp's first bit, holding 0..`top`."""

    name: str
    bits: int
    offset: int
    top: int


@dataclass(frozen=True)
class StampLayout:
    """The stamp on the wire: the fields of its head, then `least` to `most` items of the same fields.

    Where `least` is below `most` the stamp has a variable length, and its length gives the number of items.
    """

    scheme: str
    packing: str
    carry: str
    count: str
    head: Fields
    item: Fields
    least: int
    most: int

    @property
    def clock_bits(self) -> int:
        """The width of the clock; 0 if the stamp has none."""
        return dict(self.head).get("clock", 0)

    @property
    def c_bits(self) -> int:
        return dict(self.head).get("c", 0)

    @property
    def modulus(self) -> int:
        """B: the clock on the wire is taken modulo this."""
        return 1 << self.clock_bits

    @property
    def entries(self) -> int:
        """The number of fields in all items of the longest stamp."""
        return self.most * len(self.item)

    @property
    def entry_bits(self) -> int:
        return self.item[0][1] if self.item else 0

    @property
    def entry_max(self) -> int:
        """The top code of an entry: "this many or more"; 0 without entries."""
        return (1 << self.entry_bits) - 1

    @property
    def settings(self) -> dict[str, Any]:
        """The optional keys of [stamp] that lead to this layout."""
        values = {"entries": self.most, "packing": self.packing, "count": self.count}
        values |= {"counter_bits": self.entry_bits, "carry": self.carry}
        return {key: values[key] for key in descriptor(self.scheme).settings}

    @property
    def is_variable(self) -> bool:
        return self.least < self.most

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the longest stamp; a shorter one has the first of them."""
        return tuple(self._fields())

    def _fields(self) -> Iterator[Field]:
        offset = 0
        for name, width in (*self.head, *_item_fields(self.item, self.most)):
            wire_width = 8 if self.packing == "bytes" else width
            yield Field(name, wire_width, offset, (1 << width) - 1)
            offset += wire_width

    def fields_of(self, items: int) -> tuple[Field, ...]:
        """The fields of a stamp with this many items."""
        return self.fields[: len(self.head) + items * len(self.item)]

    def items_of(self, fields: int) -> int | None:
        """How many items a stamp with this many fields has; None if no stamp has that many fields."""
        counts = range(self.least, self.most + 1)
        return next((items for items in counts if len(self.fields_of(items)) == fields), None)

    def bits_of(self, items: int) -> int:
        return sum(field.bits for field in self.fields_of(items))

    def size_of(self, items: int) -> int:
        """The bytes of a stamp with this many items."""
        return (self.bits_of(items) + 7) // 8

    @cached_property
    def items_in(self) -> dict[int, int]:
        """The number of items by the stamp's length in bytes: as many as fit. Any other length is refused."""
        return {self.size_of(items): items for items in range(self.least, self.most + 1)}

    @property
    def bits(self) -> int:
        return self.bits_of(self.most)

    @property
    def size(self) -> int:
        """The bytes of the longest stamp."""
        return self.size_of(self.most)

    @property
    def least_size(self) -> int:
        return self.size_of(self.least)

    def pack(self, values: Sequence[int]) -> bytes:
        """Pack field values into bytes, most significant bit first, zero bits at the end."""
        items = self.items_of(len(values))
        if items is None:
            raise ValueError(f"a {self.scheme} stamp has {self.count_text}, not {len(values)}")
        word, fields = 0, self.fields_of(items)
        for field, value in zip(fields, values, strict=True):
            if not 0 <= value <= field.top:
                raise ValueError(f"stamp field {field.name} = {value} is outside 0..{field.top}")
            word = word << field.bits | value
        size = self.size_of(items)
        return (word << size * 8 - self.bits_of(items)).to_bytes(size, "big")

    def unpack(self, raw: bytes) -> tuple[int, ...]:
        """Unpack bytes into field values; refuse set padding bits and values too large for their field."""
        items = self.items_in.get(len(raw))
        if items is None:
            sizes = " or ".join(map(str, self.items_in))
            raise ValueError(f"this stamp has {sizes} bytes, not {len(raw)}")
        bits = self.bits_of(items)
        word, spare = int.from_bytes(raw, "big"), len(raw) * 8 - bits
        if word & ((1 << spare) - 1):
            raise ValueError("padding bits after the stamp are not zero")
        word >>= spare
        values = []
        for field in self.fields_of(items):
            value = word >> bits - field.offset - field.bits & (1 << field.bits) - 1
            if value > field.top:
                raise ValueError(f"stamp field {field.name} = {value} is outside 0..{field.top}")
            values.append(value)
        return tuple(values)

    @property
    def count_text(self) -> str:
        """How many fields a stamp has, for messages to people."""
        if not self.is_variable:
            return f"{len(self.fields)} field{'s' if len(self.fields) != 1 else ''}"
        return f"{len(self.head)} fields and {self.least} to {self.most} items of {len(self.item)}"


def _item_fields(item: Fields, items: int) -> Iterator[tuple[str, int]]:
    for index in range(items):
        for name, bits in item:
            yield name.format(index), bits


def stamp_layout(scheme: str, **settings: Any) -> StampLayout:
    """The stamp that settings of `StampChoice` lead to; `LayoutError` says which of them is impossible, and why."""
    row, choice = descriptor(scheme), StampChoice(**settings)
    _check_choice(row, choice)
    clock_bits(choice, row.lead)  # the ticks must be sound even if the stamp has no clock
    form = row.form(choice)
    # Checked before any field is made: a matrix for the most motes would have thousands of millions.
    bits = sum(width for _, width in form.head) + form.most * sum(width for _, width in form.item)
    size, limit = (bits + 7) // 8, PAYLOAD_LIMIT[1]
    if size > limit and "entries" not in row.settings:
        reason = f"this stamp takes {size} bytes in a network of {choice.motes}, a payload has {limit}"
        raise LayoutError("scheme", scheme, f"{reason}; {SMALLEST} takes one or two in any network")
    return StampLayout(
        scheme, choice.packing, form.carry, form.count, form.head, form.item, form.least, form.most
    )


def _check_choice(row: SchemeDescriptor, choice: StampChoice) -> None:
    for key, least, why in (
        ("epsilon", 1, "with 0 no clock could ever tick"),
        ("delta", 1, "a message needs a tick to arrive"),
        ("motes", 1, "a network has a mote"),
        ("events_per_tick", 1, "a mote must be able to have an event"),
    ):
        value = getattr(choice, key)
        if value < least:
            raise LayoutError(key, value, f"must be at least {least}: {why}")
    for key, choices in (("packing", PACKINGS), ("count", COUNTS), ("carry", CARRIES)):
        value = getattr(choice, key)
        if value is not None and value not in choices:
            raise LayoutError(key, value, f"must be one of {', '.join(choices)}")
    for key in OPTIONAL:
        value = getattr(choice, key)
        if value != _DEFAULTS[key] and key not in row.settings:
            raise LayoutError(key, value, only_for(key, row.name))


# Keys of [stamp] that only some schemes take.
OPTIONAL = ("entries", "packing", "count", "counter_bits", "carry")
_DEFAULTS = asdict(StampChoice(1, 1, 1))


def only_for(key: str, scheme: str) -> str:
    """The error text for a scheme that does not take a key of [stamp]."""
    return f"is for {', '.join(takers(key))} only, not {scheme}"


@dataclass(frozen=True)
class DataLayout:
    """The whole data payload of one deployment, and everything that decides whether a frame is read as one."""

    tinyos: int
    group: int
    source_bytes: int
    stamp: StampLayout
    receipts: int
    data_bytes: int
    epsilon: int
    delta: int
    tick_log2: int
    values: tuple[Value, ...] = ()
    mic: int = 0  # bytes of the MIC behind the data
    schedule: Schedule | None = None  # motes with different ones would never hear each other
    repair: int = 0  # bytes of the list behind a beacon: what the gateway has heard

    @property
    def byteorder(self) -> str:
        """The byte order of integers in a payload: little-endian on 1.x, big-endian on 2.x."""
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
    def has_age(self) -> bool:
        """Whether messages carry the age of their event (packet_formats/ages.py)."""
        return self.schedule is not None

    @property
    def age_at(self) -> int:
        return self.source_bytes + HEADER_AFTER_SOURCE

    @property
    def stamp_at(self) -> int:
        return self.age_at + self.has_age

    def age_ms(self, code: int) -> int | None:
        """The age of an event by its message's byte; None where messages have no age."""
        return self.schedule.age_ms(code) if self.schedule else None

    @property
    def receipts_at(self) -> int:
        return self.stamp_at + self.stamp.size

    @property
    def receipt_bytes(self) -> int:
        """Bytes of one slot: a source and a sequence."""
        return self.source_bytes + 1

    @property
    def data_at(self) -> int:
        return self.receipts_at + self.receipts * self.receipt_bytes

    @property
    def mic_at(self) -> int:
        """Where the data ends, and the MIC begins if there is one."""
        return self.data_at + self.data_bytes

    @property
    def length(self) -> int:
        """Bytes of the longest payload."""
        return self.mic_at + self.mic

    @property
    def bundle_bytes(self) -> int:
        """Bytes of two messages in one frame (`messages.parts_of`); 0 where that is not done."""
        both = 2 * self.length
        fit = both <= self.limit and len(self.items_in) == 1
        return both if self.schedule and fit else 0

    @cached_property
    def items_in(self) -> dict[int, int]:
        """The number of the stamp's items by the payload's length; any other length is refused."""
        rest = self.length - self.stamp.size
        return {rest + size: items for size, items in self.stamp.items_in.items()}

    def with_items(self, items: int) -> DataLayout:
        """The layout of a payload whose stamp has this many items."""
        return replace(self, stamp=replace(self.stamp, least=items, most=items))

    def tail(self, record: type[Record]) -> int:
        """Bytes behind a record, only with a schedule: the list in a beacon, the duty in a health, where they fit."""
        if record is Beacon:
            return self.repair
        return int(record is Health and self.schedule is not None and size(Health) < self.limit)

    def record_bytes(self, record: type[Record]) -> int:
        """Bytes of a record in this network, with its MIC and its tail."""
        return size(record, self.mic) + self.tail(record)

    @property
    def left(self) -> int:
        """Payload bytes still free."""
        return self.limit - self.length

    @property
    def canonical(self) -> str:
        """Everything that decides how a data frame is read, in one line, from which `hash` is computed.

        Of a value it has what the firmware is built from. Only the base station uses scale, offset and unit: after
        a calibration the motes need no other image.
        """
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
        if stamp.is_variable or {name for name, _ in stamp.head} - {"clock", "c"}:
            parts |= {"head": _widths(stamp.head), "item": _widths(stamp.item), "least": stamp.least}
        if self.values:
            parts["values"] = ",".join(f"{value.name}:{value.type}:{value.sensor}" for value in self.values)
        if self.mic:
            parts |= {"mic": self.mic, "rounds": ROUND_BITS}  # that MICs cover
        if self.schedule:
            parts |= {"schedule": self.schedule.text, "age": 1}
        if self.repair:
            parts["repair"] = self.repair
        return "causeway-1 " + " ".join(f"{key}={value}" for key, value in parts.items())

    @cached_property
    def hash(self) -> int:
        return zlib.crc32(self.canonical.encode("ascii"))

    @property
    def am_type(self) -> int:
        return 0x80 | self.hash & 0x7F

    @property
    def lead(self) -> int:
        """How many ticks the clock in a stamp may be ahead of its receiver's clock."""
        stamp = self.stamp
        return descriptor(stamp.scheme).lead_ticks(self.epsilon, self.delta, stamp.modulus, stamp.carry)


def _widths(fields: Fields) -> str:
    return ",".join(f"{name}:{bits}" for name, bits in fields)


def layout_of(deployment: Deployment) -> DataLayout:
    """The data layout of a deployment; `LayoutError` if it does not fit the payload."""
    network, clock, stamp = deployment.network, deployment.clock, deployment.stamp
    taken = {key: getattr(stamp, key) or None for key in deployment.scheme.settings}
    layout = DataLayout(
        tinyos=network.tinyos,
        group=network.group,
        source_bytes=source_bytes(network.motes),
        stamp=stamp_layout(
            scheme=stamp.scheme,
            epsilon=clock.epsilon,
            delta=clock.delta,
            motes=network.motes,
            events_per_tick=stamp.events_per_tick,
            clock_bits=clock.clock_bits,
            **taken,
        ),
        receipts=stamp.receipts,
        data_bytes=network.data_bytes,
        epsilon=clock.epsilon,
        delta=clock.delta,
        tick_log2=clock.tick_log2,
        values=deployment.data,
        mic=deployment.security.mic,
        schedule=deployment.schedule,
        repair=_repair_bytes(deployment),
    )
    if layout.left < 0:
        raise LayoutError("data" if layout.values else "data_bytes", layout.data_bytes, _too_long(layout))
    return layout


def _repair_bytes(deployment: Deployment) -> int:
    schedule, network = deployment.schedule, deployment.network
    if schedule is None or not deployment.radio.repair:
        return 0
    return repair_bytes(schedule, network.motes, network.tinyos)


def repair_bytes(schedule: Schedule, motes: int, tinyos: int) -> int:
    """Bytes of the list behind a beacon by which motes send again what the gateway missed; 0: it does not fit."""
    return schedule.repair_bytes(motes, PAYLOAD_LIMIT[tinyos] - size(Beacon))


def why_no_repair(schedule: Schedule, tinyos: int) -> str:
    """The reason to show where the list does not fit."""
    most = 8 * (PAYLOAD_LIMIT[tinyos] - size(Beacon)) // schedule.repair_bits
    return f"at a period of {schedule.period_ms // 1000} s a beacon has room for a list of {most} motes"


def _too_long(layout: DataLayout) -> str:
    over, limit, stamp = -layout.left, layout.limit, layout.stamp
    cuts = []
    if layout.data_bytes >= over and not layout.values:
        cuts.append(f"data_bytes = {layout.data_bytes - over}")
    slots = -(-over // layout.receipt_bytes)
    if slots <= layout.receipts:
        cuts.append(f"receipts = {layout.receipts - slots}")
    if "entries" in descriptor(stamp.scheme).settings:
        each = stamp.bits_of(1) - stamp.bits_of(0)
        entries = stamp.most - -(-over * 8 // each)
        if entries >= 1:
            cuts.append(f"entries = {entries}")
    if stamp.packing == "bytes":
        cuts.append('packing = "bits"')
    if not cuts:
        cuts.append(f'scheme = "{SMALLEST}", the smallest')
    ways = f"set {', or '.join(cuts)}"
    if layout.data_bytes >= over and layout.values:
        ways = f"give the values of [[data]] {over} bytes less, or {ways}"
    receipts = layout.data_at - layout.receipts_at
    mic = f", MIC {layout.mic}" if layout.mic else ""
    return (
        f"the payload would be {layout.length} bytes, {over} over the {limit} of TinyOS {layout.tinyos} "
        f"(header {layout.stamp_at}, stamp {stamp.size}, receipts {receipts}, data {layout.data_bytes}{mic}); "
        f"to make it fit, {ways}"
    )
