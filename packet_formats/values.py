"""Values with names: the meaning of a message's application bytes, from [[data]]. Standard library only.

The bytes hold one integer for each value, in the order of the deployment and in the payload's byte order. People see
`raw * scale + offset` and the unit.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packet_formats.layout import DataLayout

TYPES = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i"}  # and the letter of `struct`
READING_BITS = 10  # of the ATmega128's converter
NO_READING = 0xFFFF  # NODE_NO_READING of firmware/net/node.h: the sensor did not answer
MOST = 1e12  # of scale and offset
_PLACES = 9  # decimals to which a value is rounded; a finer scale is left as it comes

SENSOR_BOARDS = ("mts300", "mts310", "mda100")


@dataclass(frozen=True, slots=True)
class Sensor:
    """A sensor that the firmware can read: SENSOR_NAME of firmware/hal/sensor.h."""

    name: str
    boards: tuple[str, ...]  # sensor boards that have it; none: the mote itself has it
    unit: str = "adc"  # of a reading without a scale


SENSORS = {
    sensor.name: sensor
    for sensor in (
        Sensor("light", ("mts300", "mts310", "mda100")),
        Sensor("temperature", ("mts300", "mts310", "mda100")),
        Sensor("microphone", ("mts300", "mts310")),
        Sensor("accel_x", ("mts310",)),
        Sensor("accel_y", ("mts310",)),
        Sensor("mag_x", ("mts310",)),
        Sensor("mag_y", ("mts310",)),
        Sensor("battery", ()),
    )
}

# A value's name is a member of a C struct: no word of C and C++, no macro of compilers and the C library, and none of
# the members' types, which C++ would then take for the member.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
    consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum errno explicit
    export extern false float for friend goto if inline int int16_t int32_t int8_t linux long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename typeof uint16_t uint32_t uint8_t union unix unsigned using virtual void volatile wchar_t
    while xor xor_eq
"""
RESERVED = frozenset(_WORDS.split())


@dataclass(frozen=True)
class Value:
    """One value of each message. Whole numbers of `scale` and `offset` are `int`, so that they look like it."""

    name: str
    type: str
    scale: float = 1
    offset: float = 0
    unit: str = ""
    sensor: str = ""  # which the firmware reads; empty: the application sets the value

    @property
    def size(self) -> int:
        return struct.calcsize("=" + TYPES[self.type])

    @property
    def raw_range(self) -> range:
        bits = 8 * self.size
        return range(1 << bits) if self.type[0] == "u" else range(-1 << bits - 1, 1 << bits - 1)

    @property
    def no_reading(self) -> int | None:
        """The raw integer for a missing reading; None: the value does not come from a sensor."""
        if not self.sensor:
            return None
        return NO_READING if NO_READING in self.raw_range else NO_READING - (1 << 8 * self.size)

    @cached_property
    def tens(self) -> float | None:
        """The factor to round off the noise of binary fractions: 10 for a scale of 0.1. None: the scale is too fine."""
        places = max(_decimals(self.scale), _decimals(self.offset))
        return 10.0**places if places <= _PLACES else None

    def shown(self, raw: int) -> float | None:
        """The value of a raw integer; None: the reading is missing. `bulk.decode_values` does the same arithmetic."""
        return None if raw == self.no_reading else self.scaled(raw)

    def scaled(self, raw: int) -> float:
        value = float(raw) * self.scale + self.offset
        return self.number(value if self.tens is None else round(value * self.tens) / self.tens)

    def number(self, shown: float) -> float:
        """A value as people write it: whole where all are."""
        return int(shown) if self.tens == 1 else shown

    def raw(self, shown: float | None) -> int:
        """The raw integer whose value is nearest."""
        if shown is None:
            if self.no_reading is None:
                raise ValueError(f"{self.name} = null: only a sensor may have no reading")
            return self.no_reading
        return round((shown - self.offset) / self.scale)

    @cached_property
    def _decimals(self) -> int:
        """Decimals in texts: those of the numbers given, but at most two digits of one step."""
        places = max(_decimals(self.scale), _decimals(self.offset))
        return min(places, max(0, 1 - floor(log10(abs(self.scale)))))

    def digits(self, shown: float) -> str:
        """The value in a text, with as many decimals as mean something."""
        return f"{shown:.{self._decimals}f}"

    def text(self, raw: int) -> str:
        """`light 412 lx`."""
        shown = self.shown(raw)
        return f"{self.name} " + (
            "no reading" if shown is None else f"{self.digits(shown)} {self.unit}".rstrip()
        )

    @property
    def column(self) -> str:
        """The heading of a column: `light [lx]`."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


def _decimals(number: float) -> int:
    """How many decimals a number is written with."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)  # it is finite
    return max(0, -exponent)


def _struct(layout: DataLayout) -> struct.Struct:
    order = "<" if layout.byteorder == "little" else ">"
    return struct.Struct(order + "".join(TYPES[value.type] for value in layout.values))


def raw_values(layout: DataLayout, data: bytes) -> tuple[int, ...]:
    """The integers in a message's data."""
    return _struct(layout).unpack(data)


def values_in(layout: DataLayout, data: bytes) -> dict[str, float | None]:
    """The values by name; none if the deployment names none."""
    pairs = zip(layout.values, raw_values(layout, data), strict=True) if layout.values else ()
    return {value.name: value.shown(raw) for value, raw in pairs}


def data_text(layout: DataLayout, data: bytes) -> str:
    """A message's data for people: `light 412 lx, count 7`, or hex if the deployment names no values."""
    if not layout.values:
        return data.hex()
    pairs = zip(layout.values, raw_values(layout, data), strict=True)
    return ", ".join(value.text(raw) for value, raw in pairs)


def data_of(layout: DataLayout, shown: Mapping[str, float | None]) -> bytes:
    """The data with these values; `ValueError` names one that is missing, unknown or outside its range."""
    names = [value.name for value in layout.values]
    if set(shown) != set(names):
        raise ValueError(
            f"values must be an object with {', '.join(names) or 'nothing: there is no [[data]]'}"
        )
    raws = []
    for value in layout.values:
        raw, span = value.raw(shown[value.name]), value.raw_range
        if raw not in span:
            ends = sorted((value.scaled(span.start), value.scaled(span.stop - 1)))
            raise ValueError(f"{value.name} = {shown[value.name]} is outside {ends[0]}..{ends[1]}")
        raws.append(raw)
    return _struct(layout).pack(*raws)
