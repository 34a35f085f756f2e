"""PlatformIO's view of the machine it runs on."""

import sys
from pathlib import Path

from platformio.public import PlatformBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import pypi_scons


class HostPlatform(PlatformBase):
    def configure_default_packages(self, options, targets):
        super().configure_default_packages(options, targets)
        pypi_scons.provide(self.config.get("platformio", "packages_dir"))
