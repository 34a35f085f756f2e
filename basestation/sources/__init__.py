"""Where packets come from, named by the strings that TinyOS users know.

    serial@PORT[:BAUD-or-platform]   a gateway's UART
    network@HOST:PORT                raw UART bytes over TCP, such as a MIB600's
    sf@HOST:PORT                     a serial forwarder of TinyOS 1.x or 2.x
    replay@FILE[?pace=1]             a journal, or a capture of a serial line
    testbed@[FILE][?motes=10]        emulated motes, started for the purpose
    simulate@[FILE][?messages=1000]  the paper's model of a network

Each kind lives in a module of its own that is imported when it is asked for, so that what one of them needs and is
not there breaks that one alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from basestation.sources.base import Source, SourceError, SourceOptions, Spec
from packet_formats.phrases import did_you_mean

KINDS = {
    "serial": "basestation.sources.serial",
    "network": "basestation.sources.network",
    "sf": "basestation.sources.sf",
    "replay": "basestation.sources.replay",
    "testbed": "basestation.sources.testbed",
    "simulate": "basestation.sources.simulate",
}

__all__ = ["KINDS", "Source", "SourceError", "SourceOptions", "open_source"]


def open_source(text: str, gateway: int = 0, options: SourceOptions | None = None) -> Source:
    """The source that `text` names; nothing is opened before its `open()` or its first line is asked for."""
    spec = Spec.parse(text)
    if spec.kind not in KINDS:
        hint = did_you_mean(spec.kind, KINDS) or f": a source begins with {', '.join(f'{k}@' for k in KINDS)}"
        raise SourceError(f"{text}: no kind of source is named {spec.kind!r}{hint}")
    try:
        module = importlib.import_module(KINDS[spec.kind])
    except ModuleNotFoundError as error:
        raise SourceError(f"{text}: needs the Python module {error.name}, which is not installed") from None
    make: Callable[[Spec, int, SourceOptions], Source] = module.make
    return make(spec, gateway, options or SourceOptions())
