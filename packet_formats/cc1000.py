"""The CC1000's bands and the registers that tune it to each. Standard library only.

From the chip's data sheet (SWRS048). With f_ref = crystal / REFDIV, a frequency word stands for
f_ref * (word + 8192) / 16384.

- Receiving, by word A, the local oscillator is one intermediate frequency above the channel.
- Sending, by word B, a 0 is the word's own frequency and a 1 is FSEP above it, so word B is half the separation below
  the channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CRYSTAL_HZ = 14_745_600
IF_KHZ = 150
SEPARATION_KHZ = 64


@dataclass(frozen=True, slots=True)
class Tuning:
    """A channel by its local oscillator: in halves of f_ref, which leaves its word without a fraction."""

    refdiv: int
    halves: int

    @property
    def carrier_khz(self) -> int:
        return round(CRYSTAL_HZ * self.halves / (2 * self.refdiv) / 1000) - IF_KHZ

    @property
    def freq_a(self) -> int:
        return (self.halves - 1) * 8192

    @property
    def freq_b(self) -> int:
        return self.freq_a + self._words(-IF_KHZ - SEPARATION_KHZ // 2)

    @property
    def fsep(self) -> int:
        return self._words(SEPARATION_KHZ)

    def _words(self, khz: int) -> int:
        """A frequency in kHz as steps of a frequency word, rounded down."""
        return khz * 1000 * self.refdiv * 16384 // CRYSTAL_HZ


@dataclass(frozen=True, slots=True)
class Band:
    """A CC1000's registers for a band, which also depend on the antenna and the parts of its board."""

    tuning: Mapping[int, Tuning]  # by TinyOS version
    current_receive: int  # of VCO and its drivers
    current_transmit: int
    front_end: int  # buffer and amplifier current; the RSSI pin shows the signal's strength
    match: int  # the receiver's matching capacitors
    pa_pow: int  # 0 dBm
    rssi_tenths: int  # received dBm = -rssi_tenths / 10 * volts - rssi_at_0
    rssi_at_0: int


def _low(*tuning: Tuning) -> Band:
    return Band(dict(zip((1, 2), tuning, strict=True)), 0x44, 0x81, 0x02, 0x70, 0x0F, 513, 49)


def _high(*tuning: Tuning) -> Band:
    return Band(dict(zip((1, 2), tuning, strict=True)), 0x8C, 0xF3, 0x32, 0x10, 0x80, 500, 46)


_315, _868, _916 = Tuning(13, 556), Tuning(9, 1060), Tuning(6, 744)
# By MHz, as motes are sold. Carriers are TinyOS's own, but at 868 MHz, where it has none: there the channel is in the
# middle of 868.0 to 868.6 MHz.
BANDS = {
    315: _low(_315, _315),
    433: _low(Tuning(12, 705), Tuning(11, 649)),
    868: _high(_868, _868),
    916: _high(_916, _916),
}
DEFAULT_BAND = 433
