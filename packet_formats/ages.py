"""The age of an event when its message is stamped, in one byte: with a schedule, messages wait for their window.

Codes below `AGAIN` count 128ths of the period; the last of them means that age or more. Codes from `AGAIN` on are for
messages that are sent again because the gateway had not heard them (docs/reference/power.md, Repair). Those are
older than a period, so the codes count 16ths. Ages are rounded down, so the event may be one unit older. Standard
library only.
"""

from __future__ import annotations

from typing import Any

AGAIN = 192
TOP, AGAIN_TOP = AGAIN - 1, 255  # that old, or older
UNITS_LOG2, AGAIN_UNITS_LOG2 = 7, 4  # units in a period


def age_code(cycles: int, period_log2: int, again: bool = False) -> int:
    """The byte for an age in cycles."""
    first, top, log2 = (AGAIN, AGAIN_TOP, AGAIN_UNITS_LOG2) if again else (0, TOP, UNITS_LOG2)
    return min(first + (cycles >> period_log2 - log2), top)


def is_again(code: Any) -> Any:
    """Whether the message was sent before, as another one; of one byte or of an array of them."""
    return code >= AGAIN


def is_or_more(code: Any) -> Any:
    """Whether a byte holds the greatest age, so that the event may be far older; of one byte or of an array."""
    return (code == TOP) | (code == AGAIN_TOP)


def age_cycles(code: int, period_log2: int) -> int:
    """The age in cycles that a byte stands for."""
    units, log2 = (code - AGAIN, AGAIN_UNITS_LOG2) if is_again(code) else (code, UNITS_LOG2)
    return units << period_log2 - log2
