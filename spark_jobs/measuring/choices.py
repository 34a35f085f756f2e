"""The configurations of a continuum: the stamps and policies, and the data that each one needs.

A trace records one kind of stamp. Others can be derived from it, or from the motes' events, or not at all; this module
decides which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import TimedScheme
from basestation.deployed import scheme_of_layout
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.layout import StampLayout, layout_of, stamp_layout
from packet_formats.schemes import COUNTS, LEDGER, PACKINGS, LayoutError, descriptor, ordered

SCHEMES = ordered()
ENTRIES: tuple[int | str, ...] = (1, 2, 4, 6, "all")
POLICIES = ("none", "causal", "dapw", "cbd")
PHIS = (0, 20, 40, 60, 80, 100)


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of what to compare. Empty `counts` mean the trace's own, or both."""

    schemes: Sequence[str] = SCHEMES
    entries: Sequence[int | str] = ENTRIES
    packings: Sequence[str] = PACKINGS
    counts: Sequence[str] = ()
    policies: Sequence[str] = POLICIES
    phis: Sequence[int] = PHIS
    counter_bits: int | None = None
    tolerates: Sequence[float] = ()

    def deliveries(self) -> list[PolicyChoice]:
        """The policies with their phis, and the ledger. Arrival order and causal delivery have one phi only."""
        fixed = {"none": (0,), "causal": (100,)}
        asked = [
            PolicyChoice(policy, phi) for policy in self.policies for phi in fixed.get(policy, self.phis)
        ]
        return list(dict.fromkeys([*asked, *(PolicyChoice(LEDGER, 100, share) for share in self.tolerates)]))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stamp in the widths of a deployment, and its size in a message. `fits` if there is room for the data."""

    layout: StampLayout
    scheme: TimedScheme
    payload_bytes: int
    air_bytes: int
    fits: bool


def candidates(deployment: Deployment, choice: Choice) -> list[Candidate]:
    """All stamps to compare, without those whose fields would be too wide for this network."""
    found = dict.fromkeys(
        layout
        for settings in _settings(deployment, choice)
        if (layout := _layout(deployment, settings, choice))
    )
    return [_candidate(deployment, layout) for layout in found]


def own_layout(deployment: Deployment) -> StampLayout:
    return layout_of(deployment).stamp


def _settings(deployment: Deployment, choice: Choice) -> Iterator[dict[str, Any]]:
    stamp = deployment.stamp
    counts = choice.counts or ((stamp.count,) if "count" in deployment.scheme.settings else COUNTS)
    most = deployment.clock.epsilon + 1
    entries = dict.fromkeys("all" if k == "all" or int(k) >= most else int(k) for k in choice.entries)
    asked = {"packing": choice.packings, "count": counts, "entries": entries}
    for scheme in choice.schemes:
        taken = [key for key in asked if key in descriptor(scheme).settings]
        for values in product(*(asked[key] for key in taken)):
            yield {"scheme": scheme, "packing": "bits", **dict(zip(taken, values, strict=True))}


def _layout(deployment: Deployment, settings: dict[str, Any], choice: Choice) -> StampLayout | None:
    """The layout of a stamp: with the trace's own widths for its own scheme, else with the network's."""
    clock, stamp = deployment.clock, deployment.stamp
    given = dict(settings)
    if given["scheme"] == stamp.scheme:
        if "carry" in deployment.scheme.settings:
            given["carry"] = own_layout(deployment).carry
        if given["packing"] == stamp.packing and not choice.counter_bits:
            given["counter_bits"] = own_layout(deployment).entry_bits or None
    if choice.counter_bits and "counter_bits" in descriptor(given["scheme"]).settings:
        given["counter_bits"] = choice.counter_bits
    try:
        return stamp_layout(
            epsilon=clock.epsilon,
            delta=clock.delta,
            motes=deployment.network.motes,
            events_per_tick=stamp.events_per_tick,
            clock_bits=clock.clock_bits,
            **given,
        )
    except LayoutError:
        return None


def _candidate(deployment: Deployment, layout: StampLayout) -> Candidate:
    own, radio = layout_of(deployment), BOARDS[deployment.network.board].radio
    payload = own.length - own.stamp.size + layout.size
    return Candidate(
        layout=layout,
        scheme=scheme_of_layout(layout, deployment.clock.epsilon, deployment.clock.delta),
        payload_bytes=payload,
        air_bytes=radio.air_bytes(payload, own.tinyos),
        fits=payload <= own.limit,
    )


def missing_in(recorded: TimedScheme, wanted: TimedScheme) -> str | None:
    """What a trace that recorded one stamp lacks for another; None if the other can be derived exactly.

    The entries of kn count from the top down, and a mote's first k of them never depend on the rest; a narrower entry
    is the wider one cut at its top code, since the larger of two cut values is the larger value cut. r + c does not
    depend on the entries at all, and r on nothing.
    """
    if wanted == recorded:
        return None
    if wanted.modulus != recorded.modulus:
        return f"the trace's clock field has {recorded.modulus} values, this one {wanted.modulus}"
    if not wanted.carries_c and not wanted.entries:
        return None if recorded.carry == "pair" else "the trace carries r + c in one number, not r"
    if not wanted.entries and wanted.kernel == recorded.kernel and recorded.entries:
        return None
    if wanted.name != recorded.name or not wanted.entries:
        return f"the trace carries {recorded.name} stamps"
    if "entries" not in descriptor(wanted.name).settings or wanted.count != recorded.count:
        return (
            f"the trace's {recorded.name} stamps count {recorded.count}, in fields of another width or form"
        )
    if wanted.entries > recorded.entries:
        return f"the trace carries {recorded.entries} entries, this needs {wanted.entries}"
    if wanted.entry_max > recorded.entry_max:
        return f"the trace's entries end at {recorded.entry_max}, these at {wanted.entry_max}"
    return None
