"""All schemes by name for one network: the papers' others and Causeway's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from basestation.causality.schemes import METHODS, Method, Setting, Timed
from basestation.causality.schemes.base import NEVER
from basestation.causality.schemes.timed import physical
from basestation.causality.schemes.two_hop import TwoHop
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.simulation import build_scheme

OURS = ("dpc2", "kn", "hlc", "shlc")  # dpc1 is the papers' "physical"
NAMES = (*METHODS, *OURS)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a comparison fixes for all: the policy and phi of the timed schemes, and how long the others wait."""

    policy: str = "cbd"
    phi: int = 100
    give_up: int | None = None
    min_wait: int | None = None


FOREVER = NEVER


def build(name: str, options: WorldOptions, terms: Terms) -> Method:
    """A scheme by its name, in the widths that the network needs."""
    if name in OURS:
        return Timed(build_scheme(options, name), terms.policy, terms.phi, name)
    setting = Setting(options.motes, options.epsilon, options.delta, terms.give_up)
    special: dict[str, Callable[[], Method]] = {
        "physical": lambda: physical(setting, terms.phi),
        "two-hop": lambda: TwoHop(setting, terms.min_wait),
    }
    try:
        return special.get(name, lambda: METHODS[name](setting))()
    except ValueError as error:
        raise OptionError("min_wait", terms.min_wait, str(error)) from None
