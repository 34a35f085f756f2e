"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass

GOOD, WARNING, FAILURE = "good", "warning", "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with its reason and, if it is not good, the cure."""

    area: str
    check: str
    verdict: str
    text: str
    cure: str = ""


def good(area: str, check: str, text: str) -> Finding:
    return Finding(area, check, GOOD, text)


def warning(area: str, check: str, text: str, cure: str = "") -> Finding:
    return Finding(area, check, WARNING, text, cure)


def failure(area: str, check: str, text: str, cure: str = "") -> Finding:
    return Finding(area, check, FAILURE, text, cure)
