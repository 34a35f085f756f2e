"""`replay@FILE?pace=1`: a journal, or a capture of a serial line (raw, hex, or from TinyOS's `Listen`; gzipped or not).

A journal has the times of arrival. A capture has none: its heard records say when a gateway heard each frame. Without
them, frames come as fast as a line of 57600 baud could have carried them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from basestation.arrivals import Arrival, Line
from basestation.sources.base import Source, SourceOptions, Spec
from basestation.sources.playback import PlayedSource, arrivals, pace_of
from packet_formats import captures
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.framing import FrameCounters, FrameDecoder, encode_frame
from packet_formats.messages import RECORD_STRUCT
from packet_formats.records import Heard, size
from packet_formats.tinyos import Ack, PacketError, decode_packet, encode_packet

PIECE = 4096
BYTE_NS = 10 * 10**9 // 57600  # ten bits


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    spec.known("pace")
    pace, path = pace_of(spec), Path(spec.where).expanduser()
    if not spec.where:
        raise spec.wrong("should name a journal's folder or a capture, as in replay@capture.bin")
    if path.is_dir() or path.suffix == ".cwj":
        folder = path if path.is_dir() else path.parent
        return PlayedSource(spec.text, pace, partial(_journal, spec, folder, gateway, options.say))
    return PlayedSource(spec.text, pace, partial(_capture, spec, path, gateway, options.say))


def _journal(
    spec: Spec, folder: Path, gateway: int, say: Callable[[str], None], counters: FrameCounters
) -> Iterator[Line]:
    """Play a journal. Its gateways are numbered from ours on."""
    from basestation.journal.reader import deeper_runs, find_journals, read_journal
    from basestation.journal.record_format import JournalError

    try:
        runs = find_journals(folder)
        if len(runs) != 1:
            named = (
                f"say which: {', '.join(map(str, runs))}"
                if runs
                else f"no journal is in it{deeper_runs(folder)}"
            )
            raise spec.wrong(f"{len(runs)} runs: {named}")
        for record in read_journal(runs[0]).records(lambda fault: say(str(fault))):
            line = record.line()
            if line is not None:
                counters.frames += isinstance(line, Arrival)
                yield line._replace(gateway=gateway + line.gateway)
    except (JournalError, OSError) as error:
        raise spec.wrong(str(error)) from None


def _capture(
    spec: Spec, path: Path, gateway: int, say: Callable[[str], None], counters: FrameCounters
) -> Iterator[Line]:
    try:
        with path.open("rb") as file:
            raw = file.read(captures.MOST + 1)
        wall_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise spec.wrong(f"{path}: {error.strerror or error}") from None
    if len(raw) > captures.MOST:
        raise spec.wrong(f"{path}: a capture has at most {captures.MOST >> 20} MB: cut it into pieces")
    raw, fault = captures.unzipped(raw)
    if fault is not None:
        say(f"{path}: {fault}")
    form = captures.detect(raw)
    packets = _raw(raw, counters) if form == "serial" else _text(raw, form, spec, say, counters)
    yield from arrivals(_timed(packets), gateway, time.monotonic_ns(), wall_ns)
    if not counters.frames:
        raise spec.wrong(
            f"nothing could be decoded as {form}: no capture, or one of a line at the wrong speed"
        )


def _raw(raw: bytes, counters: FrameCounters) -> Iterator[bytes]:
    decoder = FrameDecoder()
    decoder.counters = counters
    for start in range(0, len(raw), PIECE):
        yield from decoder.feed(raw[start : start + PIECE])
    decoder.close()


def _text(
    raw: bytes, form: str, spec: Spec, say: Callable[[str], None], counters: FrameCounters
) -> Iterator[bytes]:
    items = list(captures.read(raw, form))
    if why := captures.no_capture(items, form):
        raise spec.wrong(why)
    for item in items:
        if isinstance(item, captures.CaptureFault):
            say(f"{spec.where}: {item}")
        else:
            counters.frames += 1
            yield encode_packet(item.packet)


def _timed(packets: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Give each packet the earliest time, in ns since the beginning, at which its last byte can have come."""
    unwrap, first, now = captures.Unwrapper(), None, 0
    for packet in packets:
        now += len(encode_frame(packet)) * BYTE_NS
        heard = _heard(packet)
        if heard is not None:
            at = unwrap(heard) * 10**9 // CRYSTAL_HZ
            first = at - now if first is None else first
            now = max(now, at - first)
        yield now, packet


def _heard(packet: bytes) -> int | None:
    """The 32-bit network time in a packet that is a heard record."""
    try:
        message = decode_packet(packet)
    except PacketError:
        return None
    if isinstance(message, Ack) or message.type != Heard.AM_TYPE or len(message.data) != size(Heard):
        return None
    order = "little" if message.tinyos == 1 else "big"
    return int(RECORD_STRUCT[Heard, order].parse(message.data).time)
