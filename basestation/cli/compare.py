"""`basestation compare`: compare our schemes with those of other papers, on the same stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from basestation.causality.rules import NEVER
from basestation.cli import common, job_options
from basestation.cli.named_values import reading_option
from basestation.comparing.catalogue import NAMES, Terms
from basestation.comparing.comparison import sweep
from basestation.comparing.comparison_table import show
from basestation.comparing.spread import Compared, Spot, check, compare, network_spot
from basestation.simulator.options import MEANINGS, OptionError, WorldOptions

if TYPE_CHECKING:
    from spark_jobs.engines import EngineOptions

PICTURES = (".png", ".svg", ".pdf")


SWEPT = {
    "motes": "Number of motes, n; may be repeated, like the next four.",
    **{name: MEANINGS[name] for name in ("loss", "rate", "epsilon", "delta")},
}
FIXED = {
    "messages": "How many messages to send in each network.",
    "seed": "Seed of the first network; the others have the numbers after it.",
    "gateways": MEANINGS["gateways"],
}
QUICK_MESSAGES = 2000  # the objects are slow


class GiveUp(click.ParamType[Any]):
    """A number of ticks, or never."""

    name = "TICKS|never"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text == "never":
            return NEVER
        if not text.isdecimal():
            self.fail(f"{text!r} must be a number of ticks, or never", param, ctx)
        return int(text)


def _network_option(name: str, help_text: str) -> Callable[[Any], Any]:
    several = name in SWEPT
    usual = QUICK_MESSAGES if name == "messages" else getattr(WorldOptions(), name)
    return common.field_option(
        WorldOptions, name, help_text, multiple=several, default=[usual] if several else usual
    )


@click.command(
    cls=job_options.JobCommand,
    panels={"Readings of the paper's model": ("readings",)},
    epilog=common.example(
        """
        basestation compare
        basestation compare --scheme none --scheme vector --scheme shlc --motes 5 --motes 20 --loss 0 --loss 0.1
        basestation compare --loss 0.1 --give-up never
        basestation compare runs/one tables --json
        basestation compare --motes 5 --motes 50 --seeds 20 --out comparison --spark
        basestation compare --rate 0.01 --rate 0.1 --rate 0.5 --plot rates.png
        """
    ),
)
@click.argument("traces", nargs=-1, type=job_options.FOLDER, metavar="[TRACE]...")
@click.option(
    "--scheme",
    "schemes",
    type=click.Choice(NAMES),
    multiple=True,
    default=NAMES,
    help="Stamp with its delivery rule; may be repeated. [default: all]",
)
@common.add_options(_network_option(*each) for each in (SWEPT | FIXED).items())
@click.option(
    "--seeds",
    type=common.Whole(1),
    default=1,
    show_default=True,
    help="How many networks to simulate at each point.",
)
@click.option(
    "--give-up", type=GiveUp(), help="How long a rule waits for a missing message. [default: delta + epsilon]"
)
@reading_option("Change one reading of the paper's model")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the comparison into this file."
)
@job_options.out_option("Write compare.parquet, compare.csv and report.html here.")
@common.json_option
@job_options.engine_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    traces: Sequence[Path],
    schemes: Sequence[str],
    seeds: int,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
    engine: EngineOptions,
    **given: Any,
) -> None:
    """Compare our schemes with those of other papers, on the same simulated or recorded stream of events.

    TRACE is a trace, or the tables that `analyse ingest` wrote. Without one, networks are simulated: all combinations
    of --motes, --loss, --rate, --epsilon and --delta.

    Every scheme stamps the same sends and orders the same arrivals, so no difference is due to chance. Only where a
    second send in a tick waits for some schemes, these have a stream of their own (see --reading second-send).
    Violations are in per cent of the messages delivered. The hold is the time from arrival to delivery, in ticks.
    """
    terms = Terms(give_up=given["give_up"])
    schemes = list(dict.fromkeys(schemes))
    if plot is not None and plot.suffix not in PICTURES:
        raise click.UsageError(f"--plot {plot}: a picture's name ends in {', '.join(PICTURES)}")
    try:
        spots, faults = _recorded(ctx, traces) if traces else (_simulated(given, seeds), [])
        check(spots, schemes, terms)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    if out is not None:
        _prepare(out)
    found = []
    for fault in faults:
        common.note(f"compare: {fault}")
    for one in _compared(spots, schemes, terms, engine):
        if one.fault:
            faults.append(one.fault)
            common.note(f"compare: {one.fault}")
            continue
        found.append(one)
        if as_json:
            _emit(one)
    if not found:
        common.fail("nothing could be compared")
    _leave(found, terms, plot, out)
    if not as_json:
        show(common.out, [(one.spot.run, one.rows) for one in found])
    if faults:
        ctx.exit(1)


def _simulated(given: dict[str, Any], seeds: int) -> list[Spot]:
    base = WorldOptions(**{name: given[name] for name in FIXED}, **dict(given["readings"]))
    axes: dict[str, Sequence[Any]] = {name: list(dict.fromkeys(given[name])) for name in SWEPT}
    return [network_spot(options, seeds) for options in sweep(base, axes)]


def _recorded(ctx: click.Context, traces: Sequence[Path]) -> tuple[list[Spot], list[str]]:
    from spark_jobs.comparing import trace_spots

    for name in (*SWEPT, *FIXED, "readings", "seeds"):
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            option = {"readings": "reading"}.get(name, name)
            raise click.UsageError(f"--{option}: the recorded run has its own")
    return trace_spots(traces)


def _prepare(out: Path) -> None:
    from spark_jobs.session import prepare

    prepare(out)


def _compared(
    spots: Sequence[Spot], schemes: Sequence[str], terms: Terms, options: EngineOptions
) -> Iterator[Compared]:
    from spark_jobs.engines import chosen

    if spots:
        with chosen("compare", options, processes=True) as engine:
            yield from compare(spots, schemes, terms, engine.each)


def _emit(one: Compared) -> None:
    named = {} if one.spot.run is None else {"run": one.spot.run}
    for row in one.rows:
        common.emit_json(named | row.to_dict(), flush=True)


def _leave(found: Sequence[Compared], terms: Terms, plot: Path | None, out: Path | None) -> None:
    if plot is not None:
        from basestation.comparing.comparison_plot import draw  # matplotlib, only for pictures

        draw([row for one in found for row in one.rows], plot)
        common.note(f"wrote {plot}")
    if out is not None:
        from spark_jobs import comparing

        comparing.write(out, found, terms)
        common.note(f"wrote compare.parquet, compare.csv and report.html in {out}")
