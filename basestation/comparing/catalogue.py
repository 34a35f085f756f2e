"""Makes schemes by name for one network."""

from __future__ import annotations

from dataclasses import dataclass

from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.simulator.options import OptionError, WorldOptions
from basestation.simulator.simulation import build_scheme
from packet_formats.schemes import descriptor, names

UNORDERED = "none"
NAMES = (UNORDERED, *names())


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms for all schemes: policy and phi of the timed ones, and how long the others wait."""

    policy: str = "cbd"
    phi: int = 100
    give_up: int | None = None


def build(name: str, options: WorldOptions, terms: Terms) -> Scheme:
    """Build a scheme by its name, in the widths that the network needs."""
    if name != UNORDERED and descriptor(name).is_ordered:
        return build_scheme(options, name).under(terms.policy, terms.phi)
    setting = Setting(options.motes, options.epsilon, options.delta, terms.give_up)
    try:
        return make_scheme(name, setting)
    except ValueError as error:
        raise OptionError("scheme", name, str(error)) from None
