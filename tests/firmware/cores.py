"""The layouts that the core is tested for: those of the golden vectors, the examples, and some at the limits."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.schemes import descriptor, names
from packet_formats.vectors import deployments as golden
from tests.firmware.bridge import ROOT, Core


def described(tick_log2: int, epsilon: int, delta: int, stamp: dict[str, Any], **network: Any) -> Deployment:
    return from_dict(
        {
            "network": {"name": "limits", "board": "micaz", "motes": 10, **network},
            "clock": {"tick_log2": tick_log2, "epsilon": epsilon, "delta": delta},
            "stamp": stamp,
        }
    )


# Field widths, window sizes and tick lengths that the golden vectors do not reach.
LIMITS = (
    described(0, 10, 10, {"scheme": "shlc"}),
    described(16, 3, 8, {"scheme": "hlc"}),
    described(16, 100, 9000, {"scheme": "shlc", "counter_bits": 16}),
    described(3, 20000, 25000, {"scheme": "hlc", "counter_bits": 2}),
    described(3, 20000, 25000, {"scheme": "kn", "entries": 3, "counter_bits": 16}),
    described(7, 60, 100, {"scheme": "kn", "entries": "all", "counter_bits": 3}, data_bytes=0),
    described(7, 60, 100, {"scheme": "kn", "entries": 18, "packing": "bytes", "counter_bits": 6}),
    described(10, 7, 30, {"scheme": "kn", "entries": 1, "counter_bits": 2, "count": "sends"}, tinyos=2),
    described(5, 20000, 20000, {"scheme": "dpc2"}, board="mica2", tinyos=2),
    described(7, 1, 1, {"scheme": "shlc", "counter_bits": 2}, motes=1, board="mica2"),
)


FIRMWARE_SCHEMES = tuple(name for name in names() if descriptor(name).in_firmware)


def name_of(deployment: Deployment) -> str:
    stamp, clock, network = deployment.stamp, deployment.clock, deployment.network
    parts = [network.name, stamp.scheme, stamp.packing, stamp.carry, f"k{stamp.entries}", f"e{clock.epsilon}"]
    return "-".join(str(part) for part in parts if part)


def examples() -> list[Deployment]:
    found = [load(path) for path in sorted(Path(ROOT / "examples").glob("*.toml"))]
    return [deployment for deployment in found if deployment.scheme.is_ordered]


def deployments() -> list[Deployment]:
    """Of the golden layouts, those whose stamp the firmware has."""
    return [deployment for deployment in golden() if deployment.scheme.is_ordered]


def stamp_deployments() -> list[Deployment]:
    """A stamp is the same on both TinyOS versions, so every second golden layout will do."""
    return [*deployments()[::2], *examples(), *LIMITS]


@cache
def core_of(deployment: Deployment) -> Core:
    return Core(deployment)
