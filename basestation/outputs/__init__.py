"""Outputs of a live run for other programs: alarms to people, MQTT, Prometheus.

Each output is a sink with a bounded queue and a thread of its own: a slow or broken receiver
delays no delivery. Each imports its library on first use; if it is missing, the error names the extra.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, runtime_checkable

from basestation import how_to_install
from basestation.live.counters import Snapshot


class OutputError(Exception):
    """An output that cannot be used, or an item that could not be sent. The message names cause and cure."""


class OutputUnavailable(OutputError):
    """The request is right, but cannot be met here and now."""


@runtime_checkable
class SnapshotSink(Protocol):
    """A sink that also takes snapshots of the station, at intervals and at the end."""

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """It must return at once."""


def library(name: str, extra: str, wanted_by: str) -> Any:
    """A module that an extra brings; `OutputError` says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OutputUnavailable(f"{wanted_by} needs the extra `{extra}`: {how_to_install(extra)}") from None
