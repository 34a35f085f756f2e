"""Delivery: the heap against the paper's wording, deadlines within their own tick, timers, lateness, lost sync."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.order import Message, Stamp, deadline, key
from basestation.causality.rules import Cbd, Dapw, Delivery, Rule, make_rule
from tests.causality.oracles import NaiveCbd, NaiveDapw

EPSILON, DELTA = 3, 5
NAMES = ["none", "causal", "dapw", "cbd"]
PHIS = st.sampled_from([0, 1, 20, 50, 80, 99, 100])
TIES = st.sampled_from(["sequence", "arrival"])


@dataclass(frozen=True)
class Traffic:
    """The arrivals of each tick. Ticks without arrivals are not listed."""

    ticks: list[tuple[int, list[Message]]]

    @property
    def end(self) -> int:
        """Everything is out by then."""
        return (self.ticks[-1][0] if self.ticks else 0) + 4 * (EPSILON + DELTA) + 3

    @property
    def messages(self) -> list[Message]:
        return [message for _, arrivals in self.ticks for message in arrivals]


@st.composite
def traffic(draw, in_time: bool = False, all_in_sync: bool = True) -> Traffic:
    """Random arrivals; unless `in_time`, some come far too late. Few values, so that stamps often tie."""
    ticks, now, number = [], 100, 0
    oldest = -DELTA - EPSILON if in_time else -3 * DELTA
    stamps = st.tuples(
        st.integers(oldest, EPSILON), st.integers(0, EPSILON), st.tuples(st.integers(0, 2), st.integers(0, 1))
    )
    arrival = st.tuples(st.integers(0, 2), stamps, st.integers(0, 9))
    for gap, batch in draw(
        st.lists(st.tuples(st.integers(1, 6), st.lists(arrival, min_size=1, max_size=5)), max_size=12)
    ):
        now += gap
        messages = []
        for source, (age, c, kn), die in batch:
            number += 1
            stamp = Stamp(now + age, min(c, EPSILON - age), kn)
            in_sync = all_in_sync or die > 1
            messages.append(Message(source, number, stamp, in_sync, b""))
        ticks.append((now, messages))
    return Traffic(ticks)


def deliver_every_tick(rule: Rule, traffic: Traffic) -> list[Delivery]:
    """In each tick what arrives is taken, and the rule is asked."""
    out, arrivals = [], dict(traffic.ticks)
    for now in range(90, traffic.end):
        for message in arrivals.get(now, []):
            rule.receive(message, now)
        out += rule.due(now)
    return out


def deliver_on_timer(rule: Rule, traffic: Traffic) -> list[Delivery]:
    """As a live base station: `due` is called after arrivals and when the timer set by `next_due` runs out."""
    out = []
    for now, messages in traffic.ticks:
        while (at := rule.next_due()) is not None and at < now:
            out += rule.due(at)
        for message in messages:
            rule.receive(message, now)
        out += rule.due(now)
    while (at := rule.next_due()) is not None:
        left = rule.due(at)
        assert left, "the timer ran out and nothing was due"
        out += left
    return out


def deliver_at_last(rule: Rule, traffic: Traffic) -> list[Delivery]:
    """A caller that asks once, when all is long over."""
    for now, messages in traffic.ticks:
        for message in messages:
            rule.receive(message, now)
    return rule.due(traffic.end)


def naive_deliveries(naive: NaiveCbd | NaiveDapw, traffic: Traffic) -> list[tuple[Message, int]]:
    out, arrivals = [], dict(traffic.ticks)
    for now in range(90, traffic.end):
        for message in arrivals.get(now, []):
            naive.receive(message, now)
        out += [(message, now) for message in naive.due(now)]
    return out


@given(traffic=traffic(), phi=PHIS, ties=TIES)
def test_one_heap_is_the_papers_check_before_delivery(traffic, phi, ties):
    heap = deliver_every_tick(make_rule("cbd", phi, EPSILON, DELTA, ties), traffic)
    assert [(d.message, d.left) for d in heap] == naive_deliveries(
        NaiveCbd(phi, EPSILON, DELTA, ties), traffic
    )
    assert len(heap) == len(traffic.messages)


@given(traffic=traffic(), phi=PHIS, ties=TIES)
def test_dapw_is_its_definition(traffic, phi, ties):
    ours = deliver_every_tick(make_rule("dapw", phi, EPSILON, DELTA, ties), traffic)
    assert [(d.message, d.left) for d in ours] == naive_deliveries(
        NaiveDapw(phi, EPSILON, DELTA, ties), traffic
    )
    assert len(ours) == len(traffic.messages)


@given(traffic=traffic(all_in_sync=False), phi=PHIS, ties=TIES, data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_it_does_not_matter_when_a_rule_is_asked(name, traffic, phi, ties, data):
    """A caller may ask before, between and after the arrivals of a tick, or not at all."""
    expected = deliver_every_tick(make_rule(name, phi, EPSILON, DELTA, ties), traffic)
    rule, out = make_rule(name, phi, EPSILON, DELTA, ties), []
    arrivals = dict(traffic.ticks)
    for now in range(90, traffic.end):
        if data.draw(st.booleans()):
            out += rule.due(now)
        for message in arrivals.get(now, []):
            rule.receive(message, now)
            if data.draw(st.booleans()):
                out += rule.due(now)
    assert out + rule.due(traffic.end) == expected


@given(traffic=traffic(all_in_sync=False), phi=PHIS, ties=TIES)
@pytest.mark.parametrize("name", NAMES)
def test_a_timer_or_a_late_caller_gets_what_is_delivered_in_time(name, traffic, phi, ties):
    in_time = deliver_every_tick(make_rule(name, phi, EPSILON, DELTA, ties), traffic)
    assert deliver_on_timer(make_rule(name, phi, EPSILON, DELTA, ties), traffic) == in_time
    assert deliver_at_last(make_rule(name, phi, EPSILON, DELTA, ties), traffic) == in_time


@given(traffic=traffic(), phi=PHIS)
@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_next_due_is_the_first_tick_in_which_something_leaves(name, traffic, phi):
    policy = make_rule(name, phi, EPSILON, DELTA)
    assert policy.next_due() is None
    for now, messages in traffic.ticks:
        policy.due(now)
        for message in messages:
            policy.receive(message, now)
        at = policy.next_due()
        assert at is not None
        assert at > now
        assert policy.due(at - 1) == []
        assert policy.next_due() == at


@given(traffic=traffic(in_time=True), data=st.data())
@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_the_whole_wait_gives_the_total_order_if_nothing_is_late(name, traffic, data):
    """Also when a lesser message comes in the very tick of a deadline."""
    arrivals = {now: list(messages) for now, messages in traffic.ticks}
    last_ticks = [deadline(message.stamp, 100, EPSILON, DELTA) for message in traffic.messages]
    for i, last_tick in enumerate(last_ticks):
        if data.draw(st.booleans()):
            # Its kn is the least there is, so it is less than whoever set that deadline: last call.
            stamp = Stamp(last_tick - DELTA - EPSILON, 0, (-1, 0))
            arrivals.setdefault(last_tick, []).append(Message(3, i, stamp))
    crowded = Traffic(sorted(arrivals.items()))
    policy = make_rule(name, 100, EPSILON, DELTA)
    out = deliver_every_tick(policy, crowded)
    assert policy.late == 0
    assert [d.message for d in out] == sorted(crowded.messages, key=key)
    assert all(d.left == deadline(d.message.stamp, 100, EPSILON, DELTA) + 1 for d in out)


@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_a_lesser_message_in_the_tick_of_the_deadline_goes_first(name):
    policy = make_rule(name, 100, EPSILON, DELTA)
    held = Message(0, 1, Stamp(10, 0, (2,)))
    lesser = Message(1, 1, Stamp(10, 0, (1,)))
    last_tick = 10 + DELTA + EPSILON
    policy.receive(held, 12)
    assert policy.next_due() == last_tick + 2
    assert policy.due(last_tick) == []
    policy.receive(lesser, last_tick)
    assert policy.due(last_tick + 1) == []
    expected = [
        Delivery(lesser, last_tick, last_tick + 1, late=False),
        Delivery(held, 12, last_tick + 1, late=False),
    ]
    assert policy.due(last_tick + 2) == expected
    assert policy.late == 0
    assert policy.next_due() is None


@pytest.mark.parametrize("phi", [0, 50, 100])
def test_causal_waits_the_whole_time_whatever_phi_says(phi):
    policy = make_rule("causal", phi, EPSILON, DELTA)
    policy.receive(Message(0, 1, Stamp(10, 1, (1,))), 10)
    assert policy.next_due() == 10 + 1 + DELTA + EPSILON + 2


@given(traffic=traffic(), phi=PHIS)
@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_late_means_arrived_after_the_deadline(name, traffic, phi):
    policy = make_rule(name, phi, EPSILON, DELTA)
    out = deliver_every_tick(policy, traffic)
    waited = 100 if name == "causal" else phi
    assert policy.late == sum(d.late for d in out)
    assert all(d.late == (d.arrived > deadline(d.message.stamp, waited, EPSILON, DELTA)) for d in out)


@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_a_message_is_late_by_when_a_gateway_heard_it(name):
    """Several lines may hold the observer's clock back, and a host that slept finds it ahead."""
    policy, last_tick = make_rule(name, 100, EPSILON, DELTA), 10 + DELTA + EPSILON
    policy.receive(Message(0, 1, Stamp(10, 0, (1,)), heard=last_tick + 1), last_tick - 2)
    assert policy.late == 1
    policy.receive(Message(1, 1, Stamp(10, 0, (1,)), heard=last_tick), last_tick + 9)
    assert policy.late == 1


