"""The configurations of a continuum: which stamps and policies, and from what each can be answered.

A trace records one kind of stamp. Others follow from it, or from what the motes did, or not at all: what is missing for
which is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from basestation.causality.stamps import Scheme
from basestation.deployed import scheme_of_layout
from basestation.simulator.simulation import PolicyChoice
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.layout import LayoutError, StampLayout, layout_of, stamp_layout

SCHEMES = ("dpc1", "dpc2", "kn", "hlc", "shlc")
ENTRIES: tuple[int | str, ...] = (1, 2, 4, 6, "all")
PACKINGS = ("bits", "bytes")
COUNTS = ("events", "sends")
POLICIES = ("none", "causal", "dapw", "cbd")
PHIS = (0, 20, 40, 60, 80, 100)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to compare. An empty `counts`: the trace's own, or both."""

    schemes: Sequence[str] = SCHEMES
    entries: Sequence[int | str] = ENTRIES
    packings: Sequence[str] = PACKINGS
    counts: Sequence[str] = ()
    policies: Sequence[str] = POLICIES
    phis: Sequence[int] = PHIS
    counter_bits: int | None = None

    def deliveries(self) -> list[PolicyChoice]:
        """Arrival order and causal delivery have one phi only."""
        fixed = {"none": (0,), "causal": (100,)}
        asked = (
            PolicyChoice(policy, phi) for policy in self.policies for phi in fixed.get(policy, self.phis)
        )
        return list(dict.fromkeys(asked))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stamp in the widths of a deployment, and what a message with it takes. `fits`: it leaves room for the data."""

    layout: StampLayout
    scheme: Scheme
    payload_bytes: int
    air_bytes: int
    fits: bool


def candidates(deployment: Deployment, choice: Choice) -> list[Candidate]:
    """Every stamp to compare; those that this network can't have, for the width of a field, are left out."""
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
    counts = choice.counts or ((stamp.count,) if stamp.scheme == "kn" else COUNTS)
    most = deployment.clock.epsilon + 1
    entries = dict.fromkeys("all" if k == "all" or int(k) >= most else int(k) for k in choice.entries)
    for scheme in choice.schemes:
        packings = ("bits",) if scheme in ("hlc", "shlc") else choice.packings
        for packing in packings:
            if scheme == "kn":
                yield from (
                    {"scheme": scheme, "packing": packing, "entries": k, "count": count}
                    for count in counts
                    for k in entries
                )
            else:
                yield {"scheme": scheme, "packing": packing}


def _layout(deployment: Deployment, settings: dict[str, Any], choice: Choice) -> StampLayout | None:
    """Of the trace's own scheme with the widths that it has; of the others with those that the network would give."""
    clock, stamp = deployment.clock, deployment.stamp
    given = dict(settings)
    if given["scheme"] == stamp.scheme:
        given["carry"] = own_layout(deployment).carry
        if given["packing"] == stamp.packing and not choice.counter_bits:
            given["counter_bits"] = own_layout(deployment).entry_bits or None
    if choice.counter_bits and not given["scheme"].startswith("dpc"):
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


def missing_in(recorded: Scheme, wanted: Scheme) -> str | None:
    """What a trace that recorded one stamp lacks for another; None when the other can be read from it exactly.

    The entries of kn count from the top down, and a mote's first k of them never depend on the rest; a narrower entry
    is the wider one cut at its top code, since the larger of two cut values is the larger value cut. r + c does not
    depend on the entries at all, and r on nothing.
    """
    if wanted == recorded:
        return None
    if wanted.modulus != recorded.modulus:
        return f"the trace's clock field has {recorded.modulus} values, this one {wanted.modulus}"
    if wanted.name == "dpc1":
        return None if recorded.carry == "pair" else "the trace carries r + c in one number, not r"
    if wanted.name == "dpc2" and recorded.name == "kn":
        return None
    if wanted.name != recorded.name or wanted.name == "dpc2":
        return f"the trace carries {recorded.name} stamps"
    if wanted.name != "kn" or wanted.count != recorded.count:
        return (
            f"the trace's {recorded.name} stamps count {recorded.count}, in fields of another width or form"
        )
    if wanted.entries > recorded.entries:
        return f"the trace carries {recorded.entries} entries, this needs {wanted.entries}"
    if wanted.entry_max > recorded.entry_max:
        return f"the trace's entries end at {recorded.entry_max}, these at {wanted.entry_max}"
    return None
