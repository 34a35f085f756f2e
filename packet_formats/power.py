"""The currents of a mote's parts, each with its source, and how long cells last: the one place for both.

The states are those that the testbed counts (docs/reference/testbed.md, `states`). Currents are in mA at 3 V.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packet_formats.boards import BOARDS

# Of two AA cells in series, assumed. A mote stops at 2.7 V (docs/guide/flashing.md, fuses), when alkaline cells still
# hold much of their charge; lithium cells (FR6) are nearly empty then.
CELLS_MAH = 2500
ASLEEP_MA = 0.030  # a whole board, processor in power-save, watchdog on, radio off: assumed


@dataclass(frozen=True, slots=True)
class Current:
    ma: float
    source: str


@dataclass(frozen=True, slots=True)
class Currents:
    """The currents of a board: of processor and radio by state, of a lit LED, of a supplied sensor, and always."""

    processor: Mapping[str, Current]
    radio: Mapping[str, Current]
    led: Current
    sensors: Mapping[str, Current]
    board: Current


def days(ma: float, mah: float = CELLS_MAH) -> float:
    """How long cells of this charge last at a mean current."""
    return mah / ma / 24


def shown_days(number: float) -> str:
    """Days for people: of a few the tenths count."""
    return f"{number:.1f}" if number < 10 else f"{number:.0f}"


# A mote with a schedule, by its duty: the processor's mean current for each share of time with the radio on (it also
# works before and after), and the wakes for the watchdog. From emulated motes (docs/figures/firmware.md).
_PROCESSOR_BY_DUTY_MA = {"CC2420": 8.8, "CC1000": 6.0}
_WATCHDOG_MA = 0.010


def days_at_duty(board: str, duty: float, band: int = 0) -> float:
    """How long two cells last in a mote with a schedule whose radio is on for this share of time."""
    radio_ma = currents(board, band).radio["receiving"].ma + _PROCESSOR_BY_DUTY_MA[BOARDS[board].radio.chip]
    return days(ASLEEP_MA + _WATCHDOG_MA + duty * radio_ma)


_MEASURED = "measured on a MICA2 at 7.37 MHz and 3 V: Shnayder et al., PowerTOSSIM, SenSys 2004"
_NOTHING = Current(0.0, "no supply")
_SLEEP = Current(0.008, "Crossbow, MPR/MIB manual, battery life table: processor asleep, 8 uA")

# The standby modes' are PowerTOSSIM's less what its board drew in power-save, for that is counted as the board's.
PROCESSOR: Mapping[str, Current] = {
    "active": Current(8.0, _MEASURED),
    "idle": Current(3.2, _MEASURED),
    "noise_reduction": Current(1.0, _MEASURED),
    "power_down": _SLEEP,
    "power_save": _SLEEP,
    "standby": Current(0.114, f"0.106 mA above power-save; {_MEASURED}"),
    "extended_standby": Current(0.121, f"0.113 mA above power-save; {_MEASURED}"),
    "starting": Current(3.2, "assumed as idle: the oscillator runs, the processor waits"),
    "off": _NOTHING,
}

_CC2420 = "data sheet SWRS041"
_CC1000 = "data sheet SWRS048"
_CC2420_RECEIVING = Current(
    19.7, "Chipcon's data sheet, and the MICAz's; TI's later edition, SWRS041, says 18.8 mA"
)

# Of the states between sleep and listening the sheets' figures were not looked up again; they decide a few uA.
RADIOS: Mapping[str, Mapping[str, Current]] = {
    "CC2420": {
        "off": Current(0.001, f"{_CC2420}: regulator off, at most"),
        "down": Current(0.020, f"{_CC2420}: power-down"),
        "starting": Current(0.426, f"{_CC2420}: idle, assumed while the crystal starts"),
        "idle": Current(0.426, f"{_CC2420}: idle"),
        "calibrating": Current(_CC2420_RECEIVING.ma, "assumed as receiving"),
        "receiving": _CC2420_RECEIVING,
        "sending": Current(17.4, f"{_CC2420}: 0 dBm"),
    },
    "CC1000": {
        "off": _NOTHING,
        "down": Current(0.0002, f"{_CC1000}: power-down"),
        "starting": Current(0.105, f"{_CC1000}: crystal of 14 to 16 MHz alone"),
        "idle": Current(0.860, f"{_CC1000}: crystal and bias"),
        "calibrating": Current(7.4, "assumed as receiving"),
        "receiving": Current(7.4, f"{_CC1000}: 433 MHz"),
        "sending": Current(10.4, f"{_CC1000}: 433 MHz, 0 dBm"),
    },
}

# Of a CC1000 above 500 MHz, where it differs.
_CC1000_HIGH: Mapping[str, Current] = {
    "calibrating": Current(9.6, "assumed as receiving"),
    "receiving": Current(9.6, f"{_CC1000}: 868 MHz"),
    "sending": Current(16.5, f"{_CC1000}: 868 MHz, 0 dBm"),
}
_HIGH_MHZ = 500

LED = Current(2.2, _MEASURED)

_WITH = "counted with the other axis: both have one supply"
SENSORS: Mapping[str, Current] = {
    "light": Current(0.3, "3 V over 10 kOhm and a photocell in full light"),
    "temperature": Current(0.15, "3 V over 10 kOhm and a thermistor of as much at 25 degrees"),
    "microphone": Current(0.7, f"the whole sensor board; {_MEASURED}"),
    "accel_x": Current(0.6, "ADXL202 data sheet (Analog Devices)"),
    "accel_y": Current(0.0, _WITH),
    "mag_x": Current(
        5.0, "Crossbow, MPR/MIB manual, battery life table: sensor board in full operation, 5 mA"
    ),
    "mag_y": Current(0.0, _WITH),
}

_LEAK = "assumed; boards were measured at 2 to 500 uA (tinyos-devel list, July 2006): measure yours"


def _board(radio: Mapping[str, Current], asleep_ma: float) -> Current:
    asleep = min(radio[state].ma for state in ("off", "down") if radio[state] is not _NOTHING)
    rest = asleep_ma - PROCESSOR["power_save"].ma - asleep
    return Current(
        max(0.0, round(rest, 6)), f"the rest of {1000 * asleep_ma:g} uA for a board asleep: {_LEAK}"
    )


def currents(board: str, band: int | None = None, asleep_ma: float = ASLEEP_MA) -> Currents:
    """The currents of a board of ours; `band` is the MHz of a MICA2, if not its usual one."""
    chip = BOARDS[board].radio.chip
    radio = RADIOS[chip]
    if (band or BOARDS[board].default_band) > _HIGH_MHZ:
        radio = {**radio, **_CC1000_HIGH}
    return Currents(PROCESSOR, radio, LED, SENSORS, _board(radio, asleep_ma))
