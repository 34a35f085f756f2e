"""`csv@FILE[?pace=1]`: packets from a table, such as another program writes it.

Each row has the seconds since the beginning and a packet in hex, from its type byte on, without framing:

    0.000,00ffff007d0b...
    0.031,00ffff00710e...
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from basestation.arrivals import Line
from basestation.sources.base import Source, SourceOptions, Spec
from basestation.sources.playback import PlayedSource, arrivals, pace_of
from packet_formats.framing import FrameCounters


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    """Make the source. Nothing is read yet."""
    spec.known("pace")
    return PlayedSource(spec.text, pace_of(spec), partial(_play, spec, gateway))


def _play(spec: Spec, gateway: int, counters: FrameCounters) -> Iterator[Line]:
    yield from arrivals(_packets(spec, counters), gateway, time.monotonic_ns(), time.time_ns())


def _packets(spec: Spec, counters: FrameCounters) -> Iterator[tuple[int, bytes]]:
    try:
        with Path(spec.where).expanduser().open(newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                try:
                    seconds, packet = row
                    after, data = round(float(seconds) * 1e9), bytes.fromhex(packet)
                except ValueError:
                    raise spec.wrong(f"line {number} should be SECONDS,HEX") from None
                counters.frames += 1
                yield after, data
    except OSError as error:
        raise spec.wrong(f"{spec.where}: {error.strerror or error}") from None
