"""Give PlatformIO its `tool-scons` from PyPI's scons, so that its registry is not needed.

PlatformIO builds with SCons and wants it as a package of its registry. Where the same version is installed beside
PlatformIO (`pip install platformio==6.2.0 scons==4.11.1`), a folder that leads to it will do. The platforms in
firmware/platforms call provide() before PlatformIO looks for the package.
"""

from __future__ import annotations

import json
import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NAME = "tool-scons"
START = "import sys\n\nfrom SCons.Script.Main import main\n\nsys.exit(main())\n"


def provide(packages_dir: str | Path) -> bool:
    """Put the package in place unless there is one. False: this environment has no fitting SCons, ask the registry."""
    import semantic_version
    from platformio.dependencies import get_core_dependencies

    folder = Path(packages_dir) / NAME
    found = registry_version()
    wanted = semantic_version.SimpleSpec(get_core_dependencies()[NAME])
    if found is None or semantic_version.Version(found) not in wanted:
        _withdraw(folder)
        return False
    if (folder / "package.json").exists():
        return True
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _files(found).items():
        (folder / name).write_text(text, encoding="utf-8")
    return True


def _withdraw(folder: Path) -> None:
    """Remove what another environment left here: its SCons cannot be reached from this one."""
    start = folder / "scons.py"
    if start.exists() and start.read_text(encoding="utf-8") == START:
        shutil.rmtree(folder)


def registry_version() -> str | None:
    """The installed SCons as the registry numbers it: 4.11.1 is 4.41101.0."""
    try:
        numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version("scons"))
    except PackageNotFoundError:
        return None
    if numbers is None:
        return None
    major, minor, patch = (int(number) for number in numbers.groups())
    return f"{major}.{major}{minor:02}{patch:02}.0"


def _files(number: str) -> dict[str, str]:
    """What makes a folder a package. package.json comes last: with it in place the package is complete."""
    spec = {"owner": "platformio", "id": None, "name": NAME, "requirements": None, "uri": None}
    return {
        "scons.py": START,
        ".piokeep": "",
        ".piopm": json.dumps({"type": "tool", "name": NAME, "version": number, "spec": spec}),
        "package.json": json.dumps(
            {"name": NAME, "version": number, "system": "*", "description": "PyPI's scons"}
        ),
    }