@pytest.mark.parametrize("name", ["dapw", "cbd"])
def test_a_late_message_leaves_at_the_end_of_its_tick_in_order_with_the_others(name):
    policy = make_rule(name, 100, EPSILON, DELTA)
    on_time = Message(0, 1, Stamp(10, 0, (1,)))  # its last tick is 18
    late, later = Message(1, 1, Stamp(7, 0, (1,))), Message(1, 2, Stamp(12, 0, (9,)))
    policy.receive(on_time, 11)
    policy.receive(late, 19)
    assert policy.late == 1
    assert policy.due(19) == []
    assert [(d.message, d.left, d.late) for d in policy.due(20)] == [(late, 19, True), (on_time, 19, False)]
    policy.receive(later, 30)
    assert policy.next_due() == 31


@given(traffic=traffic(all_in_sync=False), phi=PHIS)
@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_out_of_sync_passes_at_once_and_changes_nothing_for_the_others(name, traffic, phi):
    policy = make_rule(name, phi, EPSILON, DELTA)
    out = deliver_every_tick(policy, traffic)
    strays = [d for d in out if not d.message.in_sync]
    assert [d.message for d in strays] == [m for m in traffic.messages if not m.in_sync]
    assert all(d.left == d.arrived and not d.late for d in strays)
    assert [d.left for d in out] == sorted(d.left for d in out)
    sound = Traffic([(now, [m for m in messages if m.in_sync]) for now, messages in traffic.ticks])
    alone = make_rule(name, phi, EPSILON, DELTA)
    assert [d for d in out if d.message.in_sync] == deliver_every_tick(alone, sound)
    assert policy.late == alone.late


