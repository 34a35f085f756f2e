"""From a deployment to the objects that run it: the bridge between `packet_formats` and `basestation.causality`."""

from __future__ import annotations

from typing import cast

from basestation.causality.policies import Policy, make_policy
from basestation.causality.stamps import Carry, Count, Scheme, SchemeName
from packet_formats.deployment import Deployment
from packet_formats.layout import StampLayout, layout_of


def scheme_of(deployment: Deployment) -> Scheme:
    """The stamp scheme of a deployment, in the widths of its layout."""
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


def policy_of(deployment: Deployment) -> Policy:
    """The observer's policy, fresh."""
    observer, clock = deployment.observer, deployment.clock
    return make_policy(observer.policy, observer.phi, clock.epsilon, clock.delta)
