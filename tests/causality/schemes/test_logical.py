"""Schemes of counters and ids: what each promises where nothing is lost, what it leaves out, and how loss hurts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from basestation.causality.order import Message, Stamp
from basestation.causality.rules import NEVER
from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.causality.schemes.vector import VectorRule
from packet_formats.schemes import descriptor, names
from tests.causality.runs import ARRIVE, Run, legal_runs
from tests.causality.schemes.played import lossless_runs, play, script, serial_runs

EXACT = ["history", "vector", "matrix"]
WAITING = ["sequence", "scalar", "last-sender", *EXACT]
many = settings(max_examples=150)

UNTIMED = ["none", *(name for name in names() if not descriptor(name).is_ordered)]


def method(name: str, run: Run, give_up: int | None = None) -> Scheme:
    return make_scheme(name, Setting(run.motes, run.epsilon, run.delta, give_up))


def test_a_name_that_nobody_has_is_refused():
    with pytest.raises(ValueError, match="no scheme 'lamport'"):
        make_scheme("lamport", Setting(3, 1, 1))


@many
@given(run=lossless_runs())
@pytest.mark.parametrize("name", EXACT)
def test_without_loss_the_order_is_causal_and_everything_is_delivered(name, run):
    played = play(run, method(name, run, NEVER))
    assert sorted(played.order) == list(range(len(run.sent)))
    assert not played.violated()
    assert not played.gave_up


@many
@given(run=legal_runs())
@pytest.mark.parametrize("name", EXACT)
def test_under_loss_the_order_is_causal_once_a_missing_one_is_waited_for_long_enough(name, run):
    """Sent before what named it was received, it is here within delta of its sender's clock, and epsilon twice."""
    played = play(run, method(name, run, run.delta + 2 * run.epsilon))
    arrivals = [message for step in run.steps if step.kind == ARRIVE for message in step.messages]
    assert sorted(played.order) == sorted(arrivals)
    assert not played.violated()


@many
@given(run=legal_runs())
def test_history_vector_and_matrix_are_the_same_rule_under_broadcast(run):
    history, vector, matrix = (play(run, method(name, run)) for name in EXACT)
    assert vector.order == matrix.order == history.order
    assert vector.left == matrix.left == history.left


@many
@given(run=lossless_runs())
def test_vector_flags_exactly_what_is_concurrent_with_something_delivered_before(run):
    played = play(run, method("vector", run, NEVER))
    causes = run.reachable()
    concurrent = [
        m
        for place, m in enumerate(played.order)
        if any(d not in causes[m] and m not in causes[d] for d in played.order[:place])
    ]
    assert played.concurrent == concurrent


@many
@given(run=lossless_runs())
def test_sequence_keeps_each_sender_in_order(run):
    played = play(run, method("sequence", run, NEVER))
    assert sorted(played.order) == list(range(len(run.sent)))
    for mote in range(run.motes):
        of_mote = [m for m in played.order if run.sent[m][0] == mote]
        assert of_mote == sorted(of_mote)


def test_sequence_keeps_nothing_between_senders():
    run = script(2, 1, 5, "1 a: send", "2 b: 0", "2 b: send", "3 o: 1", "4 o: 0")
    assert play(run, method("sequence", run, NEVER)).violated() == {(0, 1)}


@many
@given(run=serial_runs())
def test_scalar_is_causal_while_nothing_is_concurrent(run):
    played = play(run, method("scalar", run, NEVER))
    assert played.order == list(range(len(run.sent)))
    assert not played.concurrent


def test_scalar_breaks_on_concurrency_and_sees_it():
    """0 and 1 have the same number. 2 knows of both, but its number only says that there was one before."""
    run = script(
        3, 1, 5, "1 a: send", "1 b: send", "2 c: 0", "2 c: 1", "2 c: send", "3 o: 0", "3 o: 2", "4 o: 1"
    )
    played = play(run, method("scalar", run, NEVER))
    assert played.violated() == {(1, 2)}
    assert played.concurrent == [1]
    assert not play(run, method("vector", run, NEVER)).violated()


@many
@given(run=lossless_runs())
def test_last_sender_puts_the_cause_that_it_names_first(run):
    played = play(run, method("last-sender", run, NEVER))
    assert sorted(played.order) == list(range(len(run.sent)))
    place = {(m.source, m.sequence): played.order.index(i) for i, m in enumerate(played.messages)}
    for message in played.messages:
        if message.stamp.kn:
            assert place[message.stamp.kn] < place[message.source, message.sequence]


