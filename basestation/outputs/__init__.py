"""What others read of a live run: alarms that reach people, MQTT, Prometheus, InfluxDB.

Each output is a sink with a bounded queue and a thread of its own: whatever becomes of the other side, no delivery
waits for it. Each imports its library when it is used, and says which extra brings it.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, runtime_checkable

from basestation import how_to_install
from basestation.live.counters import Snapshot


class OutputError(Exception):
    """An output that cannot be used, or something that could not be told. The message names cause and cure."""


class OutputUnavailable(OutputError):
    """Nothing is wrong with what was asked for, but it can't be had here and now."""


@runtime_checkable
class SnapshotSink(Protocol):
    """A sink that is also given a picture of the station now and then, and at the end."""

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """It must return at once."""


def library(name: str, extra: str, wanted_by: str) -> Any:
    """A module that an extra brings; `OutputError` says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OutputUnavailable(f"{wanted_by} needs the extra `{extra}`: {how_to_install(extra)}") from None
