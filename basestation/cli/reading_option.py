"""The option `--reading`: what the paper's model leaves open, as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

import click

from basestation.simulator.options import READINGS, WorldOptions
from packet_formats.phrases import did_you_mean

VALUES: dict[str, tuple[str, ...]] = {
    name.replace("_", "-"): get_args(get_type_hints(WorldOptions)[name]) for name in ("delay_law", *READINGS)
}


class ReadingType(click.ParamType[Any]):
    """One reading and its value, as a pair."""

    name = "NAME=VALUE"

    def __init__(self, values: Mapping[str, tuple[str, ...]]) -> None:
        self._values = values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, equals, chosen = str(value).partition("=")
        if not equals:
            self.fail(f"write NAME=VALUE, not {value!r}", param, ctx)
        if name not in self._values:
            hint = did_you_mean(name, self._values) or f"; they are {', '.join(self._values)}"
            self.fail(f"there is no reading {name!r}{hint}", param, ctx)
        if chosen not in self._values[name]:
            self.fail(f"{name} is one of {', '.join(self._values[name])}, not {chosen!r}", param, ctx)
        return name.replace("-", "_"), chosen


def reading_option(about: str, more: dict[str, tuple[str, ...]] | None = None) -> Callable[[Any], Any]:
    """The option, with further readings of the command's own."""
    values = VALUES | (more or {})
    listed = "; ".join(f"{name} ({', '.join(names)})" for name, names in values.items())
    return click.option(
        "--reading",
        "readings",
        type=ReadingType(values),
        multiple=True,
        help=f"{about}; repeatable. The readings: {listed}.",
    )
