"""PlatformIO's view of MICA motes. Tools on PATH are used as they are; the registry is asked for the others."""

import shutil
import sys
from pathlib import Path

from platformio.public import PlatformBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import path_cppcheck
import pypi_scons

# PlatformIO's package; the program that makes it unnecessary; where Debian has that.
PROGRAM_OF = {
    "toolchain-atmelavr": ("avr-gcc", "gcc-avr avr-libc binutils-avr"),
    "tool-avrdude": ("avrdude", "avrdude"),
}


class MicaPlatform(PlatformBase):
    def configure_default_packages(self, options, targets):
        super().configure_default_packages(options, targets)
        packages = self.config.get("platformio", "packages_dir")
        pypi_scons.provide(packages)
        path_cppcheck.provide(packages)
        programming = any("upload" in target or target == "fuses" for target in targets)
        wanted = {"toolchain-atmelavr": True, "tool-avrdude": programming}
        for package, (program, debian) in PROGRAM_OF.items():
            ask = wanted[package] and shutil.which(program) is None
            self.packages[package]["optional"] = not ask
            if ask and self.get_package(package) is None:
                print(
                    f"{program} is not on PATH (Debian: {debian}): asking PlatformIO's registry for {package}"
                )
