"""Words for messages to people. Standard library only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def many(number: int, one: str, more: str = "") -> str:
    """A number and its noun: `1 byte`, `2 bytes`."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The hint `; did you mean ...?` if one of the known names is similar, else an empty text."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
