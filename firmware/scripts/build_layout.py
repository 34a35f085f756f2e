"""PlatformIO's step before a build: makes `causeway_layout.h` from `deployment.toml`, sets the node id, adds the app.

The deployment is CAUSEWAY_DEPLOYMENT from the environment; else, for a test, its own deployment.toml beside it; else
`custom_deployment` of platformio.ini. An impossible one ends the build with the reason. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

HEADER = "causeway_layout.h"
KEY_HEADER = "causeway_key.h"
RECORD = "firmware.json"
GATEWAY = "gateway"  # the only app that does not run on a mote
UART = Path("firmware", "boards", "mica", "uart.c")  # linked where it is called
TOP_ID = 0xFFFE  # 0xFFFF is broadcast


class BuildError(Exception):
    """The build cannot start, and why."""


def choose(project: Path, default: str | None, test: str | None) -> Path:
    """The deployment to build for."""
    given = os.environ.get("CAUSEWAY_DEPLOYMENT")
    if given:
        return project / given
    if test:
        own = project / "firmware" / "test" / test / "deployment.toml"
        if own.exists():
            return own
    if not default:
        raise BuildError("no deployment: set custom_deployment in platformio.ini, or CAUSEWAY_DEPLOYMENT")
    return project / default


def read(project: Path, path: Path, board: str | None) -> tuple[Any, str]:
    """The deployment and its header. `board` is None if any board will do."""
    if str(project) not in sys.path:
        sys.path.insert(0, str(project))
    from packet_formats import cheader
    from packet_formats.deployment import DeploymentError, load

    try:
        deployment = load(path)
        header = cheader.render(deployment)
    except DeploymentError as error:
        raise BuildError(f"{_short(project, path)}: {error}") from None
    except OSError as error:
        raise BuildError(f"{_short(project, path)}: {error.strerror}") from None
    if board and deployment.network.board != board:
        raise BuildError(
            f'{_short(project, path)}: network.board = "{deployment.network.board}", but this environment builds '
            f"for {board}"
        )
    if not deployment.scheme.in_firmware:
        raise BuildError(
            f'{_short(project, path)}: stamp.scheme = "{deployment.scheme.name}": the firmware has no such stamp; '
            "docs/evidence/schemes.md says which it has"
        )
    return deployment, header


def write_key(project: Path, path: Path, deployment: Any, build: Path) -> None:
    """The header with the network's key; none where messages have no MIC.

    Objects and images hold the key too, so only its owner may read the build folder.
    """
    target = build / "include" / KEY_HEADER
    if not deployment.security.mic:
        target.unlink(missing_ok=True)
        return
    from packet_formats import keys

    target.parent.mkdir(parents=True, exist_ok=True)
    build.chmod(0o700)
    try:
        keys.write_header(path, target)
    except keys.KeyFault as error:
        raise BuildError(f"{_short(project, path)}: {error}") from None


def find_app(project: Path, default: str) -> Path:
    """The folder of the app: one of firmware/apps by its name, or else any other by its path."""
    apps = project / "firmware" / "apps"
    if default == GATEWAY:
        return apps / GATEWAY
    word = os.environ.get("CAUSEWAY_APP") or default
    folder = apps / word if "/" not in word and (apps / word).is_dir() else project / word
    wrong = ""
    if folder.name == GATEWAY:
        wrong = "that is the gateway's name, not a mote's"
    elif not folder.is_dir():
        wrong = f"no such folder: {folder}"
    elif not any(folder.glob("*.c")):
        wrong = f"{folder} holds no C"
    if wrong:
        ours = ", ".join(
            sorted(path.name for path in apps.iterdir() if path.is_dir() and path.name != GATEWAY)
        )
        raise BuildError(f"app {word!r}: {wrong}; in firmware/apps there are {ours}")
    return folder


def app_sources(project: Path, app: Path) -> list[Path]:
    """The folders that the app adds to the image: its own and, for a mote's, what all motes do."""
    return [app] if app.name == GATEWAY else [app, project / "firmware" / "net" / "mote"]


