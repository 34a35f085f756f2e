"""`basestation compare`: every scheme of the papers, and ours, on the same stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.causality.policies import POLICIES
from basestation.cli import common
from basestation.comparing.catalogue import FOREVER, NAMES, Terms
from basestation.comparing.measure import Row, measure_network, sweep
from basestation.simulator.options import OptionError, WorldOptions
from basestation.traces.files import TraceError

PICTURES = (".png", ".svg", ".pdf")
SWEPT = {
    "motes": "Number of motes, n; may be repeated, as the next four.",
    "loss": "Chance that a copy is lost on a hop.",
    "rate": "Chance that a mote sends when its clock ticks.",
    "epsilon": "Largest difference of two clocks, in ticks (G1).",
    "delta": "Longest delay of a message, in ticks (G2).",
}
FIXED = {
    "messages": "How many messages are sent in each network.",
    "seed": "The first network's; the others have the next ones.",
    "delay_law": "Mean delay of a message: delta/2 or delta/4.",
    "recipients": "Who gets a message: every peer, or one of them.",
    "delay": "One delay for all copies of a message, or one for each.",
    "delay_clock": "The clock that delays run in.",
    "reception": "All that is due in one event at the next tick; one event each; or each at once.",
    "g2": "Delays as drawn; or a reception that G2 does not allow is a loss.",
}
QUICK = {"messages": 2000}  # the objects are slow


class GiveUp(click.ParamType[Any]):
    """A number of ticks, or never."""

    name = "TICKS|never"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "never":
            return FOREVER
        try:
            ticks = int(value)
        except ValueError:
            ticks = -1
        if ticks < 0:
            self.fail(f"{value!r} is neither a number of ticks nor never", param, ctx)
        return ticks


def _network_options(function: Any) -> Any:
    hints = get_type_hints(WorldOptions)
    for name, text in reversed((SWEPT | FIXED).items()):
        kind, several = hints[name], name in SWEPT
        default = QUICK.get(name, getattr(WorldOptions(), name))
        function = click.option(
            f"--{name.replace('_', '-')}",
            type=click.Choice(get_args(kind)) if get_args(kind) else kind,
            multiple=several,
            default=[default] if several else default,
            show_default=True,
            help=text,
        )(function)
    return function


@click.command(
    epilog=common.example(
        """
        basestation compare
        basestation compare --scheme none --scheme vector --scheme shlc --motes 5 --motes 20 --loss 0 --loss 0.1
        basestation compare --loss 0.1 --give-up never
        basestation compare --trace runs/one --json
        basestation compare --rate 0.01 --rate 0.1 --rate 0.5 --plot rates.png
        """
    )
)
@click.option(
    "--scheme",
    "schemes",
    type=click.Choice(NAMES),
    multiple=True,
    default=NAMES,
    help="Stamp with its delivery rule; may be repeated. [default: all]",
)
@_network_options
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Networks at each point.")
@click.option(
    "--give-up",
    type=GiveUp(),
    help="How long to wait for a missing message, where a rule waits for one. [default: delta + epsilon]",
)
@click.option("--min-wait", type=int, help="two-hop: hold in any case. [default: the least allowed]")
@click.option(
    "--policy",
    type=click.Choice(list(POLICIES)),
    default="cbd",
    show_default=True,
    help="Delivery of our own stamps.",
)
@click.option(
    "--phi",
    type=click.IntRange(0, 100),
    default=100,
    show_default=True,
    help="Share of the safe wait in per cent, for our own stamps and for physical.",
)
@click.option(
    "--trace", type=click.Path(path_type=Path), help="Compare on this recorded run instead of a simulation."
)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw it into this file.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Make the tables and pictures of docs/schemes.md here; it says itself what to compare.",
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
    """Compare the papers' schemes, and ours, on the same simulated or recorded stream of events.

    Every scheme stamps the same sends and orders the same arrivals, so differences are never differences of luck.
    Violations are in per cent of the messages delivered; hold is from arrival to delivery, in ticks. Of --motes,
    --loss, --rate, --epsilon and --delta all combinations are taken.
    """
    terms = Terms(given["policy"], given["phi"], given["give_up"], given["min_wait"])
    if plot is not None and plot.suffix not in PICTURES:
        raise click.UsageError(f"--plot {plot}: a picture's name ends in {', '.join(PICTURES)}")
    try:
        if out is not None:
            _write_document(out, given["messages"], seeds)
            return
        rows = _recorded(ctx, trace, schemes, terms) if trace else _simulated(given, schemes, terms, seeds)
        shown: list[Row] = []
        for row in rows:
            shown.append(row)
            if as_json:
                common.emit_json(row.to_dict(), flush=True)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    except TraceError as error:
        common.fail(str(error))
    if plot is not None:
        from basestation.comparing.plot import draw  # matplotlib, only for pictures

        draw(shown, plot)
        common.note(f"wrote {plot}")
    if not as_json:
        _show(shown)


def _simulated(given: dict[str, Any], schemes: Sequence[str], terms: Terms, seeds: int) -> Iterator[Row]:
    base = WorldOptions(**{name: given[name] for name in FIXED})
    networks = sweep(base, {name: list(dict.fromkeys(given[name])) for name in SWEPT})
    with common.progress(len(networks) * len(schemes), "comparing") as advance:
        for options in networks:
            for row in measure_network(options, schemes, terms, seeds):
                advance()
                yield row


def _recorded(ctx: click.Context, trace: Path, schemes: Sequence[str], terms: Terms) -> Iterator[Row]:
    from basestation.comparing.recorded import measure_trace

    for name in (*SWEPT, *FIXED, "seeds"):
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            raise OptionError(name, ctx.params.get(name), "a recorded run says that itself")
    with common.progress(measure_trace(trace, schemes, terms), "comparing") as each:
        yield from each


def _write_document(out: Path, messages: int, seeds: int) -> None:
    from basestation.comparing.document import write  # matplotlib

    with common.progress(None, "comparing") as advance:
        for path in write(out, messages, seeds, advance):
            common.note(f"wrote {path}")


def _show(rows: Sequence[Row]) -> None:
    for place in dict.fromkeys(row.place for row in rows):
        here = [row for row in rows if row.place == place]
        first = here[0]
        about = f"{place.motes} motes, epsilon {place.epsilon}, delta {place.delta}"
        about += "" if place.rate is None else f", rate {place.rate:g}, loss {place.loss:.0%}"
        common.out.print(f"{about}: {first.messages} messages sent, {first.arrived} arrived")
        common.out.print(_table(here))
    common.out.print("\n".join(LEGEND), style="dim")


LEGEND = (
    "bytes: of the largest stamp beside source and sequence; ! leaves a 29-byte payload.",
    "Violations in % of messages delivered: mean (ACO's), any (messages in one), pairs. hold: ticks.",
    "gave up: messages that left without a cause that they named. lost: discarded, or held for ever.",
    "concurrent: messages flagged so. us: microseconds of our Python per message, all motes together / the observer.",
)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column("scheme", no_wrap=True)
    columns = ("bytes", "delivered", "mean", "any", "pairs", "hold", "p99", "gave up", "lost", "late")
    for name in (*columns, "concurrent", "us"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    percent = row.violations.percent()
    return [
        row.scheme,
        f"{row.size}{'' if row.fits else '!'}",
        str(row.violations.delivered),
        *(_percent(percent[figure]) for figure in ("mean", "any", "pairs")),
        f"{row.hold_mean:.1f}",
        f"{row.hold_p99:.0f}",
        str(row.gave_up),
        str(row.discarded + row.stuck),
        str(row.late),
        str(row.concurrent),
        f"{row.mote_us:.0f}/{row.observer_us:.0f}",
    ]


def _percent(value: float) -> str:
    """Never round a violation down to nothing."""
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.01 else "<0.01"
