"""Delta-causal (BMR) and two-hop (AS): the papers' theorems in the worlds that they need, and what lies beyond."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from basestation.causality.order import Message, Stamp
from basestation.causality.schemes import Setting
from basestation.causality.schemes.deadline import WithinLifetime
from basestation.causality.schemes.delta_causal import DeltaCausal
from basestation.causality.schemes.two_hop import TwoHop, TwoHopRule
from tests.causality.runs import ARRIVE, RECEIVE, SEND, Run, legal_runs
from tests.causality.schemes.played import one_clock_runs, play, script

many = settings(max_examples=150)
BOTH = [DeltaCausal, TwoHop]


def setting(run: Run) -> Setting:
    return Setting(run.motes, run.epsilon, run.delta)


def arrivals(run: Run) -> dict[int, int]:
    """When each message came to the observer."""
    return {m: step.clock for step in run.steps if step.kind == ARRIVE for m in step.messages}


# BMR's theorems


@many
@given(run=one_clock_runs())
def test_theorem_1_what_is_late_is_discarded_and_all_else_is_delivered_within_its_deadline(run):
    played = play(run, DeltaCausal(setting(run)))
    lifetime = setting(run).lifetime
    late = {m for m, at in arrivals(run).items() if run.sent[m][1] + lifetime < at}
    assert set(played.discarded) == late
    assert sorted(played.order) == sorted(set(arrivals(run)) - late)
    for message, left in played.left.items():
        assert arrivals(run)[message] <= left <= run.sent[message][1] + lifetime


@many
@given(run=one_clock_runs())
def test_theorem_2_deliveries_respect_causal_order(run):
    assert not play(run, DeltaCausal(setting(run))).violated()


@many
@given(run=one_clock_runs(lossless=True))
@pytest.mark.parametrize("method", BOTH)
def test_without_loss_nothing_waits_for_a_deadline(method, run):
    """With the printed order of AS's send, each message would wait for itself."""
    played = play(run, method(setting(run)))
    assert not played.gave_up
    assert sorted(played.order) == list(range(len(run.sent)))


def test_delta_causal_holds_a_message_no_longer_than_it_must():
    """2 knows of 0, which is lost, and of 1; it leaves when 0 is of no use any more."""
    run = script(2, 0, 6, "1 a: send", "2 a: send", "3 b: 1", "4 b: send", "5 o: 1", "6 o: 2")
    assert play(run, DeltaCausal(setting(run))).left == {1: 1 + 6 + 1, 2: 1 + 6 + 1}


@pytest.mark.wide
@settings(max_examples=500)
@given(run=legal_runs(150))
def test_theorem_2_needs_no_common_clock_only_sends_of_one_mote_apart(run):
    """An effect waits for all that its cause waits for, and for the cause until that expires."""
    run = one_send_a_tick(run)
    assert not play(run, DeltaCausal(setting(run))).violated()


def test_two_events_in_one_tick_break_delta_causal():
    """0 and 1 were sent in one tick, so 0's delivery stands for both, and 2 does not wait for 1."""
    run = script(2, 0, 6, "1 a: send", "1 a: send", "2 b: 0 1", "3 b: send", "4 o: 0", "4 o: 2", "5 o: 1")
    assert play(run, DeltaCausal(setting(run))).violated() == {(1, 2)}


def test_clocks_that_differ_can_break_its_deadline():
    """b's clock is behind: 1 was sent "before" its cause 0, waits for it past its own deadline."""
    run = script(2, 3, 4, "5 a: send", "2 b: 0", "2 b: send", "3 o: 1")
    assert play(run, DeltaCausal(setting(run))).left == {1: 5 + 7 + 1}


# AS


def two_hop_pairs(run: Run) -> set[tuple[int, int]]:
    """(a, b): b's sender sent a too, or had received a, or a later message, from a's sender itself."""
    newest: dict[tuple[int, int], int] = {}  # (mote, source) -> the newest message known at first hand
    pairs = set()
    for step in run.steps:
        if step.kind == SEND:
            (message,) = step.messages
            for a in range(message):
                source = run.sent[a][0]
                if source == step.process or newest.get((step.process, source), -1) >= a:
                    pairs.add((a, message))
        elif step.kind == RECEIVE:
            for message in step.messages:
                place = step.process, run.sent[message][0]
                newest[place] = max(newest.get(place, -1), message)
    return pairs


