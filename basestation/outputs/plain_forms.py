"""A run in plain values, as outputs write them: moments, a mote's state, the whole network."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from basestation.live.counters import MoteView, Snapshot
from basestation.live.happenings import Delivered
from packet_formats.layout import DataLayout
from packet_formats.values import values_in

SECOND = 1_000_000_000


def iso_time(wall_ns: int) -> str:
    """UTC, with milliseconds, in ISO 8601."""
    moment = datetime.fromtimestamp(wall_ns // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 10**6 % 1000:03d}Z"


def plain_values(delivered: Delivered, layout: DataLayout) -> dict[str, float | None]:
    return values_in(layout, delivered.data.data)


def plain_mote(mote: MoteView, wall_ns: int) -> dict[str, Any]:
    """A mote's state; fields of its health record are null until the first record came."""
    health = mote.health
    return {
        "mote": mote.mote,
        "heard": not mote.silent,
        "last_heard": iso_time(wall_ns - int(mote.silent_s * SECOND)),
        "received": mote.received,
        "lost": mote.lost,
        "late": mote.late,
        "held": mote.held,
        "reboots": mote.reboots,
        "rate": round(mote.rate, 3),
        "hold_ms": round(mote.hold.p50, 3),
        "alarms": list(mote.alarms),
        "in_sync": health.in_sync if health else None,
        "battery_mv": health.battery_mv if health else None,
        "battery_days": None if mote.battery_days is None else round(mote.battery_days, 1),
        "duty": mote.duty,
        "duty_days": None if mote.duty_days is None else round(mote.duty_days, 1),
        "hops": health.distance if health else None,
    }


def plain_network(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "time": iso_time(snapshot.wall_ns),
        "policy": snapshot.policy,
        "received": snapshot.received,
        "delivered": snapshot.delivered,
        "held": snapshot.held,
        "lost": sum(mote.lost for mote in snapshot.motes),
        "late": sum(mote.late for mote in snapshot.motes),
        "rate": round(snapshot.rate, 3),
        "hold_ms": round(snapshot.hold.p50, 3),
        "out_of_order": snapshot.delivery.overtaken,
        "out_of_order_most": snapshot.delivery.most,
        "motes": len(snapshot.motes),
        "alarms": list(snapshot.alarms),
    }
