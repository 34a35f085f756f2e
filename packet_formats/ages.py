"""How old an event is when its message gets its stamp, in one byte: where motes keep a schedule, messages wait.

Codes below `AGAIN` count in a 128th of the period, the last of them that or more. Those from `AGAIN` on belong to a
message that is sent again, since the gateway had not heard it (docs/reference/power.md, Repair): it is older than
a period, so
they count in a 16th. The age is what a whole number of these units says, so the event may be one unit older. Standard
library only.
"""

from __future__ import annotations

from typing import Any

AGAIN = 192
TOP, AGAIN_TOP = AGAIN - 1, 255  # that old, or older
UNITS_LOG2, AGAIN_UNITS_LOG2 = 7, 4  # units in a period


def age_code(cycles: int, period_log2: int, again: bool = False) -> int:
    """The byte that tells an age in cycles."""
    first, top, log2 = (AGAIN, AGAIN_TOP, AGAIN_UNITS_LOG2) if again else (0, TOP, UNITS_LOG2)
    return min(first + (cycles >> period_log2 - log2), top)


def is_again(code: Any) -> Any:
    """Whether the message was sent before, as another one; of one byte or of an array of them."""
    return code >= AGAIN


def is_or_more(code: Any) -> Any:
    """Whether the age is the most that a byte tells, and the event may be far older; of one byte or of an array."""
    return (code == TOP) | (code == AGAIN_TOP)


def age_cycles(code: int, period_log2: int) -> int:
    """The age that a byte tells, in cycles."""
    units, log2 = (code - AGAIN, AGAIN_UNITS_LOG2) if is_again(code) else (code, UNITS_LOG2)
    return units << period_log2 - log2
