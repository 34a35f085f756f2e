"""Calls avrdude for a mote on a programming board, and turns its messages into advice. Standard library only."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from glob import glob
from pathlib import Path

# Boards that speak avrdude's mib510: over RS-232, over USB (the first of its two ttys), over Ethernet.
PROGRAMMERS = ("mib510", "mib520", "mib600")
NET_PORT = 10001
PART = "m128"
BAUD = 115200
TIMEOUT_S = 180

# ATmega103 mode off, JTAG off. The low fuse has the brown-out detector in its upper two bits, the clock source in the
# others: a wrong one there leaves a mote that no programming board can reach, so the fuse is read before it is written.
FUSES = ("hfuse:w:0xD9:m", "efuse:w:0xFF:m")
READ_LOW_FUSE = ("lfuse:r:-:h", "lfuse:r:-:h")  # twice, against a bad line
BODLEVEL, BODEN = 0x80, 0x40  # 1: 2.7 V; 0: detector on
FUSES_VARIABLE = "CAUSEWAY_FUSES"
FUSES_QUESTION = """\
This writes hfuse D9 and efuse FF to the mote on the programming board (ATmega103 mode and JTAG off) and switches its
brown-out detector on at 2.7 V in the low fuse (the clock source there stays as it is). Once in a mote's life is enough.
Type yes to go on: """

# What avrdude says, and what it means on a mote. The first match counts.
ADVICE = (
    (
        r"permission denied",
        "No permission to open the port: `sudo usermod -aG dialout $USER`, then log in again.",
    ),
    (
        r"(device or resource busy|resource temporarily unavailable)",
        "Another program holds the port: stop the base station or terminal that uses it.",
    ),
    (
        r"(no such file or directory|cannot open port|can't open device|not found|refused)",
        "The port cannot be opened: is the programming board plugged in? `ls /dev/ttyUSB*` lists the ports.",
    ),
    (
        r"(not in sync|get into sync|getsync|not responding|timeout|programmer is not)",
        "The programming board does not answer: on a MIB520 take the first of its two ttys; on a MIB510 check its\n"
        "supply, and set SW2 to ON while programming (it cuts off the mote's own serial output).",
    ),
    (
        r"signature = 0x(000000|ffffff)|initialization failed|program enable|not connected",
        "The board answers but the mote does not: press it firmly onto the 51-pin connector. The board powers it, so\n"
        "switch the mote itself off.",
    ),
    (
        r"(expected signature|wrong microcontroller|invalid device signature)",
        "The chip is not an ATmega128: is this a MICAz or MICA2? An IRIS, for one, has an ATmega1281.",
    ),
    (
        r"(verification (error|mismatch)|content mismatch)",
        "What was written reads back wrong: a weak supply or a loose connector. Try again.",
    ),
)


class ProgrammingError(Exception):
    """A mote was not programmed: what went wrong and what to do."""


def write_flash(image: str) -> str:
    return f"flash:w:{image}:i"


def port_of(port: str, programmer: str) -> str:
    """The port as avrdude wants it; for a MIB600 the host name is enough."""
    if not port:
        raise ProgrammingError(f"which port? Give --upload-port (or --port). {_ports_here()}")
    if programmer == "mib600" and not port.startswith("net:"):
        return f"net:{port}" if ":" in port else f"net:{port}:{NET_PORT}"
    return port


def _ports_here() -> str:
    ports = sorted([*glob("/dev/ttyUSB*"), *glob("/dev/cu.usbserial*")])
    if not ports:
        return "This machine has no USB serial port."
    return f"This machine has {', '.join(ports)}. A MIB520 has two: use the first."


def command(
    port: str, operations: Sequence[str], *, programmer: str = "mib510", config: Path | None = None
) -> list[str]:
    """The avrdude command that does these -U operations. Writing verifies by itself."""
    if programmer not in PROGRAMMERS:
        raise ProgrammingError(f"{programmer!r} is no programming board; known: {', '.join(PROGRAMMERS)}")
    program = shutil.which("avrdude")
    if program is None:
        raise ProgrammingError("avrdude is not on PATH (Debian: apt install avrdude)")
    words = [program, *(["-C", str(config)] if config else []), "-q"]
    words += ["-c", "mib510", "-p", PART, "-P", port_of(port, programmer), "-b", str(BAUD)]
    for operation in operations:
        words += ["-U", operation]
    return words


def shown(words: Sequence[str]) -> str:
    return shlex.join(["avrdude", *words[1:]])


def run(words: Sequence[str], timeout: float = TIMEOUT_S) -> str:
    """Run a command and return its output; ProgrammingError holds its last lines and advice. It ends by `timeout`."""
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        raise ProgrammingError(f"avrdude did not end within {timeout:g} s. {advice('timeout')}") from None
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        raise ProgrammingError(explain(said, process.returncode))
    return said


def write_low_fuse(said: str) -> str:
    """The operation that switches the brown-out detector on, from what READ_LOW_FUSE printed."""
    found = [int(value, 16) for value in re.findall(r"^\s*(0x[0-9a-f]{1,2})\s*$", said, re.I | re.M)]
    if len(found) != len(READ_LOW_FUSE) or len(set(found)) != 1:
        raise ProgrammingError(
            f"the low fuse does not read the same twice, so no fuse was written:\n{said.strip()}"
        )
    return f"lfuse:w:{(found[0] | BODLEVEL) & ~BODEN:#04X}:m".replace("0X", "0x")


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def explain(said: str, code: int) -> str:
    """The important lines of avrdude's output, and what to do."""
    lines = [
        line.strip() for line in said.splitlines() if re.search(r"error|warning|fail|cannot", line, re.I)
    ]
    lines = lines or [line.strip() for line in said.splitlines() if line.strip()][-3:]
    text = "\n".join(f"  {line}" for line in lines[:6])
    hint = advice(said)
    return f"avrdude ended with {code}:\n{text}" + (f"\n{hint}" if hint else "")


def advice(said: str) -> str:
    for pattern, hint in ADVICE:
        if re.search(pattern, said, re.I):
            return hint
    return ""


def confirm_fuses() -> None:
    """Ask whether to write the fuses; ProgrammingError if not."""
    if os.environ.get(FUSES_VARIABLE) == "yes":
        return
    try:
        with open("/dev/tty", "w") as screen, open("/dev/tty") as keys:
            screen.write(FUSES_QUESTION)
            screen.flush()
            answer = keys.readline().strip()
    except OSError:
        raise ProgrammingError(
            f"no terminal to ask on, so the fuses were not written; {FUSES_VARIABLE}=yes writes them without asking"
        ) from None
    if answer != "yes":
        raise ProgrammingError("the fuses were not written")
