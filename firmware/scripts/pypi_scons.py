"""Gives PlatformIO its `tool-scons` from PyPI's scons, so that its registry is not needed.

PlatformIO builds with SCons and wants it as a package of its registry. A folder that leads to the same version from
PyPI will do: the one installed beside PlatformIO (`pip install platformio==6.2.0 scons==4.11.1`) or, if PlatformIO is
installed alone, one that pip fetches into that folder by the hash in requirements.lock. If neither is available, or if
PlatformIO wants another SCons, it asks its registry as usual. The platforms in firmware/platforms call provide() before
PlatformIO looks for the package.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NAME = "tool-scons"
LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
START = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("lib")))
from SCons.Script.Main import main

sys.exit(main())
"""


def provide(packages_dir: str | Path) -> bool:
    """Put the package in place unless a good one is there; return False if the registry must be asked."""
    folder = Path(packages_dir) / NAME
    installed = _installed()
    if _is_ours(folder) and not ((folder / "lib").exists() or installed):
        shutil.rmtree(folder)  # it leads to the SCons of another environment
    if (folder / "package.json").exists():
        return True
    if installed is not None and _is_wanted(installed):
        _write(folder, installed)
        return True
    return _fetch(folder)


def _installed() -> str | None:
    try:
        return version("scons")
    except PackageNotFoundError:
        return None


def _is_ours(folder: Path) -> bool:
    start = folder / "scons.py"
    return start.exists() and start.read_text(encoding="utf-8") == START


def _is_wanted(number: str) -> bool:
    import semantic_version
    from platformio.dependencies import get_core_dependencies

    wanted = semantic_version.SimpleSpec(get_core_dependencies()[NAME])
    return semantic_version.Version(registry_number(number)) in wanted


def registry_number(number: str) -> str:
    """The registry's number for a version of SCons: 4.11.1 is 4.41101.0."""
    major, minor, patch = (int(part) for part in number.split(".")[:3])
    return f"{major}.{major}{minor:02}{patch:02}.0"


def pin(lock: str) -> tuple[str, str] | None:
    """The lock's version of SCons, and its whole entry with the hashes."""
    entry = re.search(r"^scons==([\d.]+) *\\\n(?: +--hash=\S+(?: \\)?\n)+", lock, re.MULTILINE)
    return (entry[1], entry[0]) if entry else None


def _fetch(folder: Path) -> bool:
    entry = pin(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else None
    if entry is None or not _is_wanted(entry[0]):
        return False
    print(f"Fetching SCons {entry[0]} from PyPI")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        wish = Path(scratch) / "requirements.txt"
        wish.write_text(entry[1], encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += [
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--target",
            str(folder / "lib"),
            "-r",
            str(wish),
        ]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"{reason}\nAsking PlatformIO's registry for SCons", file=sys.stderr)
        return False
    _write(folder, entry[0])
    return True


def _write(folder: Path, number: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scons.py").write_text(START, encoding="utf-8")
    make_package(folder, registry_number(number), "PyPI's scons")


def make_package(folder: Path, number: str, description: str) -> None:
    """Make a folder a package of PlatformIO's. package.json comes last: with it the package is complete."""
    spec = {"owner": "platformio", "id": None, "name": folder.name, "requirements": None, "uri": None}
    about = {"name": folder.name, "version": number}
    files = {
        ".piokeep": "",
        ".piopm": json.dumps({**about, "type": "tool", "spec": spec}),
        "package.json": json.dumps({**about, "system": "*", "description": description}),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
