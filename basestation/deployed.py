"""From a deployment to the objects that run it: the bridge between `packet_formats` and `basestation.causality`."""

from __future__ import annotations

from typing import cast

from basestation.causality.rules import RULES, Rule, make_rule
from basestation.causality.schemes import Method, Setting, make_method
from basestation.causality.schemes.history import RecentHistory
from basestation.causality.schemes.wire import StampCodec, TimedWire, make_wire
from basestation.causality.stamps import Carry, Count, Scheme, SchemeName
from packet_formats.deployment import TIMED_POLICIES, Deployment, refusal
from packet_formats.layout import ORDERED, StampLayout, layout_of

EXACT = ("vector", "matrix", "delta-causal", "delta-vector")  # of the papers' rules (docs/schemes.md)


class NoOrder(ValueError):
    """Something needs stamps that order any two messages, and the deployment's do not."""


def is_ordered(deployment: Deployment) -> bool:
    """Whether its stamps are ours, of which any two compare."""
    return deployment.stamp.scheme in ORDERED


def scheme_of(deployment: Deployment) -> Scheme:
    """The stamp scheme of a deployment, in the widths of its layout; `NoOrder` where it is not one of ours."""
    if not is_ordered(deployment):
        scheme = deployment.stamp.scheme
        raise NoOrder(f"its stamp is {scheme}, and this needs one of {', '.join(ORDERED)}")
    return scheme_of_layout(layout_of(deployment).stamp, deployment.clock.epsilon, deployment.clock.delta)


def scheme_of_layout(layout: StampLayout, epsilon: int, delta: int, modulus: int | None = None) -> Scheme:
    """`modulus` replaces the layout's B, which is a power of two: the simulator takes any."""
    return Scheme(
        name=cast(SchemeName, layout.scheme),
        epsilon=epsilon,
        delta=delta,
        modulus=modulus or layout.modulus,
        entries=layout.entries,
        entry_max=layout.entry_max,
        count=cast(Count, layout.count),
        carry=cast(Carry, layout.carry),
    )


def setting_of(deployment: Deployment) -> Setting:
    """What the papers' schemes need to know of a deployment."""
    clock = deployment.clock
    return Setting(deployment.network.motes, clock.epsilon, clock.delta, deployment.observer.give_up)


def method_of(deployment: Deployment, name: str | None = None) -> Method:
    """One of the papers' schemes as this deployment has it: its own, or one by name."""
    name = name or deployment.stamp.scheme
    if name == "history":
        return RecentHistory(setting_of(deployment), deployment.stamp.entries)
    return make_method(name, setting_of(deployment))


def promises_order(deployment: Deployment) -> bool:
    """Whether its policy is one that delivers in causal order, so that a violation is a fault of something."""
    observer = deployment.observer
    return observer.policy in EXACT or (observer.policy in TIMED_POLICIES and observer.phi == 100)


def wire_of(deployment: Deployment) -> StampCodec:
    """How the deployment's stamps travel, and are read."""
    if is_ordered(deployment):
        return TimedWire(scheme_of(deployment))
    modulus = 1 << deployment.clock.clock_bits
    return make_wire(deployment.stamp.scheme, setting_of(deployment), modulus, deployment.stamp.entries)


def rule_of(deployment: Deployment, name: str | None = None, phi: int | None = None) -> Rule:
    """The observer's rule, fresh: that of the deployment's policy, or of another that can read its stamp."""
    observer, clock = deployment.observer, deployment.clock
    name, phi = name or observer.policy, observer.phi if phi is None else phi
    if reason := refusal(name, deployment.stamp.scheme):
        raise ValueError(f"policy {name} {reason}")
    if name in RULES:
        return make_rule(name, phi, clock.epsilon, clock.delta)
    return method_of(deployment, name).rule()
