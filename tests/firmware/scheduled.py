"""A deployment whose motes listen by a schedule, for tests of what only such images have."""

from packet_formats import cheader
from packet_formats.deployment import from_dict

WINDOWS_MS = {"micaz": 1152, "mica2": 6144}


def scheduled_header(board: str) -> str:
    """The C header of such a deployment: TinyOS 1, and on a MICAz channel 26."""
    network: dict[str, object] = {"name": "sleepers", "board": board, "motes": 10, "tinyos": 1, "hops": 3}
    if board == "micaz":
        network["channel"] = 26
    return cheader.render(
        from_dict(
            {
                "network": network,
                "radio": {"period_ms": 16000, "window_ms": WINDOWS_MS[board]},
                "clock": {"tick_log2": 10, "epsilon": 2, "delta": 200},
                "stamp": {"scheme": "shlc"},
            }
        )
    )
