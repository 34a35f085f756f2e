"""The ledger: equal to its definition, exact at 0, and within its promise."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.causality.ledger import ETA, Ledger
from basestation.causality.order import Message, Stamp, key
from basestation.causality.rules import MEMORY, LedgerRule, make_rule
from tests.causality.test_rules import (
    DELTA,
    EPSILON,
    TIES,
    Traffic,
    deliver_at_last,
    deliver_every_tick,
    deliver_on_timer,
    traffic,
)

W = EPSILON + DELTA
SHARES = st.sampled_from([0.0, 0.1, 1.0, 10.0, 50.0, 100.0])


def by_definition(traffic: Traffic, percent: float, ties: str) -> tuple[list[tuple[Message, int]], int]:
    """Tick by tick: take what arrives, then let the least go while the wait allows it. Also what was spent."""
    wait, spent, arrivals = float(W), 0, 0
    held: list[tuple] = []
    gone: list[tuple] = []  # order, message, tick
    charged: set[int] = set()  # arrival numbers
    coming = dict(traffic.ticks)
    for now in range(90, traffic.end):
        for message in coming.get(now, []):
            arrivals += 1
            order = (*key(message, ties), arrivals)
            wait = max(0.0, wait - ETA * percent / 100)
            if any(one[0] > order for one in gone):
                charged.add(arrivals)
                fresh = {
                    one[0][-1]
                    for one in gone
                    if one[0] > order and one[0][0] >= now - MEMORY * W and one[0][-1] not in charged
                }
                charged |= fresh
                wait += ETA * (1 + len(fresh))
                spent += 1 + len(fresh)
            held.append((order, message))
        while held and now > min(held)[0][0] + min(ceil(wait), W):
            first = min(held)
            held.remove(first)
            gone.append((*first, now))
    return [(message, now) for _, message, now in gone], spent


@given(traffic=traffic(), percent=SHARES, ties=TIES)
def test_the_rule_is_its_definition(traffic, percent, ties):
    rule = LedgerRule(percent, EPSILON, DELTA, ties)
    found = deliver_every_tick(rule, traffic)
    assert ([(d.message, d.left) for d in found], rule.ledger.spent) == by_definition(traffic, percent, ties)
    assert len(found) == len(traffic.messages)


@given(traffic=traffic(all_in_sync=False), percent=SHARES, ties=TIES)
def test_it_does_not_matter_when_the_rule_is_asked(traffic, percent, ties):
    in_time = deliver_every_tick(LedgerRule(percent, EPSILON, DELTA, ties), traffic)
    assert deliver_on_timer(LedgerRule(percent, EPSILON, DELTA, ties), traffic) == in_time
    assert deliver_at_last(LedgerRule(percent, EPSILON, DELTA, ties), traffic) == in_time


@given(traffic=traffic(all_in_sync=False), ties=TIES)
def test_a_tolerance_of_nothing_is_check_before_delivery_with_the_whole_wait(traffic, ties):
    ours = deliver_every_tick(LedgerRule(0.0, EPSILON, DELTA, ties), traffic)
    theirs = deliver_every_tick(make_rule("cbd", 100, EPSILON, DELTA, ties), traffic)
    assert [d[:3] for d in ours] == [d[:3] for d in theirs]


@given(traffic=traffic(in_time=True), ties=TIES)
def test_a_tolerance_of_nothing_spends_nothing_while_the_guarantees_hold(traffic, ties):
    rule = LedgerRule(0.0, EPSILON, DELTA, ties)
    deliver_every_tick(rule, traffic)
    assert (rule.late, rule.ledger.spent) == (0, 0)


@given(traffic=traffic(), percent=SHARES)
def test_promise_and_debt_cover_all_that_was_spent(traffic, percent):
    """Only the debt, which lengthens the wait until it is worked off, may exceed what is allowed."""
    rule = LedgerRule(percent, EPSILON, DELTA)
    deliver_every_tick(rule, traffic)
    ledger = rule.ledger
    assert ledger.spent <= ledger.allowed + (ledger.wait - ledger.most) / ETA + 1e-9


@given(traffic=traffic(), percent=SHARES)
def test_pending_messages_leave_in_their_ticks(traffic, percent):
    rule = LedgerRule(percent, EPSILON, DELTA)
    for now, messages in traffic.ticks:
        for message in messages:
            rule.receive(message, now)
    pending = [(one.message, one.leaves) for one in rule.pending()]
    out = rule.due(traffic.end)
    assert pending == [(one.message, one.left) for one in out[len(out) - len(pending) :]]


def message(number: int, top: int) -> Message:
    return Message(0, number, Stamp(top, 0, ()))


def test_each_message_is_charged_once():
    rule = LedgerRule(100.0, EPSILON, DELTA)
    for number in range(30):  # each earns ETA ticks: the wait is gone at once
        rule.receive(message(number, 100 + number), 100 + number)
    assert rule.ledger.ticks == 0
    rule.due(140)
    rule.receive(message(30, 128), 140)  # 29 alone is greater
    assert (rule.late, rule.ledger.spent) == (1, 2)
    rule.receive(message(31, 126), 140)  # 27 and 28, and 29 again
    assert (rule.late, rule.ledger.spent) == (2, 5)
    rule.receive(message(32, 126), 140)  # the same three again
    assert (rule.late, rule.ledger.spent) == (3, 6)
    assert rule.ledger.allowed == 33


def test_a_debt_is_worked_off_by_arrivals():
    ledger = Ledger(0.01, 20)
    ledger.late(9)
    assert (ledger.wait, ledger.ticks, ledger.spent) == (20 + 10 * ETA, 20, 10)
    for _ in range(999):
        ledger.arrived()
    assert ledger.ticks == 20
    assert ledger.wait > 20
    for _ in range(500):
        ledger.arrived()
    assert (ledger.ticks, ledger.wait) == (1, pytest.approx(20 - 499 * 0.01 * ETA))
    assert ledger.allowed == pytest.approx(14.99)
