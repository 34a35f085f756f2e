"""`basestation compare`: compare our schemes with those of other papers, on the same stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from basestation.causality.rules import RULES
from basestation.cli import common
from basestation.comparing.catalogue import NAMES, Terms
from basestation.comparing.comparison import ComparisonRow, measure_network
from basestation.comparing.comparison_options import FIXED, SWEPT, default, give_up_ticks, networks
from basestation.comparing.comparison_table import show
from basestation.simulator.options import READINGS, OptionError, WorldOptions
from basestation.traces.files import TraceError

PICTURES = (".png", ".svg", ".pdf")


class GiveUp(click.ParamType[Any]):
    """A number of ticks, or never."""

    name = "TICKS|never"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return give_up_ticks(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _network_option(name: str, help_text: str) -> Callable[[Any], Any]:
    several, usual = name in SWEPT, default(name)
    return common.field_option(
        WorldOptions, name, help_text, multiple=several, default=[usual] if several else usual
    )


@click.command(
    cls=common.PanelCommand,
    panels={"Readings of the paper's model": READINGS},
    epilog=common.example(
        """
        basestation compare
        basestation compare --scheme none --scheme vector --scheme shlc --motes 5 --motes 20 --loss 0 --loss 0.1
        basestation compare --loss 0.1 --give-up never
        basestation compare --trace runs/one --json
        basestation compare --rate 0.01 --rate 0.1 --rate 0.5 --plot rates.png
        """
    ),
)
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
    "--give-up",
    type=GiveUp(),
    help="How long a rule waits for a missing message. [default: delta + epsilon]",
)
@click.option(
    "--min-wait", type=int, help="two-hop: hold every message at least so long. [default: the least allowed]"
)
@click.option(
    "--policy",
    type=click.Choice(list(RULES)),
    default="cbd",
    show_default=True,
    help="Delivery policy for our own stamps.",
)
@click.option(
    "--phi",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="Share of the safe wait in per cent, for our own stamps.",
)
@click.option(
    "--trace", type=click.Path(path_type=Path), help="Compare on this recorded run instead of a simulation."
)
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the comparison into this file."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Make the tables and pictures of docs/schemes.md in this folder, on networks of their own.",
)
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    schemes: Sequence[str],
    seeds: int,
    trace: Path | None,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare our schemes with those of other papers, on the same simulated or recorded stream of events.

    Every scheme stamps the same sends and orders the same arrivals, so no difference is due to chance. Only where a
    second send in a tick waits for some schemes, these have a stream of their own (see --second-send).
    Violations are in per cent of the messages delivered. The hold is the time from arrival to delivery, in ticks.
    All combinations of --motes, --loss, --rate, --epsilon and --delta are compared.
    """
    terms = Terms(given["policy"], given["phi"], given["give_up"], given["min_wait"])
    if plot is not None and plot.suffix not in PICTURES:
        raise click.UsageError(f"--plot {plot}: a picture's name ends in {', '.join(PICTURES)}")
    try:
        if out is not None:
            _write_document(out, given["messages"], seeds)
            return
        rows = _recorded(ctx, trace, schemes, terms) if trace else _simulated(given, schemes, terms, seeds)
        shown: list[ComparisonRow] = []
        for row in rows:
            shown.append(row)
            if as_json:
                common.emit_json(row.to_dict(), flush=True)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    except TraceError as error:
        common.fail(str(error))
    if plot is not None:
        from basestation.comparing.comparison_plot import draw  # matplotlib, only for pictures

        draw(shown, plot)
        common.note(f"wrote {plot}")
    if not as_json:
        show(common.out, shown)


def _simulated(
    given: dict[str, Any], schemes: Sequence[str], terms: Terms, seeds: int
) -> Iterator[ComparisonRow]:
    swept = networks(given)
    with common.progress(len(swept) * len(schemes), "comparing") as advance:
        for options in swept:
            for row in measure_network(options, schemes, terms, seeds):
                advance()
                yield row


def _recorded(
    ctx: click.Context, trace: Path, schemes: Sequence[str], terms: Terms
) -> Iterator[ComparisonRow]:
    from basestation.comparing.recorded_run import measure_trace

    for name in (*SWEPT, *FIXED, "seeds"):
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            raise OptionError(name, ctx.params.get(name), "a recorded run sets this itself")
    with common.progress(measure_trace(trace, schemes, terms), "comparing") as each:
        yield from each


def _write_document(out: Path, messages: int, seeds: int) -> None:
    from basestation.comparing.schemes_document import write  # matplotlib

    with common.progress(None, "comparing") as advance:
        for path in write(out, messages, seeds, advance):
            common.note(f"wrote {path}")
