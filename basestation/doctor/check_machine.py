"""Checks of this machine: packages and tools, ports, and room on the disk.

A missing tool that only some users need (a compiler, Java) is a warning.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from basestation import how_to_install
from basestation.doctor.findings import Finding, failure, good, warning
from basestation.sources import SourceError, attached_ports
from basestation.sources.source_choice import choose

PATIENCE = 20.0  # seconds for a tool to print its version
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17  # for Spark 4
DISTRIBUTION = {"serial": "pyserial"}  # modules with another name than their package
RULES = "70-causeway.rules"
RULES_FOLDERS = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d")
DAY_BYTES = 2e9  # of log in a day, if the line is never idle
LEAST_ROOM, LITTLE_ROOM = 200e6, 2e9
LEAST_COLUMNS, LEAST_LINES = 80, 24
WRITTEN = 1_735_689_600  # 2025-01-01: a clock before this is wrong


def run(*words: str, stdin: str = "") -> tuple[int, str]:
    """Run a tool, and return its exit code and its output; 127 if it is not installed."""
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        return 127, ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return 126, str(error)
    return done.returncode, done.stdout


def _version(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else "of unknown version"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# ---- Python ----


def python() -> Finding:
    name = f"Python {platform.python_version()}"
    if sys.version_info < OLDEST_PYTHON:
        return failure("machine", "Python", name, "install Python 3.11 or later")
    return good("machine", "Python", f"{name}, {sys.executable}")


def packages(provided_by: Mapping[str, str]) -> Iterator[Finding]:
    """Check the Python packages. `provided_by` maps a module to its extra; modules of the core have none."""
    for extra in sorted(set(provided_by.values())):
        modules = [module for module, whose in provided_by.items() if whose == extra]
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        check = f"packages: {extra}" if extra else "packages"
        if not missing:
            yield good("machine", check, ", ".join(map(_installed, modules)))
            continue
        judge = warning if extra else failure
        yield judge("machine", check, f"missing: {', '.join(missing)}", how_to_install(extra))


def _installed(module: str) -> str:
    name = DISTRIBUTION.get(module, module)
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return name


# ---- Tools ----


def toolchain() -> Finding:
    code, said = run("avr-gcc", "--version")
    if code:
        return warning(
            "tools",
            "AVR compiler",
            "avr-gcc is missing: firmware can't be built here",
            "Debian: apt install gcc-avr avr-libc binutils-avr",
        )
    program = "#include <avr/io.h>\nint main(void) { return 0; }\n"
    code, trouble = run("avr-gcc", "-mmcu=atmega128", "-fsyntax-only", "-x", "c", "-", stdin=program)
    if code:
        cure = "Debian: apt install avr-libc"
        return warning("tools", "AVR compiler", f"does not compile: {_first_line(trouble)}", cure)
    return good("tools", "AVR compiler", f"avr-gcc {_version(_first_line(said))}")


def platformio() -> Finding:
    if importlib.util.find_spec("platformio") is None:
        text = "PlatformIO is missing: firmware can't be built here"
        return warning("tools", "PlatformIO", text, how_to_install("firmware"))
    return good("tools", "PlatformIO", _installed("platformio"))


def avrdude() -> Finding:
    code, said = run("avrdude", "-?")
    if code == 127:
        text = "avrdude is missing: motes can't be programmed from here"
        return warning("tools", "avrdude", text, "Debian: apt install avrdude")
    return good("tools", "avrdude", f"avrdude {_version(said)}")


def testbed() -> Finding:
    missing = [tool for tool in ("gcc", "make", "pkg-config") if shutil.which(tool) is None]
    if "pkg-config" not in missing:
        missing += [library for library in ("simavr", "libelf") if run("pkg-config", "--exists", library)[0]]
    if missing:
        text = f"emulated motes need {', '.join(missing)}"
        return warning(
            "tools", "testbed", text, "Debian: apt install gcc make pkg-config libsimavr-dev libelf-dev"
        )
    return good(
        "tools", "testbed", f"simavr {run('pkg-config', '--modversion', 'simavr')[1].strip()}, gcc, make"
    )


def java() -> Finding:
    code, said = run("java", "-version")
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if code or found is None:
        text = "Java is missing: the Spark jobs can't run here"
        return warning("tools", "Java", text, f"Debian: apt install openjdk-{OLDEST_JAVA}-jre-headless")
    major = int(found[2] if found[1] == "1" and found[2] else found[1])
    if major < OLDEST_JAVA:
        text = f"Java {major}: Spark 4 needs {OLDEST_JAVA} or later"
        return warning("tools", "Java", text, f"Debian: apt install openjdk-{OLDEST_JAVA}-jre-headless")
    return good("tools", "Java", f"Java {major}")


# ---- Ports ----


def serial_ports() -> Iterator[Finding]:
    found = sorted(attached_ports.attached(), key=lambda port: (-port.rank, port.device))
    if not found:
        yield warning("ports", "serial ports", "none is attached", "plug the gateway in with a data cable")
    for port in found:
        trouble = attached_ports.trouble_with(port.device)
        what = port.board or port.description or "unknown device"
        if trouble is None:
            yield good("ports", port.device, what)
        elif port.rank <= attached_ports.POSSIBLE or trouble.kind == "busy":
            yield warning("ports", port.device, f"{what}: can't be opened", trouble.text)
        else:
            yield failure("ports", port.device, f"{what}: can't be opened", trouble.text)


def source(deployed: Sequence[str], environ: Mapping[str, str], given: Sequence[str] = ()) -> Finding:
    """Check which source `listen` would use without an argument, unless some are given here."""
    if given:
        return good("ports", "source", f"given: {', '.join(given)}")
    try:
        chosen = choose((), environ, deployed)
    except SourceError as error:
        return warning("ports", "source", "listen needs a source as argument", str(error))
    return good("ports", "source", f"by default: {chosen.why}")


def udev_rules(folders: Sequence[str] = RULES_FOLDERS) -> Finding:
    ours = Path(__file__).resolve().parents[2] / "tools" / "udev" / RULES
    cure = f"sudo cp tools/udev/{RULES} /etc/udev/rules.d/ (docs/reference/sources.md)"
    installed = next((path for path in (Path(folder) / RULES for folder in folders) if path.exists()), None)
    if installed is None:
        return warning("ports", "udev rules", "not installed: ports have no permanent names", cure)
    if ours.exists() and installed.read_bytes() != ours.read_bytes():
        return warning("ports", "udev rules", f"{installed} belongs to another version", cure)
    return good("ports", "udev rules", str(installed))


# ---- Room, terminal, clock ----


def disk(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    text = f"{free / 1e9:.1f} GB free for logs in {folder}, {free / DAY_BYTES:.1f} days of a line that is never idle"
    if not os.access(there, os.W_OK):
        return failure("machine", "disk", f"{there} can't be written to", "choose another folder with --log")
    if free < LEAST_ROOM:
        return failure("machine", "disk", text, "make room, or choose another folder with --log")
    if free < LITTLE_ROOM:
        return warning("machine", "disk", text, "make room, or choose another folder with --log")
    return good("machine", "disk", text)


def terminal(environ: Mapping[str, str]) -> Finding:
    if not sys.stdout.isatty():
        cure = "--view terminal needs one; --view lines and --json work without"
        return warning("machine", "terminal", "the output is not a terminal", cure)
    size = shutil.get_terminal_size()
    name, encoding = environ.get("TERM", ""), (sys.stdout.encoding or "").lower()
    text = f"{name or 'no TERM'}, {size.columns} x {size.lines}, {encoding}"
    if name in ("", "dumb"):
        return warning("machine", "terminal", text, "--view terminal needs a TERM such as xterm-256color")
    if encoding.replace("-", "") != "utf8":
        return warning("machine", "terminal", text, "export LANG=C.UTF-8, else tables look wrong")
    if size.columns < LEAST_COLUMNS or size.lines < LEAST_LINES:
        cure = f"make the window larger: --view terminal needs {LEAST_COLUMNS} x {LEAST_LINES}"
        return warning("machine", "terminal", text, cure)
    return good("machine", "terminal", text)


def clock(now: float | None = None) -> Finding:
    """Check the wall clock. It only dates the log; the order comes from the network's own time."""
    seconds = time.time() if now is None else now
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    if seconds < WRITTEN:
        return failure("machine", "clock", f"{shown} is in the past", "set the clock: it dates the log")
    code, said = run("timedatectl", "show", "-p", "NTPSynchronized", "--value")
    if code == 0 and said.strip() == "no":
        cure = "sudo timedatectl set-ntp true where there is a network, or compare it by hand"
        return warning("machine", "clock", f"{shown}, not synchronized", cure)
    return good("machine", "clock", f"{shown}{', synchronized' if said.strip() == 'yes' else ''}")


def examine(
    provided_by: Mapping[str, str],
    logs: Path,
    deployed: Sequence[str],
    environ: Mapping[str, str],
    given: Sequence[str] = (),
) -> Iterator[Finding]:
    yield python()
    yield from packages(provided_by)
    yield disk(logs)
    yield terminal(environ)
    yield clock()
    yield from (toolchain(), platformio(), avrdude(), testbed(), java())
    yield from serial_ports()
    yield source(deployed, environ, given)
    yield udev_rules()
