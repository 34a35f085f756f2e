"""Words for messages to people. Standard library only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Control characters but for the end of a line and the tabulator, and those that turn text round or hide it.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_PICTURES = 0x2400  # where Unicode has a picture of each control character


def many(number: int, one: str, more: str = "") -> str:
    """A number and its noun: `1 byte`, `2 bytes`."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The hint `; did you mean ...?` if one of the known names is similar, else an empty text."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def visible(text: str) -> str:
    """Text from outside, safe for a terminal: a visible sign replaces each control character."""
    return _UNSAFE.sub(_sign, text)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(_PICTURES + code) if code < 32 else "\u2421" if code == 127 else "\ufffd"
