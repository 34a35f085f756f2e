"""Where packets come from, named by the strings that TinyOS users know.

    serial@PORT[:BAUD-or-platform]   a gateway's UART; a bare /dev/ttyUSB1 is one, too
    network@HOST:PORT                raw UART bytes over TCP, such as a MIB600's
    sf@HOST:PORT                     a serial forwarder of TinyOS 1.x or 2.x
    replay@FILE[?pace=1]             a journal, or a capture of a serial line
    testbed@[FILE][?motes=10]        emulated motes, started for the purpose
    simulate@[FILE][?messages=1000]  the paper's model of a network

Another package adds a kind by an entry point in the group `causeway.sources`: its name is the kind, its value a module
or an object with a function `make(spec, gateway, options)` that returns a `Source`. examples/plugin has one.

Each kind lives in a module of its own, which is imported when a source of this kind is opened. A module that lacks
something it needs breaks this one kind only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from basestation.sources.base import Source, SourceError, SourceOptions, SourceUsageError, Spec
from packet_formats.phrases import did_you_mean

KINDS = {
    "serial": "basestation.sources.serial",
    "network": "basestation.sources.network",
    "sf": "basestation.sources.sf",
    "replay": "basestation.sources.replay_source",
    "testbed": "basestation.sources.testbed_source",
    "simulate": "basestation.sources.simulated_source",
}
# Those that only read: they write no file and start no program.
READERS = ("serial", "network", "sf", "replay", "simulate")
GROUP = "causeway.sources"

Make = Callable[[Spec, int, SourceOptions], Source]

__all__ = [
    "KINDS",
    "READERS",
    "Source",
    "SourceError",
    "SourceOptions",
    "SourceUsageError",
    "open_source",
    "plugged_in",
]


def open_source(text: str, gateway: int = 0, options: SourceOptions | None = None) -> Source:
    """The source that `text` names. It is opened by its `open()`, or when its first line is asked for."""
    spec = Spec.parse(text)
    plugins = [entry for entry in plugged_in() if entry.name == spec.kind]
    if spec.kind in KINDS:
        if plugins:
            raise spec.wrong(
                f"{_owner(plugins[0])} also has a source named {spec.kind}@: uninstall or rename it"
            )
        make = _own(spec)
    elif len(plugins) == 1:
        make = _plugin(spec, plugins[0])
    elif plugins:
        owners = " and ".join(map(_owner, plugins))
        raise spec.wrong(f"{owners} each have a source named {spec.kind}@: uninstall one")
    else:
        known = [*KINDS, *(entry.name for entry in plugged_in())]
        hint = did_you_mean(spec.kind, known) or f": a source begins with {', '.join(f'{k}@' for k in known)}"
        raise SourceUsageError(f"{text}: no kind of source is named {spec.kind!r}{hint}")
    return make(spec, gateway, options or SourceOptions())


@cache
def plugged_in() -> list[EntryPoint]:
    """The kinds of sources that other packages add; none is imported yet."""
    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def _own(spec: Spec) -> Make:
    try:
        make: Make = importlib.import_module(KINDS[spec.kind]).make
    except ModuleNotFoundError as error:
        raise spec.wrong(f"needs the Python module {error.name}, which is not installed") from None
    return make


def _plugin(spec: Spec, entry: EntryPoint) -> Make:
    try:
        make: Make = entry.load().make
    except (Exception, SystemExit) as error:
        raise spec.wrong(f"{_owner(entry)}, which has this source, cannot be loaded: {error!r}") from error
    return make


def _owner(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist else f"the plug-in {entry.value}"
