"""Shared by all commands: options, JSON lines, tables, notes to the user, and faults."""

import dataclasses
import enum
import functools
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, get_args, get_type_hints

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.segment import Segment
from rich.table import Table

from basestation.views.visible_text import visible_segments
from packet_formats.phrases import visible

if TYPE_CHECKING:
    from basestation.journal.reader import Journal
    from packet_formats.deployment import Deployment

F = TypeVar("F", bound=Callable[..., object])

PLAIN_WIDTH = 110  # columns of a table that is not written to a terminal


class _Console(Console):
    """A console whose text cannot steer the terminal: only our own styles do."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(visible_segments(buffer))

    def on_broken_pipe(self) -> None:
        """Leave the exit to ``main``: rich would exit with another code."""
        raise BrokenPipeError


def _console(*, stderr: bool) -> _Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return _Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


out = _console(stderr=False)
"""For results, on standard output."""

err = _console(stderr=True)
"""For everything else, on standard error."""


def note(message: str, *, style: str | None = None) -> None:
    """Print a note for the user on standard error; it is never part of the output."""
    err.print(message, style=style, markup=False, soft_wrap=True)


def echo(text: str) -> None:
    """Print a line on standard output, without wrapping and without styles."""
    click.echo(visible(text))


def fail(message: str) -> NoReturn:
    """End the command with exit code 1 and a line on standard error."""
    raise click.ClickException(message)


def table(*names: str, right: Sequence[str] = (), padding: int | tuple[int, int] = (0, 1)) -> Table:
    """An empty table for people; the columns in `right` hold numbers."""
    found = Table(box=SIMPLE_HEAD, padding=padding)
    for name in names:
        found.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return found


def utc(wall_ns: int) -> str:
    """A time of a log, for people."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def example(text: str) -> str:
    """An epilog of examples for ``--help`` that keeps its line breaks: ``epilog=example(...)``."""
    blocks = textwrap.dedent(text).strip("\n").split("\n\n")
    return "\n\n".join("\b\n" + textwrap.indent(block, "  ") for block in ("Examples:", *blocks))


MOST = 1e9  # the bound of numbers without a bound of their own: thirty years in seconds


def at_least(least: float | None, is_open: bool = False) -> str:
    """The range of a number without an upper bound of its own, for help and messages."""
    return "any number" if least is None else f"above {least:g}" if is_open else f"{least:g} or more"


def _check_size(
    kind: click.ParamType[Any], number: float, param: click.Parameter | None, ctx: click.Context | None
) -> None:
    if number > MOST:
        kind.fail(f"{number:g} is too large: {MOST:g} is the most", param, ctx)


