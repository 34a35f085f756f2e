"""The stamps that a network could use, with the widths that they would have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.deployed import scheme_of_layout, setting_of_layout
from packet_formats.layout import PAYLOAD_LIMIT, StampLayout, stamp_layout
from packet_formats.schemes import LayoutError, descriptor, names, ordered

from .budget import Budget


@dataclass(frozen=True, slots=True)
class StampCandidate:
    """A stamp that could be chosen; `left` is the free part of the payload, negative when it does not fit."""

    layout: StampLayout
    scheme: Scheme
    events_per_tick: int
    left: int

    @property
    def name(self) -> str:
        layout, tried = self.layout, descriptor(self.layout.scheme).worth_trying
        if "entries" in tried:
            entries = "all" if layout.entries == self.scheme.setting.epsilon + 1 else str(layout.entries)
            return f"{layout.scheme} {entries} {layout.count}"
        return f"{layout.scheme} {layout.entry_bits}" if "counter_bits" in tried else layout.scheme

    @property
    def proven(self) -> bool:
        """Whether it is kn with all entries: at phi = 100 exact by proof, as long as no entry is full."""
        return self.exact and "entries" in descriptor(self.layout.scheme).settings

    @property
    def exact(self) -> bool:
        """Whether phi = 100 gives causal order, unless a counter is full: then an hlc runs ahead of all clocks."""
        return descriptor(self.layout.scheme).exact(self.layout, self.scheme.setting.epsilon)


def candidates(budget: Budget) -> list[StampCandidate]:
    """All stamps to compare, with the widths that they would have in this network."""
    heard = 1 + int(
        budget.clock.tick_ms / budget.network.airtime_ms
    )  # the most messages that the channel carries in a tick
    sent = budget.turns
    wanted = [(scheme, trial) for scheme in reversed(ordered()) for trial in descriptor(scheme).trials()]
    known = [(scheme, trial) for scheme, trial in wanted if not _is_all(trial, budget.clock.epsilon)]
    found = [
        _candidate(budget, scheme, sent if trial.get("count") == "sends" else heard, trial)
        for scheme, trial in known
    ]
    return [candidate for candidate in found if candidate is not None]


def named_schemes() -> list[str]:
    """The schemes of the firmware that name causes and stop waiting for one by the clock."""
    rows = map(descriptor, names())
    return [row.name for row in rows if not row.is_ordered and row.has_clock and row.in_firmware]


def named_candidates(budget: Budget) -> list[StampCandidate]:
    found = [_candidate(budget, name, 1, {}) for name in named_schemes()]
    return [candidate for candidate in found if candidate is not None and candidate.exact]


def _is_all(trial: Mapping[str, int | str], epsilon: int) -> bool:
    """Whether a trial has all entries or more, which "all" covers."""
    entries = trial.get("entries")
    return isinstance(entries, int) and entries > epsilon


def _candidate(
    budget: Budget, scheme: str, events: int, settings: Mapping[str, int | str]
) -> StampCandidate | None:
    """The candidate of one trial; None when its fields are too narrow."""
    clock, network = budget.clock, budget.network
    try:
        layout = stamp_layout(
            scheme,
            clock_bits=_clock_bits(budget, scheme),
            epsilon=clock.epsilon,
            delta=clock.delta,
            motes=network.motes,
            events_per_tick=events,
            **settings,
        )
    except LayoutError:
        return None
    left = PAYLOAD_LIMIT[network.tinyos] - network.payload_without_stamp - layout.size
    if descriptor(scheme).is_ordered:
        return StampCandidate(layout, scheme_of_layout(layout, clock.epsilon, clock.delta), events, left)
    setting = setting_of_layout(layout, Setting(network.motes, clock.epsilon, clock.delta))
    return StampCandidate(layout, make_scheme(scheme, setting), events, left)


def _clock_bits(budget: Budget, scheme: str) -> int | None:
    """The width of a clock field with room for a late guess; None, the least, where no time is guessed."""
    if not budget.network.late_ms:
        return None
    clock, row = budget.clock, descriptor(scheme)
    lead, late = max(row.lead, 1 + row.carries), math.ceil(budget.network.late_ms / clock.tick_ms)
    return (clock.delta + (1 + lead) * clock.epsilon + late).bit_length()
