"""The configurations of a continuum: the stamps and policies, and the data that each one needs.

A trace records one kind of stamp. Others can be derived from it, or from the motes' events, or not at all; this module
decides which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import inf
from numbers import Integral, Real
from typing import Any

from basestation.analysis.errors import JobError
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import Scheme, TimedScheme, make_scheme
from basestation.deployed import scheme_of_layout, setting_of, setting_of_layout
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.layout import StampLayout, layout_of, stamp_layout
from packet_formats.schemes import (
    COUNTS,
    LEDGER,
    MAX_FIELD_BITS,
    PACKINGS,
    LayoutError,
    descriptor,
    names,
    ordered,
)

NAMED = tuple(name for name in names() if not descriptor(name).is_ordered and descriptor(name).in_firmware)
SCHEMES = (*ordered(), *NAMED)
ENTRIES: tuple[int | str, ...] = (1, 2, 4, 6, "all")
OWN = "own"  # the rule of a stamp that has its own
POLICIES = ("none", "causal", "dapw", "cbd", OWN)
NARROWEST = 2  # bits of a counter
PHIS = (0, 20, 40, 60, 80, 100)


def _whole(least: int, most: float = inf) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Integral) and least <= int(value) <= most


def _one_of(known: Sequence[Any]) -> tuple[Callable[[Any], bool], str]:
    return known.__contains__, f"one of {', '.join(map(str, known))}"


LEGAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "schemes": _one_of(names()),
    "entries": (lambda value: value == "all" or _whole(1)(value), "a whole number from 1, or all"),
    "packings": _one_of(PACKINGS),
    "counts": _one_of(COUNTS),
    "policies": _one_of(POLICIES),
    "phis": (_whole(0, 100), "a whole number from 0 to 100"),
    "counter_bits": (_whole(1, MAX_FIELD_BITS), f"a whole number from 1 to {MAX_FIELD_BITS}"),
    "tolerates": (
        lambda value: isinstance(value, Real) and 0 <= float(value) <= 100,
        "a number from 0 to 100",
    ),
}
"""What each setting of a choice may hold, and the same in words."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of what to compare: each setting is a list of values to try. `JobError` if one is not known.

    Empty `counts` mean the trace's own, or both; empty `counter_bits` all widths that make a difference for hlc and
    shlc, and the deployment's or the network's for kn. `policies` are none, causal, dapw, cbd, and own: the rule of a
    stamp that has its own. `phis` and `tolerates` (of the ledger, a policy each) are in per cent.
    """

    schemes: Sequence[str] = SCHEMES
    entries: Sequence[int | str] = ENTRIES
    packings: Sequence[str] = PACKINGS
    counts: Sequence[str] = ()
    policies: Sequence[str] = POLICIES
    phis: Sequence[int] = PHIS
    counter_bits: Sequence[int] = ()
    tolerates: Sequence[float] = ()

    def __post_init__(self) -> None:
        for setting, (is_legal, legal) in LEGAL.items():
            values = getattr(self, setting)
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise JobError(f"{setting} is {values!r}: give a list of values")
            for value in values:
                if not is_legal(value):
                    raise JobError(f"{setting}: {value!r} is not {legal}")

    def deliveries(self) -> list[PolicyChoice]:
        """The policies with their phis, and the ledger. Arrival order and causal delivery have one phi only."""
        fixed = {"none": (0,), "causal": (100,)}
        asked = [
            PolicyChoice(policy, phi)
            for policy in self.policies
            if policy != OWN
            for phi in fixed.get(policy, self.phis)
        ]
        return list(dict.fromkeys([*asked, *(PolicyChoice(LEDGER, 100, share) for share in self.tolerates)]))

    def rules(self, scheme: str) -> list[PolicyChoice]:
        """The deliveries of a stamp; of one that does not order any two messages its own rule, and that rule with a
        ledger's wait."""
        if descriptor(scheme).is_ordered:
            return self.deliveries()
        if OWN not in self.policies:
            return []
        shares = self.tolerates if descriptor(scheme).takes_ledger else ()
        return [PolicyChoice(scheme, 100), *(PolicyChoice(LEDGER, 100, share) for share in shares)]