class FiniteFloat(click.FloatRange):
    """A number within a range, by default at most `MOST`. Unlike click's own, it refuses NaN."""

    def __init__(self, min: float | None = None, max: float = MOST, **more: Any) -> None:
        super().__init__(min, max, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(click.FLOAT.convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a usable number", param, ctx)
        _check_size(self, number, param, ctx)
        return float(super().convert(number, param, ctx))

    def _describe_range(self) -> str:
        return at_least(self.min, self.min_open) if self.max == MOST else super()._describe_range()


class Whole(click.IntRange):
    """A whole number within a range, by default at most `MOST`."""

    def __init__(self, min: int, max: int = int(MOST), **more: Any) -> None:
        super().__init__(min, max, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            wanted = at_least(self.min) if self.max == MOST else f"{self.min} to {self.max}"
            self.fail(f"{value!r} is not a whole number, {wanted}", param, ctx)
        _check_size(self, number, param, ctx)
        return int(super().convert(number, param, ctx))

    def _describe_range(self) -> str:
        return at_least(self.min) if self.max == MOST else super()._describe_range()


class PanelCommand(click.Command):
    """A command whose help lists some options under headings, after all others.

    `panels` maps a heading to the names of its parameters.
    """

    def __init__(self, *args: Any, panels: Mapping[str, Sequence[str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self._panel_of = {name: title for title, names in panels.items() for name in names}
        self._titles = ("Options", *panels)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in self._titles}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                rows[self._panel_of.get(param.name or "", "Options")].append(record)
        for title, found in rows.items():
            with formatter.section(title):
                formatter.write_dl(found)


def field_option(
    owner: type[Any], name: str, help_text: str, kind: Any = None, **more: Any
) -> Callable[[F], F]:
    """The option for a field of a dataclass, with the field's type and default.

    `kind` narrows the type. A field without a default makes a required option.
    """
    hint = get_type_hints(owner)[name]
    field = next(field for field in dataclasses.fields(owner) if field.name == name)
    if field.default is dataclasses.MISSING:
        more = {"required": True} | more
    else:
        more = {"default": field.default, "show_default": field.default is not None} | more
    return click.option(
        f"--{name.replace('_', '-')}",
        type=kind or (click.Choice(get_args(hint)) if get_args(hint) else hint),
        help=help_text,
        **more,
    )


def add_options(options: Iterable[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Add options to a command, in the order in which its help lists them."""

    def add(function: F) -> F:
        for option in reversed(list(options)):
            function = option(function)
        return function

    return add


def grouped(options: Iterable[Callable[[Any], Any]], group: type[Any], name: str) -> Callable[[F], F]:
    """Give a command these options as one parameter: an instance of the dataclass `group`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*args: Any, **given: Any) -> object:
            own = {
                field.name: given.pop(field.name)
                for field in dataclasses.fields(group)
                if field.name in given
            }
            return function(*args, **{name: group(**own)}, **given)

        return cast(F, add_options(options)(command))

    return decorate


def json_option(function: F) -> F:
    """Give a command the flag ``--json``, as the parameter ``as_json``."""
    option = click.option("--json", "-j", "as_json", is_flag=True, help="Print one JSON object per line.")
    return option(function)


def is_for_people(as_json: bool) -> bool:
    """Whether a person reads the output: it goes to a terminal, whatever FORCE_COLOR says."""
    return not as_json and sys.stdout.isatty()


def plain(value: object) -> object:
    """The JSON form of a value: NaN and infinities become null, bytes become hex."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Iterable):
        tolist = getattr(value, "tolist", None)  # numpy arrays, without importing numpy
        return [plain(item) for item in (tolist() if tolist else value)]
    item = getattr(value, "item", None)  # numpy scalars
    if callable(item):
        return plain(item())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def emit_json(obj: object, *, flush: bool = False) -> None:
    """Print one object on one line of standard output. Pass ``flush`` if a reader waits for each line."""
    sys.stdout.write(json.dumps(plain(obj), allow_nan=False) + "\n")
    if flush:
        sys.stdout.flush()


def deployment_option(*, required: bool = True) -> Callable[[F], F]:
    """Give a command the option ``--deployment FILE``, as the parameter ``deployment``: a path for `load_deployment`,
    or None.
    """
    return click.option(
        "--deployment",
        "-d",
        "deployment",
        type=click.Path(path_type=Path),
        required=required,
        metavar="FILE",
        help="The deployment.toml that describes the network.",
    )


def load_deployment(path: Path) -> "Deployment":
    """Read a deployment. If the file is missing or wrong, end the command with the reason."""
    from packet_formats import deployment

    try:
        return deployment.load(path)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}")
    except deployment.DeploymentError as error:
        fail(f"{path}: {error}")


def key_option(*, beside: bool = True) -> Callable[[F], F]:
    """Give a command the option ``--key FILE``, as the parameter ``key`` for `with_key`.

    `beside`: without the option the key comes from beside the deployment's file.
    """
    default = "the deployment's, beside its file" if beside else "none: no MIC is checked"
    return click.option(
        "--key",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"The network's key, if its messages have MICs. [default: {default}]",
    )


NOT_CHECKED = "no MIC was checked: --key FILE names the network's key"


def with_key(
    described: "Deployment", path: Path | None, key: Path | None = None, needed: bool = True
) -> "Deployment":
    """The deployment with its key: from the file `key`, `-` for standard input, or from beside the deployment's file.

    If the key cannot be read, end the command with the reason. If it is not `needed`, it may be missing.
    """
    from packet_formats import keys

    if not needed and key is None and path is None:
        return described
    try:
        if key == Path("-"):  # the live page has the key, and no file
            return dataclasses.replace(described, key=keys.Key(bytes.fromhex(sys.stdin.readline())))
        return keys.with_key(described, path, key)
    except ValueError as error:
        fail(str(error))


def deployment_of(journal: "Journal", path: Path | None, key: Path | None) -> "Deployment":
    """The deployment in the file `path`, or else in the log, with its key, if there is one."""
    described = load_deployment(path) if path else journal.deployment
    return with_key(described, path, key, needed=False)
