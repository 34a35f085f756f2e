"""The serial ports of this machine: what they are likely to be, and why one can't be opened."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from serial.tools import list_ports

# Programming boards and adapters by USB id; tools/udev has the same.
DUAL = "0403:6010"
BOARDS = {
    DUAL: "MIB520, or another board with FTDI's dual UART",
    "0403:6001": "MIB510 behind an FTDI adapter",
    "067b:2303": "MIB510 behind a Prolific adapter",
    "10c4:ea60": "MIB510 behind a Silicon Labs adapter",
    "1a86:7523": "MIB510 behind a CH340 adapter",
}
HOLDERS_SHOWN = 3
SURE, LIKELY, POSSIBLE, UNLIKELY = 3, 2, 1, 0


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a USB port, wherever it is plugged in. A board with two UARTs has one serial number for both."""

    usb: str
    serial_number: str
    interface: str


@dataclass(frozen=True, slots=True)
class SerialPort:
    device: str
    description: str = ""
    usb: str | None = None  # vendor:product, in hex
    serial_number: str | None = None
    interface: str = ""  # of a USB device with several, as in 1.1

    @property
    def identity(self) -> Identity | None:
        if self.usb is None or not self.serial_number:
            return None
        return Identity(self.usb, self.serial_number, self.interface)

    @property
    def board(self) -> str:
        """The likely kind of board; empty if unknown."""
        if self.usb == DUAL and self.interface:
            half = "the mote's serial line" if self._second_half else "its programmer"
            return f"{BOARDS[DUAL]}: {half}"
        if self.usb is None:
            return "a built-in port; name it if a MIB510 is on it" if self._built_in else ""
        return BOARDS.get(self.usb, "")

    @property
    def rank(self) -> int:
        """A number that is higher the more likely this is a gateway's port."""
        if self.usb == DUAL and self.interface:
            return SURE if self._second_half else UNLIKELY
        if self.usb in BOARDS:
            return LIKELY
        return POSSIBLE if self._built_in else UNLIKELY

    @property
    def _second_half(self) -> bool:
        return self.interface.endswith(".1")

    @property
    def _built_in(self) -> bool:
        return self.usb is None and Path(self.device).name.startswith(("ttyS", "ttyAMA"))


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why a port can't be opened: a word, and a sentence with its cure."""

    kind: str  # gone, permission, busy, failed
    text: str


def attached() -> list[SerialPort]:
    """All serial ports of this machine."""
    return [
        SerialPort(
            device=found.device,
            description=found.description if found.description not in (None, "n/a") else "",
            usb=None if found.vid is None else f"{found.vid:04x}:{found.pid:04x}",
            serial_number=found.serial_number or None,
            interface=(found.location or "").partition(":")[2],
        )
        for found in sorted(list_ports.comports())
    ]


def identity_of(device: str) -> Identity | None:
    """The USB identity of a port; its name may be a link, as in /dev/serial/by-id."""
    real = os.path.realpath(device)
    return next((port.identity for port in attached() if os.path.realpath(port.device) == real), None)


def device_of(identity: Identity) -> str | None:
    """The device name that this USB port has now."""
    return next((port.device for port in attached() if port.identity == identity), None)


def candidates(ports: Iterable[SerialPort]) -> list[SerialPort]:
    """The ports that are most likely a gateway's; a single one if it is clear which.

    Built-in ports do not count: nearly every machine has one with nothing on it.
    """
    likely = [port for port in ports if port.rank > POSSIBLE]
    best = max((port.rank for port in likely), default=UNLIKELY)
    return [port for port in likely if port.rank == best]


def trouble_with(device: str) -> Trouble | None:
    """Try to open a port for a moment; the reason if that fails."""
    if holders := holders_of(device):
        return _busy(device, holders)
    try:
        port = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        return explain(device, error)
    try:
        if not os.isatty(port):
            return explain(device, OSError(errno.ENOTTY, os.strerror(errno.ENOTTY)))
        fcntl.flock(port, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return explain(device, error)
    finally:
        os.close(port)
    return None


def explain(device: str, error: OSError) -> Trouble:
    """Explain an error on opening a port, with its cure."""
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return Trouble("gone", f"{device} is not there: plug it in, or see what is with `basestation ports`")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Trouble("permission", _permission(device))
    if error.errno in (errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK):
        return _busy(device, holders_of(device))
    if error.errno in (errno.ENOTTY, errno.EISDIR):
        return Trouble("failed", f"{device} is no serial port; `basestation ports` shows what is attached")
    return Trouble("failed", f"{device}: {error.strerror or error}")


def holders_of(device: str) -> list[str]:
    """The name and process id of other programs that have the port open, as far as we may see."""
    real, found = os.path.realpath(device), []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if folder.parent.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):
            if any(os.readlink(entry) == real for entry in folder.iterdir()):
                name = (folder.parent / "comm").read_text().strip()
                found.append(f"{name} (process {folder.parent.name})")
    return found


def _busy(device: str, holders: list[str]) -> Trouble:
    others = [f"{len(holders) - HOLDERS_SHOWN} more"] if len(holders) > HOLDERS_SHOWN else []
    who = " and ".join(holders[:HOLDERS_SHOWN] + others) or "another program"
    return Trouble("busy", f"{device} is in use by {who}: stop it, or let it serve (sf@, `--serve`)")


def _permission(device: str) -> str:
    try:
        status = os.stat(device)
        group = grp.getgrgid(status.st_gid)
    except (OSError, KeyError):
        return f"{device}: no permission"
    if not status.st_mode & 0o060 or group.gr_name == "root":
        return f"{device}: no permission, not even by a group: install the udev rules (docs/reference/sources.md)"
    user = pwd.getpwuid(os.getuid()).pw_name
    if user in group.gr_mem:
        return f"{device}: no permission yet: you have been added to the group {group.gr_name}; log out and in again"
    cure = f"sudo usermod -aG {group.gr_name} {user}, then log out and in again"
    return f"{device}: no permission: you are not in the group {group.gr_name}: {cure}"
