"""Stamps whose full counter has little room to carry into the clock, so that they are saturated earlier."""

from __future__ import annotations

from dataclasses import dataclass

from packet_formats.layout import StampLayout, stamp_layout
from packet_formats.schemes import LayoutError, descriptor


@dataclass(frozen=True, slots=True)
class ShortOfRoom:
    """A stamp with room to carry for `room` of `epsilon` ticks.

    `wider` is the same stamp with room for all; None if no field is that wide.
    """

    layout: StampLayout
    epsilon: int
    room: int
    wider: StampLayout | None

    @property
    def text(self) -> str:
        cause = f"B = {self.layout.modulus} leaves" if self.layout.carry == "sum" else "r and c apart leave"
        return (
            f"{cause} a full counter {self.room} of epsilon = {self.epsilon} ticks to carry into the clock, so in a "
            "busy network stamps are saturated earlier, and saturated stamps may tie"
        )

    @property
    def grows(self) -> bool:
        """Whether room for all would cost a byte."""
        return self.wider is not None and self.wider.size > self.layout.size

    @property
    def cure(self) -> str:
        if self.wider is None:
            return "a longer tick would leave more"
        apart = 'carry = "sum" in [stamp]' if self.layout.carry != "sum" else ""
        narrow = self.wider.clock_bits > self.layout.clock_bits
        bits = f"clock_bits = {self.wider.clock_bits} in [clock]" if narrow else ""
        return f"{' and '.join(filter(None, (apart, bits)))} would leave all of them"


def short_of_room(layout: StampLayout, epsilon: int, delta: int) -> ShortOfRoom | None:
    """None: a full counter may carry all of epsilon, or the scheme's counter never carries."""
    row = descriptor(layout.scheme)
    room = row.lead_ticks(epsilon, delta, layout.modulus, layout.carry) - epsilon
    if not row.carries or room >= epsilon:
        return None
    return ShortOfRoom(layout, epsilon, room, _wider(layout, epsilon, delta))


def _wider(layout: StampLayout, epsilon: int, delta: int) -> StampLayout | None:
    clock_bits = max(layout.clock_bits, (delta + 3 * epsilon).bit_length())
    kept = {"epsilon": epsilon, "delta": delta, "motes": 1, "counter_bits": layout.entry_bits}
    try:
        return stamp_layout(layout.scheme, **kept, carry="sum", clock_bits=clock_bits)
    except LayoutError:
        return None
