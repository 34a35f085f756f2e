"""The schemes that name messages on the real firmware: five minutes.

Ten emulated motes over three hops, with an image for each scheme's stamp and the live station with the scheme's own
rule, all with the same places, crystals and seeds. The flight recorders judge the order.

A rule cannot wait for a mote that it has not heard yet, so a run counts from when every mote has been heard once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from basestation.causality.truth import Send
from basestation.causality.violations import Violations, count_violations
from basestation.testbed import images
from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.layout import layout_of
from packet_formats.schemes import OWN, SMALLEST
from tools.firmware_report import ImageSize
from tools.pages import table
from tools.station_run import StationRun, run_station

from . import ROOT, Workload, by_row

MOTES, HOPS, RATE = 10, 3, 4.0  # messages a second of each: two thirds of what the gateway's line carries
SEEDS, SECONDS = 5, 40.0
SCHEMES = (*(name for name, row in OWN.items() if row.in_firmware and not row.is_ordered), SMALLEST)


class SchemePoint(NamedTuple):
    """One run, counted from when all motes have been heard."""

    scheme: str
    seed: int
    arrived: Violations
    delivered: Violations
    stamp_bytes: float  # mean
    held_ms: float
    gave_up: int


def deployment_of(scheme: str) -> Deployment:
    """examples/micaz.toml with another stamp."""
    tables = load(ROOT / "examples" / "micaz.toml").to_dict()
    clock = tables["clock"]
    return from_dict(
        {
            "network": tables["network"] | {"motes": MOTES, "hops": HOPS},
            "clock": {key: clock[key] for key in ("tick_log2", "epsilon", "delta")},
            "stamp": {"scheme": scheme},
        }
    )


def settled(run: StationRun) -> set[tuple[int, int]]:
    """The messages that arrived after every mote had been heard."""
    heard: set[int] = set()
    found: set[tuple[int, int]] = set()
    for taken in run.arrivals:
        if len(heard) == MOTES:
            found.add(_name(taken.send))
        heard.add(taken.send.source)
    return found


def _name(send: Send) -> tuple[int, int]:
    return send.source, send.index


def measured(scheme: str, seed: int) -> SchemePoint:
    return point_of(run_station(deployment_of(scheme), MOTES, SECONDS, RATE, seed), seed)


def point_of(run: StationRun, seed: int) -> SchemePoint:
    counted = settled(run)
    left = [
        (send, held) for send, held in zip(run.delivered, run.held_ms, strict=True) if _name(send) in counted
    ]
    layout = layout_of(run.deployment)
    stamps = [taken.data.stamp for taken in run.arrivals if _name(taken.send) in counted]
    return SchemePoint(
        run.deployment.stamp.scheme,
        seed,
        count_violations([taken.send for taken in run.arrivals if _name(taken.send) in counted]),
        count_violations([send for send, _ in left]),
        mean(len(layout.stamp.pack(stamp)) for stamp in stamps),
        mean(held for _, held in left),
        run.gave_up,
    )


def lines(effort: Workload) -> Iterator[str]:
    found = dict(by_row(measured, dict.fromkeys(SCHEMES, SEEDS), effort))
    clock = deployment_of(SMALLEST).clock
    yield (
        f"{MOTES} MICAz motes, {HOPS} hops, {RATE:g} messages a second of each, {effort.seeds or SEEDS} seeds of "
        f"{SECONDS:g} s; ticks of {1000 * clock.tick_seconds:.1f} ms, ε = {clock.epsilon}, δ = {clock.delta}."
    )
    yield from table_of(found)


def table_of(found: Mapping[str, list[SchemePoint]]) -> Iterator[str]:
    yield ""
    heads = (
        *("scheme", "stamp, bytes", "messages", "violated pairs: on arrival", "delivered"),
        *(
            "messages in a violation: on arrival",
            "delivered",
            "hold, ms",
            "gave up",
            "cycles: send",
            "receive",
            "RAM, bytes",
            "image, bytes",
        ),
    )
    yield from table(heads, (_row(scheme, points) for scheme, points in found.items()))


def _row(scheme: str, points: Sequence[SchemePoint]) -> list[str]:
    send, receive = cycles_of(deployment_of(scheme))
    ram, flash = sizes_of(deployment_of(scheme))
    sizes = [point.stamp_bytes for point in points]
    delivered = sum(point.delivered.delivered for point in points)
    return [
        scheme,
        f"{mean(sizes):.1f}" if layout_of(deployment_of(scheme)).stamp.is_variable else f"{mean(sizes):g}",
        str(delivered),
        str(sum(point.arrived.pairs for point in points)),
        str(sum(point.delivered.pairs for point in points)),
        _share(sum(point.arrived.any for point in points), delivered),
        _share(sum(point.delivered.any for point in points), delivered),
        f"{mean(point.held_ms for point in points):.1f}",
        _share(sum(point.gave_up for point in points), delivered),
        str(send),
        str(receive),
        str(ram),
        str(flash),
    ]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if part else "0"


def cycles_of(deployment: Deployment) -> tuple[int, int]:
    """The mean cycles of a send and a receive event on the mote."""
    from tests.firmware.test_core_avr import cycles  # here, since it needs pytest

    found = cycles("avr-gcc", "simavr", deployment)
    return found["send"][1], found["receive"][1]


def sizes_of(deployment: Deployment) -> tuple[int, int]:
    """The bytes of a mote's stamp program in RAM, and those of its image."""
    program = images.programs_for(deployment, RATE).mote
    (ram,) = [size for name, (_, size) in program.variables().items() if name.partition(".")[0] == "stamp"]
    return ram, ImageSize(program.path).flash