def node_id(text: str | None, app: str | None, motes: int) -> int:
    """The id that the image starts with. Ids 0 to motes - 1 are motes', the others gateways'."""
    given = os.environ.get("CAUSEWAY_NODE_ID") or text
    if not given:
        # Not 0: a variable with initial value 0 has no place in the image where another id could be written.
        return motes if app == GATEWAY else min(1, motes - 1)
    try:
        number = int(given, 0)
    except ValueError:
        raise BuildError(f"node id {given!r}: not a number") from None
    check_id(number, app, motes)
    return number


def check_id(number: int, app: str | None, motes: int) -> None:
    if app and app != GATEWAY and not 0 <= number < motes:
        raise BuildError(f"node id {number}: the deployment's motes have ids 0 to {motes - 1}")
    if app == GATEWAY and not motes <= number <= TOP_ID:
        raise BuildError(f"node id {number}: this deployment's gateways have ids from {motes} up")
    if not 0 <= number <= TOP_ID:
        raise BuildError(f"node id {number}: ids go from 0 to {TOP_ID}")


def write_if_changed(path: Path, text: str) -> None:
    """Write the file only when its content changes, so that nothing is compiled again."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def record(deployment: Any, header: str, **about: object) -> dict[str, object]:
    """The deployment, board and app of an image, for firmware.json beside it; flash.py and the inventory read that."""
    return {
        **about,
        "deployment": deployment.network.name,
        "motes": deployment.network.motes,
        "layout_sha256": hashlib.sha256(header.encode()).hexdigest(),
    }


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _short(project: Path, path: Path) -> Path:
    return path.relative_to(project) if path.is_relative_to(project) else path


def configure(env: Any) -> None:
    """Do the pre-build step; `env` is SCons' build environment."""
    project, build = Path(env["PROJECT_DIR"]), Path(env.subst("$BUILD_DIR"))
    test = env.get("PIOTEST_RUNNING_NAME")
    default = env.GetProjectOption("custom_app", None)
    folder = find_app(project, default) if default else None
    app = folder.name if folder else None
    path = choose(project, env.GetProjectOption("custom_deployment", None), test)
    deployment, header = read(project, path, env.get("BOARD") if app else None)
    identity = node_id(env.GetProjectOption("custom_node_id", None), app, deployment.network.motes)
    print(f"Deployment {deployment.network.name} ({_short(project, path)}), node id {identity}")
    write_if_changed(build / "include" / HEADER, header)
    write_key(project, path, deployment, build)
    env.Append(CPPPATH=[str(build / "include")], CPPDEFINES=[("CAUSEWAY_NODE_ID", identity)])
    if folder:
        env.Append(CPPPATH=[str(project / "firmware")])
        for number, sources in enumerate(app_sources(project, folder)):
            env.BuildSources(f"$BUILD_DIR/app{number}", str(sources), "+<*.c>")
        uart = env.BuildLibrary("$BUILD_DIR/uart", str(project / UART.parent), f"-<*> +<{UART.name}>")
        env.Append(LIBS=[uart])
        about = record(deployment, header, environment=env["PIOENV"], board=env.get("BOARD"), app=app)
        leave = env.VerboseAction(
            lambda target, source, env: _leave_record(Path(str(target[0])), about), None
        )
        env.AddPostAction("$PROGPATH", leave)


def _leave_record(image: Path, about: dict[str, object]) -> None:
    text = json.dumps({**about, "elf_sha256": sha256_of(image)}, indent=2)
    (image.parent / RECORD).write_text(text + "\n", encoding="utf-8")


if "Import" in globals():  # SCons runs this file; flash.py imports it
    Import("env")  # type: ignore[name-defined]  # noqa: F821
    try:
        configure(env)  # type: ignore[name-defined]  # noqa: F821
    except BuildError as error:
        sys.exit(f"Error: {error}")
