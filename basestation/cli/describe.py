"""`basestation describe`: a deployment's layout as a table and as a picture of its bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Column, Table
from rich.text import Text

from basestation.cli import common
from packet_formats.ages import AGAIN, TOP
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of, why_no_repair
from packet_formats.phrases import many
from packet_formats.schedule import ms
from packet_formats.schemes import descriptor
from packet_formats.values import Value

RIGHT = partial(Column, justify="right")
COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
CELL = 9  # characters for one bit of the picture: most names fit into a few bits


@dataclass(frozen=True, slots=True)
class PayloadPart:
    """A range of bits of the payload."""

    name: str
    offset: int
    bits: int
    meaning: str


@click.command(
    epilog=common.example(
        """
        basestation describe examples/paper.toml
        basestation describe --json examples/micaz.toml
        """
    )
)
@click.argument("deployment", type=click.Path(path_type=Path))
@common.json_option
def command(deployment: Path, as_json: bool) -> None:
    """Show the layout of a DEPLOYMENT: fields, bits, free payload, and timings."""
    described = common.load_deployment(deployment)
    layout = layout_of(described)
    if as_json:
        common.emit_json(as_plain(described, layout))
        return
    common.out.print(_summary(described, layout))
    common.out.print(_fields(layout))
    common.out.print(_picture(layout))
    if described.motes:
        common.out.print(_motes(described))


def parts(layout: DataLayout) -> list[PayloadPart]:
    """All fields of the payload, in order."""
    found = [
        PayloadPart("source", 0, layout.source_bytes * 8, "id of the mote"),
        PayloadPart("sequence", layout.sequence_at * 8, 8, "of the message, modulo 256"),
    ]
    flags = layout.flags_at * 8
    found += [
        PayloadPart("hops", flags, 2, "how many more times relays may forward it; 3: 3 or more"),
        PayloadPart("boot", flags + 2, 3, "boot count modulo 8"),
        PayloadPart("complete", flags + 5, 1, "the receipts are complete"),
        PayloadPart("saturated", flags + 6, 1, "a field of the stamp holds its top code"),
        PayloadPart("in sync", flags + 7, 1, "the sender's clock follows the root"),
    ]
    if layout.has_age:
        found.append(PayloadPart("event age", layout.age_at * 8, 8, _age(layout)))
    start = layout.stamp_at * 8
    found += [
        PayloadPart(f.name, start + f.offset, f.bits, _meaning(f.name, layout)) for f in layout.stamp.fields
    ]
    padding = layout.stamp.size * 8 - layout.stamp.bits
    if padding:
        found.append(PayloadPart("padding", start + layout.stamp.bits, padding, "always 0"))
    for slot in range(layout.receipts):
        at = (layout.receipts_at + slot * layout.receipt_bytes) * 8
        found.append(
            PayloadPart(
                f"receipt{slot}", at, layout.receipt_bytes * 8, "source and sequence of a message received"
            )
        )
    at = layout.data_at * 8
    for value in layout.values:
        found.append(PayloadPart(value.name, at, value.size * 8, _value(value)))
        at += value.size * 8
    if layout.data_bytes and not layout.values:
        found.append(PayloadPart("data", at, layout.data_bytes * 8, "of the application"))
    if layout.mic:
        found.append(
            PayloadPart("mic", layout.mic_at * 8, layout.mic * 8, "shows that the sender has the key")
        )
    return found


def _value(value: Value) -> str:
    """The meaning of a value of [[data]]: `u16 * 0.5 in lx, read from light`."""
    text = value.type + (f" * {value.scale}" if value.scale != 1 else "")
    if value.offset:
        text += f" {'+' if value.offset > 0 else '-'} {abs(value.offset)}"
    text += f" in {value.unit}" if value.unit else ""
    return text + (f", read from the sensor {value.sensor}" if value.sensor else "")


def _age(layout: DataLayout) -> str:
    unit, most, again = (layout.age_ms(code) for code in (1, TOP, AGAIN + 1))
    return f"of the event at its stamp, in {unit} ms up to {most} or more; from {AGAIN} on: sent again, in {again} ms"


def _meaning(name: str, layout: DataLayout) -> str:
    stamp = layout.stamp
    if name == "clock":
        return f"{'l = r + c' if stamp.carry == 'sum' else 'r'} modulo {stamp.modulus}"
    if name == "c":
        return f"how far the largest known clock is ahead, 0..{layout.epsilon}"
    word = name.rstrip("0123456789")
    index = int(name.removeprefix(word) or 0)
    return descriptor(stamp.scheme).meaning(word, index, stamp)


def as_plain(deployment: Deployment, layout: DataLayout) -> dict[str, Any]:
    clock, stamp = deployment.clock, layout.stamp
    tick_ms = clock.tick_seconds * 1000
    return {
        "name": deployment.network.name,
        "deployment": deployment.to_dict(),
        "am_type": layout.am_type,
        "hash": layout.hash,
        "canonical": layout.canonical,
        "scheme": stamp.scheme,
        "stamp_bits": stamp.bits,
        "stamp_bytes": stamp.size,
        "stamp_bytes_least": stamp.least_size,
        "payload_bytes": layout.length,
        "payload_limit": layout.limit,
        "payload_left": layout.left,
        "modulus": 1 << clock.clock_bits,
        "modulus_least": clock.delta + clock.epsilon + deployment.lead + 1,
        "late_guess_ms": deployment.late_guess * tick_ms if stamp.clock_bits else None,
        "tick_ms": tick_ms,
        "epsilon_ms": clock.epsilon * tick_ms,
        "delta_ms": clock.delta * tick_ms,
        **({"mic_bytes": layout.mic} if layout.mic else {}),
        **_schedule(deployment),
        "fields": [
            {"name": p.name, "bit": p.offset, "bits": p.bits, "meaning": p.meaning} for p in parts(layout)
        ],
    }


def _schedule(deployment: Deployment) -> dict[str, Any]:
    schedule = deployment.schedule
    if schedule is None:
        return {}
    times = {"period_ms": schedule.period_ms, "window_ms": schedule.delta_ms, "phase_ms": ms(schedule.phase)}
    urgent = (
        {"urgent_ms": deployment.radio.urgent_ms, "urgent_wait_ms": schedule.urgent_wait_ms}
        if schedule.urgent_log2
        else {}
    )
    return times | urgent | {"repair_bytes": layout_of(deployment).repair}


def repair(deployment: Deployment, layout: DataLayout) -> str:
    """Whether messages that the gateway missed are sent again, in words."""
    if layout.repair:
        return f"messages that the gateway missed are sent again, by {many(layout.repair, 'byte')} in each beacon"
    if not deployment.radio.repair:
        return "none: [radio] repair = false"
    assert deployment.schedule is not None
    return f"none: {why_no_repair(deployment.schedule, deployment.network.tinyos)}"


def _summary(deployment: Deployment, layout: DataLayout) -> Table:
    plain, network, clock = as_plain(deployment, layout), deployment.network, deployment.clock
    least = plain["modulus_least"]
    spare = plain["modulus"] - least
    motes = many(network.motes, "mote")
    table = Table("what", "value", title=f"{network.name}: {motes}, {network.board}, TinyOS {network.tinyos}")
    rows = [
        ("stamp", _stamp_size(layout)),
        ("payload", f"{layout.length} of {layout.limit} bytes, {layout.left} left"),
        *_moving(layout),
        ("AM type", f"{layout.am_type:#04x} in group {layout.group:#04x}"),
        ("layout hash", f"{layout.hash:#010x}"),
        ("protection", protection(deployment)),
        ("tick", f"{plain['tick_ms']:.4g} ms (2^{clock.tick_log2} cycles of 32768 Hz)"),
        ("epsilon", f"{many(clock.epsilon, 'tick')}, {plain['epsilon_ms']:.4g} ms"),
        ("delta", f"{many(clock.delta, 'tick')}, {plain['delta_ms']:,.5g} ms"),
    ]
    if schedule := deployment.schedule:
        rows.append(
            ("listens", f"{schedule.delta_ms:.0f} ms at most of every {schedule.period_ms / 1000:g} s")
        )
        if schedule.urgent_log2:
            most, every = schedule.urgent_wait_ms / 1000, deployment.radio.urgent_ms / 1000
            rows.append(
                (
                    "urgent messages",
                    f"looked for every {every:g} s, at the gateway after {most:.1f} s at most",
                )
            )
        rows.append(("repair", repair(deployment, layout)))
    if layout.stamp.clock_bits:
        wraps = f"every {layout.stamp.modulus * plain['tick_ms'] / 1000:.4g} s on the wire"
        need = f"delta + {deployment.scheme.lead + 1}*epsilon + 1"
        bound = f"{plain['modulus']} >= {need} = {least}, {many(spare, 'residue')} to spare"
        late = f"{plain['late_guess_ms'] / 2:.4g} ms late, if the gateway is not Causeway's"
        guess = f"a beacon and a frame may each be {late}"
        rows += [("B", bound), ("clock wraps", wraps), ("guessed time", guess)]
    if deployment.waits_by_name:
        gives_up = deployment.observer.give_up
        rows.append(("give up", f"after {many(gives_up, 'tick')}, {gives_up * plain['tick_ms']:.4g} ms"))
    for row in rows:
        table.add_row(*row)
    return table


def protection(deployment: Deployment) -> str:
    """The protection against attackers, in words."""
    if not deployment.security.mic:
        return "none: any radio can send as any mote ([security], docs/reference/security.md)"
    return (
        f"MIC of {many(deployment.security.mic, 'byte')} on data, health, beacons, commands and acknowledgements, by "
        f"the key in {deployment.security.key}. Any radio can read the messages, and can replay those sent out of sync"
    )


def _stamp_size(layout: DataLayout) -> str:
    stamp = layout.stamp
    if stamp.is_variable:
        return f"{stamp.scheme}, {stamp.least_size} to {many(stamp.size, 'byte')}, depending on its items"
    return f"{stamp.scheme}, {stamp.bits} bits in {many(stamp.size, 'byte')}"


def _moving(layout: DataLayout) -> list[tuple[str, str]]:
    """Where the fields after a stamp of variable length begin."""
    stamp = layout.stamp
    behind = [part for part in parts(layout) if part.offset >= 8 * (layout.stamp_at + stamp.size)]
    if not stamp.is_variable or not behind:
        return []
    first, bits = (
        layout.stamp_at + stamp.least_size,
        stamp.bits_of(stamp.least + 1) - stamp.bits_of(stamp.least),
    )
    moves = many(bits // 8, "byte") if bits % 8 == 0 else f"{many(bits, 'bit')}, in whole bytes"
    text = (
        f"{behind[0].name} is at byte {first} after the shortest stamp; each item moves it by {moves}, "
        f"to byte {behind[0].offset // 8} after the longest, which is shown below"
    )
    return [("behind it", text)]


def _motes(deployment: Deployment) -> Table:
    table = Table(RIGHT("mote"), "name", RIGHT("x"), RIGHT("y"), title="Motes that have a name or a place")
    for mote in deployment.motes:
        place = ("" if at is None else f"{at:g}" for at in (mote.x, mote.y))
        table.add_row(str(mote.id), Text(mote.name), *place)
    return table


def _fields(layout: DataLayout) -> Table:
    columns = RIGHT("byte"), RIGHT("bit"), "field", RIGHT("bits"), "meaning"
    table = Table(*columns, title="Fields of a data message")
    for index, part in enumerate(parts(layout)):
        name = Text(part.name, COLOURS[index % len(COLOURS)])
        table.add_row(str(part.offset // 8), str(part.offset % 8), name, str(part.bits), part.meaning)
    return table


def _picture(layout: DataLayout) -> Text:
    """One row for each byte or field of whole bytes, most significant bit first; a bar begins a field."""
    found, text, byte = parts(layout), Text("Bits of a data message, most significant first\n"), 0
    while byte < layout.length:
        whole = next((part for part in found if part.offset == byte * 8 and part.bits % 8 == 0), None)
        last = byte + whole.bits // 8 - 1 if whole else byte
        text.append(f"{byte:>5} " if last == byte else f"{f'{byte}-{last}':>5} ")
        for index, part in enumerate(found):
            start, end = max(part.offset, byte * 8), min(part.offset + part.bits, byte * 8 + 8)
            if start < end:
                begins = start == part.offset
                text.append("|" if begins else ":")
                label = _fitted(part.name if begins else "", (end - start) * CELL - 1)
                text.append(label, COLOURS[index % len(COLOURS)])
        text.append("|\n")
        byte = last + 1
    text.rstrip()
    return text


def _fitted(label: str, width: int) -> str:
    return f"{label:^{width}}" if len(label) <= width else label[: width - 1] + "."