def one_choice(
    stamp: Any, entries: int, bits: int, policy: str, phi: int, tolerate: float | None, named: bool
) -> Choice:
    """The choice of one configuration, from a layout or a row with its columns. `named`: the stamp has its own rule."""
    return Choice(
        schemes=(stamp.scheme,),
        entries=(entries or 1,),
        packings=(stamp.packing,),
        counts=(stamp.count,),
        counter_bits=(bits,) if bits and not named else (),
        policies=(OWN,) if named else (policy,) if policy in POLICIES else (),  # a ledger is in `tolerates`
        phis=(phi,),
        tolerates=() if tolerate is None else (tolerate,),
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a payload with some stamp, in bytes, and on the air. `fits` if there is room for the data."""

    payload_bytes: int
    air_bytes: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stamp in the widths of a deployment, and its size in a message."""

    layout: StampLayout
    scheme: Scheme
    sizes: Sizes


def candidates(deployment: Deployment, choice: Choice) -> list[Candidate]:
    """All stamps to compare, without those whose fields would be too wide for this network. Those with a rule of their
    own come last."""
    clock = deployment.clock
    found: list[tuple[StampLayout, Scheme]] = [
        (layout, scheme_of_layout(layout, clock.epsilon, clock.delta))
        for layout in _layouts(deployment, choice)[0]
    ]
    setting = setting_of(deployment)
    found += [
        (layout, make_scheme(layout.scheme, setting_of_layout(layout, setting)))
        for layout in _named_layouts(deployment, choice)
    ]
    return [Candidate(*stamp, sizes(deployment, stamp[0])) for stamp in found]


def refused(deployment: Deployment, choice: Choice) -> list[str]:
    """The stamps that were asked for and that this network cannot have, each with the reason."""
    return _layouts(deployment, choice)[1] if choice.counter_bits else []


def stamp_name(stamp: Any) -> str:
    """A short name for tables and plots, of a layout or of a row that has its columns."""
    settings = descriptor(stamp.scheme).settings
    name: str = stamp.scheme
    if "entries" in settings:
        name = f"{stamp.scheme} {stamp.entries} {stamp.count}"
    if "carry" in settings:
        bits = stamp.entry_bits if isinstance(stamp, StampLayout) else stamp.counter_bits
        name = f"{stamp.scheme} {bits} bits" + (" sum" if stamp.carry == "sum" else "")
    return name + (", bytes" if stamp.packing == "bytes" else "")


def own_layout(deployment: Deployment) -> StampLayout:
    return layout_of(deployment).stamp


def is_exact(deployment: Deployment, layout: StampLayout) -> bool:
    """Whether the stamp's order is causal by proof, while G1 and G2 hold and no field is full."""
    return bool(descriptor(layout.scheme).exact(layout, deployment.clock.epsilon))


def _layouts(deployment: Deployment, choice: Choice) -> tuple[list[StampLayout], list[str]]:
    found: dict[StampLayout, None] = {}
    refused = []
    for settings in _settings(deployment, choice):
        try:
            found[stamp_layout(**settings, **_network(deployment))] = None
        except LayoutError as error:
            refused.append(f"{settings['scheme']}: {error}")
    return list(found), list(dict.fromkeys(refused))


def _named_layouts(deployment: Deployment, choice: Choice) -> Iterator[StampLayout]:
    """The stamps with a rule of their own that fit a payload of this network at all."""
    network = _network(deployment) | {"clock_bits": None}  # a barrier's clock may need a bit more
    for name in choice.schemes:
        if descriptor(name).is_ordered or not choice.rules(name):
            continue
        with suppress(LayoutError):
            own = name == deployment.stamp.scheme
            yield own_layout(deployment) if own else stamp_layout(name, **network)


def _network(deployment: Deployment) -> dict[str, Any]:
    clock = deployment.clock
    return {
        "epsilon": clock.epsilon,
        "delta": clock.delta,
        "motes": deployment.network.motes,
        "events_per_tick": deployment.stamp.events_per_tick,
        "clock_bits": clock.clock_bits,
    }


def _settings(deployment: Deployment, choice: Choice) -> Iterator[dict[str, Any]]:
    """The settings of every stamp: with the trace's own widths for its own scheme, else with the network's."""
    stamp, own = deployment.stamp, own_layout(deployment)
    counts = choice.counts or ((stamp.count,) if "count" in deployment.scheme.settings else COUNTS)
    most = deployment.clock.epsilon + 1
    entries = dict.fromkeys("all" if k == "all" or int(k) >= most else int(k) for k in choice.entries)
    asked = {"packing": choice.packings, "count": counts, "entries": entries}
    for scheme in (scheme for scheme in choice.schemes if descriptor(scheme).is_ordered):
        known = descriptor(scheme).settings
        taken = [key for key in asked if key in known]
        for values in product(*(asked[key] for key in taken)):
            given = {"scheme": scheme, "packing": "bits", **dict(zip(taken, values, strict=True))}
            if scheme == stamp.scheme and "carry" in known:
                given["carry"] = own.carry
            same = scheme == stamp.scheme and given["packing"] == stamp.packing
            for bits in _widths(deployment, scheme, own.entry_bits if same else None, choice):
                yield given | ({} if bits is None else {"counter_bits": bits})


def _widths(deployment: Deployment, scheme: str, own: int | None, choice: Choice) -> list[int | None]:
    """The widths of a counter to try; None is the width by the network's settings.

    A counter that no legal value fills can't become better, so wider ones are not tried.
    """
    if "counter_bits" not in descriptor(scheme).settings:
        return [None]
    if choice.counter_bits:
        return list(dict.fromkeys(choice.counter_bits))
    if "carry" not in descriptor(scheme).settings:  # kn: its entries have one width in all of its sizes
        return [own]
    events = deployment.stamp.events_per_tick * deployment.network.motes
    enough = min((events + 2).bit_length(), MAX_FIELD_BITS)
    return [*range(NARROWEST, enough + 1), None, *([own] if own else [])]


def sizes(deployment: Deployment, layout: StampLayout) -> Sizes:
    """The sizes of a message of this deployment if it had another stamp."""
    own, board = layout_of(deployment), BOARDS.get(deployment.network.board)
    payload = own.length - own.stamp.size + layout.size
    on_air = board.radio.air_bytes(payload, own.tinyos) if board else payload  # a radio that is not ours
    return Sizes(payload, on_air, payload <= own.limit)


def missing_in(recorded: TimedScheme, wanted: TimedScheme) -> str | None:
    """The data that a trace with one recorded stamp lacks for another; None if the other can be derived exactly.

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
