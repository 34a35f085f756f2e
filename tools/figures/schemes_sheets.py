"""The tables and pictures of all schemes.

All counts are the same on every machine. Times are not, so they have their own table.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from basestation.causality.rules import NEVER
from basestation.comparing.catalogue import NAMES, Terms, build
from basestation.comparing.comparison import DATA_BYTES, PAYLOAD_BYTES, ComparisonRow, most_motes, sweep
from basestation.comparing.comparison_plot import draw
from basestation.comparing.spread import measure_network
from basestation.simulator.options import WorldOptions
from packet_formats.schemes import descriptor, names

from .bytes_picture import draw_bytes
from .sheet import Sheet

MOTES = (5, 10, 20, 50)
LOSSES = (0.0, 0.01, 0.1)
WAITING = tuple(name for name in names() if descriptor(name).waits_by_name)


def write(out: Path, messages: int, seeds: int) -> None:
    base = WorldOptions(messages=messages)
    rows = _measure(sweep(base, {"loss": LOSSES, "motes": MOTES}), Terms(), seeds)
    small = [row for row in rows if row.place.motes == 10]
    apart = _measure(sweep(replace(base, delay="each"), {"loss": LOSSES}), Terms(), seeds)
    short = replace(base, messages=max(messages // 4, 1))  # stuck messages pile up
    stuck = _measure(sweep(short, {"loss": LOSSES}), Terms(give_up=NEVER), seeds, WAITING)
    rates = _measure(sweep(base, {"rate": (0.01, 0.1, 0.5)}), Terms(), seeds)
    clocks = _measure(sweep(base, {"epsilon": (1, 5, 10, 20), "loss": (0.1,)}), Terms(), seeds)
    sheets = [
        _size_sheet(base),
        *(_figure_sheet(rows, *figure) for figure in FIGURES),
        _apart_sheet(apart),
        _stuck_sheet(stuck),
        _sweep_sheet(rates, "rate", "Violations (mean, %) and mean hold (ticks) by rate, n = 10, no loss"),
        _sweep_sheet(
            clocks, "epsilon", "Violations (mean, %) and mean hold (ticks) by ε, n = 10, 10% lost, δ = 10"
        ),
    ]
    counted = f"({messages} messages a network, seeds: {seeds}; `make figures`.)"
    (out / "tables.md").write_text("\n\n".join([counted, *(sheet.markdown() for sheet in sheets)]) + "\n")
    times = _time_sheet([row for row in rows if row.place.loss == 0.0])
    (out / "times.md").write_text(times.markdown() + "\n")
    _points(out / "points.csv", rows)
    draw_bytes([row for row in small if row.place.loss == max(LOSSES)], out / "bytes.png")
    for name, shown in (("motes", rows), ("loss", small), ("rate", rates), ("epsilon", clocks)):
        draw(shown, out / f"{name}.png")


def _measure(
    networks: Sequence[WorldOptions], terms: Terms, seeds: int, names: Sequence[str] = NAMES
) -> list[ComparisonRow]:
    return [row for options in networks for row in measure_network(options, names, terms, seeds)]


def _points(path: Path, rows: Sequence[ComparisonRow]) -> None:
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        figures = tuple(rows[0].violations.percent())
        counts = ("late", "gave_up", "discarded", "concurrent", "stuck", "bits_max")
        head = ("scheme", "motes", "loss", "messages", "arrived", "delivered")
        lines.writerow([*head, *figures, "hold_mean", "hold_p99", "hold_max", *counts])
        for row in rows:
            place = (row.scheme, row.place.motes, row.place.loss, row.messages, row.arrived)
            found = (f"{value:.4f}" for value in row.violations.percent().values())
            hold = (f"{row.hold_mean:.3f}", f"{row.hold_p99:.0f}", row.hold_max)
            rest = (getattr(row, name) for name in counts)
            lines.writerow([*place, row.violations.delivered, *found, *hold, *rest])


# Tables


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.005 else "<0.01"


def _mean(row: ComparisonRow) -> str:
    return _number(row.violations.percent()["mean"])


def _any(row: ComparisonRow) -> str:
    return _number(row.violations.percent()["any"])


def _hold(row: ComparisonRow) -> str:
    return f"{row.hold_mean:.1f}"


def _skipped(row: ComparisonRow) -> str:
    return f"{100 * row.gave_up / max(row.arrived, 1):.1f}"


FIGURES: tuple[tuple[str, Callable[[ComparisonRow], str]], ...] = (
    ("Violations (mean, % of messages delivered)", _mean),
    ("Messages in a violation (any, %)", _any),
    ("Mean hold, ticks", _hold),
    ("Messages delivered without a cause that they named, % of arrivals", _skipped),
)


def _figure_sheet(rows: Sequence[ComparisonRow], title: str, cell: Callable[[ComparisonRow], str]) -> Sheet:
    """A table with a row for each scheme and a column for each n and loss."""
    columns = [(motes, loss) for motes in MOTES for loss in LOSSES]
    found = {(row.scheme, row.place.motes, row.place.loss): cell(row) for row in rows}
    return Sheet(
        f"{title}: n, and copies lost",
        ("scheme", *(f"{motes}, {loss:.0%}" for motes, loss in columns)),
        tuple((name, *(found[name, motes, loss] for motes, loss in columns)) for name in NAMES),
    )


def _size_sheet(base: WorldOptions) -> Sheet:
    def bytes_at(name: str, motes: int) -> str:
        scheme = build(name, replace(base, motes=motes), Terms())
        if scheme.grows:
            return "grows"
        least, most = (
            -(-bits // 8) for bits in (scheme.stamp_bits(scheme.start(0).on_send(0, 1)), scheme.most_bits)
        )
        return str(most) if least == most else f"{least} to {most}"

    lines = []
    for name in NAMES:
        limits = (most_motes(name, base, Terms(), data) for data in (0, DATA_BYTES))
        sizes = (bytes_at(name, motes) for motes in MOTES)
        lines.append((name, *sizes, *(str(limit) if limit else "none" for limit in limits)))
    fits = f"largest n in {PAYLOAD_BYTES} bytes"
    return Sheet(
        "Bytes of the stamp (beside source, sequence and flags: 3 bytes), and up to which n it fits; ε = δ = 10",
        ("scheme", *(f"n = {motes}" for motes in MOTES), f"{fits}, no data", f"{fits}, {DATA_BYTES} of data"),
        tuple(lines),
    )


def _apart_sheet(rows: Sequence[ComparisonRow]) -> Sheet:
    found = {(row.scheme, row.place.loss): row for row in rows}
    lines = []
    for name in NAMES:
        here = [found[name, loss] for loss in LOSSES]
        lines.append((name, *(_mean(row) for row in here), *(_hold(row) for row in here)))
    heads = [f"{what}, {loss:.0%} lost" for what in ("violations", "hold") for loss in LOSSES]
    title = "Each copy with a delay of its own (`--reading delay=each`), n = 10: violations (mean, %), hold (ticks)"
    return Sheet(title, ("scheme", *heads), tuple(lines))


def _stuck_sheet(rows: Sequence[ComparisonRow]) -> Sheet:
    found = {(row.scheme, row.place.loss): row for row in rows}
    lines = [
        (
            name,
            *(
                f"{100 * found[name, loss].violations.delivered / found[name, loss].arrived:.1f}"
                for loss in LOSSES
            ),
        )
        for name in WAITING
    ]
    return Sheet(
        "Delivered, % of what arrived, where nothing is ever given up (`--give-up never`), n = 10, a quarter of "
        "the messages",
        ("scheme", *(f"{loss:.0%} lost" for loss in LOSSES)),
        tuple(lines),
    )


def _sweep_sheet(rows: Sequence[ComparisonRow], axis: str, title: str) -> Sheet:
    values = list(dict.fromkeys(getattr(row.place, axis) for row in rows))
    found = {(row.scheme, getattr(row.place, axis)): row for row in rows}
    lines = []
    for name in NAMES:
        here = [found[name, value] for value in values]
        lines.append((name, *(_mean(row) for row in here), *(_hold(row) for row in here)))
    heads = [f"{what}, {value:g}" for what in ("violations", "hold") for value in values]
    return Sheet(title, ("scheme", *heads), tuple(lines))


def _time_sheet(rows: Sequence[ComparisonRow]) -> Sheet:
    found = {(row.scheme, row.place.motes): row for row in rows}
    lines = [
        (
            name,
            *(f"{found[name, motes].mote_us:.0f} / {found[name, motes].observer_us:.0f}" for motes in MOTES),
        )
        for name in NAMES
    ]
    return Sheet(
        "Microseconds of Python per message, no loss: all motes together (a send and n - 1 receives) / the observer",
        ("scheme", *(f"n = {motes}" for motes in MOTES)),
        tuple(lines),
    )
