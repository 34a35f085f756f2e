"""Options and messages that the commands share which run jobs of `spark_jobs`.

Nothing of a job is imported before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from basestation.cli import common
from packet_formats.schemes import COUNTS, MAX_FIELD_BITS, PACKINGS

F = TypeVar("F", bound=Callable[..., object])


class AnyFolder(click.Path):
    """A path of this machine, or a URI (`spark_jobs/storage.py`). The job reports what is wrong with it."""

    def __init__(self, local: bool = False) -> None:
        super().__init__(path_type=Path)
        self._local = local

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or not re.match(r"[a-z0-9]+:/", value):
            return super().convert(value, param, ctx)
        from spark_jobs.session import JobError
        from spark_jobs.storage import place

        try:
            found = place(value)
        except JobError as error:
            self.fail(str(error), param, ctx)
        if self._local and not isinstance(found, Path):
            self.fail(f"{value}: must be a folder of this machine, or one that is mounted here", param, ctx)
        return found


FOLDER = AnyFolder()
LOCAL_FOLDER = AnyFolder(local=True)
SECONDS = common.FiniteFloat(0.001)
PERCENT = common.FiniteFloat(0, 100)
ENGINE = ("spark", "workers", "master", "conf")


class JobCommand(common.PanelCommand):
    """A command that runs a job. A fault of its input, of Java or of Spark is one line, and exit code 1."""

    def __init__(self, *args: Any, panels: Mapping[str, Sequence[str]] | None = None, **more: Any) -> None:
        super().__init__(*args, panels={**(panels or {}), "Where it runs": ENGINE}, **more)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            told = _told(error)
            if told is None:
                raise
            raise click.ClickException(told) from None


def _told(error: Exception) -> str | None:
    """The line about a fault; None if it is not the user's, or if all commands report it alike."""
    from spark_jobs.session import JobError

    if isinstance(error, JobError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r}: a name that is not UTF-8"
    if type(error).__module__.startswith(("pyspark", "py4j")):
        said = getattr(error, "java_exception", error)
        return f"Spark says: {str(said).strip().splitlines()[0]}"
    return None


# ---- Where it runs ----

_SPARK = (
    click.option("--master", help="Spark's master. [default: local[*]; that of spark-submit comes first]"),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated."),
)
_CHOICE = (
    click.option(
        "--spark/--no-spark",
        default=None,
        help="Use Spark, or only this machine's cores. [default: Spark for large inputs]",
    ),
    click.option(
        "--workers", type=common.Whole(1), help="Cores to use, or Spark tasks at a time. [default: all]"
    ),
)


def engine_options(function: F) -> F:
    """Add the choice between Spark and this machine's cores; the command gets an `EngineOptions` as `engine`."""
    return common.add_options((*_CHOICE, *_SPARK))(_with_engine(function))


def spark_options(function: F) -> F:
    """Add the options of a job that always needs Spark; the command gets an `EngineOptions` as `engine`."""
    return common.add_options(_SPARK)(_with_engine(function, spark=True))


def _with_engine(function: F, **fixed: Any) -> F:
    @wraps(function)
    def bundled(*args: Any, **given: Any) -> object:
        from spark_jobs.engines import EngineOptions

        told = fixed | {name: given.pop(name) for name in ENGINE if name in given}
        return function(*args, engine=EngineOptions(**told), **given)

    return cast(F, bundled)


def out_option(help_text: str) -> Callable[[F], F]:
    return click.option("--out", "-o", type=FOLDER, help=help_text)


window_option = click.option(
    "--window", type=SECONDS, default=600.0, show_default=True, help="Length of a window in seconds."
)


# ---- What it reads ----


def tables_options(function: F) -> F:
    """Add the options of all jobs that read the tables of `ingest`."""
    return common.add_options(
        (
            click.argument("tables", type=FOLDER),
            click.option("--run", "runs", multiple=True, help="Only this run; may be repeated."),
            click.option("--site", "sites", multiple=True, help="Only runs of this site; may be repeated."),
            out_option("A folder for the tables of results, Parquet and CSV."),
        )
    )(function)


# ---- What it compares ----


class Entries(click.ParamType[Any]):
    """A number of kn entries, or all."""

    name = "K|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return "all" if value == "all" else common.Whole(1).convert(value, param, ctx)


def _several(option: str, name: str, kind: Any, text: str, default: str) -> Callable[[Any], Any]:
    return click.option(
        option, name, type=kind, multiple=True, help=f"{text}Repeatable. [default: {default}]"
    )


def measuring_options(function: F) -> F:
    """Add the options of a job that measures configurations on traces: traces, configurations, scratch, JSON, engine.
    The command gets a `Choice` as `choice`."""
    from basestation.analysis.choices import ENTRIES, PHIS, POLICIES, SCHEMES

    bits = common.Whole(1, MAX_FIELD_BITS)
    choice = (
        _several("--scheme", "schemes", click.Choice(SCHEMES), "Stamp. ", "all"),
        _several("--entries", "entries", Entries(), "kn entries. ", _listed(ENTRIES)),
        _several("--packing", "packings", click.Choice(PACKINGS), "", "both"),
        _several("--count", "counts", click.Choice(COUNTS), "What kn counts. ", "as the trace's own"),
        _several("--policy", "policies", click.Choice(POLICIES), "Delivery. ", "all"),
        _several("--phi", "phis", common.Whole(0, 100), "Per cent of the safe wait. ", _listed(PHIS)),
        _several(
            "--counter-bits", "counter_bits", bits, "Width of a counter. ", "all that make a difference"
        ),
    )
    names = ("schemes", "entries", "packings", "counts", "policies", "phis", "counter_bits")

    @wraps(function)
    def bundled(*args: Any, **given: Any) -> object:
        from basestation.analysis.choices import Choice

        asked = {name: values for name in names if (values := given.pop(name))}
        return function(*args, choice=Choice(**asked), **given)

    traces = (
        click.argument("traces", nargs=-1, required=True, type=FOLDER, metavar="TRACE..."),
        click.option(
            "--scratch",
            type=LOCAL_FOLDER,
            help="A folder that all workers share. [default: the system's temporary folder]",
        ),
    )
    return common.add_options((*traces, *choice, common.json_option))(engine_options(cast(F, bundled)))


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
