"""Gives PlatformIO its `tool-cppcheck` from PATH, so that `pio check` does not need PlatformIO's registry.

The package is a folder with a link to the program (Debian: cppcheck). It bears the version that PlatformIO wants: any
cppcheck of recent years takes the options that `pio check` gives. Without cppcheck on PATH the registry is asked.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pypi_scons import make_package

NAME = "tool-cppcheck"


def provide(packages_dir: str | Path) -> bool:
    """Put the package in place; return False if the registry must be asked."""
    from platformio.dependencies import get_core_dependencies

    folder, program = Path(packages_dir) / NAME, shutil.which("cppcheck")
    link = folder / "cppcheck"
    if (folder / "package.json").exists() and not link.is_symlink():
        return True  # the registry's
    shutil.rmtree(folder, ignore_errors=True)
    if program is None:
        return False
    folder.mkdir(parents=True)
    link.symlink_to(program)
    make_package(folder, get_core_dependencies()[NAME].lstrip("~"), "cppcheck on PATH")
    return True
