"""Events as JSON, one object a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from basestation.live.happenings import Arrived, Delivered, Happening, Name, Tentative
from packet_formats.json_form import message_to_plain, packet_to_plain
from packet_formats.layout import DataLayout


def to_plain(happening: Happening, layout: DataLayout) -> dict[str, Any]:
    """`event`, the kind in lower case, and the fields. Messages are as `decode --json` writes them."""
    plain: dict[str, Any] = {"event": type(happening).__name__.lower()}
    for item in fields(happening):
        value = getattr(happening, item.name)
        plain[item.name] = value._asdict() if isinstance(value, Name) else value
    if isinstance(happening, Arrived):
        plain["frame"] = packet_to_plain(happening.frame)
        plain["message"] = message_to_plain(happening.message, layout)
        plain["heard"] = message_to_plain(happening.heard, layout) if happening.heard else None
        del plain["proves"]
        if happening.proves is not None:
            plain["proves"] = message_to_plain(happening.proves, layout)
    if isinstance(happening, Delivered | Tentative):
        plain["data"] = message_to_plain(happening.data, layout)
    if isinstance(happening, Delivered):
        plain["moved"] = happening.moved
    return plain


class JsonView:
    """A sink that writes JSON. `write` must flush each object: a reader may wait for it."""

    def __init__(self, write: Callable[[object], None], layout: DataLayout) -> None:
        self._write, self._layout = write, layout

    def take(self, happening: Happening) -> None:
        self._write(to_plain(happening, self._layout))

    def close(self) -> None:
        pass
