"""The stamp kernels, event by event, against the programs of the schemes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from basestation.causality.kernels import stamping
from basestation.causality.order import Message, Stamp
from basestation.causality.schemes import Setting, make_scheme
from basestation.causality.stream import MERGE, RECEIVE, SEND
from basestation.causality.truth import VectorTruth
from packet_formats.schemes import descriptor

MOTES, EPSILON, DELTA = 3, 3, 4
Event = tuple[int, int, int, int]  # kind, mote, clock, message


def events_of(seed: int, count: int = 80) -> list[Event]:
    """Sends, and receive events that bring one or two of the last messages, on clocks that keep epsilon and delta."""
    random = Random(seed)
    events: list[Event] = []
    sent: list[int] = []  # the sender's tick
    for step in range(count):
        now = step // 4
        mote, clock = random.randrange(MOTES), now + random.randint(0, EPSILON - 1)
        clock = max([clock, *(event[2] for event in events if event[1] == mote)])
        fresh = [i for i, at in enumerate(sent) if at >= now - DELTA + EPSILON]
        if fresh and random.random() < 0.5:
            brought = random.sample(fresh, min(len(fresh), random.randint(1, 2)))
            kinds = [MERGE] * (len(brought) - 1) + [RECEIVE]
            events += [(kind, mote, clock, message) for kind, message in zip(kinds, brought, strict=True)]
        else:
            events.append((SEND, mote, clock, len(sent)))
            sent.append(now)
    return events


def columns(events: list[Event]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(column, np.int64) for column in zip(*events, strict=True))


def stamped_by_programs(name: str, setting: Setting, events: list[Event]) -> list[Stamp]:
    programs = [make_scheme(name, setting).start(mote) for mote in range(MOTES)]
    stamps: list[Stamp] = []
    brought: list[Message] = []
    for kind, mote, clock, message in events:
        if kind == SEND:
            stamps.append(programs[mote].on_send(clock, len(stamps) + 1))
            continue
        brought.append(Message(-1, 0, stamps[message]))
        if kind == RECEIVE:
            programs[mote].on_receive(clock, brought)
            brought = []
    return stamps


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("modulus", [11, 12, 14, 32])  # from just enough to room for all of epsilon
@pytest.mark.parametrize("count", ["events", "sends"])
@pytest.mark.parametrize("name", ["kn", "dpc1", "dpc2", "hlc", "shlc"])
def test_stamps_are_those_of_the_programs(name, count, modulus, seed):
    entries = {"kn": 3, "hlc": 1, "shlc": 1}.get(name, 0)
    carry = "sum" if name in ("hlc", "shlc") else "pair"
    entry_max = 3 if entries else 0
    lead = descriptor(name).lead_ticks(EPSILON, DELTA, modulus, carry)
    widths = {"modulus": modulus, "lead": lead, "entries": entries, "entry_max": entry_max}
    setting = Setting(MOTES, EPSILON, DELTA, **widths, count=count, carry=carry)
    scheme = make_scheme(name, setting)
    events = events_of(seed)
    stamps = stamped_by_programs(name, setting, events)
    nothing = np.zeros(0, np.int64)
    r, c, kn, bounded, wrong = stamping.stamp_events(
        *columns(events),
        MOTES,
        len(stamps),
        getattr(stamping, scheme.kernel),
        EPSILON,
        lead,
        modulus,
        entries,
        setting.entry_max,
        count == "events",
        carry == "sum",
        nothing,
        nothing,
        np.zeros((0, entries), np.int64),
    )
    found = [Stamp(r, c, tuple(kn)) for r, c, kn in zip(r.tolist(), c.tolist(), kn.tolist(), strict=True)]
    assert found == stamps
    assert (bounded, wrong) == (0, 0)


@pytest.mark.parametrize("seed", range(10))
def test_vector_clocks_are_those_of_the_truth(seed):
    events = events_of(seed)
    truth = VectorTruth(MOTES)
    sends = []
    for kind, mote, _, message in events:
        if kind == SEND:
            sends.append(truth.on_send(mote))
        else:
            truth.on_receive(mote, [sends[message]])
    kind, mote, _, message = columns(events)
    vectors = stamping.vector_clocks(kind, mote, message, MOTES, len(sends))
    assert vectors.tolist() == [list(send.vector) for send in sends]


def test_the_observer_reads_the_clock_modulo_b_and_cuts_what_cannot_be():
    """Modulo 16 with epsilon 3: at tick 20 a field says a clock from 8 to 23."""
    r, c, kn = np.array([18, 20, 40]), np.array([2, 9, 0]), np.array([[5], [6], [7]])
    read = stamping.observe_stamps(np.array([0, 1, 2]), np.array([20, 20, 20]), r, c, kn, 3, 16)
    assert [part.tolist() for part in read[:3]] == [[18, 20, 8], [2, 3, 0], [[5], [0], [7]]]
    assert read[3:] == (1, 1)
