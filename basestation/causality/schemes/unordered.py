"""No stamp, arrival order: the measure of what anything else gains (DEW "unfiltered")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from basestation.causality.order import Stamp
from basestation.causality.rules import Rule, Unfiltered

from .base import Program, Setting, Silent


@dataclass(frozen=True, slots=True)
class Unordered:
    setting: Setting
    name: ClassVar[str] = "none"

    def start(self, mote: int) -> Program:
        return Silent()

    def rule(self) -> Rule:
        return Unfiltered()

    def bits(self, stamp: Stamp) -> int:
        return 0