def one_send_a_tick(run: Run) -> Run:
    """Without a mote's second send in one tick, since both would have the same time of sending."""
    kept = Run(run.motes, run.epsilon, run.delta)
    number: dict[int, int] = {}
    for step in run.steps:
        if step.kind == SEND:
            if (step.process, step.clock) not in kept.sent:
                number[step.messages[0]] = len(kept.sent)
                kept.steps.append(type(step)(SEND, step.process, step.clock, (len(kept.sent),)))
                kept.sent.append((step.process, step.clock))
        elif taken := tuple(number[m] for m in step.messages if m in number):
            kept.steps.append(type(step)(step.kind, step.process, step.clock, taken))
    return kept


@many
@given(run=legal_runs(120))
def test_two_hop_dependencies_are_kept_however_the_clocks_differ(run):
    run = one_send_a_tick(run)
    assert not play(run, TwoHop(setting(run))).violated() & two_hop_pairs(run)


@many
@given(run=one_clock_runs())
def test_with_one_clock_and_broadcast_longer_dependencies_are_kept_too(run):
    """The message in between is sent here as well: one waits for it, and it was sent later than its cause."""
    played = play(run, TwoHop(setting(run)))
    assert not played.violated()
    for message, left in played.left.items():
        assert left <= max(run.sent[message][1] + setting(run).lifetime, arrivals(run)[message])


def test_longer_dependencies_break_where_clocks_differ_and_the_one_in_between_is_lost():
    """c heard of 0 only through 1, which never comes. b's clock was behind, so 1 expires while 0 is on its way."""
    run = script(
        3, 3, 4, "5 a: send", "2 b: 0", "2 b: send", "3 c: 1", "3 c: send", "4 o: 2", f"{5 + 4 + 3} o: 0"
    )
    played = play(run, TwoHop(setting(run)))
    assert played.violated() == {(0, 2)}
    assert (0, 2) not in two_hop_pairs(run)
    assert not play(run, DeltaCausal(setting(run))).violated()


class PrintedWait(TwoHopRule):
    """AS's own condition: a message waits while now - vect2[x] < Delta, so not in the tick of the deadline."""

    def _expires(self, name: tuple[int, int], here: bool) -> int:
        return name[1] + self._lifetime


def test_the_printed_wait_is_a_tick_too_short():
    """0 comes in the last tick in which it is not late, behind another one; what waited for it has left by then."""
    lines = ("1 a: send", "2 b: 0", "3 b: send", "4 c: send", "5 o: 1", "7 o: 2", "7 o: 0")
    run = script(3, 0, 6, *lines)
    chosen = TwoHop(setting(run))
    assert play(run, chosen, PrintedWait(setting(run), chosen.hold)).violated() == {(0, 1)}
    assert not play(run, chosen).violated()


def test_every_message_is_held_for_min_wait():
    run = script(2, 0, 8, "1 a: send", "2 b: send", "2 o: 0", "7 o: 1")
    assert play(run, TwoHop(replace(setting(run), min_wait=4))).left == {0: 1 + 4, 1: 7}


def test_a_lifetime_of_three_waits_is_refused():
    with pytest.raises(ValueError, match="min_wait = 3"):
        TwoHop(Setting(4, 2, 7, min_wait=3))
    assert TwoHop(Setting(4, 2, 7)).hold == 4


# What broadcast and the wire make of the matrix


@pytest.mark.parametrize("method", BOTH)
def test_a_mote_out_of_sync_is_not_waited_for_and_does_not_wait(method):
    chosen = method(Setting(2, 1, 5))
    policy = chosen.rule()
    assert isinstance(policy, WithinLifetime)
    first = Message(0, 1, chosen.start(0).on_send(10, 1))
    lost = Message(1, 1, Stamp(10_000, 0, first.stamp.kn), in_sync=False)
    policy.receive(lost, 12)
    assert [d.message for d in policy.due(12)] == [lost]
    listener = chosen.start(0)
    listener.on_receive(12, [lost])
    assert 10_000 not in listener.on_send(13, 2).kn