def test_a_message_that_is_held_is_not_given_up():
    """2 names 1, which comes as late as it may and waits for 0 itself: 2 goes on waiting for it, but 0 was sent before
    2 as well, and neither waits longer for it than 2 does."""
    run = script(3, 1, 5, "1 a: send", "2 b: 0", "2 b: send", "3 c: 1", "3 c: send", "4 o: 2", "10 o: 1")
    played = play(run, method("last-sender", run))
    assert played.left == {1: 4 + 6 + 1, 2: 4 + 6 + 1}
    assert played.order == [1, 2]


def test_last_sender_breaks_on_two_causes():
    """2 comes of both 0 and 1, and names only 1, which it received last."""
    run = script(
        3, 1, 5, "1 a: send", "1 b: send", "2 c: 0", "2 c: 1", "2 c: send", "3 o: 1", "3 o: 2", "4 o: 0"
    )
    assert play(run, method("last-sender", run, NEVER)).violated() == {(0, 2)}


def test_last_sender_does_not_even_keep_one_sender_in_order():
    run = script(2, 1, 5, "1 a: send", "2 a: send", "3 o: 1", "4 o: 0")
    assert play(run, method("last-sender", run, NEVER)).violated() == {(0, 1)}


LOST = ("1 a: send", "2 b: 0", "2 b: send", "3 a: send", "4 b: 2", "4 b: send", "5 o: 1 2 3")


@pytest.mark.parametrize("name", WAITING)
def test_one_loss_stops_it_for_ever_unless_it_gives_up(name):
    """The observer never gets message 0. Sequence goes on with b, which lost nothing; last-sender with what named
    others. Scalar, and all that are exact, stop."""
    run = script(2, 1, 5, *LOST)
    stuck = play(run, method(name, run, NEVER))
    assert stuck.order == {"sequence": [1, 3], "last-sender": [2, 3]}.get(name, [])
    patient = play(run, method(name, run))
    assert sorted(patient.order) == [1, 2, 3]
    assert patient.gave_up
    assert max(patient.left.values()) == 5 + (5 + 1) + 1  # all that it waits for was missed in tick 5


def test_a_message_that_was_given_up_and_comes_after_all_is_delivered_and_counted_late():
    run = script(1, 1, 2, "1 a: send", "2 a: send", "3 o: 1", "9 o: 0")
    chosen = method("vector", run)
    policy = chosen.rule()
    played = play(run, chosen, policy)
    assert [(d.left, d.late) for d in played.deliveries] == [(3 + 3 + 1, False), (9, True)]
    assert policy.late == 1


def test_the_time_to_give_up_in_is_delta_and_epsilon_which_clocks_can_outrun():
    """When 1 came, the observer's clock was epsilon behind that of 0's sender; when 0 comes, delta later by that
    clock, it is epsilon ahead. So delta + 2 epsilon is safe, and the default is not quite."""
    run = script(2, 2, 1, "3 a: send", "2 b: 0", "2 b: send", "1 o: 1", "6 o: 0")
    assert play(run, method("vector", run)).violated() == {(0, 1)}
    assert play(run, method("vector", run, run.delta + 2 * run.epsilon)).violated() == set()


@pytest.mark.parametrize("name", UNTIMED)
@given(run=legal_runs())
def test_deliveries_do_not_depend_on_when_a_caller_asks(name, run):
    """One batch a tick: asked after each, or once when all is over."""
    seen: dict[int, list[int]] = {}
    for step in run.steps:
        if step.kind == ARRIVE:
            seen.setdefault(step.clock, []).extend(step.messages)
    chosen = method(name, run)
    once, often = chosen.rule(), chosen.rule()
    messages = play(run, chosen).messages
    found = []
    for clock in range(max(seen, default=0) + 1):
        for message in seen.get(clock, []):
            once.receive(messages[message], clock)
            often.receive(messages[message], clock)
        found += often.due(clock)
    end = max(seen, default=0) + 20 * (run.delta + run.epsilon)
    found += often.due(end)
    assert once.due(end) == found
    assert once.next_due() is None


def test_messages_that_wait_for_each_other_leave_all_the_same():
    """No sound stamps say so; those of motes that lost their memory may."""
    policy = VectorRule(Setting(3, 1, 4, give_up=5))
    policy.receive(Message(0, 1, Stamp(0, 0, (1, 1, 0))), 10)
    policy.receive(Message(1, 1, Stamp(0, 0, (1, 1, 0))), 11)
    policy.receive(Message(2, 1, Stamp(0, 0, (1, 0, 1))), 12)
    out = policy.due(200)
    assert [(d.message.source, d.left) for d in out] == [(0, 11), (1, 11), (2, 12)]
    assert [d.missing for d in out if d.missing] == []
