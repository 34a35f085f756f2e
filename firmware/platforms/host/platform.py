"""PlatformIO's view of the machine it runs on."""

import sys
from pathlib import Path

from platformio.public import PlatformBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import path_cppcheck
import pypi_scons


class HostPlatform(PlatformBase):
    def configure_default_packages(self, options, targets):
        super().configure_default_packages(options, targets)
        packages = self.config.get("platformio", "packages_dir")
        pypi_scons.provide(packages)
        path_cppcheck.provide(packages)
