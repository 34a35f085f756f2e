"""Options that take NAME=VALUE, such as `--reading` for what the paper's model leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

import click

from basestation.simulator.options import READINGS, WorldOptions
from packet_formats.phrases import did_you_mean

Reader = Callable[[str], Any]
"""Turns a value's text into the value; `ValueError` if it can't, with the reason."""


class NamedValue(click.ParamType[Any]):
    """One of several settings and its value, as a pair."""

    name = "NAME=VALUE"

    def __init__(self, kind: str, readers: Mapping[str, Reader]) -> None:
        self._kind, self._readers = kind, readers

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, equals, text = str(value).partition("=")
        if not equals:
            self.fail(f"write NAME=VALUE, not {value!r}", param, ctx)
        if name not in self._readers:
            hint = did_you_mean(name, self._readers) or f"; they are {', '.join(self._readers)}"
            self.fail(f"there is no {self._kind} {name!r}{hint}", param, ctx)
        try:
            return name.replace("-", "_"), self._readers[name](text)
        except ValueError as error:
            self.fail(f"{name} {error}", param, ctx)


def one_of(*values: str) -> Reader:
    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"is one of {', '.join(values)}, not {text!r}")
        return text

    return read


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, not {text!r}") from None


def reading_option(about: str, **more: tuple[str, ...]) -> Callable[[Any], Any]:
    """`--reading`, with further readings of the command's own."""
    hints = get_type_hints(WorldOptions)
    values = {name: get_args(hints[name]) for name in ("delay_law", *READINGS)} | more
    named = {name.replace("_", "-"): choices for name, choices in values.items()}
    listed = "; ".join(f"{name} ({', '.join(choices)})" for name, choices in named.items())
    return click.option(
        "--reading",
        "readings",
        type=NamedValue("reading", {name: one_of(*choices) for name, choices in named.items()}),
        multiple=True,
        help=f"{about}; repeatable. The readings: {listed}.",
    )
