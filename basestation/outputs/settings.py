"""Settings of a user or a machine, apart from any deployment: where alarms go."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from basestation.live.alarms import KINDS
from basestation.outputs import OutputError
from basestation.outputs.alarm_targets import AlarmRoute
from packet_formats.phrases import did_you_mean

ALARM_KEYS = ("to", "kinds", "over")


@dataclass(frozen=True, slots=True)
class Settings:
    alarms: tuple[AlarmRoute, ...] = ()


def default_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "causeway" / "settings.toml"


def load_settings(path: Path | None) -> Settings:
    """Read a settings file; without a path the default one, which need not be there."""
    try:
        found = default_path() if path is None else path
    except RuntimeError:  # no home folder
        return Settings()
    try:
        said = tomllib.loads(found.read_text("utf-8"))
    except FileNotFoundError:
        if path is None:
            return Settings()
        raise OutputError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise OutputError(f"{found}: {getattr(error, 'strerror', None) or error}") from None
    _known(found, "the file", said, ("alarm",))
    tables = said.get("alarm", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise OutputError(f"{found}: alarm should be tables, each beginning with [[alarm]]")
    return Settings(tuple(_route(found, number, table) for number, table in enumerate(tables, 1)))


def _route(path: Path, number: int, table: dict[str, Any]) -> AlarmRoute:
    where = f"[[alarm]] number {number}"
    _known(path, where, table, ALARM_KEYS)
    to, kinds, over = table.get("to"), table.get("kinds", list(KINDS)), table.get("over", True)
    if not isinstance(to, str) or not to:
        raise OutputError(f"{path}: {where}: `to` must be a text, the target")
    if not isinstance(kinds, list) or not isinstance(over, bool):
        raise OutputError(f"{path}: {where}: `kinds` should be a list of texts, `over` true or false")
    for kind in kinds:
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS) or f"; there are {', '.join(KINDS)}"
            raise OutputError(f"{path}: {where}: there is no kind of alarm {kind!r}{hint}")
    return AlarmRoute(to, tuple(kinds), over)


def _known(path: Path, where: str, table: dict[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            hint = did_you_mean(key, keys) or f"; it has {', '.join(keys)}"
            raise OutputError(f"{path}: {where} has no key {key}{hint}")