@given(traffic=traffic(all_in_sync=False))
def test_policy_none_is_arrival_order(traffic):
    policy = make_rule("none", 100, EPSILON, DELTA)
    out = deliver_every_tick(policy, traffic)
    assert [d.message for d in out] == traffic.messages
    assert all(d.left == d.arrived for d in out)
    assert policy.late == 0


@pytest.mark.parametrize("name", ["causal", "dapw", "cbd"])
def test_ties_by_arrival(name):
    """One mote's two messages with equal stamps: the second, arriving first, leaves first only under `arrival`."""
    first, second = Message(0, 1, Stamp(10, 0, (1,))), Message(0, 2, Stamp(10, 0, (1,)))
    for ties, expected in (("sequence", [first, second]), ("arrival", [second, first])):
        policy = make_rule(name, 100, EPSILON, DELTA, ties)
        policy.receive(second, 11)
        policy.receive(first, 12)
        assert [d.message for d in policy.due(100)] == expected


@pytest.mark.parametrize("phi", [-1, 101])
def test_phi_is_a_percentage(phi):
    with pytest.raises(ValueError, match="whole percentage"):
        make_rule("cbd", phi, EPSILON, DELTA)


def test_policies_have_names():
    with pytest.raises(ValueError, match="no policy 'fifo'"):
        make_rule("fifo", 100, EPSILON, DELTA)


def test_a_stray_message_does_not_overtake_what_left_before_it():
    """One that passes straight through leaves after all whose time was over, also when the caller asks late."""
    for policy in (Dapw(100, 1, 1), Cbd(100, 1, 1)):
        policy.receive(Message(0, 0, Stamp(16, 0, ())), 17)
        policy.receive(Message(1, 0, Stamp(0, 0, ()), in_sync=False), 30)
        assert policy.next_due() == 19  # it is ready since, and has left in tick 19
        assert [(d.message.source, d.left) for d in policy.due(40)] == [(0, 19), (1, 30)]
