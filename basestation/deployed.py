"""From a deployment to the objects that run it: the bridge between `packet_formats` and `basestation.causality`."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from basestation.causality.rules import RULES, Rule, make_rule
from basestation.causality.schemes import Scheme, Setting, TimedScheme, make_scheme, timed_scheme
from basestation.causality.schemes.scheme import Carry, Count
from packet_formats.deployment import Deployment
from packet_formats.layout import StampLayout, layout_of
from packet_formats.schemes import LEDGER, TIMED_POLICIES, descriptor, ordered, refusal


class NoOrder(ValueError):
    """Something needs stamps that order any two messages, and the deployment's do not."""


def setting_of(deployment: Deployment) -> Setting:
    """What the deployment's motes and observer agree on."""
    motes, clock, give_up = deployment.network.motes, deployment.clock, deployment.observer.give_up
    network = Setting(motes, clock.epsilon, clock.delta, give_up, modulus=1 << clock.clock_bits)
    return setting_of_layout(layout_of(deployment).stamp, network)


def scheme_of(deployment: Deployment) -> Scheme:
    """The deployment's stamp scheme, in the widths of its layout."""
    return make_scheme(deployment.stamp.scheme, setting_of(deployment))


def timed_scheme_of(deployment: Deployment) -> TimedScheme:
    """The same, for whoever compares stamps; `NoOrder` where they do not compare."""
    name, clock = deployment.stamp.scheme, deployment.clock
    if not deployment.scheme.is_ordered:
        raise NoOrder(f"its stamp is {name}, and this needs one of {', '.join(ordered())}")
    return scheme_of_layout(layout_of(deployment).stamp, clock.epsilon, clock.delta)


def scheme_of_layout(
    layout: StampLayout, epsilon: int, delta: int, modulus: int | None = None
) -> TimedScheme:
    """A timed scheme in the widths of a layout. `modulus` replaces its B: the simulator takes any."""
    setting = setting_of_layout(layout, Setting(0, epsilon, delta), modulus)
    return timed_scheme(layout.scheme, setting)


def setting_of_layout(layout: StampLayout, network: Setting, modulus: int | None = None) -> Setting:
    """The network's setting with the widths of a layout, or with another B."""
    modulus = modulus or (layout.modulus if layout.clock_bits else network.modulus)
    return replace(
        network,
        modulus=modulus,
        lead=descriptor(layout.scheme).lead_ticks(network.epsilon, network.delta, modulus, layout.carry),
        entries=layout.most,
        entry_max=layout.entry_max,
        count=cast(Count, layout.count),
        carry=cast(Carry, layout.carry),
    )


def promises_order(deployment: Deployment) -> bool:
    """Whether its policy is one that delivers in causal order, so that a violation is a fault of something."""
    observer, stamp = deployment.observer, layout_of(deployment).stamp
    own = observer.policy == deployment.stamp.scheme
    waits = own or observer.tolerate == 0 or (observer.policy in TIMED_POLICIES and observer.phi == 100)
    return waits and deployment.scheme.exact(stamp, deployment.clock.epsilon)


def rule_of(
    deployment: Deployment, name: str | None = None, phi: int | None = None, tolerate: float | None = None
) -> Rule:
    """The observer's rule, fresh: that of the deployment's policy, or of another that can read its stamp."""
    observer, clock = deployment.observer, deployment.clock
    name, phi = name or observer.policy, observer.phi if phi is None else phi
    tolerate = observer.tolerate if tolerate is None else tolerate
    if reason := refusal(name, deployment.stamp.scheme):
        raise ValueError(f"policy {name} {reason}")
    if name == LEDGER:
        return scheme_of(deployment).tolerating(tolerate or 0.0).rule()
    if name in RULES:
        return make_rule(name, phi, clock.epsilon, clock.delta)
    return make_scheme(name, setting_of(deployment)).rule()
