"""Finds or builds the firmware for a deployment, and makes copies of it with the ids of the nodes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from basestation import how_to_install
from packet_formats import cheader, keys
from packet_formats.boards import BOARDS
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.schemes import descriptor, names

from .build_lock import locked, silent
from .scenario import Watch

PROJECT = Path(__file__).resolve().parents[2]
RECORDER = "causeway_recorder"
WATCHED = ("lines", "current", "periods", "timesync")  # of network_time.c, the board's clock.c and timesync.c
WATCHED_SCHEDULED = ("slow", "asleep", "ticked", "shift")  # of clock.c, where the deployment has a schedule
SOURCES = ("apps", "boards", "chips", "core", "hal", "net", "platforms", "scripts")


class FirmwareImageError(Exception):
    """An image is missing; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class FirmwareProgram:
    """An image, and where in RAM its watched variables are."""

    path: Path
    recorder: int | None
    watches: tuple[Watch, ...]

    def copy(self, identity: int, folder: Path) -> Path:
        """Write the same program for a node with this id; return its path."""
        target = folder / f"{self.path.parent.name}-{identity}.elf"
        try:
            target.write_bytes(_tool().load(self.path).with_id(identity).elf)
        except _tool().ImageError as error:
            raise FirmwareImageError(str(error)) from None
        return target

    def variables(self) -> dict[str, tuple[int, int]]:
        """The address and size of the program's variables in RAM, by name."""
        found: dict[str, tuple[int, int]] = _tool().load(self.path).variables()
        return found


@dataclass(frozen=True, slots=True)
class Programs:
    mote: FirmwareProgram
    gateway: FirmwareProgram


def programs_for(
    deployment: Deployment,
    rate: float | None = None,
    app: str | None = None,
    say: Callable[[str], None] = silent,
) -> Programs:
    """The mote's and the gateway's image, built unless they exist.

    `rate` is each mote's messages a second; None leaves the firmware's own. `app` is the motes': one of firmware/apps,
    or a folder. `say` announces a build, which takes long.
    """
    board, scheme = deployment.network.board, deployment.stamp.scheme
    refuse_board(deployment)
    if not deployment.scheme.in_firmware:
        has = ", ".join(name for name in names() if descriptor(name).in_firmware)
        raise FirmwareImageError(f'stamp.scheme = "{scheme}": the firmware has no such stamp; it has {has}')
    if deployment.security.mic and deployment.key is None:
        raise FirmwareImageError(f"{deployment.network.name} has a key, which was not read: {keys.GET_ONE}")
    build = _built(deployment, rate, app, say)
    return Programs(*(program(build / name / "firmware.elf") for name in environments(board)))


def refuse_board(deployment: Deployment) -> None:
    """Refuse a board that the firmware is not for."""
    board = deployment.network.board
    if board not in BOARDS:
        raise FirmwareImageError(
            f'network.board = "{board}": the firmware is for {" and ".join(BOARDS)}; '
            "for others see docs/reference/library.md"
        )


def environments(board: str) -> tuple[str, str]:
    """PlatformIO's names of the mote's and the gateway's image."""
    return board, f"{board}_gateway"


def program(path: Path) -> FirmwareProgram:
    tool = _tool()
    try:
        image = tool.load(path)
        there = {name.partition(".")[0] for name in image.variables()}
        names = (*WATCHED, *(name for name in WATCHED_SCHEDULED if name in there))
        watches = tuple(Watch(name, *image.variable(name)) for name in names)
    except tool.ImageError as error:
        raise FirmwareImageError(str(error)) from None
    try:
        recorder = image.variable(RECORDER)[0]
    except tool.ImageError:
        recorder = None  # a gateway has none
    return FirmwareProgram(path, recorder, watches)


def _app_folder(app: str | None) -> Path | None:
    """The folder of an app that is not in the repository; an unknown name is left to the build to refuse."""
    if app is None or ("/" not in app and (PROJECT / "firmware" / "apps" / app).is_dir()):
        return None
    return Path(app).absolute()


def _built(deployment: Deployment, rate: float | None, app: str | None, say: Callable[[str], None]) -> Path:
    """The build folder, named by everything that decides its content, so that it is never stale."""
    sources = PROJECT / "firmware"
    if not sources.is_dir():
        raise FirmwareImageError(
            f"no firmware in {PROJECT}: the testbed only runs in a checkout of the repository"
        )
    flags = "" if rate is None else f"-D MOTE_PERIOD={max(1, round(CRYSTAL_HZ / rate))}"
    digest = hashlib.sha256(f"{flags}\n{app or ''}\n{cheader.render(deployment)}".encode())
    if deployment.key is not None:
        digest.update(deployment.key.secret)
    outside = _app_folder(app)
    own = sorted(outside.glob("*.[ch]")) if outside else []
    for path in [PROJECT / "platformio.ini", *_sources(sources), *own]:
        digest.update(f"{path}\n".encode() + path.read_bytes())
    builds = PROJECT / ".pio" / "testbed"
    folder = builds / digest.hexdigest()[:16]
    wanted = environments(deployment.network.board)
    build = folder / "build"  # PlatformIO may empty it at any time
    with locked(builds, "firmware", say):
        if not all((build / name / "firmware.json").exists() for name in wanted):
            say(f"building the firmware of {deployment.network.name}: about a minute, the first time only")
            folder.mkdir(mode=0o777 if deployment.key is None else 0o700, exist_ok=True)
            described = folder / "deployment.toml"
            described.write_text(deployment.to_toml())
            if deployment.key is not None:
                keys.write_key(deployment.key, folder / deployment.security.key)
            _run_platformio(described, build, wanted, flags, str(outside or app or ""))
    return build


def _sources(folder: Path) -> list[Path]:
    return sorted(
        path
        for name in SOURCES
        for path in (folder / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )


def _run_platformio(deployment: Path, build: Path, wanted: tuple[str, str], flags: str, app: str) -> None:
    if importlib.util.find_spec("platformio") is None:
        raise FirmwareImageError(
            f"this firmware is not built yet, and PlatformIO is missing: {how_to_install('firmware')}"
        )
    words = [word for name in wanted for word in ("-e", name)]
    environment = {
        **os.environ,
        "CAUSEWAY_DEPLOYMENT": str(deployment),
        "CAUSEWAY_APP": app,
        "PLATFORMIO_BUILD_DIR": str(build),
        "PLATFORMIO_BUILD_FLAGS": flags,
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
    }
    environment.pop("CAUSEWAY_NODE_ID", None)
    done = subprocess.run(
        [sys.executable, "-m", "platformio", "run", "--silent", "-d", str(PROJECT), *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise FirmwareImageError(f"the firmware did not build:\n{done.stdout.strip()}")


@cache
def _tool() -> Any:
    """The module firmware/scripts/image.py, which flashing uses too; it is in no package."""
    path = PROJECT / "firmware" / "scripts" / "image.py"
    spec = importlib.util.spec_from_file_location("causeway_image", path)
    if spec is None or spec.loader is None or not path.exists():
        raise FirmwareImageError(f"no {path}: the testbed only runs in a checkout of the repository")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
